"""Cohorts with hostile names, and runs whose scores are drawn rather than learned."""

import numpy as np
import pandas as pd

import brainroam
from brainroam.evaluation.run_records import make_tasks, plain, write_run
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.metrics import site_metrics

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    r"$\frac{ & 'quoted' \"",
    "=1+1",
]


def hostile_cohort():
    """Four sites with names that attack HTML, scripts, mathematical text and spreadsheets."""
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=14, n_rois=8, seed=1)
    site = cohort.table["site"].map(dict(zip(cohort.sites, HOSTILE, strict=True)))
    subject = [f"<b onclick=alert(3)>{i}</b>" for i in range(len(cohort))]
    left_out = np.zeros(len(cohort), dtype=bool)
    left_out[[2, 5]] = True
    renamed = cohort.with_columns(pd.DataFrame({"site": site, "subject": subject}))
    return renamed.exclude(left_out, ["scanned <twice> 3 times", "scanned <twice> 4 times"])


def pretend(path, cohort, methods, protocol="loso", seeds=1, shift=1.0, swapped=(), **folding):
    """Runs with drawn scores, the wrong way round at ``swapped`` sites: files as of the runner, without the waiting."""
    rng = np.random.default_rng(0)
    folder = RunsFolder.of(path, cohort)
    tasks = list(
        make_tasks(cohort, methods, protocol, list(folds(cohort.table, protocol, **folding)), seeds, "fast", {})
    )
    folder.plan([task.spec for task in tasks])
    for task in tasks:
        people = cohort.subset(task.fold.test)
        effect = np.where(people.table["site"].isin(swapped), -shift, shift)
        score = rng.normal(size=len(people)) + effect * people.labels
        probability = 1 / (1 + np.exp(-score))
        predictions = {"subject": people.table["subject"].tolist(), "label": people.labels, "score": score,
                       "probability": probability}  # fmt: skip
        outcome = {
            "status": "done",
            "predictions": predictions,
            "metrics": site_metrics(people.labels, score, 0.5, probability),
            "threshold": 0.5,
            "prevalence": 0.5,
            "configuration": {},
            "seconds": 0.1,
            "versions": {"brainroam": brainroam.__version__, "python": "3"},
        }
        write_run(path / "runs", task.spec, plain(outcome))
    RunsFolder(path).write_tables()
    return path
