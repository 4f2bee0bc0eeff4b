"""How far do scores and forecasts move when the same people are preprocessed otherwise? Versions are SIMULATED.

    python scripts/pipelines.py ABIDE_pcp --atlas aal [--method fc-ridge]

A model of ten sites of ABIDE reads the people of the other ten as they are, and in versions made from the same series,
each weaker and stronger: the first principal component over regions added to all of them (as if no global signal had
been removed), a low-pass filter (another band), a part of the scan, and white noise. Printed: what of a score's spread
is person, site, pipeline and noise; the correlation r within sites and the share of the probit of the AUC that was kept
(`brainroam.evaluation.pipelines` says r to 1); who changes class; the forecast's mean 95 % interval without and with
the other version, and how many of the ten sites each holds, for the AUC and for the three other measures.
"""

import numpy as np
import pandas as pd
from common import PAPER, data_parser_of
from scipy.ndimage import uniform_filter1d
from scipy.special import ndtri

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.data.target.shifts import MEASURES
from brainroam.evaluation.forecast import Forecast
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod


def global_signal(x: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """The first component of the regions, so many times as large as a region, added to every region."""
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    component = np.linalg.svd(z, full_matrices=False)[0][:, 0]
    return x + size * x.std(axis=0) * (component / component.std())[:, None] * np.sign(component @ z.sum(axis=1))


def moving_mean(x: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """A moving mean over so many volumes: less of what is fast."""
    return uniform_filter1d(x, int(size), axis=0)


def first_part(x: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """That share of the scan."""
    return x[: int(size * len(x))]


def white_noise(x: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """White noise of so many times each region's spread."""
    return x + size * x.std(axis=0) * rng.normal(size=x.shape)


VERSIONS = {
    global_signal: (0.25, 0.5, 1.0),
    moving_mean: (3, 7),
    first_part: (0.5, 0.25),
    white_noise: (1 / 3, 1.0, 2.0),
}


def main() -> None:
    """Print a line per version."""
    parser = data_parser_of(__doc__)
    parser.add_argument("--method", default="fc-ridge")
    given = parser.parse_args()
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    model = TunedMethod(method_info(given.method), "default").fit(cohort.select(PAPER))
    new = cohort.select([site for site in cohort.sites if site not in PAPER])
    before = judged(brainroam.foretell(model, new), new)
    first = before.xs("auc")
    print(f"{given.method} of {len(PAPER)} sites, read at {new}: AUC {first['observed'].mean():.3f}", flush=True)
    for version, sizes in VERSIONS.items():
        for size in sizes:
            rng = np.random.default_rng(0)
            other = Cohort([version(x, size, rng) for x in new.series], new.table, new.atlas)
            forecast = brainroam.foretell(model, other, other=new)
            found, after = forecast.content["pipelines"], judged(forecast, other)
            kept = ndtri(after.xs("auc")["observed"].mean()) / ndtri(first["observed"].mean())
            narrow = after["observed"].between(before["low_95"], before["high_95"])
            shares = ", ".join(f"{name} {share:.0%}" for name, share in found["shares"].items())
            print(
                f"{version.__name__} {size:.2g}: {shares}; r {found['kept']:.2f}, kept {kept:.2f}; "
                f"{len(found['changed']) / found['n']:.0%} change class; mean probability {found['moved']:+.2f}; AUC "
                f"{after.xs('auc')['observed'].mean():.3f}",
                flush=True,
            )
            for measure in ("auc", *MEASURES):
                inside = f"{narrow.xs(measure).sum()} inside, widened {after.xs(measure)['inside_95'].sum()} inside"
                print(
                    f"    {measure}: {span(before.xs(measure))}, widened {span(after.xs(measure))}: {inside}",
                    flush=True,
                )


def judged(forecast: Forecast, people: Cohort) -> pd.DataFrame:
    """Foretold and observed, by measure and site."""
    return brainroam.reveal(forecast, people).table.set_index(["measure", "site"])


def span(rows: pd.DataFrame) -> str:
    """Mean 95 % limits over sites."""
    return f"{rows['low_95'].mean():.2f}-{rows['high_95'].mean():.2f}"


if __name__ == "__main__":
    main()
