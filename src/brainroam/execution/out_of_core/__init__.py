"""Cohorts larger than memory: everybody's edges on disk, summaries of sites in memory.

`brainroam.data.stored_cohort.StoredCohort` is used like any cohort, and edges are read in blocks by the same code
(`brainroam.core.site_edges`, `brainroam.core.pathways`). This room adds what all processes do first, writing the edges
(`edges`), what CORE needs to train on people whom it reads a few at a time (`training`), and `brainroam scaffold`.
"""

from brainroam.data.stored_cohort import StoredCohort
from brainroam.execution.out_of_core.edges import discard_work, write_edges
from brainroam.execution.out_of_core.training import StoredEvidence, StoredProfiles

__all__ = ["StoredCohort", "StoredEvidence", "StoredProfiles", "discard_work", "write_edges"]
