"""What methods lose where a shortcut turns round, on real scans that were chosen so that it is strong in training.

    python scripts/stress.py ABIDE_pcp --atlas aal [--by motion] [--methods core,ensemble,fc-ridge] [--draws 1]

Diagnoses are real. With z the shortcut of a person within the site, training keeps a case with probability
1 / (1 + exp(-2 z)) and a control with 1 / (1 + exp(2 z)): half of the people, whose cases move more (are older, ...)
than controls by about one standard deviation. Every site is left out once, and all of its people are scored; a line
says how well pairs of a case and a control are ranked who differ as in training, how well those who differ the other
way, and the loss (`brainroam.evaluation.stats.stress`). A figure of all lines is written beside the table.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import data_parser_of

import brainroam
from brainroam.audit.stress import SHORTCUTS, shortcut_of
from brainroam.data.cohort import Cohort
from brainroam.evaluation.stats.stress import stress
from brainroam.methods.registry import method_info, parse_name, split_names

SLOPE = 2.0


def main() -> None:
    """Print a line for each method and draw, and keep them."""
    warnings.simplefilter("ignore")
    parser = data_parser_of(__doc__)
    parser.add_argument("--by", default="motion", choices=list(SHORTCUTS))
    parser.add_argument("--methods", type=split_names, default="core,ensemble,log-ridge,scaffold-ridge,fc-ridge")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("stress.csv"))
    given = parser.parse_args()
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    shortcut = shortcut_of(cohort, given.by)
    cohort = cohort.subset(np.isfinite(shortcut))
    shortcut = shortcut[np.isfinite(shortcut)]
    rows = pd.read_csv(given.out).to_dict("records") if given.out.exists() else []
    done = {(row["method"], row["draw"], row["by"], row["atlas"]) for row in rows}
    print("| method | draw | AUC | shortcut holds | turns round | loss |")
    print("|---|---|---|---|---|---|")
    for draw in range(given.draws):
        kept = chosen(cohort, shortcut, draw)
        for name in given.methods:
            if (name, draw, given.by, given.atlas) in done:
                continue
            score = held_out(cohort, kept, name, draw)
            found = stress(score, cohort.labels, shortcut, cohort.table["site"].to_numpy())
            shown = " | ".join(f"{100 * value:.1f}" for value in (found.auc, found.holds, found.turns, found.loss))
            print(f"| {name} | {draw} | {shown} |", flush=True)
            figures = {"auc": found.auc, "holds": found.holds, "turns": found.turns, "loss": found.loss}
            rows.append({"method": name, "draw": draw, "by": given.by, "atlas": given.atlas, **figures})
            pd.DataFrame(rows).to_csv(given.out, index=False)
    draw_figure(pd.DataFrame(rows), given.by, given.out.with_suffix(".png"))


def chosen(cohort: Cohort, shortcut: np.ndarray, seed: int) -> np.ndarray:
    """Who is kept for training: cases who have more of the shortcut, controls who have less."""
    table = pd.DataFrame({"x": shortcut, "site": cohort.table["site"].to_numpy()})
    z = table.groupby("site")["x"].transform(lambda x: (x - x.mean()) / max(x.std(), 1e-9)).to_numpy()
    probability = 1 / (1 + np.exp(-SLOPE * z * np.where(cohort.labels == 1, 1, -1)))
    return np.random.default_rng(seed).random(len(cohort)) < probability


def held_out(cohort: Cohort, kept: np.ndarray, method: str, seed: int) -> np.ndarray:
    """Scores of everybody by a fit on those who were kept at the other sites."""
    name, settings = parse_name(method)
    score, site = np.full(len(cohort), np.nan), cohort.table["site"].to_numpy()
    for out in cohort.sites:
        test = site == out
        model = method_info(name).make(**settings).fit(cohort.subset(kept & ~test), seed)
        score[test] = model.score(cohort.subset(test).without_labels())
    return score


def draw_figure(rows: pd.DataFrame, by: str, path: Path) -> None:
    """A line for each method, from the AUC where the shortcut turns round to that where it holds."""
    import matplotlib.pyplot as plt

    means = rows[rows["by"] == by].groupby(["atlas", "method"])[["auc", "holds", "turns"]].mean().mul(100)
    means = means.sort_values("turns").reset_index()
    figure, axis = plt.subplots(figsize=(7, 0.35 * len(means) + 1.2), layout="constrained")
    place = np.arange(len(means))
    axis.hlines(place, means["turns"], means["holds"], color="0.7", linewidth=3)
    axis.plot(means["turns"], place, "o", color="#b2182b", label=f"{by} turns round")
    axis.plot(means["holds"], place, "o", color="#2166ac", label=f"{by} as in training")
    axis.axvline(50, color="0.5", linestyle=":")
    several = means["atlas"].nunique() > 1
    axis.set_yticks(place, [f"{m} ({a})" if several else m for a, m in means[["atlas", "method"]].to_numpy()])
    axis.set_xlabel("AUC at sites never seen, points of 100")
    axis.legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
