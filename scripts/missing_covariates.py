"""What does it cost when age or sex is unknown: in training, at the new site, or at both? On ABIDE, for core.

    python scripts/missing_covariates.py ABIDE_pcp --atlas aal --out missing.csv
    python scripts/missing_covariates.py synthetic --out missing.csv

Leave one site out with core[epochs=0], which removes age and sex from the edges. They are hidden from a share of the
people, drawn once, in training, at the held-out site, or at both. Two ways to go on:

    mean    an unknown value stands at the training mean: what brainroam does
    edges   a ridge from the edges, learned on the training people whose value is known, with the penalty that does best
            at inner left-out sites, estimates it; the mean where no penalty has an R^2 above 0 there

Prints one line per model and a table at the end; a run that was stopped goes on where it was. The figures of
docs/results/next-site.md come from here.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from common import data_parser_of

import brainroam
from brainroam.core.connectivity import cohort_edges
from brainroam.core.ridge import DualRidge
from brainroam.data.target.sites_two import balanced_metrics
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights
from brainroam.evaluation.stats.paired import left_out_t
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

HIDDEN = {"nothing": [], "age": ["age"], "sex": ["sex"], "age and sex": ["age", "sex"]}
MODELS = (  # how what is missing in training is filled, what is missing there, and for which share of the people
    ("mean", "nothing", 0.0),
    ("mean", "age and sex", 1.0),
    ("mean", "age and sex", 0.5),
    ("edges", "age and sex", 0.5),
    ("mean", "age", 0.5),
    ("mean", "sex", 0.5),
)
NEW = (("nothing", 0.0), ("age", 1.0), ("sex", 1.0), ("age and sex", 0.5), ("age and sex", 1.0))
PENALTIES = (0.1, 1.0, 10.0)  # in units of the mean squared length


def main() -> None:
    """Measure what is missing in the table, and print its summary."""
    parser = data_parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=Path("missing.csv"))
    given = parser.parse_args()
    if given.data == "synthetic":
        cohort = brainroam.make_cohort(n_sites=8, n_per_site=30, n_rois=20, seed=0)
    else:
        cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    rows = pd.read_csv(given.out).to_dict("records") if given.out.is_file() else []
    done = {(row["site"], row["model"]) for row in rows}
    for way, what, share in MODELS:
        model = f"{way}: {what}, {share:.0%}"
        for site in cohort.sites:
            if (site, model) in done:
                continue
            rows += [{"site": site, "model": model, **row} for row in at_site(cohort, site, way, what, share)]
            pd.DataFrame(rows).to_csv(given.out, index=False)
            print(model, site, flush=True)
    show(pd.DataFrame(rows))


def at_site(cohort: brainroam.Cohort, site: str, way: str, what: str, share: float) -> Iterator[dict]:
    """One model, and the people of the site it has not seen, with more and more of them unknown."""
    test = (cohort.table["site"] == site).to_numpy()
    truth = cohort.table[["age", "sex"]].astype(float)
    known = truth.mask(hidden(cohort, what, share, seed=1) & ~test[:, None])
    model = fitted(cohort, known if way == "mean" else filled(cohort, known, ~test)[0], ~test)
    for new, new_share in NEW:
        seen = known.mask(hidden(cohort, new, new_share, seed=2) & test[:, None])
        for fill in ("mean", "edges") if share < 1 and new_share == 1 else ("mean",):
            values, r2 = (seen, {}) if fill == "mean" else filled(cohort, seen, ~test)
            yield (
                {"new": new, "new_share": new_share, "fill": fill}
                | r2
                | measured(model, with_covariates(cohort, values).subset(test))
            )


def hidden(cohort: brainroam.Cohort, what: str, share: float, seed: int) -> np.ndarray:
    """Whose age (first column) and sex are unknown: a share of the people, the same at every fold."""
    drawn = np.random.default_rng(seed).permutation(len(cohort)) < share * len(cohort)
    return np.stack([drawn & (name in HIDDEN[what]) for name in ("age", "sex")], axis=1)


def with_covariates(cohort: brainroam.Cohort, values: pd.DataFrame) -> brainroam.Cohort:
    """The cohort with what is known, or estimated, in columns of their own: an estimated sex is no code."""
    return cohort.with_columns(values.rename(columns="known_{}".format))


def fitted(cohort: brainroam.Cohort, values: pd.DataFrame, train: np.ndarray) -> TunedMethod:
    """core of the training people."""
    known = with_covariates(cohort, values).subset(train)
    return TunedMethod(method_info("core"), "default", covariates=("known_age", "known_sex"), epochs=0).fit(known)


def filled(cohort: brainroam.Cohort, known: pd.DataFrame, train: np.ndarray) -> tuple[pd.DataFrame, dict[str, float]]:
    """Unknown values estimated from the edges, each by a ridge without the person's site; and R^2 at inner sites."""
    edges = cohort_edges(cohort, "log", 0.7, True)
    edges = np.nan_to_num(edges - np.nanmean(edges[train], axis=0))
    site, found, r2 = cohort.table["site"].to_numpy(), known.copy(), {}
    for name in known:
        values = known[name].to_numpy()
        learn = np.flatnonzero(train & np.isfinite(values))
        if np.isfinite(values).all() or len(learn) == 0:
            continue
        target = values[learn] - values[learn].mean()
        gram = edges @ edges[learn].T  # (everybody, those learned from)
        length, best = np.mean(np.diag(gram[learn])), (0.0, np.zeros(len(cohort)))
        for penalty in PENALTIES:
            ridge, guess = DualRidge(gram[learn], penalty * length), np.zeros(len(cohort))
            for place in np.unique(site):
                without = np.flatnonzero(site[learn] == place)
                here = site == place
                guess[here] = gram[here] @ ridge.weights(target, without if len(without) else None)
            right = 1 - np.square(target - guess[learn]).sum() / np.square(target).sum()
            best = max(best, (right, guess), key=lambda pair: pair[0])
        r2[f"r2_{name}"] = best[0]
        found[name] = np.where(np.isfinite(values), values, values[learn].mean() + best[1])
    return found, r2


def measured(model: TunedMethod, people: brainroam.Cohort) -> dict[str, float]:
    """AUC, and how good the probabilities are, both classes counting alike."""
    score, calibration = model.score(people), model.calibration_
    balanced = balanced_metrics(people.labels, calibration(score, prevalence=0.5), calibration.decide(score))
    weight = float(site_weights(people.labels.sum(), len(people) - people.labels.sum()))
    return {"auc": auc(people.labels, score), "weight": weight, **balanced}


def show(rows: pd.DataFrame) -> None:
    """Means over sites (`metrics.mean_over_sites`), and differences from complete data at the same sites."""
    complete = rows[(rows["model"] == rows["model"].iloc[0]) & (rows["new"] == "nothing")].set_index("site")
    for key, here in rows.groupby(["model", "new", "new_share", "fill"], sort=False):
        here = here.set_index("site")
        gap = left_out_t((here["auc"] - complete["auc"].reindex(here.index)).to_numpy(), here["weight"].to_numpy())
        mean = {name: mean_over_sites(here[name], here["weight"]) for name in here.select_dtypes("number")}
        r2 = " ".join(f"R2 {name} {here['r2_' + name].mean():.2f}" for name in ("age", "sex") if f"r2_{name}" in here)
        print(
            *key, f"{len(here)} sites", f"AUC {100 * mean['auc']:.2f}",
            f"({100 * gap.mean:+.2f}, {100 * gap.low:+.2f} to {100 * gap.high:+.2f})",
            f"balanced accuracy {100 * mean['balanced_acc']:.1f}",
            f"Brier {mean['brier']:.4f}", f"off {mean['calibration_in_the_large']:.3f}", r2, sep="\t",
        )  # fmt: skip


if __name__ == "__main__":
    main()
