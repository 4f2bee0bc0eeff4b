"""What scripts share: the arguments of those that read ABIDE, and the paper's ten sites."""

import argparse

from brainroam.data.readers import PRESETS

PAPER = PRESETS["paper"]["abide"].sites


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser that shows a script's own text as it stands."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def data_parser_of(text: str | None, atlas: str = "aal") -> argparse.ArgumentParser:
    """The same with the arguments DATA and --atlas."""
    parser = parser_of(text)
    parser.add_argument("data")
    parser.add_argument("--atlas", default=atlas)
    return parser
