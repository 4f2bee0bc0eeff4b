"""The sections about the brain: which pathways, for whom, and whether the embedding knows the site."""

from brainroam.reporting.data import ReportData
from brainroam.reporting.page import missing
from brainroam.reporting.section import Section

__all__ = ["embedding_section", "gates_section", "scaffold_section"]

COMMAND = "brainroam loso DATA --methods core --out {}"


def scaffold_section(data: ReportData) -> Section:
    """Which pathways all sites agree on."""
    return missing("scaffold", "Scaffold", "No run says which pathways it read.", COMMAND.format(data.path))


def gates_section(data: ReportData) -> Section:
    """How much of each pathway each person uses."""
    return missing("gates", "Gates", "No run kept the gates of its people.", COMMAND.format(data.path))


def embedding_section(data: ReportData) -> Section:
    """Whether people cluster by diagnosis or by site."""
    return missing("embedding", "Embedding", "No run kept the embedding of its people.", COMMAND.format(data.path))
