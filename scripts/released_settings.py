"""The deep methods with the settings of their authors' code, at unseen sites and in the authors' own kind of split.

    python scripts/released_settings.py ABIDE_pcp --out released --time
    python scripts/released_settings.py ABIDE_pcp --out released --methods 'gcn[recipe=released],gcn,fc-ridge'
    python scripts/released_settings.py ABIDE_pcp --out released --table

Six folds: five groups of sites, each of which is held out once (``group1`` to ``group5``), and one random fifth of the
people of every site and class (``split``), as most of the papers do it. A deep method is fitted once for each fold: an
eighth of the training people, whole sites or again a random part, is kept for choosing the epoch, as authors do, and
nobody is refitted. Plain ridge and the ensemble tune themselves on all training people. What is finished in the folder
is not done again.
"""

from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from common import data_parser_of
from reproduction.parts import SYSTEMS

import brainroam
from brainroam.data.folds import Fold, group_sites, hold_out
from brainroam.data.target.order import aucs
from brainroam.evaluation.splits import SiteStratifiedKFold
from brainroam.evaluation.stats.metrics import mean_over_sites, site_weights
from brainroam.methods.deep.base import DeepMethod
from brainroam.methods.registry import method_info, parse_name, split_names
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.optional import one_thread

GROUPS, PARTS, SEED, SPLIT = 5, 8, 0, "split"
DEEP = (*(name for name in SYSTEMS.values() if name != "core"), "mean-mlp")


def main() -> None:
    """Time epochs, run what is missing, or print the table of what is there."""
    parser = data_parser_of(__doc__, "cc200")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default="fc-ridge")
    parser.add_argument("--folds", default=",".join([*(f"group{k + 1}" for k in range(GROUPS)), SPLIT]))
    parser.add_argument("--time", action="store_true", help="seconds an epoch, our settings and the released ones")
    parser.add_argument("--table", action="store_true", help="AUC of what is finished")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    print(f"{cohort}, manifest {cohort.manifest_hash[:16]}", flush=True)
    if given.table:
        print_table(cohort, given.out)
        return
    if given.time:
        time_epochs(cohort, given.out / "seconds.csv")
        return
    found = {fold.name: fold for fold in folds(cohort)}
    for method, name in product(split_names(given.methods), given.folds.split(",")):
        path = given.out / f"{method}.{name}.npz"
        if not path.exists():
            np.savez(path, **scored(method, cohort, found[name]))
            print(f"{method} {name}: {float(np.load(path)['seconds']):.0f} s", flush=True)


def folds(cohort: brainroam.Cohort) -> list[Fold]:
    """The groups of sites, and the random fifth."""
    site = cohort.table["site"].to_numpy()
    groups = enumerate(group_sites(cohort.sites, site, GROUPS), 1)
    split = next(SiteStratifiedKFold(5, random_state=SEED).split(cohort.table, cohort.labels, site))
    return [*(hold_out(site, left_out, name=f"group{k}") for k, left_out in groups), Fold(*split, SPLIT)]


def inner(cohort: brainroam.Cohort, train: np.ndarray, whole_sites: bool) -> Fold:
    """Training people, and an eighth of them for choosing the epoch, by position in the cohort."""
    people = cohort.subset(train)
    site = people.table["site"].to_numpy()
    if whole_sites:
        part = hold_out(site, group_sites(people.sites, site, PARTS)[SEED])
    else:
        part = Fold(*next(SiteStratifiedKFold(PARTS, random_state=SEED).split(people.table, people.labels, site)))
    return Fold(train[part.train], train[part.test])


@one_thread()
def scored(method: str, cohort: brainroam.Cohort, fold: Fold) -> dict[str, np.ndarray]:
    """Scores (epochs, n) of the held-out people after each epoch, and (epochs, m) of those who choose among them."""
    name, typed = parse_name(method)
    info, start = method_info(name), process_time()
    if name in DEEP:
        part = inner(cohort, fold.train, whole_sites=fold.name != SPLIT)
        watched = cohort.subset(np.concatenate([part.test, fold.test])).without_labels()
        model = info.make(**info.settings(typed)).fit(cohort.subset(part.train), SEED, watched)
        choosing, path = np.split(model.validation_path_, [len(part.test)], axis=1)
        epoch = int(np.argmax(aucs(cohort.labels[part.test], choosing)))
    else:
        model = TunedMethod(info, **typed).fit(cohort.subset(fold.train), SEED)
        path, epoch = model.score(cohort.subset(fold.test))[None], 0
    return {"path": path, "epoch": np.array(epoch), "seconds": np.array(process_time() - start)}


def time_epochs(cohort: brainroam.Cohort, out: Path) -> None:
    """Processor seconds of an epoch of four fifths of the cohort: of a few of these people, in proportion."""
    done = pd.read_csv(out).to_dict("records") if out.exists() else []
    for method, recipe in product(DEEP, ("", "[recipe=released]")):
        info = method_info(method)
        if any(row["method"] == method + recipe for row in done) or (recipe and not info.released):
            continue
        step = {"disco": 20, "xg-gnn": 1}.get(method, 5)  # iterations of xg-gnn draw a fixed number of people
        people = cohort.subset(np.arange(0, len(cohort), step))
        settings = info.settings(parse_name(method + recipe)[1])
        one, two = [seconds_of(info.make(**settings | {"epochs": k}), people) for k in (1, 1, 2)][1:]  # caches fill
        each = (two - one) * (1 if step == 1 else 0.8 * step)
        epochs = info.make(**settings).epochs
        done.append({"method": method + recipe, "epochs": epochs, "epoch": each, "fit": epochs * each})
        pd.DataFrame(done).to_csv(out, index=False)
        print(done[-1], flush=True)


@one_thread()
def seconds_of(model: DeepMethod, people: brainroam.Cohort) -> float:
    """Processor seconds of a fit."""
    start = process_time()
    model.fit(people, SEED)
    return process_time() - start


def print_table(cohort: brainroam.Cohort, out: Path) -> None:
    """AUC at the chosen epoch, the last one, and the one that is best at the held-out people themselves."""
    found = {fold.name: fold.test for fold in folds(cohort)}
    runs = [(path.stem.rpartition("."), np.load(path)) for path in sorted(out.glob("*.npz"))]
    for method in dict.fromkeys(parts[0] for parts, _ in runs):
        mine = {parts[2]: run for parts, run in runs if parts[0] == method}
        for names in ([name for name in mine if name != SPLIT], [SPLIT] if SPLIT in mine else []):
            if names:
                print(f"{method:28} {', '.join(names):40} {summary(cohort, found, {k: mine[k] for k in names})}")


def summary(cohort: brainroam.Cohort, found: dict[str, np.ndarray], runs: dict[str, Any]) -> str:
    """The three AUCs in points, and the processor seconds of a fit."""
    epochs = max(len(run["path"]) for run in runs.values())
    curve = np.array([auc_at(cohort, found, runs, lambda run, k=k: k) for k in range(epochs)])
    chosen = auc_at(cohort, found, runs, lambda run: int(run["epoch"]))
    seconds = np.mean([run["seconds"] for run in runs.values()])
    picked = ", ".join(str(int(run["epoch"]) + 1) for run in runs.values())
    return (
        f"chosen {100 * chosen:.1f} (epochs {picked})  last {100 * curve[-1]:.1f}  "
        f"best epoch {100 * curve.max():.1f} ({curve.argmax() + 1} of {epochs})  {seconds:.0f} s"
    )


def auc_at(cohort: brainroam.Cohort, found: dict[str, np.ndarray], runs: dict[str, Any], epoch: Any) -> float:
    """AUC of all people of the split, or the mean over sites as our tables have it."""
    people = np.concatenate([found[name] for name in runs])
    score = np.concatenate([run["path"][epoch(run)] for run in runs.values()])
    y, site = cohort.labels[people], cohort.table["site"].to_numpy()[people]
    if SPLIT in runs:
        return float(aucs(y, score))
    here = [site == name for name in np.unique(site)]
    weights = site_weights([y[mask].sum() for mask in here], [(1 - y[mask]).sum() for mask in here])
    return mean_over_sites([float(aucs(y[mask], score[mask])) for mask in here], weights)


if __name__ == "__main__":
    main()
