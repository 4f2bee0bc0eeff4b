"""Are flagged people predicted worse? At the held-out sites of a folder of runs.

    python scripts/flags_check.py ABIDE_pcp RUNS --atlas aal

Each held-out person is flagged by what the training sites of that fold were like (`methods.familiarity`). A person's
placement is the share of the other class of the site whom the score puts on the right side: its mean over people is the
AUC. Held against people without a flag of the same site and class, with intervals that take sites as the unit, as in
`evaluation.stats.groups`; then, as whole sites may be flagged, against everybody without a flag. The figures of
docs/results/next-site.md come from here.
"""

import numpy as np
import pandas as pd
from common import data_parser_of

import brainroam
from brainroam.evaluation.results import load_runs
from brainroam.evaluation.stats.groups import pseudo_values
from brainroam.evaluation.stats.paired import nadeau_bengio
from brainroam.methods.familiarity import Familiarity

REASONS = {
    "age": "outside of the",
    "motion": "moved",
    "seconds": "scanned",
    "volumes": "volumes, fewer",
    "regions": "regions without",
    "edges far": "edges farther",
    "edges unlike": "edges resemble",
}
MEASURES = ("placement", "right", "brier")


def main() -> None:
    """Print one line per method, reason and measure."""
    parser = data_parser_of(__doc__)
    parser.add_argument("runs")
    given = parser.parse_args()
    cohort, results = brainroam.load_cohort(given.data, atlas=given.atlas), load_runs(given.runs)
    site = cohort.table["site"]
    flags = {}
    for name in cohort.sites:
        here = (site == name).to_numpy()
        known = Familiarity.of(cohort.subset(~here))
        flags |= dict(zip(cohort.table["subject"][here], known.flags(cohort.subset(here)), strict=True))
    rows = results.predictions[results.predictions["protocol"] == "loso"]
    for method, people in rows.groupby("method"):
        people = judged(people).assign(flags=people["subject"].map(flags))
        show(method, "any", people, people["flags"] != "")
        for reason, word in REASONS.items():
            show(method, reason, people, people["flags"].str.contains(word, regex=False))


def judged(people: pd.DataFrame) -> pd.DataFrame:
    """Placement, whether the class was right, and the squared error of the probability, of each person."""
    parts = []
    for _, here in people.groupby("site"):
        score, case = here["score"].to_numpy(), (here["label"] == 1).to_numpy()
        won = (score[case][:, None] > score[~case]) + 0.5 * (score[case][:, None] == score[~case])
        placement = np.empty(len(here))
        placement[case], placement[~case] = won.mean(axis=1), won.mean(axis=0)
        p = here["probability"].to_numpy()
        parts.append(
            here.assign(placement=placement, right=here["predicted"].to_numpy() == case, brier=(p - case) ** 2)
        )
    return pd.concat(parts).loc[people.index]


def show(method: str, reason: str, people: pd.DataFrame, flagged: pd.Series) -> None:
    """Flagged people against those without any flag at the same site and of the same class."""
    usual = people[people["flags"] == ""].groupby(["site", "label"])[list(MEASURES)].mean().add_suffix("_usual")
    found = people[flagged].join(usual, on=["site", "label"]).dropna(subset="placement_usual")
    text = f"{method}\t{reason}\t{flagged.sum()} of {len(people)} at {people.loc[flagged, 'site'].nunique()} sites"
    others = people.loc[people["flags"] == "", list(MEASURES)].mean()
    means = people.loc[flagged, list(MEASURES)].mean()
    text += "\tall: " + ", ".join(f"{name} {means[name]:.3f} against {others[name]:.3f}" for name in MEASURES)
    if len(found) < 2:
        print(text, "\twhole sites", flush=True)
        return
    for measure in MEASURES:
        gaps = (found[measure].astype(float) - found[f"{measure}_usual"]).groupby(found["site"])
        won, of = gaps.sum().to_numpy(), gaps.size().to_numpy()
        test = nadeau_bengio(pseudo_values(np.zeros(len(of)), of, won, of), 0.0)
        usually = found[f"{measure}_usual"].mean()
        text += f"\t{measure} {found[measure].mean():.3f} against {usually:.3f} ({test.low:+.3f} to {test.high:+.3f})"
    print(text, flush=True)


if __name__ == "__main__":
    main()
