"""Federated site by site against one fit in one place: equality, bytes, time, careless sites.

python benchmarks/federation.py /data/ABIDE_pcp --out pool            (about three minutes of one core)

Every site of a cohort writes its three files as `brainroam site` does; a pool puts them together. The same people are
then fitted in one place (`core[epochs=0]`, inner leave-one-site-out) and every number is compared. Times are processor
time of one core. Afterwards single sites misbehave. What noise costs is measured by privacy_summaries.py.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam import Cohort, load_cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.core.site_summary import SiteSummary
from brainroam.evaluation.stats.verdict import verdict
from brainroam.execution.federation import Pool, answer
from brainroam.execution.federation.checks import suspicions
from brainroam.execution.federation.files import REQUEST, read_message
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod


def federated(cohort: Cohort, folder: Path) -> pd.DataFrame:
    """Three rounds of all sites; processor seconds and bytes by site and round."""
    rows = []
    for number in (1, 2, 3):
        parts = {name: alone(cohort, name) for name in cohort.sites}
        request = None if number == 1 else read_message(folder / "pool" / "request", REQUEST)
        paths = []
        for k, (name, part) in enumerate(parts.items()):
            start = process_time()
            path = answer(part, request).write(folder / f"{k}-{number}.summary")
            rows.append({"site": name, "round": number, "s": process_time() - start, "bytes": path.stat().st_size})
            paths.append(path)
        pool = Pool(folder / "pool")
        start = process_time()
        pool.receive(paths)
        progress = pool.advance()
        rows.append({"site": "(pool)", "round": number, "s": process_time() - start, "bytes": request_size(folder)})
    print("\n".join(progress.lines[:1]), flush=True)
    return pd.DataFrame(rows)


def alone(cohort: Cohort, name: str) -> Cohort:
    """The people of one site as the site itself has them: nothing that was computed for others is shared."""
    part = cohort.select([name])
    return Cohort(part.series, part.table, part.atlas, covariates=part.covariate_names)


def request_size(folder: Path) -> int:
    """Bytes that go back to the sites."""
    return (folder / "pool" / "request").stat().st_size


def equality(cohort: Cohort, folder: Path) -> None:
    """The largest difference between the pooled model and one fit, quantity by quantity."""
    start = process_time()
    central = TunedMethod(method_info("core"), "default", epochs=0).fit(cohort)
    print(f"one fit in one place: {process_time() - start:.0f} s of processor time", flush=True)
    pooled, _ = load_method(folder / "pool" / "model", cohort)
    one, other = central.model_.core_, pooled.model_.core_
    print("the same scaffold:", np.array_equal(one.scaffold_.edges, other.scaffold_.edges), len(one.scaffold_))
    for name, a, b in (
        ("consensus contrast", one.scaffold_.consensus, other.scaffold_.consensus),
        ("mean intercept", one.deconfounder_.mean_intercept_, other.deconfounder_.mean_intercept_),
        ("mean slopes", one.deconfounder_.mean_coef_, other.deconfounder_.mean_coef_),
        ("scale", one.pathways_.scale[:, 0], other.pathways_.scale[:, 0]),
        ("linear weights", one.pathways_.skip, other.pathways_.skip),
        ("scores of everybody", central.score(cohort), pooled.score(cohort)),
        ("threshold", central.calibration_.threshold, pooled.calibration_.threshold),
        ("slope of the calibration, ratio", 1.0, pooled.calibration_.slope / central.calibration_.slope),
    ):
        print(f"{name:<34} largest difference {np.nanmax(np.abs(np.asarray(a) - np.asarray(b))):.1e}")
    site, y = cohort.table["site"].to_numpy(), cohort.labels
    scores = pd.read_csv(folder / "pool" / "scores.csv", index_col="site")
    auc = pd.Series(
        {name: roc_auc_score(y[site == name], central.inner_scores_[site == name]) for name in cohort.sites}
    )
    cases = pd.Series({name: int(y[site == name].sum()) for name in cohort.sites})
    n = pd.Series({name: int((site == name).sum()) for name in cohort.sites})
    print(f"AUC by site: largest difference {np.abs(auc - scores['auc']).max():.1e}")
    for who, values in (("in one place", auc), ("pooled", scores["auc"])):
        found = verdict(values, cases, n - cases)
        print(
            f"{who:<13} mean AUC {found.mean:.4f}, next site {found.next_low:.4f} to {found.next_high:.4f}, "
            f"lowest {values.min():.4f} ({values.idxmin()})",
            flush=True,
        )
    print(scores[["n", "n_cases", "auc"]].round(4).to_string())
    changed(cohort, folder)


def changed(cohort: Cohort, folder: Path) -> None:
    """A site withdraws, and joins again: the same as if it had never been there, or never been away."""
    gone, names = cohort.sites[0], cohort.sites[1:]
    pool = Pool(folder / "pool")
    before = load_method(folder / "pool" / "model", cohort)[0].score(cohort)
    pool.withdraw(gone)
    print("after it withdrew:", pool.advance().lines[-1][:60])
    without, _ = load_method(folder / "pool" / "model", cohort)
    alone = TunedMethod(method_info("core"), "default", epochs=0).fit(cohort.select(names))
    print(f"scores without {gone}: largest difference {np.abs(without.score(cohort) - alone.score(cohort)).max():.1e}")
    pool.receive([folder / "0-2.summary", folder / "0-1.summary"][::-1])
    pool.advance()
    again = load_method(folder / "pool" / "model", cohort)[0].score(cohort)
    print(f"after it joined again: {np.abs(again - before).max():.1e}", flush=True)


def careless(cohort: Cohort) -> None:
    """How often a site that does something wrong is noticed, each site in turn."""
    covariates, y, site = cohort.covariates(), cohort.labels, cohort.table["site"].to_numpy()
    edges = cohort_edges(cohort, "log", 0.7, True)

    def summary(name: str, values: np.ndarray, labels: np.ndarray) -> SiteSummary:
        here = site == name
        return SiteSummary.of(values[here], labels[here], covariates[here].reset_index(drop=True), 1.345, "mean")

    honest = {name: summary(name, edges, y) for name in cohort.sites}
    print("honest sites:", suspicions(honest) or "nothing is odd")
    pearson = np.arctanh(np.clip(cohort_edges(cohort, "pearson"), -0.999, 0.999))
    shuffled = np.random.default_rng(0).permutation(y)
    deeds: dict[str, Callable[[str], SiteSummary]] = {
        "labels swapped": lambda name: summary(name, edges, 1 - y),
        "labels shuffled": lambda name: summary(name, edges, shuffled),
        "Fisher-z Pearson edges instead": lambda name: summary(name, pearson, y),
        "edges times 3": lambda name: summary(name, 3 * edges, y),
    }
    for what, deed in deeds.items():
        noticed = [
            name for name in honest if any(f"site {name}:" in x for x in suspicions({**honest, name: deed(name)}))
        ]
        print(f"{what:<32} noticed at {len(noticed)} of {len(honest)} sites", flush=True)
    contrast = np.nan_to_num([honest[name].contrast for name in cohort.sites])
    along = [np.corrcoef(c, np.delete(contrast, k, 0).mean(axis=0))[0, 1] for k, c in enumerate(contrast)]
    print("correlation of a contrast with the mean of the others:", np.round(np.sort(along), 2).tolist(), flush=True)


@threadpool_limits.wrap(limits=1)
def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="an ABIDE_pcp folder, or any DATA")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--out", type=Path, default=Path("federation"), help="a new folder for the files")
    parser.add_argument("--only", choices=["equality", "careless"], help="one part of it")
    arguments = parser.parse_args()
    cohort = load_cohort(arguments.root, atlas=arguments.atlas)
    print(f"# {cohort}", flush=True)
    if arguments.only in (None, "equality"):
        table = federated(cohort, arguments.out)
        people = table[table["site"] != "(pool)"].groupby("round")[["s", "bytes"]]
        print(people.agg(["min", "median", "max"]).round(1).to_string())
        print(table[table["site"] == "(pool)"].round(1).to_string(index=False), flush=True)
        equality(cohort, arguments.out)
    if arguments.only in (None, "careless"):
        careless(cohort)


if __name__ == "__main__":
    main()
