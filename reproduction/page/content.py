"""What a part of the page says, once: sentences, tables and drawings, written as HTML and as markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
from markupsafe import Markup

from brainroam.report import figures
from brainroam.report.page import Drawing, Section
from brainroam.report.tables import Column, cell, table


@dataclass(frozen=True)
class Listing:
    """A table: its rows, how each column is shown, the name of its CSV file and its caption."""

    rows: pd.DataFrame
    columns: Sequence[Column]
    name: str
    caption: str

    def markdown(self) -> str:
        """The table as people write it in a text file.

        >>> print(Listing(pd.DataFrame({"a": ["x|y"]}), [Column("a", "A")], "n", "Caption").markdown())
        *Caption*
        <BLANKLINE>
        | A |
        |---|
        | x\\|y |
        """
        lines = [[column.heading for column in self.columns]]
        lines += [[cell(row, column)[1] for column in self.columns] for row in self.rows.to_dict("records")]
        head, *body = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]
        return "\n".join([f"*{self.caption}*", "", head, "|" + "---|" * len(self.columns), *body])


Block: TypeAlias = str | Listing | Drawing


@dataclass(frozen=True)
class Part:
    """One table or figure of the paper with all that belongs to it."""

    id: str
    title: str
    blocks: tuple[Block, ...]

    def section(self) -> Section:
        """For the page."""
        drawings = tuple(block for block in self.blocks if isinstance(block, Drawing))
        return Section(self.id, self.title, Markup("\n").join(map(_html, self.blocks)), drawings)

    def markdown(self, folder: str) -> str:
        """For the documentation; figures are files of ``folder``."""
        return "\n\n".join([f"### {self.title}", *(_markdown(block, folder) for block in self.blocks)])

    def write_figures(self, folder: Path) -> None:
        """Every drawing as PNG and SVG."""
        for block in self.blocks:
            if isinstance(block, Drawing):
                figures.write(block, folder)


def _html(block: Block) -> Markup:
    if isinstance(block, str):
        return Markup("<p>{}</p>").format(block)
    if isinstance(block, Listing):
        return table(block.rows, block.columns, block.name, block.caption)
    return figures.inline(block)


def _markdown(block: Block, folder: str) -> str:
    if isinstance(block, str):
        return block
    return block.markdown() if isinstance(block, Listing) else f"![{block.caption}]({folder}/{block.name}.png)"
