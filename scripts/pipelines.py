"""How far do scores and forecasts move when the same people are preprocessed otherwise? Versions are SIMULATED.

    python scripts/pipelines.py ABIDE_pcp --atlas aal [--method fc-ridge]

A model of ten sites of ABIDE reads the people of the other ten as they are, and in versions made from the same series:
the first principal component over regions added to all of them (as if no global signal had been removed), a low-pass
filter (another band), the first half of the scan, and white noise with a third of each region's spread. Printed: what
of a score's spread is person, site, pipeline and noise, the correlation within sites, who changes class, mean AUC over
sites before and after, the forecast's mean 95 % interval without and with the other version, and how many of the ten
sites it holds.
"""

import argparse

import numpy as np
from scipy.ndimage import uniform_filter1d

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.evaluation.forecast import Forecast
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

PAPER = ("CALTECH", "KKI", "MAX_MUN", "OLIN", "PITT", "SBL", "SDSU", "STANFORD", "TRINITY", "YALE")


def global_signal(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The first component of the regions, as large as a region, added to every region."""
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    component = np.linalg.svd(z, full_matrices=False)[0][:, 0]
    return x + x.std(axis=0) * (component / component.std())[:, None] * np.sign(component @ z.sum(axis=1))


def other_band(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A moving mean over three volumes: less of what is fast."""
    return uniform_filter1d(x, 3, axis=0)


def first_half(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the scan."""
    return x[: len(x) // 2]


def noise(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """White noise of a third of each region's spread."""
    return x + x.std(axis=0) / 3 * rng.normal(size=x.shape)


def main() -> None:
    """Print a line per version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--method", default="fc-ridge")
    given = parser.parse_args()
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    model = TunedMethod(method_info(given.method), "default").fit(cohort.select(PAPER))
    new = cohort.select([site for site in cohort.sites if site not in PAPER])
    print(f"{given.method} of {len(PAPER)} sites, read at {new}", flush=True)
    for version in (global_signal, other_band, first_half, noise):
        rng = np.random.default_rng(0)
        other = Cohort([version(x, rng) for x in new.series], new.table, new.atlas)
        found = brainroam.pipeline_agreement(model, other, new)
        narrow, wide = brainroam.foretell(model, other), brainroam.foretell(model, other, other=new)
        before, after = (mean_auc(model, people) for people in (new, other))
        shares = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
        inside = int(brainroam.reveal(wide, other).table.query("measure == 'auc'")["inside_95"].sum())
        print(
            f"{version.__name__}: {shares}; r {found.kept:.2f}; {found.changed:.0%} change class; mean probability "
            f"{found.moved:+.2f}; AUC {before:.3f} -> {after:.3f}; interval {span(narrow)}, widened {span(wide)}, "
            f"{inside} of {len(new.sites)} inside",
            flush=True,
        )


def mean_auc(model: TunedMethod, people: Cohort) -> float:
    """Plain mean over sites."""
    table = brainroam.reveal(brainroam.foretell(model, people), people).table
    return float(table.loc[table["measure"] == "auc", "observed"].mean())


def span(forecast: Forecast) -> str:
    """Mean limits of the AUC over sites."""
    rows = forecast.table.query("measure == 'auc'")
    return f"{rows['low_95'].mean():.2f} to {rows['high_95'].mean():.2f}"


if __name__ == "__main__":
    main()
