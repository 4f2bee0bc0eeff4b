"""Tables 9 and 10 and the complexity analysis: time per epoch, memory, and how the cost grows."""

import pandas as pd

from brainroam.report.tables import Column, fixed
from reproduction.page.content import Listing, Part
from reproduction.page.data import PaperData
from reproduction.page.published import MEMORY, SECONDS, wide
from reproduction.parts import SYSTEMS

STATED = (
    "The paper: O(N T P² + N M + N R W M_S + epochs L N M_S N_m D) for N people, P regions, T volumes, M_S pathways."
)


def cost(data: PaperData) -> Part:
    """Tables 9 and 10."""
    title, found = "Tables 9 and 10: time per epoch and memory", data.measured("cost")
    if found is None:
        return Part("tables-9-10", title, ("Not measured yet: part cost.",))
    rows = pd.DataFrame(found["costs"])
    names = {ours: theirs for theirs, ours in SYSTEMS.items()}
    rows["item"] = rows["method"].map(names).fillna("reference")
    core = rows.set_index("method").loc["core"]
    rows["ratio"] = rows["seconds"] / core["seconds"]
    columns = [Column("method", "Method"), Column("parameters", "Parameters", "{:,}".format)]
    seconds, memory = wide(SECONDS, data.cohort_name), wide(MEMORY, data.cohort_name)
    if not seconds.empty:
        rows["published"] = rows["item"].map(seconds["seconds"])
        rows["published_ratio"] = rows["published"] / seconds.loc["CORE", "seconds"]
        rows["published_memory"] = rows["item"].map(memory["gigabytes"])
        columns.append(Column("published", "Published s", fixed(2)))
    columns += [Column("seconds", "Seconds", fixed(2))]
    if not seconds.empty:
        columns.append(Column("published_ratio", "Published, of CORE", lambda value: f"{value:.1f}x"))
    columns.append(Column("ratio", "Of core", lambda value: f"{value:.1f}x"))
    if not seconds.empty:
        columns.append(Column("published_memory", "Published GB (GPU)", fixed(1)))
    columns.append(Column("megabytes", "MB (process)", fixed(0)))
    text = (
        f"Processor seconds an epoch on one core, measured on {found['date']}; memory is what the process grew by at "
        "its peak. The paper's are of an NVIDIA 5090 and of its memory, so only ratios between methods can be compared."
    )
    return Part("tables-9-10", title, (text, Listing(rows, columns, "paper-cost", "An epoch of each method")))


def complexity(data: PaperData) -> Part:
    """Appendix E, with fitted exponents."""
    title, found = "Complexity: how the cost grows", data.measured("complexity")
    if found is None:
        return Part("complexity", title, (STATED, "Not measured yet: part complexity."))
    rows = pd.DataFrame(found["exponents"])
    columns = [
        Column("stage", "Stage"),
        Column("grows", "Grows with"),
        Column("stated", "Exponent, paper", fixed(0)),
        Column("measured", "Exponent, measured", fixed(2)),
        Column("seconds", "Seconds at the largest size", fixed(3)),
    ]
    below = "An exponent below the paper's means that work which does not grow still weighs in at these sizes."
    return Part("complexity", title, (STATED, Listing(rows, columns, "paper-complexity", "Fitted exponents"), below))
