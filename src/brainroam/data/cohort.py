"""`Cohort`: the people, their series, and what was left out and why. Immutable once made."""

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, anonymous_atlas
from brainroam.data.condition_columns import of_the_condition
from brainroam.data.features import FeatureFolder
from brainroam.data.groups import people_and_scans, people_of, persons
from brainroam.data.names import site_names
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.validation import common_width, frozen_series, validated_table, without_empty_volumes
from brainroam.errors import DataError, ReaderError, UsageError, counted, listed, unknown
from brainroam.utils.cache import Cache
from brainroam.utils.files import atomic_write
from brainroam.utils.html import html_summary

SCHEMA = 1
SERIES = "series"  # what those of everybody are called among the features of a cohort
COVARIATES = ("age", "sex")  # what methods use unless a study says otherwise
EMPTY = "empty_volumes"  # the column that counts volumes without signal, where somebody had any
DROPPED = "volumes without signal were dropped"
NO_COVARIATES = {
    "label": "it is what is predicted, and nobody knows it at a new site",
    "subject": "every person has another id",
    "site": "sites are handled by their names, and a new site has no effect of its own to remove",
    "person": "every person has another name",
    "group": "it says who must not be split, and new people belong to new families",
}


def missing_rois(series: Sequence[np.ndarray]) -> np.ndarray:
    """Which regions carry no signal in which person: constant or with a non-finite value.

    Returns a boolean array (n people, P regions). A correlation with such a region does not exist.

    >>> x = np.random.default_rng(0).normal(size=(20, 3)); x[:, 1] = 5.0
    >>> missing_rois([x])
    array([[False,  True, False]])
    """
    return np.stack([_flat_columns(x) for x in series])


def _flat_columns(x: np.ndarray) -> np.ndarray:
    low, high = x.min(axis=0), x.max(axis=0)  # a NaN or inf anywhere in a column shows in its range
    with np.errstate(invalid="ignore"):
        spread = high - low
        alive = spread > 1e-10 * np.maximum(np.abs(low), np.abs(high))
    return ~(alive & np.isfinite(spread))


class Cohort:
    """People from several sites. Nothing of it changes once it is made: selecting gives a new one.

    Parameters
    ----------
    series : sequence of ndarray of shape (T_i, P)
        One array per person, time first.
    table : DataFrame
        One row per person: ``subject`` (unique text), ``site``, ``label`` (1 = condition, 0 = control, missing when
        unknown) and, when known, ``age`` (years), ``sex`` (1 = male, 0 = female), ``mean_fd``, ``tr`` (seconds),
        ``person`` (whose scan it is, where somebody has several), ``group`` (family, never split), ``institution`` (of
        the site) and any other column. ``n_timepoints`` is always taken from the series; volumes without signal
        (`brainroam.data.validation.without_empty_volumes`) are dropped from them with a warning and counted in a column
        ``empty_volumes``.
    atlas : Atlas, optional
        Names and coordinates of the regions; numbered regions when absent.
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
    ) -> None:
        self._table = validated_table(table, len(series), target)
        subjects = self._table["subject"]
        frozen = (frozen_series(x, subject) for x, subject in zip(series, subjects, strict=True))
        kept = [without_empty_volumes(x) for x in frozen]
        self._series = tuple(x for x, _ in kept)
        prepared = (*prepared, *count_empty(self._table, [n for _, n in kept]))
        n_rois = common_width(self._series, subjects)
        self._table["n_timepoints"] = [len(x) for x in self._series]
        self._atlas = anonymous_atlas(n_rois) if atlas is None else atlas
        if len(self._atlas) != n_rois:
            raise DataError(
                f"the atlas {self._atlas.name!r} has {len(self._atlas)} regions but the series have {n_rois} columns; "
                "name the atlas the series were made with, or give its table"
            )
        self._excluded = _exclusions([] if excluded is None else excluded[["subject", "reason"]].to_numpy().tolist())
        self._truth, self._covariates, self._prepared = truth, tuple(covariates), tuple(prepared)
        self._target = target
        self._origin: tuple[Cohort, np.ndarray] | None = None
        self._features: dict[str, np.ndarray] | FeatureFolder = {}
        self._cache = Cache()

    def __len__(self) -> int:
        return len(self._series)

    def __repr__(self) -> str:
        return (
            f"Cohort({self.counted}, {len(self.sites)} sites, {self.target_counted}, "
            f"{self.n_rois} regions of {self.atlas.name!r})"
        )

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
        """One read-only (T_i, P) array per person."""
        return list(self._series)

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
        """The regions, in column order."""
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
        """Number of regions P."""
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
        return manifest_hash(self._table, self.series_digests)

    @property
    def missing_rois(self) -> np.ndarray:
        """Boolean (n, P): regions without signal, see `missing_rois`."""
        return self.per_person("missing_rois", missing_rois).copy()

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
            ends = np.cumsum(self._table["n_timepoints"].to_numpy(dtype=int))
            self._series = tuple(np.split(np.asarray(self._features[SERIES]), ends[:-1]))
        elif self._series is None:
            whole, rows = self._origin
            self._series = tuple(whole._series[row] for row in rows)

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
        count = self.missing_rois.sum(axis=1)
        over = count > max_missing_rois * self.n_rois
        if not over.any():
            return self
        text = "{} of {} regions are constant or not finite (limit {:.0%})"
        return self.exclude(over, [text.format(c, self.n_rois, max_missing_rois) for c in count[over]])

    def using(self, covariates: Iterable[str]) -> "Cohort":
        """The same people, with these columns as the covariates of every method that uses any."""
        same = self._with(np.arange(len(self)), self._excluded)
        same._covariates = tuple(covariates)
        same.covariates()  # one that does not exist is named now
        return same

    def without_labels(self) -> "Cohort":
        """The same people as they are handed to a method that scores them: nothing tells the diagnosis.

        Missing here and in the cohort they were selected from: the label, what a synthetic cohort planted, and columns
        that measure the condition (a raw diagnosis, symptoms; see `brainroam.data.condition_columns`) unless the study
        names them as covariates. Features of single people are shared with the labelled cohort.

        >>> import brainroam
        >>> brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8).without_labels().table["label"].isna().all()
        np.True_
        """
        if self.labels_hidden:
            return self
        whole, rows = self.origin
        blank = dict.fromkeys(["label", *(name for name in whole._telling if name not in self._covariates)], np.nan)
        if self.target.name in whole._table:  # of a cohort on disk, whose store keeps the column of the target
            blank[self.target.name] = np.nan
        hidden = self._blanked(blank)
        if self is not whole:
            hidden._origin = whole._blanked(blank), rows
        return hidden

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
        known = self._atlas, self._excluded, self._truth, self._covariates, self._prepared, self._target
        same_series = Cohort(self._series, table, *known)
        same_series._origin, same_series._features, same_series._cache = self._origin, self._features, self._cache
        same_series.labels_hidden = self.labels_hidden
        return same_series

    def predicting(self, target: Target, table: pd.DataFrame) -> "Cohort":
        """The same people with another target, whose values are the ``label`` of this table; no covariate any more."""
        covariates = [name for name in self._covariates if name != target.name]
        known = self._atlas, self._excluded, None, covariates, self._prepared, target
        same = Cohort(self._series, table, *known)
        if self._origin is None:
            same._features, same._cache = self._features, self._cache
        return same

    def concat(self, other: "Cohort") -> "Cohort":
        """This cohort and another of the same atlas, as one."""
        if self.atlas != other.atlas:
            raise DataError(
                f"cohorts of different atlases cannot be joined: {self.atlas.name!r} ({self.n_rois} regions) "
                f"and {other.atlas.name!r} ({other.n_rois} regions)"
            )
        table = pd.concat([self._table, other._table], ignore_index=True)
        excluded = pd.concat([self._excluded, other._excluded], ignore_index=True)
        series = self._series + other._series
        known = self._covariates, self._prepared, self._target
        return Cohort(series, table, self.atlas, excluded, None, *known)

    def _with(self, positions: np.ndarray, excluded: pd.DataFrame) -> "Cohort":
        """A cohort of these people that shares its arrays with this one and is not validated again."""
        part = object.__new__(type(self))
        part._series = tuple(self._series[i] for i in positions)
        part._table = self._table.iloc[positions].reset_index(drop=True)
        part._atlas, part._excluded, part._truth = self._atlas, excluded, self._truth
        part._covariates, part._prepared, part.labels_hidden = self._covariates, self._prepared, self.labels_hidden
        part._target = self._target
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
        }
        coords = np.zeros((0, 3)) if self.atlas.coords is None else self.atlas.coords
        data = np.concatenate(self._series)
        with atomic_write(path) as file:
            np.savez(file, header=np.array(json.dumps(header, default=str)), data=data, coords=coords)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Cohort":
        """Read what `save` wrote, checking its manifest hash."""
        try:
            with np.load(path, allow_pickle=False) as file:
                header, data, coords = json.loads(str(file["header"])), file["data"], file["coords"]
            if header["schema"] != SCHEMA:
                raise ReaderError(f"{path} has cohort schema {header['schema']}; this version reads {SCHEMA}")
            table = pd.DataFrame(header["table"]).astype(dict.fromkeys(header.get("categories", ()), "category"))
            ends = np.cumsum(table["n_timepoints"].to_numpy(dtype=int))
            atlas = Atlas.of_description(header["atlas"], coords if len(coords) else None)
            cohort = cls(
                np.split(data, ends[:-1]),
                table,
                atlas,
                pd.DataFrame(header["excluded"], columns=["subject", "reason"]),
                covariates=header.get("covariates", COVARIATES),
                prepared=header.get("prepared", ()),
                target=Target.of_description(header.get("target")),
            )
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
    series: Sequence[np.ndarray],
    y: Sequence[int] | np.ndarray | None = None,
    site: Sequence[str] | None = None,
    tr: Sequence[float] | None = None,
) -> Cohort:
    """The one gate for bare arrays: a cohort whose people are named by their position.

    >>> anonymous_cohort([np.random.default_rng(0).normal(size=(9, 3))]).table["subject"].tolist()
    ['person 0']
    """
    if len(series) == 0:
        raise DataError("no people were given")
    for name, values in {"label": y, "site": site, "tr": tr}.items():
        if values is not None and len(values) != len(series):
            raise DataError(f"there are {len(series)} series but {len(values)} values of {name}")
    table = pd.DataFrame({"subject": [f"person {i}" for i in range(len(series))]})
    table["label"] = np.nan if y is None else np.asarray(y)
    table["site"] = "unknown" if site is None else site_names(site, len(series))
    table["tr"] = np.nan if tr is None else np.asarray(tr, dtype=float)
    cohort = Cohort(series, table)
    if y is not None:
        refuse_one_series(cohort)
    return cohort


def refuse_one_series(cohort: Cohort) -> None:
    """Refuse to learn from people who all have the same series: scores would differ by rounding alone."""
    if len(cohort) > 2 and len(set(cohort.series_digests)) == 1:
        raise DataError(
            f"all {len(cohort)} people have the same series; check how files are assigned to people (template)"
        )


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
