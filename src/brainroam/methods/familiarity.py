"""Familiarity: whether new people are like those a model was trained on, without data of any single one.

A model answers for anybody. What it was trained on says for whom the answer has been tested: the range of age, nearly
everybody's motion, scan length and share of missing regions, and how far a training person's edges lie from the mean of
the *other* training sites, and how much their pattern resembles it (over the edges both have):

    distance(x)    = sqrt(mean_j (x_j - b_j)^2),      b = mean over training sites of their mean edges
    resemblance(x) = corr_j(x_j, b_j)

and whether the differences between left and right have the sign they have there (`data.atlas.anatomy`).

A signal that swamps all regions makes edges far that still have their pattern. Noise draws all edges to 0, which is
near b, and takes the pattern away, as does a wrong order of regions. So both are asked.

A person beyond a limit gets a flag with the reason: the model has not been tested on such people. Whether it errs more
often for them is another question (docs/results/next-site.md). The model keeps limits and b, no person and no site.

Whether a model is asked about the very people it was trained on is told without a list of them in the model.
Such predictions look better than any new site's. A list of digests would tell who took part, so the model keeps a
sketch: one bit for each training person, at a place that follows from their series, among twice as many bits as people.
About 40 % of the bits are set, so a stranger meets a set bit two times in five, and nobody can be told from a stranger
by one bit; many people together can.

Nothing is learned of an edge that hardly anybody has (`without_rare_edges`): the model would show their values.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from brainroam.core.connectivity import EdgeKind, cohort_edges
from brainroam.core.site_edges import SiteEdges
from brainroam.data.atlas.anatomy import mirrored_edges, sidedness
from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.errors import ModelFileError

RARE = 0.01  # share of training people beyond a limit
MARGIN = 1e-9
BITS_PER_PERSON = 2
FEWEST = 5  # people who share whatever a model learns of an edge
MAX_P = 1e-4  # how rarely strangers may be taken for training people


def round_outward(value: float, side: str) -> float:
    """Round a limit outward to two digits: a quantile of few people is nearly the value of one of them, a secret.

    >>> round_outward(0.3141, "high"), round_outward(178.6, "low"), round_outward(-0.0123, "low")
    (0.32, 170.0, -0.013)
    """
    if value == 0 or not np.isfinite(value):
        return value
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    whole = np.ceil(value / unit - MARGIN) if side == "high" else np.floor(value / unit + MARGIN)
    return float(f"{whole * unit:.6g}")


@dataclass(frozen=True)
class Familiarity:
    """Limits within which nearly all training people lie.

    Attributes
    ----------
    limits : dict of str to float
        ``age_low``, ``age_high`` (the whole range, in steps of five years), ``mean_fd_high``, ``seconds_low``,
        ``volumes_low``, ``missing_high``, ``distance_high``, ``resemblance_low`` and ``sidedness_low`` (at most 0),
        beyond which at most 1 % of the training people lie, two digits of each; absent where unknown.
    centre : ndarray of shape (M,)
        b.
    scale : ndarray of shape (M,), optional
        Of a table, or matrices that are no correlations, the standard deviation of each feature within sites: distances
        are in its units, and there is no pattern to resemble.
    """

    limits: dict[str, float]
    centre: np.ndarray
    scale: np.ndarray | None = None

    @classmethod
    def of(cls, cohort: Cohort) -> "Familiarity":
        """Learn from the training people.

        >>> import brainroam
        >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10)
        >>> known = Familiarity.of(cohort)
        >>> old = cohort.with_columns(cohort.table[["age"]] + 60).subset([0])
        >>> known.flags(old)
        ['age 81 is outside of the 15 to 35 years trained on']
        """
        measured = _measure(cohort)
        limits = {}
        for name, rare in (("mean_fd", 1 - RARE), ("missing", 1 - RARE), ("seconds", RARE), ("volumes", RARE)):
            values = measured[name].dropna()
            if len(values):
                side = "low" if rare == RARE else "high"
                limits[f"{name}_{side}"] = round_outward(float(np.quantile(values, rare)), side)
        ages = measured["age"].dropna()
        if len(ages):
            low, high = 5 * np.floor(ages.min() / 5), 5 * np.ceil(ages.max() / 5)  # not the age of the oldest
            limits |= {"age_low": float(low), "age_high": float(high)}
        edges = SiteEdges(cohort, EdgeKind("pearson"))
        scale = edges.scale if cohort.own_units else None
        if len(edges.sites) > 1:
            far, like, sided = [], [], []
            mirrored = _mirrored_edges(cohort)
            for name in edges.sites:
                centre = edges.centre([other for other in edges.sites if other != name])
                for people in cohort.select([name]).batches():
                    far.append(distances(cohort_edges(people), centre, scale))
                    like.append(resemblances(cohort_edges(people), centre))
                    if mirrored is not None:
                        sided.append(sidedness(cohort_edges(people), centre, mirrored))
            limits["distance_high"] = round_outward(float(np.nanquantile(np.concatenate(far), 1 - RARE)), "high")
            if scale is None:
                limits["resemblance_low"] = round_outward(float(np.nanquantile(np.concatenate(like), RARE)), "low")
            if sided:
                lowest = min(float(np.nanquantile(np.concatenate(sided), RARE)), 0.0)
                limits["sidedness_low"] = round_outward(lowest, "low")
        return cls(limits, edges.centre(edges.sites), scale)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a model folder keeps."""
        return {"familiarity": self.centre} | ({} if self.scale is None else {"familiarity_scale": self.scale})

    def flags(self, cohort: Cohort) -> list[str]:
        """For each person the reasons why the model may not be meant for them; empty text where there is none."""
        return ["; ".join(self._reasons(row)) for row in self.measure(cohort).to_dict("records")]

    def sites_outside(self, cohort: Cohort) -> list[str]:
        """Sites most of whose people are of ages that no training person had, each with both ranges in words."""
        low, high = (self.limits.get(f"age_{side}", np.nan) for side in ("low", "high"))
        ages = cohort.table["age"].astype(float).groupby(cohort.table["site"])
        return [
            f"{site} has ages {of_site.min():.0f} to {of_site.max():.0f}, trained on {low:.0f} to {high:.0f}"
            for site, of_site in ages
            if ((of_site < low) | (of_site > high)).mean() > 0.5
        ]

    def measure(self, cohort: Cohort) -> pd.DataFrame:
        """The measures that limits are for, one row per person; NaN where unknown."""
        edges, mirrored = cohort_edges(cohort), _mirrored_edges(cohort)
        return _measure(cohort).assign(
            distance=distances(edges, self.centre, self.scale),
            resemblance=resemblances(edges, self.centre),
            sidedness=np.nan if mirrored is None else sidedness(edges, self.centre, mirrored),
        )

    def _reasons(self, person: Mapping[str, Any]) -> list[str]:
        limits, flags = self.limits, []

        def beyond(name: str, side: str) -> bool:
            limit = limits.get(f"{name}_{side}", np.nan)
            gap = person[name] - limit
            return bool(gap > MARGIN if side == "high" else gap < -MARGIN)  # unknown is never beyond

        if beyond("age", "low") or beyond("age", "high"):
            ages = f"{limits['age_low']:.0f} to {limits['age_high']:.0f} years"
            flags.append(f"age {person['age']:.0f} is outside of the {ages} trained on")
        if beyond("mean_fd", "high"):
            flags.append(f"moved {person['mean_fd']:.2f} mm, more than 99 % of training ({limits['mean_fd_high']:.2f})")
        if beyond("seconds", "low"):
            flags.append(f"scanned {person['seconds']:.0f} s, less than 99 % of training ({limits['seconds_low']:.0f})")
        elif not np.isfinite(person["seconds"]) and beyond("volumes", "low"):
            flags.append(f"{person['volumes']:.0f} volumes, fewer than 99 % of training ({limits['volumes_low']:.0f})")
        if beyond("missing", "high"):
            what = "regions without signal" if self.scale is None else "measures missing"
            flags.append(f"{person['missing']:.0f} {what}, more than 99 % of training")
        if beyond("distance", "high"):
            what = "edges" if self.scale is None else "measures"
            flags.append(f"{what} farther from the training sites than those of 99 % of training")
        if beyond("resemblance", "low"):
            r, limit = person["resemblance"], limits["resemblance_low"]
            flags.append(f"edges resemble the training sites with r {r:.2f}, less than 99 % of training ({limit:.2f})")
        if beyond("sidedness", "low"):
            r = person["sidedness"]
            flags.append(f"left and right are perhaps exchanged (their differences resemble training with r {r:.2f})")
        return flags


def _mirrored_edges(cohort: Cohort) -> tuple[np.ndarray, np.ndarray] | None:
    pairs = None if cohort.measure == "table" else cohort.atlas.homologues
    return None if pairs is None else mirrored_edges(pairs)


def distances(edges: np.ndarray, centre: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """Root mean square difference of each person's edges from the centre, over the edges both have."""
    gap = np.square(edges - centre if scale is None else (edges - centre) / scale)
    present = np.isfinite(gap)
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.where(present, gap, 0).sum(axis=1) / present.sum(axis=1))


def resemblances(edges: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Correlation of each person's edges with the centre, over the edges both have; NaN where either is constant.

    >>> resemblances(np.array([[1.0, 2.0, np.nan], [3.0, 1.0, 2.0]]), np.array([0.1, 0.2, 0.3])).round(3).tolist()
    [1.0, -0.5]
    """
    present = np.isfinite(edges - centre)
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    x, b = np.where(present, edges, 0), np.where(present, centre, 0)
    x, b = (np.where(present, part - part.sum(axis=1, keepdims=True) / count, 0) for part in (x, b))
    with np.errstate(invalid="ignore"):
        return (x * b).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (b**2).sum(axis=1))


def _measure(cohort: Cohort) -> pd.DataFrame:
    table = cohort.table
    column = {name: pd.to_numeric(table.get(name, pd.Series(np.nan, table.index))) for name in ("age", "mean_fd", "tr")}
    volumes = table["n_timepoints"].astype(float)
    missing = cohort.missing_rois.sum(axis=1).astype(float)
    if cohort.blocks:  # who has other blocks alone is read from them, and nothing is known of this one
        missing[missing == cohort.n_rois] = np.nan
    return pd.DataFrame({**column, "volumes": volumes, "seconds": volumes * column["tr"], "missing": missing})


def sketch(cohort: Cohort) -> str:
    """The bits of a training cohort, as hexadecimal text.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=16, n_rois=8)
    >>> training = {"manifest_hash": "", "sketch": sketch(cohort)}
    >>> known_share(training, cohort.subset(range(20))), known_share(training, brainroam.make_cohort(n_rois=8, seed=1))
    (1.0, 0.0)
    """
    bits = np.zeros(8 * -(-BITS_PER_PERSON * len(cohort) // 8), dtype=bool)
    bits[_places(cohort, len(bits))] = True
    return np.packbits(bits).tobytes().hex()


def known_share(training: Mapping[str, Any], cohort: Cohort) -> float:
    """Estimated share of these people who were in the training; 0 where chance could explain it.

    ``training`` is what the model's file says of its training people. The very same cohort is known by its hash; of
    others, fewer than about ten training people cannot be recognised.
    """
    try:
        if training.get("manifest_hash") == cohort.manifest_hash:
            return 1.0
        packed = bytes.fromhex(training.get("sketch", ""))
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelFileError(f"the model does not say what it was trained on: {error}") from error
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(bool)
    if not len(bits):
        return 0.0
    met, filled = int(bits[_places(cohort, len(bits))].sum()), float(bits.mean())
    if binom.sf(met - 1, len(cohort), filled) > MAX_P:
        return 0.0
    return (met / len(cohort) - filled) / (1 - filled)


def _places(cohort: Cohort, n_bits: int) -> list[int]:
    """A bit for each person; the digest is hashed again, so that the bit says little of it."""
    hashes = (hashlib.sha256(f"sketch {digest}".encode()).hexdigest() for digest in cohort.series_digests)
    return [int(text, 16) % n_bits for text in hashes]


def without_rare_edges(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """Training people without the edges that too few of them have, since a model would show those people's values.

    The mean edges in a model are means over sites of means over people, so a person of a site where n people have an
    edge that s sites have weighs 1/(n s) there; ``n s`` and the number of all people with the edge must reach
    `FEWEST`, unless the sites have no more people. A person with several scans counts once. Of an edge that falls
    short, the rarer region is taken from the series of those who have it: every method then finds it missing. On disk,
    where series stay as they are, these people are left out. Returns notes as well.

    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=3, n_per_site=6, n_rois=8)
    >>> series = [x * (np.arange(8) > 0) if i else x for i, x in enumerate(cohort.series)]
    >>> alone = Cohort(series, cohort.table)
    >>> clean, notes = without_rare_edges(alone)
    >>> bool(clean.missing_rois[:, 0].all()), len(notes)
    (True, 1)
    """
    present = ~cohort.missing_rois
    if present.all():
        return cohort, []
    site, kept, edges = cohort.table["site"].to_numpy(), present.copy(), set[tuple[int, int]]()
    person = pd.factorize(persons(cohort.table))[0]
    while len(rare := _rare(kept, site, person, cohort.measure == "table")):
        edges |= {(int(u), int(v)) for _, u, v in rare}
        for here, u, v in rare:
            region = min((u, v), key=lambda region: kept[:, region].sum())
            kept[np.isin(site, here) & kept[:, u] & kept[:, v], region] = False
    removed = present & ~kept
    if not removed.any():
        return cohort, []
    what = "columns" if cohort.measure == "table" else "edges"
    note = (
        f"{len(edges)} {what} that fewer than {FEWEST} training people have, or one of few sites, are not learned from"
    )
    if cohort.on_disk:
        left = removed.any(axis=1)
        return cohort.exclude(left, ["has edges that hardly anybody else has"] * int(left.sum())), [note]
    people = zip(cohort.series, removed, strict=True)
    series = [_without_features(x, gone, cohort.measure) if gone.any() else x for x, gone in people]
    return cohort.with_series(series), [note]


def _without_features(x: np.ndarray, gone: np.ndarray, measure: str) -> np.ndarray:
    """One person's array without some regions, or columns of a table."""
    if measure == "matrices":
        return np.where(gone | gone[:, None], np.nan, x)
    return np.where(gone, 0.0 if measure == "series" else np.nan, x)


def _rare(present: np.ndarray, site: np.ndarray, person: np.ndarray, columns: bool) -> list[tuple[list[str], int, int]]:
    """Edges that too few people have, as (sites of those people, region, region); ``columns`` stand alone."""
    names = sorted(set(site))
    sizes = np.array([len(set(person[site == name])) for name in names])
    here = [(present[site == name].astype(np.float32), person[site == name]) for name in names]
    if columns:
        counts = np.stack([_people_with(x, whose, lambda x: x.sum(axis=0)) for x, whose in here])
    else:
        counts = np.triu(np.stack([_people_with(x, whose, lambda x: x.T @ x) for x, whose in here]), 1)
    at_sites, total = (counts > 0).sum(axis=0), counts.sum(axis=0)
    weight = np.minimum(FEWEST, len(names) * sizes).reshape(-1, *[1] * total.ndim)
    rare = [([names[e]], at[0], at[-1]) for e, *at in np.argwhere((counts > 0) & (counts * at_sites < weight))]
    few = np.argwhere((total > 0) & (total < min(FEWEST, sizes.sum())))
    return rare + [(names, at[0], at[-1]) for at in few]


def _people_with(present: np.ndarray, person: np.ndarray, count: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """How many people have a column, or two regions in one and the same scan, by what ``count`` says of scans."""
    codes, n_scans = np.unique(person, return_counts=True)
    alone = present[np.isin(person, codes[n_scans == 1])]
    several = [present[person == one] for one in codes[n_scans > 1]]
    return np.sum([count(alone), *(np.minimum(count(x), 1) for x in several)], axis=0)
