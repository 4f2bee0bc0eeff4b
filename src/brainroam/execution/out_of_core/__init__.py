"""Cohorts larger than memory: everybody's edges on disk, summaries of sites in memory.

`brainroam.data.stored_cohort.StoredCohort` is used like any cohort, and edges are read in blocks by the same code
(`brainroam.core.site_edges`, `brainroam.core.pathways`). This room adds what all processes do first, writing the edges
(`edges`), and `brainroam scaffold`; what CORE needs to train on people it reads a few at a time is `core.on_disk`.
"""

from brainroam.data.stored_cohort import StoredCohort
from brainroam.execution.out_of_core.edges import discard_work, write_edges

__all__ = ["StoredCohort", "discard_work", "write_edges"]
