"""CORE over a store, within a stated memory: nothing of size people x edges is ever in memory.

Pass 1 takes batches of people: series -> edge values, written to disk. Pass 2 takes blocks of edges, everybody at once:
edge values -> site-wise regressions -> contrast of every site (see `out_of_core.stream`). Regression and contrast of an
edge depend on that edge alone, so a block gives what the whole would, by the functions of the in-memory path.
What needs all edges, the threshold tau, needs only their contrasts (E, M), which are small.

To train, `out_of_core.people` keeps the edges that are in the scaffold of some inner fold, and their profiles, person
by person, and reads a batch of people when the network asks for it. The rest of CORE is the same code.

Finished parts are kept, checked, until the result is written: a command that was killed goes on where it stopped.
"""

from brainroam.execution.out_of_core.people import StoredCohort, open_cohort
from brainroam.execution.out_of_core.plan import Stages, discard_work
from brainroam.execution.out_of_core.stream import THRESHOLDS, StreamedEvidence, save_scaffold, stream_evidence

__all__ = [
    "THRESHOLDS",
    "Stages",
    "StoredCohort",
    "StreamedEvidence",
    "discard_work",
    "open_cohort",
    "save_scaffold",
    "stream_evidence",
]
