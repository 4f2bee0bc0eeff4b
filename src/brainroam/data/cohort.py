"""`Cohort`: the people, their measurements, and what was left out and why. Immutable once made."""

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, anonymous_atlas, columns_of_table
from brainroam.data.condition_columns import of_the_condition
from brainroam.data.features import FeatureFolder
from brainroam.data.groups import people_and_scans, people_of, persons
from brainroam.data.names import site_names
from brainroam.data.target import TWO, TWO_CLASSES, Target
from brainroam.data.validation import MEASURES, common_width, frozen, is_matrix, validated_table, without_empty_volumes
from brainroam.errors import DataError, ReaderError, UsageError, counted, listed, unknown
from brainroam.utils.cache import Cache
from brainroam.utils.files import atomic_write
from brainroam.utils.html import html_summary

SCHEMA = 1
SERIES = "series"  # what those of everybody are called among the features of a cohort
COVARIATES = ("age", "sex")  # what methods use unless a study says otherwise
MOST_Z = 6.0  # atanh(0.99999): no correlation of two scanned regions has a larger Fisher z
EMPTY = "empty_volumes"  # the column that counts volumes without signal, where somebody had any
DROPPED = "volumes without signal were dropped"
NO_COVARIATES = {
    "label": "it is what is predicted, and nobody knows it at a new site",
    "subject": "every person has another id",
    "site": "sites are handled by their names, and a new site has no effect of its own to remove",
    "person": "every person has another name",
    "group": "it says who must not be split, and new people belong to new families",
}


def largest_edge(x: np.ndarray) -> float:
    """The largest absolute value of a matrix beside its diagonal; 0 where there is none.

    >>> largest_edge(np.array([[9.0, -0.5], [-0.5, 9.0]]))
    0.5
    """
    return float(np.abs(np.where(np.eye(len(x), dtype=bool), 0.0, np.nan_to_num(x))).max())


def are_fisher_z(matrices: Sequence[np.ndarray]) -> bool:
    """Whether edges are Fisher's z of correlations: some beyond 1, for most people, and none beyond `MOST_Z`.

    >>> are_fisher_z([np.array([[0.0, 1.5], [1.5, 0.0]])]), are_fisher_z([np.array([[0.0, 90.0], [90.0, 0.0]])])
    (True, False)
    """
    largest = np.array([largest_edge(x) for x in matrices])
    return bool(np.mean(largest > 1 + 1e-6) > 0.5 and largest.max() <= MOST_Z)


def _correlations(z: np.ndarray) -> np.ndarray:
    matrix = np.tanh(z)
    np.fill_diagonal(matrix, 1.0)
    matrix.setflags(write=False)
    return matrix


def missing_rois(series: Sequence[np.ndarray], measure: str = "series") -> np.ndarray:
    """Which regions carry no signal in which person.

    Of series, regions that are constant or have a non-finite value; of matrices, regions all of whose edges are NaN, or
    all zero; of tables, columns that are NaN. Returns a boolean array (n people, P regions or columns).

    >>> x = np.random.default_rng(0).normal(size=(20, 3)); x[:, 1] = 5.0
    >>> missing_rois([x])
    array([[False,  True, False]])
    """
    lacks = {"series": _flat_columns, "matrices": _no_edges, "table": lambda x: np.isnan(x[0])}[measure]
    return np.stack([lacks(x) for x in series])


def _no_edges(x: np.ndarray) -> np.ndarray:
    others = np.where(np.eye(len(x), dtype=bool), 0.0, np.nan_to_num(x))
    return np.asarray(~others.any(axis=0))


def _flat_columns(x: np.ndarray) -> np.ndarray:
    low, high = x.min(axis=0), x.max(axis=0)  # a NaN or inf anywhere in a column shows in its range
    with np.errstate(invalid="ignore"):
        spread = high - low
        alive = spread > 1e-10 * np.maximum(np.abs(low), np.abs(high))
    return ~(alive & np.isfinite(spread))


@dataclass(frozen=True, eq=False)
class Block:
    """A further measurement of the people of a whole cohort, in their order, and what was computed from it."""

    measure: str
    arrays: tuple[np.ndarray, ...]
    atlas: Atlas
    features: dict[str, np.ndarray] = field(default_factory=dict)
    cache: Cache = field(default_factory=Cache)

    def at(self, rows: np.ndarray) -> "Block":
        """That of some people."""
        return Block(self.measure, tuple(self.arrays[row] for row in rows), self.atlas)


class Cohort:
    """People from several sites. Nothing of it changes once it is made: selecting gives a new one.

    Parameters
    ----------
    series : sequence of ndarray
        One array per person, of what ``measure`` says.
    table : DataFrame
        One row per person: ``subject`` (unique text), ``site``, ``label`` (1 = condition, 0 = control, missing when
        unknown) and, when known, ``age`` (years), ``sex`` (1 = male, 0 = female), ``mean_fd``, ``tr`` (seconds),
        ``person`` (whose scan it is, where somebody has several), ``group`` (family, never split), ``institution`` (of
        the site) and any other column. ``n_timepoints`` is always taken from the series; volumes without signal
        (`brainroam.data.validation.without_empty_volumes`) are dropped from them with a warning and counted in a column
        ``empty_volumes``.
    atlas : Atlas, optional
        Names and coordinates of the regions, or the names of a table's columns; numbered when absent.
    excluded : DataFrame, optional
        ``subject`` and ``reason`` of everybody who was left out.
    truth : object, optional
        What a synthetic cohort planted (see `brainroam.make_cohort`); absent for real data.
    covariates : sequence of str
        The columns that methods use as covariates, unless they are told others; see `brainroam.data.prepare`.
    prepared : sequence of str
        What was done to the series before, in words for a methods section.
    target : Target
        What ``label`` holds; by default 1 for the condition and 0 for controls.
    measure : {"series", "matrices", "table"}
        Time series (T_i, P), time first; matrices (P, P) of edges, NaN where missing; or a row (1, F) of a table, NaN
        where missing. Only series have ``n_timepoints``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"subject": ["01", "02"], "site": ["A", "B"], "label": [0, 1]})
    >>> cohort = Cohort([rng.normal(size=(50, 4)), rng.normal(size=(60, 4))], table)
    >>> cohort
    Cohort(2 people, 2 sites, 1 with the condition, 4 regions of 'custom')
    >>> cohort.select(sites=["A"]).table["subject"].tolist()
    ['01']
    """

    def __init__(
        self,
        series: Sequence[np.ndarray],
        table: pd.DataFrame,
        atlas: Atlas | None = None,
        excluded: pd.DataFrame | None = None,
        truth: Any = None,
        covariates: Sequence[str] = COVARIATES,
        prepared: Sequence[str] = (),
        target: Target = TWO_CLASSES,
        measure: str = "series",
    ) -> None:
        if measure not in MEASURES:
            raise unknown("measure", measure, MEASURES)
        self._table, self._measure = validated_table(table, len(series), target), measure
        subjects = self._table["subject"]
        self._series = tuple(frozen(x, subject, measure) for x, subject in zip(series, subjects, strict=True))
        if measure == "series":
            kept = [without_empty_volumes(x) for x in self._series]
            self._series = tuple(x for x, _ in kept)
            prepared = (*prepared, *count_empty(self._table, [n for _, n in kept]))
        if measure == "matrices" and are_fisher_z(self._series):
            self._series = tuple(_correlations(x) for x in self._series)
            prepared = (*prepared, "Fisher's z were turned back into correlations")
        n_rois = common_width(self._series, subjects)
        self._table["n_timepoints"] = [len(x) if measure == "series" else np.nan for x in self._series]
        if atlas is None and measure == "table":
            atlas = columns_of_table([f"column_{i + 1:03d}" for i in range(n_rois)])
        self._atlas = anonymous_atlas(n_rois) if atlas is None else atlas
        if self._atlas.columns != (measure == "table"):
            self._atlas = replace(self._atlas, columns=measure == "table")
        if len(self._atlas) != n_rois:
            raise DataError(
                f"the atlas {self._atlas.name!r} has {len(self._atlas)} regions but the {measure} have {n_rois} "
                "columns; name the atlas they were made with, or give its table"
            )
        self._excluded = _exclusions([] if excluded is None else excluded[["subject", "reason"]].to_numpy().tolist())
        self._truth, self._covariates, self._prepared = truth, tuple(covariates), tuple(prepared)
        self._target = target
        self._origin: tuple[Cohort, np.ndarray] | None = None
        self._features: dict[str, np.ndarray] | FeatureFolder = {}
        self._cache = Cache()
        self._name, self._blocks = measure, dict[str, Block]()

    def __len__(self) -> int:
        return len(self._series)

    def __repr__(self) -> str:
        return f"Cohort({self.counted}, {len(self.sites)} sites, {self.target_counted}, {self.extent})"

    @property
    def extent(self) -> str:
        """What was measured, in words: "116 regions of 'aal'", or "200 columns of a table"."""
        if self.measure == "table":
            return f"{self.n_rois} columns of {self.atlas.name!r}"
        return f"{'matrices of ' if self.measure == 'matrices' else ''}{self.n_rois} regions of {self.atlas.name!r}"

    def _repr_html_(self) -> str:
        """For notebooks: people per site."""
        sites = people_of(self._table).groupby("site")
        classes = {
            "cases": sites["label"].apply(lambda y: int((y == 1).sum())),
            "controls": sites["label"].apply(lambda y: int((y == 0).sum())),
        }
        columns = {
            "people": sites.size(),
            **(classes if self.target.is_two_classes else {self.target.name: sites["label"].mean()}),
            "age": sites["age"].mean(),
            "share male": sites["sex"].mean(),
            "mean FD": sites["mean_fd"].mean(),
            "volumes": sites["n_timepoints"].median(),
        }
        return html_summary(repr(self), pd.DataFrame(columns).dropna(axis=1, how="all").reset_index())

    @property
    def series(self) -> list[np.ndarray]:
        """One read-only array per person: (T_i, P), (P, P) or (1, F), see `measure`."""
        return list(self._series)

    @property
    def measure(self) -> str:
        """What the arrays are: ``"series"``, ``"matrices"`` or ``"table"``."""
        return self._measure

    @property
    def blocks(self) -> "dict[str, Cohort]":
        """The several measurements of these people by name, each as a cohort of its own; empty where there is one."""
        return {name: self.block(name) for name in (self._name, *self._blocks)} if self._blocks else {}

    def block(self, name: str) -> "Cohort":
        """One measurement of these people, row for row; who lacks it is NaN there (`has_block`)."""
        if name != self._name and name not in self._blocks:
            raise unknown("block", name, [self._name, *self._blocks])
        whole, rows = self.origin
        alone = whole._alone(name)
        if self is whole:
            return alone
        part = self._alone(name, rows)
        part._origin = alone, rows
        return part

    def _alone(self, name: str, rows: np.ndarray | None = None) -> "Cohort":
        """The cohort of one measurement; of a part of the whole cohort, ``rows`` says where its people stand there."""
        alone = object.__new__(Cohort)
        forgotten = "manifest_hash", "_telling"
        alone.__dict__ = {key: value for key, value in self.__dict__.items() if key not in forgotten}
        alone._name, alone._blocks, alone._origin = name, {}, None
        if name != self._name:
            block = self._blocks[name]
            arrays = block.arrays if rows is None else tuple(block.arrays[row] for row in rows)
            alone._series, alone._atlas, alone._measure = arrays, block.atlas, block.measure
            alone._features, alone._cache = ({} if rows is not None else block.features), block.cache
            volumes = [len(x) if block.measure == "series" else np.nan for x in arrays]
            alone._table = self._table.assign(n_timepoints=volumes)
        return alone

    def has_block(self, name: str) -> np.ndarray:
        """Who (n,) has a measurement at all: not everything of it is missing."""
        return np.asarray(~self.block(name).missing_rois.all(axis=1))

    def with_block(self, name: str, other: "Cohort", own_name: str | None = None) -> "Cohort":
        """The same people with a further measurement, which ``other`` has of some of them, by their ids.

        >>> import brainroam
        >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
        >>> table = Cohort([np.ones((1, 3))] * 8, cohort.table, measure="table").subset(range(6))
        >>> both = cohort.with_block("anatomy", table, "rest")
        >>> list(both.blocks), both.has_block("anatomy").sum()
        (['rest', 'anatomy'], np.int64(6))
        """
        own_name = own_name or self._name
        if name == own_name or name in self._blocks:
            raise UsageError(f"two blocks are called {name!r}; give one of them another name")
        place = {subject: k for k, subject in enumerate(other._table["subject"])}
        nothing = np.full((1 if other.measure == "table" else max(other.n_rois, 3), other.n_rois), np.nan)
        arrays = [other._series[place[who]] if who in place else nothing for who in self._table["subject"]]
        same = self.made_of(self._series, self._table)
        same._name, same._blocks = own_name, {**same._blocks, name: Block(other.measure, tuple(arrays), other.atlas)}
        return same

    @property
    def own_units(self) -> bool:
        """Whether features differ in their units: columns of a table, and matrices that are no correlations."""
        if self.measure != "matrices":
            return self.measure == "table"
        largest = self.per_person("largest_edge", lambda series: np.array([largest_edge(x) for x in series]))
        return bool(np.mean(largest > 1 + 1e-6) > 0.5)

    @property
    def feature_pairs(self) -> np.ndarray:
        """The two regions (M, 2) of every feature: of an edge, or twice the column of a table."""
        return self.atlas.pairs

    @property
    def n_features(self) -> int:
        """How many features a person has: P(P-1)/2 edges, or the columns of a table."""
        return self.n_rois if self.measure == "table" else self.n_rois * (self.n_rois - 1) // 2

    @property
    def feature_names(self) -> list[str]:
        """The columns of a table, or the two regions of each edge."""
        names = self.atlas.labels
        if self.measure == "table":
            return list(names)
        return [f"{names[u]} - {names[v]}" for u, v in self.feature_pairs]

    @property
    def table(self) -> pd.DataFrame:
        """A copy of the metadata, one row per scan: per person, unless somebody has several (`people`)."""
        return self._table.copy()

    @property
    def people(self) -> pd.DataFrame:
        """The metadata with one row per site and person, see `brainroam.data.groups.people_of`."""
        return people_of(self._table).copy()

    @property
    def n_people(self) -> int:
        """How many people there are; ``len(cohort)`` counts scans."""
        return int(persons(self._table).nunique())

    @property
    def counted(self) -> str:
        """The number of people, and of scans where these are more: "181 people, 200 scans"."""
        return people_and_scans(self._table)

    @property
    def atlas(self) -> Atlas:
        """The regions, in column order; of a table its columns."""
        return self._atlas

    @property
    def excluded(self) -> pd.DataFrame:
        """A copy of who was left out and why."""
        return self._excluded.copy()

    @property
    def truth(self) -> Any:
        """What was planted in a synthetic cohort, else None."""
        return self._truth

    @property
    def n_rois(self) -> int:
        """Number of regions P, or of columns of a table."""
        return self._series[0].shape[1]

    @property
    def sites(self) -> list[str]:
        """The site names, sorted."""
        return sorted(self._table["site"].unique())

    _target: Target = TWO_CLASSES  # of a cohort on disk, unless it is given another

    @property
    def target(self) -> Target:
        """What is predicted, see `brainroam.data.target`."""
        return self._target

    @property
    def target_counted(self) -> str:
        """The target in a few words: "40 with the condition", "age 7 to 64", "DSM_IV_TR of 4 classes"."""
        label = people_of(self._table, ())["label"]
        if self.target.is_two_classes:
            return f"{int((label == 1).sum())} with the condition"
        if self.target.classes:
            return f"{self.target.name} of {len(self.target.classes)} classes"
        return f"{self.target.name} {label.min():.4g} to {label.max():.4g}"

    @property
    def labels(self) -> np.ndarray:
        """0/1 labels as integers; an error when some are unknown or hidden (`without_labels`), or no two classes."""
        if not self.target.is_two_classes:
            raise DataError(f"this needs two classes, and the target {self.target.name!r} is: {self.target.kind}")
        return self._known_labels.astype(int)

    @property
    def targets(self) -> np.ndarray:
        """What is learned, as floats: 0 and 1, codes of classes, or a number on the scale of its transform."""
        return self.target.forward(self._known_labels)

    @property
    def _known_labels(self) -> np.ndarray:
        if self.labels_hidden:
            raise DataError(
                f"labels of held-out people are not available while scoring ({counted(len(self), 'person', 'people')} "
                f"of {listed(self.sites)}): a score must not depend on them; use labels of training people, in fit"
            )
        unlabelled = self._table["label"].isna()
        if unlabelled.any():
            people = listed(self._table.loc[unlabelled, "subject"])
            have_none = counted(int(unlabelled.sum()), "person has", "people have")
            raise DataError(f"{have_none} no label: {people}; training and scoring need one")
        return self._table["label"].to_numpy(dtype=float)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """The columns that methods use as covariates, unless they are told others."""
        return self._covariates

    @property
    def prepared(self) -> tuple[str, ...]:
        """What was done to the series before, in words."""
        return self._prepared

    def covariates(self, names: Iterable[str] | None = None) -> pd.DataFrame:
        """These columns of the table, or `covariate_names`; an error for one that does not exist."""
        names = list(self._covariates if names is None else names)
        for name in names:
            if name not in self._table:
                raise unknown("covariate", name, [name for name in self._table if name not in NO_COVARIATES])
            if name in NO_COVARIATES:
                raise UsageError(f"{name!r} cannot be a covariate: {NO_COVARIATES[name]}; name others")
            if name == self.target.name and self.target != TWO_CLASSES:
                raise UsageError(f"{name!r} cannot be a covariate: it is the target; name others")
        return self._table[names].copy()

    @property
    def series_digests(self) -> list[str]:
        """SHA-256 of each person's series: shape, then float64 bytes."""
        return self.per_person("digest", lambda series: np.array([series_digest(x) for x in series])).tolist()

    @cached_property
    def manifest_hash(self) -> str:
        """SHA-256 over subject ids, labels, sites and series; the order of people does not matter."""
        digests = self.series_digests
        for block in self.blocks.values() if self._blocks else ():
            pairs = zip(digests, block.series_digests, strict=True)
            digests = [hashlib.sha256(f"{one} {other}".encode()).hexdigest() for one, other in pairs]
        return manifest_hash(self._table, digests)

    @property
    def missing_rois(self) -> np.ndarray:
        """Boolean (n, P): regions without signal, see `missing_rois`."""
        return self.per_person("missing_rois", lambda series: missing_rois(series, self.measure)).copy()

    def per_person(self, key: str, compute: Callable[[list[np.ndarray]], np.ndarray]) -> np.ndarray:
        """Features of each person alone, computed once and shared by every subset of this cohort.

        ``compute`` maps series to an array with one row per person, each row a function of that person's series only:
        sharing rows between training and held-out people then cannot leak. ``key`` names the function and its settings.
        Of the whole cohort they are handed out as they are, read-only, since they can be as large as memory allows.
        """
        whole, rows = self.origin
        if key not in whole._features:
            features = compute(whole.series)
            features.setflags(write=False)
            whole._features[key] = features
        features = whole._features[key]
        return features if np.array_equal(rows, np.arange(len(whole))) else features[rows]

    def has_per_person(self, key: str) -> bool:
        """Whether `per_person` has computed this already."""
        return key in self.origin[0]._features

    @contextmanager
    def features_in(self, folder: Path) -> Iterator[None]:
        """Keep series and what `per_person` computes in a folder for as long as this lasts.

        Other processes find them there: a cohort that is sent to them meanwhile takes its series along by name.
        """
        whole, shared = self.origin[0], FeatureFolder(folder)
        if SERIES not in shared:
            shared.stack(SERIES, whole._series)
        before, whole._features = whole._features, shared
        for name, values in before.items() if isinstance(before, dict) else ():
            if name not in shared:
                shared[name] = values
        try:
            yield
        finally:
            whole._features = before

    def __getstate__(self) -> dict[str, Any]:
        shared = self.origin[0]._features
        by_name = isinstance(shared, FeatureFolder) and SERIES in shared
        return {**self.__dict__, "_series": None} if by_name else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._series is None and self._origin is None:
            self._series = self._split(np.asarray(self._features[SERIES]))
        elif self._series is None:
            whole, rows = self._origin
            self._series = tuple(whole._series[row] for row in rows)

    def _split(self, stacked: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays of everybody, which were stacked one below the other."""
        if self._measure == "series":
            ends = np.cumsum(self._table["n_timepoints"].to_numpy(dtype=int))
            return tuple(np.split(stacked, ends[:-1]))
        return tuple(stacked.reshape(len(self._table), -1, stacked.shape[1]))

    @property
    def origin(self) -> tuple["Cohort", np.ndarray]:
        """The cohort this one was selected from, and the positions of its people there."""
        return self._origin if self._origin is not None else (self, np.arange(len(self)))

    labels_hidden = False  # whether these are people to be scored, see `without_labels`
    on_disk = False  # whether series and edges are too large for memory, see `brainroam.data.stored_cohort`
    memory = float("inf")  # bytes that a process may use for a cohort on disk
    folder: Path | None = None  # where what does not fit into that is kept

    def batches(self) -> "Iterator[Cohort]":
        """These people, as many at a time as memory allows: at once."""
        yield self

    def has_memory(self, needed: float) -> bool:
        """Whether so many bytes are left of what a cohort on disk was given."""
        return True

    @property
    def cache(self) -> Cache:
        """Results by content, shared by every subset of this cohort."""
        return self._cache

    def subset(self, index: Sequence[int] | np.ndarray) -> "Cohort":
        """The people at these positions (integers, or a boolean mask), in that order."""
        positions = np.arange(len(self))[np.asarray(index)]
        if len(positions) == 0:
            raise DataError("the selection is empty; check the sites or the subset asked for")
        return self._with(positions, self._excluded)

    def select(self, sites: Iterable[str]) -> "Cohort":
        """The people of these sites."""
        wanted = [str(site) for site in sites]
        for site in wanted:
            if site not in self.sites:
                raise unknown("site", site, self.sites)
        return self.subset(self._table["site"].isin(wanted).to_numpy())

    def exclude(self, mask: np.ndarray, reasons: Sequence[str]) -> "Cohort":
        """Leave out the people where ``mask`` is true and record the reason given for each of them."""
        mask = np.asarray(mask, dtype=bool)
        if mask.all():
            raise DataError(f"everybody would be excluded: {listed(sorted(set(reasons)))}")
        added = list(zip(self._table.loc[mask, "subject"], reasons, strict=True))
        record = pd.concat([self._excluded, _exclusions(added)], ignore_index=True)
        return self._with(np.flatnonzero(~mask), record)

    def exclude_missing(self, max_missing_rois: float = 0.2) -> "Cohort":
        """Leave out people with more than this share of regions without signal."""
        if self._blocks:
            return self._with_some_block(max_missing_rois)
        count = self.missing_rois.sum(axis=1)
        over = count > max_missing_rois * self.n_rois
        if not over.any():
            return self
        text = {
            "series": "{} of {} regions are constant or not finite (limit {:.0%})",
            "matrices": "{} of {} regions have no edges (limit {:.0%})",
            "table": "{} of {} columns are missing (limit {:.0%})",
        }[self.measure]
        return self.exclude(over, [text.format(c, self.n_rois, max_missing_rois) for c in count[over]])

    def _with_some_block(self, max_missing: float) -> "Cohort":
        """Without the people who lack too much of every measurement; of another they are counted as lacking it."""
        over = {name: block.missing_rois.mean(axis=1) > max_missing for name, block in self.blocks.items()}
        nobody = np.all(list(over.values()), axis=0)
        kept = (
            self.exclude(nobody, ["too much is missing in every block"] * int(nobody.sum())) if nobody.any() else self
        )
        over = {name: mask[~nobody] for name, mask in over.items()}
        if not any(mask.any() for mask in over.values()):
            return kept
        blank = {name: _blanked(block.series, over[name]) for name, block in kept.blocks.items()}
        same = kept.made_of(blank.pop(kept._name), kept._table)
        same._blocks = {name: replace_arrays(kept._blocks[name], arrays) for name, arrays in blank.items()}
        return same

    def using(self, covariates: Iterable[str]) -> "Cohort":
        """The same people, with these columns as the covariates of every method that uses any."""
        same = self._with(np.arange(len(self)), self._excluded)
        same._covariates = tuple(covariates)
        same.covariates()  # one that does not exist is named now
        return same

    def without_labels(self, telling: bool = True) -> "Cohort":
        """The same people as they are handed to a method that scores them: nothing tells the diagnosis.

        Missing here and in the cohort they were selected from: the label, what a synthetic cohort planted, and columns
        that measure the condition (a raw diagnosis, symptoms; see `brainroam.data.condition_columns`) unless the study
        names them as covariates. Features of single people are shared with the labelled cohort. With ``telling=False``
        only the label is hidden, and what is hidden does not depend on it.

        >>> import brainroam
        >>> brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8).without_labels().table["label"].isna().all()
        np.True_
        """
        if self.labels_hidden:
            return self
        whole, rows = self.origin
        columns = [name for name in whole._telling if name not in self._covariates] if telling else []
        blank = dict.fromkeys(["label", *columns], np.nan)
        if self.target.name in whole._table:  # of a cohort on disk, whose store keeps the column of the target
            blank[self.target.name] = np.nan
        hidden = self._blanked(blank)
        if self is not whole:
            hidden._origin = whole._blanked(blank), rows
        return hidden

    def one_against_rest(self, code: int) -> "Cohort":
        """The same people with two classes: the class of this code among several, and everybody else.

        >>> import brainroam
        >>> from brainroam.data.target_column import with_target
        >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=6, n_rois=8)
        >>> cohort = with_target(cohort.with_columns(pd.DataFrame({"dx": ["HC", "MDD", "SCZ"] * 4})), "dx")
        >>> cohort.one_against_rest(2).labels.tolist()
        [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
        """
        same = object.__new__(type(self))
        same.__dict__ = {name: value for name, value in self.__dict__.items() if name != "manifest_hash"}
        label = self._table["label"]
        same._table = self._table.assign(label=(label == code).astype(float).where(label.notna()))
        same._target = Target(self.target.name, TWO, ("rest", self.target.classes[code]))
        same._origin = self.origin  # what is remembered of people does not depend on labels
        return same

    def _blanked(self, columns: dict[str, float]) -> "Cohort":
        """This cohort, sharing all but these columns, without its labels."""
        same = object.__new__(type(self))
        same.__dict__ = {name: value for name, value in self.__dict__.items() if name != "manifest_hash"}
        same._table, same._truth, same.labels_hidden = self._table.assign(**columns), None, True
        return same

    @cached_property
    def _telling(self) -> list[str]:
        """Columns from which the diagnosis can be told."""
        names = [name for name in self._table if name not in NO_COVARIATES]
        return list(of_the_condition(self._table, names, self.target))

    def noting(self, step: str) -> "Cohort":
        """The same people, with one more sentence on what was done to their series."""
        same = self._with(np.arange(len(self)), self._excluded)
        same._prepared = (*self._prepared, step)
        return same

    def with_columns(self, columns: pd.DataFrame) -> "Cohort":
        """The same people with these columns, one row each in their order, added to the table or replacing its own."""
        table = self._table.assign(**{str(name): columns[name].array for name in columns})
        same_series = self.made_of(self._series, table)
        same_series._origin, same_series._features, same_series._cache = self._origin, self._features, self._cache
        same_series._blocks, same_series.labels_hidden = self._blocks, self.labels_hidden
        return same_series

    def predicting(self, target: Target, table: pd.DataFrame) -> "Cohort":
        """The same people with another target, whose values are the ``label`` of this table; no covariate any more."""
        covariates = tuple(name for name in self._covariates if name != target.name)
        same = self.made_of(self._series, table, truth=None, covariates=covariates, target=target)
        if self._origin is None:
            same._features, same._cache = self._features, self._cache
        return same

    def with_series(self, series: Sequence[np.ndarray], *steps: str) -> "Cohort":
        """The same people with other arrays of the same measure, and what was done to them in words."""
        return self.made_of(series, self._table, prepared=(*self._prepared, *steps))

    def made_of(self, series: Sequence[np.ndarray], table: pd.DataFrame, **changed: Any) -> "Cohort":
        """A cohort of other arrays and another table that remembers nothing; what is not given is as here."""
        known = {
            "atlas": self._atlas,
            "excluded": self._excluded,
            "truth": self._truth,
            "covariates": self._covariates,
            "prepared": self._prepared,
            "target": self._target,
            "measure": self._measure,
        }
        cohort = Cohort(series, table, **{**known, **changed})
        rows = self.origin[1]
        if len(cohort) == len(rows):
            cohort._name, cohort._blocks = self._name, {name: block.at(rows) for name, block in self._blocks.items()}
        return cohort

    def concat(self, other: "Cohort") -> "Cohort":
        """This cohort and another of the same atlas, as one."""
        if self.measure != other.measure:
            raise DataError(f"{self.measure} and {other.measure} cannot be joined; use cohorts of one measure")
        if self.atlas != other.atlas:
            raise DataError(
                f"cohorts of different atlases cannot be joined: {self.atlas.name!r} ({self.n_rois} regions) "
                f"and {other.atlas.name!r} ({other.n_rois} regions)"
            )
        table = pd.concat([self._table, other._table], ignore_index=True)
        excluded = pd.concat([self._excluded, other._excluded], ignore_index=True)
        return self.made_of(self._series + other._series, table, excluded=excluded, truth=None)

    def _with(self, positions: np.ndarray, excluded: pd.DataFrame) -> "Cohort":
        """A cohort of these people that shares its arrays with this one and is not validated again."""
        part = object.__new__(type(self))
        part._series = tuple(self._series[i] for i in positions)
        part._table = self._table.iloc[positions].reset_index(drop=True)
        part._atlas, part._excluded, part._truth, part._measure = self._atlas, excluded, self._truth, self._measure
        part._covariates, part._prepared, part.labels_hidden = self._covariates, self._prepared, self.labels_hidden
        part._target, part._name, part._blocks = self._target, self._name, self._blocks
        whole, rows = self.origin
        part._origin, part._features, part._cache = (whole, rows[positions]), {}, self._cache
        return part

    def save(self, path: str | Path) -> Path:
        """Write one ``.npz`` file (arrays and JSON, nothing executable); an interrupted write leaves no file."""
        path = Path(path)
        header = {
            "schema": SCHEMA,
            "table": to_columns(self._table),
            "categories": list(self._table.select_dtypes("category").columns),
            "excluded": to_columns(self._excluded),
            "atlas": self.atlas.described(),
            "manifest_hash": self.manifest_hash,
            "covariates": self._covariates,
            "prepared": self._prepared,
            "target": self._target.described(),
            "measure": self._measure,
            "name": self._name,
            "blocks": {name: {"measure": b.measure, "atlas": b.atlas.described()} for name, b in self._blocks.items()},
        }
        further = {f"block{k}": np.stack(self.block(name).series) for k, name in enumerate(self._blocks)}
        coords = np.zeros((0, 3)) if self.atlas.coords is None else self.atlas.coords
        data = np.concatenate(self._series)
        with atomic_write(path) as file:
            arrays = {"header": np.array(json.dumps(header, default=str)), "data": data, "coords": coords, **further}
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Cohort":
        """Read what `save` wrote, checking its manifest hash."""
        try:
            with np.load(path, allow_pickle=False) as file:
                header, data, coords = json.loads(str(file["header"])), file["data"], file["coords"]
                further = [file[f"block{k}"] for k in range(len(header.get("blocks", ())))]
            if header["schema"] != SCHEMA:
                raise ReaderError(f"{path} has cohort schema {header['schema']}; this version reads {SCHEMA}")
            table = pd.DataFrame(header["table"]).astype(dict.fromkeys(header.get("categories", ()), "category"))
            measure = header.get("measure", "series")
            if measure == "series":
                arrays = np.split(data, np.cumsum(table["n_timepoints"].to_numpy(dtype=int))[:-1])
            else:
                arrays = data.reshape(len(table), -1, data.shape[1])
            atlas = Atlas.of_description(header["atlas"], coords if len(coords) else None)
            cohort = cls(
                arrays,
                table,
                atlas,
                pd.DataFrame(header["excluded"], columns=["subject", "reason"]),
                covariates=header.get("covariates", COVARIATES),
                prepared=header.get("prepared", ()),
                target=Target.of_description(header.get("target")),
                measure=measure,
            )
            cohort._name = header.get("name", measure)
            for (name, known), values in zip(header.get("blocks", {}).items(), further, strict=True):
                columns = Atlas.of_description(known["atlas"], None)
                cohort._blocks[name] = Block(known["measure"], tuple(values), columns)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            EOFError,
            RecursionError,
            zipfile.BadZipFile,
        ) as error:
            if isinstance(error, ReaderError):
                raise
            raise ReaderError(f"{path} is not a readable brainroam cohort: {error}") from error
        if cohort.manifest_hash != header["manifest_hash"]:
            raise ReaderError(f"{path} is damaged: its content does not match its manifest hash; save it again")
        return cohort


def anonymous_cohort(
    people: Any,
    y: Sequence[int] | np.ndarray | None = None,
    site: Sequence[str] | None = None,
    tr: Sequence[float] | None = None,
) -> Cohort:
    """The one gate for bare arrays: a cohort whose people are named by their position.

    ``people`` are a series (T_i, P) each; a symmetric matrix each, or one array (n, P, P) of them; or a table, as a
    DataFrame or an array (n, F); or a dictionary of these, several measurements of the same people.

    >>> anonymous_cohort([np.random.default_rng(0).normal(size=(9, 3))]).table["subject"].tolist()
    ['person 0']
    >>> anonymous_cohort(pd.DataFrame({"thickness": [2.5, 2.7], "volume": [900.0, None]})).measure
    'table'
    """
    if isinstance(people, Mapping):
        parts = {str(name): anonymous_cohort(values, y, site, tr) for name, values in people.items()}
        if not parts or len({len(one) for one in parts.values()}) > 1:
            raise DataError("blocks need the same people in the same order; give one row or array for each of them")
        (own, cohort), *others = parts.items()
        for name, other in others:
            cohort = cohort.with_block(name, other, own)
        return cohort
    measure, series, atlas = _measured(people)
    if len(series) == 0:
        raise DataError("no people were given")
    for name, values in {"label": y, "site": site, "tr": tr}.items():
        if values is not None and len(values) != len(series):
            raise DataError(f"there are {len(series)} people but {len(values)} values of {name}")
    table = pd.DataFrame({"subject": [f"person {i}" for i in range(len(series))]})
    table["label"] = np.nan if y is None else np.asarray(y)
    table["site"] = "unknown" if site is None else site_names(site, len(series))
    table["tr"] = np.nan if tr is None else np.asarray(tr, dtype=float)
    cohort = Cohort(series, table, atlas, measure=measure)
    if y is not None:
        refuse_one_series(cohort)
    return cohort


def _measured(people: Any) -> tuple[str, Sequence[np.ndarray], Atlas | None]:
    """What bare arrays are, one for each person, and the names of their columns where there are any."""
    if isinstance(people, pd.DataFrame):
        words = [str(name) for name in people if not pd.api.types.is_numeric_dtype(people[name])]
        if words:
            raise DataError(f"columns of a table must be numbers, but {listed(words)} are not; leave them out")
        return "table", list(people.to_numpy(dtype=float)[:, None]), columns_of_table(people.columns)
    if isinstance(people, np.ndarray) and people.ndim == 2 and people.dtype != object:
        return "table", list(people[:, None]), None
    arrays = list(people)
    if arrays and all(is_matrix(np.asarray(x)) for x in arrays):
        return "matrices", arrays, None
    return "series", arrays, None


def refuse_one_series(cohort: Cohort) -> None:
    """Refuse to learn from people who all have the same series: scores would differ by rounding alone."""
    if cohort.measure == "series" and len(cohort) > 2 and len(set(cohort.series_digests)) == 1:
        raise DataError(
            f"all {len(cohort)} people have the same series; check how files are assigned to people (template)"
        )


def _blanked(arrays: Sequence[np.ndarray], mask: np.ndarray) -> list[np.ndarray]:
    return [np.full_like(x, np.nan) if gone else x for x, gone in zip(arrays, mask, strict=True)]


def replace_arrays(block: Block, arrays: Sequence[np.ndarray]) -> Block:
    """A block with other arrays."""
    return Block(block.measure, tuple(arrays), block.atlas)


def manifest_hash(table: pd.DataFrame, digests: Sequence[str]) -> str:
    """SHA-256 over subject ids, labels, sites and the digests of their series, in any order."""
    rows = zip(table["subject"], table["label"], table["site"], digests, strict=True)
    people = sorted([subject, _plain(label), site, d] for subject, label, site, d in rows)
    return hashlib.sha256(json.dumps(people).encode()).hexdigest()


def _plain(label: float) -> float | int | None:
    """A label as JSON has it: whole numbers without a point."""
    return None if pd.isna(label) else int(label) if float(label).is_integer() else float(label)


def series_digest(x: np.ndarray) -> str:
    """SHA-256 of a series: shape, then float64 bytes."""
    return hashlib.sha256(repr(x.shape).encode() + x.tobytes()).hexdigest()


def count_empty(table: pd.DataFrame, counts: Sequence[int]) -> list[str]:
    """Add numbers of empty volumes to a table that is being made; what was done to the series, in words."""
    n_empty = np.array(counts)
    before = table[EMPTY].to_numpy(dtype=int) if EMPTY in table else np.zeros(len(table), dtype=int)
    found = (n_empty > 0) & (n_empty != before)  # who has hardly any other volume keeps them, and was counted before
    if not found.any():
        return []
    table[EMPTY] = np.where(found, n_empty, before)
    n_empty = np.where(found, n_empty, 0)
    who = np.flatnonzero(n_empty)
    each = listed(f"{table['subject'].iat[i]} ({n_empty[i]})" for i in who[np.argsort(-n_empty[who], kind="stable")])
    warnings.warn(
        f"{DROPPED} from the series of {len(who)} of {len(table)} people: {each}; they are equal in all regions, or "
        "repeat another volume, as padding and scrubbing leave them; brainroam check counts them by class and site",
        stacklevel=3,
    )
    return [
        f"{DROPPED} ({counted(int(n_empty.sum()), 'volume', 'volumes')} of {counted(len(who), 'person', 'people')})"
    ]


def _exclusions(rows: Iterable[Sequence[str]]) -> pd.DataFrame:
    return pd.DataFrame([list(row) for row in rows], columns=["subject", "reason"], dtype=object)


def to_columns(table: pd.DataFrame) -> dict[str, list]:
    """JSON-ready columns; missing values become null."""
    return {str(name): [None if pd.isna(v) else v for v in column.tolist()] for name, column in table.items()}
