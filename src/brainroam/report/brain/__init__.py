"""The sections about the brain: which pathways, for whom, and whether the embedding knows the site."""

from brainroam.report.brain.people import embedding_section, gates_section
from brainroam.report.brain.scaffold import scaffold_section

__all__ = ["embedding_section", "gates_section", "scaffold_section"]
