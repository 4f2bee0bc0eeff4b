"""Does a plan made with 8 or 12 sites foretell what 20 sites give? On ABIDE, and where the truth is known.

    python scripts/plan_check.py ABIDE_pcp --atlas aal --exclude out.txt [--method fc-ridge] [--subsets 10]
    python scripts/plan_check.py synthetic

ABIDE: random subsets of 8 and 12 of the sites; each makes a plan of its own, and its curve is read at 19 training
sites. Held against the mean AUC of leaving one of all twenty out, and, as subsets differ in their test sites, against
the gain from n - 1 to 19 sites that the twenty sites show. Synthetic: 30 cohorts of 8 sites; the truth is the mean AUC
of models of 16 sites at many other sites. Beside our law, an inverse power law a - b n^-c fitted to the same points.
The figures of docs/results/next-site.md come from here.
"""

import argparse

import numpy as np
from scipy.optimize import least_squares

import brainroam
from brainroam.evaluation.planning.plan import Plan, make_plan
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import Selected


def main() -> None:
    """Print one line per plan and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--exclude")
    parser.add_argument("--method", default="fc-ridge")
    parser.add_argument("--subsets", type=int, default=10)
    given = parser.parse_args()
    if given.data == "synthetic":
        known_truth(given.method)
        return
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas, exclude=given.exclude)
    print(f"{cohort}, manifest {cohort.manifest_hash[:16]}", flush=True)
    whole = make_plan(cohort, [given.method])
    print(*whole.sentences, whole.points().to_string(), f"A, B/p + C, B: {whole.law.coef}", sep="\n", flush=True)
    points = whole.points()
    measured = points[points["share"] == 1].set_index("n_sites")["auc"]
    rng = np.random.default_rng(0)
    for k in (8, 12):
        found = []
        for _ in range(given.subsets):
            sites = sorted(rng.choice(cohort.sites, k, replace=False))
            plan = make_plan(cohort.select(sites), [given.method], seed=1)
            found.append(foretold(plan, 19, k - 1))
            print(k, *np.round(100 * np.array(found[-1]), 1), ",".join(sites), flush=True)
        summarise(np.array(found), measured[19], measured[19] - float(np.interp(k - 1, measured.index, measured)), k)


def foretold(plan: Plan, n: int, start: int) -> tuple[float, ...]:
    """AUC at n sites with its interval, the gain since ``start``, with its interval, and both by the power law."""
    level, gain = power_law(plan, n), power_law(plan, n) - power_law(plan, start)
    return (plan.law.auc(n), *plan.law.interval(n), *plan.law.gain(n, from_sites=start), level, gain)


def power_law(plan: Plan, n: float) -> float:
    """The mean AUC at n sites by a - b n^-c, fitted to the points of complete sites."""
    points = plan.points()
    points = points[points["share"] == 1]
    x, y = points["n_sites"].to_numpy(dtype=float), points["auc"].to_numpy()
    fit = least_squares(lambda v: v[0] - v[1] * x ** -v[2] - y, (y.max(), 0.2, 0.5), bounds=([0.5, 0, 0.1], [1, 1, 2]))
    a, b, c = fit.x
    return float(a - b * n**-c)


def summarise(found: np.ndarray, level: float, gain: float, k: int) -> None:
    """Mean, error and coverage over plans."""

    def rms(column: int, true: float) -> float:
        return 100 * float(np.sqrt(((found[:, column] - true) ** 2).mean()))

    def inside(column: int, true: float) -> str:
        held = (found[:, column] <= true) & (true <= found[:, column + 1])
        return f"inside {held.sum()} of {len(found)}"

    mean = 100 * found.mean(axis=0)
    print(f"{k} sites: AUC true {100 * level:.1f}, foretold {mean[0]:.1f}, rms {rms(0, level):.1f}, {inside(1, level)}")
    print(f"   gain: true {100 * gain:+.1f}, foretold {mean[3]:+.1f}, rms {rms(3, gain):.1f}, {inside(4, gain)}")
    print(f"   power law: AUC {mean[6]:.1f}, rms {rms(6, level):.1f}; gain {mean[7]:+.1f}, rms {rms(7, gain):.1f}")
    print(flush=True)


def known_truth(method: str, k: int = 8, n: int = 16, n_worlds: int = 30) -> None:
    """Plans of 8 sites, against models of 7 and 16 sites read at many other sites of the same worlds."""
    found, levels = [], {k - 1: [], n: []}
    for world in range(n_worlds):
        cohort = brainroam.make_cohort(n_sites=k + n + 12, n_per_site=20, n_rois=16, effect=0.8, seed=world)
        names = cohort.sites
        found.append(foretold(make_plan(cohort.select(names[:k]), [method], n_draws=10), n, k - 1))
        others = cohort.select(names[k + n :])
        for size in levels:
            model = Selected(method_info(method), "default").fit(cohort.select(names[k : k + size]))
            site, score = others.table["site"].to_numpy(), model.score(others)
            levels[size].append(np.mean([auc(others.labels[site == s], score[site == s]) for s in others.sites]))
    true = {size: float(np.mean(values)) for size, values in levels.items()}
    summarise(np.array(found), true[n], true[n] - true[k - 1], k)


if __name__ == "__main__":
    main()
