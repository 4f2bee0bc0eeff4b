"""`Cohort`: people from several sites, what was measured of them, and who was left out and why.

What is computed from the measurements, and where that is kept, is another object: `brainroam.data.features.Features`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas, matching_atlas
from brainroam.data.cohort_file import load_cohort, save_cohort
from brainroam.data.edge_values import in_own_units
from brainroam.data.features import Block, Features
from brainroam.data.measurements import (
    MEASURES,
    MISSING,
    MOST_MISSING,
    check_arrays,
    empty_measurement,
    missing_rois,
    most_missing,
    series_digest,
)
from brainroam.data.people import COVARIATES, People, manifest_hash, people_by_site, validate_table
from brainroam.data.target import TWO_CLASSES, Target, TwoClasses
from brainroam.errors import DataError, UsageError, listed, unknown
from brainroam.utils.html import html_summary
from brainroam.utils.optional import as_pandas


class Cohort(People):
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
        (`brainroam.data.measurements.without_empty_volumes`) are dropped from them with a warning and counted in a
        column ``empty_volumes``.
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
        self._table = validate_table(as_pandas(table), len(series), target)
        arrays, steps = check_arrays(series, self._table, measure)
        block = Block(measure, matching_atlas(atlas, arrays[0].shape[1], measure), Features(arrays))
        self._blocks = {measure: block}  # the own one first, then others of the same people
        self._table["n_timepoints"] = block.volumes(np.arange(len(arrays)))
        nothing = np.array([np.isnan(x[:1]).all() and np.isnan(x).all() for x in arrays])
        if nothing.any():  # who is measured by another block alone
            self._table["n_timepoints"] = self._table["n_timepoints"].mask(nothing)
        self._excluded = _exclusions([] if excluded is None else excluded[["subject", "reason"]].to_numpy().tolist())
        self._truth, self._covariates, self._prepared = truth, tuple(covariates), (*prepared, *steps)
        self._target = target
        self._origin: tuple[Cohort, np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"Cohort({self.counted}, {len(self.sites)} sites, {self.target_counted}, {self.extent})"

    @property
    def extent(self) -> str:
        """What was measured, in words: "116 regions of 'aal'", or "200 columns of a table"."""
        return self._block.extent

    def _repr_html_(self) -> str:
        """For notebooks: people per site."""
        return html_summary(repr(self), people_by_site(self._table, self.target))

    @property
    def series(self) -> list[np.ndarray]:
        """One read-only array per person: (T_i, P), (P, P) or (1, F), see `measure`."""
        return self.features.of(self.origin[1])

    @property
    def measure(self) -> str:
        """What the arrays are: ``"series"``, ``"matrices"`` or ``"table"``."""
        return self._block.measure

    @property
    def atlas(self) -> Atlas:
        """The regions, in column order; of a table its columns."""
        return self._block.atlas

    @property
    def features(self) -> Features:
        """What is computed from the measurements of everybody in the whole cohort, see `origin`."""
        return self._block.features

    @property
    def block_name(self) -> str:
        """Name of the cohort's own measurement among `blocks`."""
        return next(iter(self._blocks))

    @property
    def _block(self) -> Block:
        return self._blocks[self.block_name]

    @property
    def blocks(self) -> "dict[str, Cohort]":
        """The several measurements of these people by name, each as a cohort of its own; empty where there is one."""
        return {name: self.block(name) for name in self._blocks} if len(self._blocks) > 1 else {}

    def block(self, name: str) -> "Cohort":
        """One measurement of these people, row for row; NaN for those who lack it (`has_block`)."""
        if name not in self._blocks:
            raise unknown("block", name, list(self._blocks))
        alone = self._only_block(name)
        if self._origin is not None:
            whole, rows = self._origin
            alone._origin = whole._only_block(name), rows
        return alone

    def _only_block(self, name: str) -> "Cohort":
        block, table = self._blocks[name], self._table
        if name != self.block_name:
            table = table.assign(n_timepoints=block.volumes(self.origin[1]))
        return self._copy_with(_blocks={name: block}, _table=table, _prepared=self._steps_of(name))

    def _steps_of(self, name: str) -> tuple[str, ...]:
        """What was done to one of several measurements: steps of further ones begin with their names."""
        others = tuple(f"{other}: " for other in self._blocks if other != name)
        if name != self.block_name:
            return tuple(step.removeprefix(f"{name}: ") for step in self._prepared if step.startswith(f"{name}: "))
        return tuple(step.removeprefix(f"{name}: ") for step in self._prepared if not step.startswith(others))

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
        measured = dict(zip(other._table["subject"], other.series, strict=True))
        nothing = empty_measurement(other.measure, other.n_rois)
        arrays = [measured.get(who, nothing) for who in self._table["subject"]]
        both = self.with_further(name, Block(other.measure, other.atlas, Features(arrays)), own_name)
        own = self._prepared
        if self.measure == "matrices" and len(self._blocks) == 1:  # what was done to matrices as they were read
            own = tuple(f"{both.block_name}: {step}" for step in own)
        steps = (*own, *(f"{name}: {step}" for step in other._prepared))
        excluded = pd.concat([self._excluded, other._excluded], ignore_index=True)
        return both._copy_with(_excluded=excluded, _prepared=steps)

    def called(self, name: str) -> "Cohort":
        """The same people, whose one measurement has this name among blocks."""
        return self._copy_with(_blocks={name: self._block})

    def with_further(self, name: str, block: Block, own_name: str | None = None) -> "Cohort":
        """The same people with a further block, which measures all of them in their order."""
        whole = self._as_whole()
        (own, first), *others = whole._blocks.items()
        own = own_name or own
        if name == own or name in dict(others):
            raise UsageError(f"two blocks are called {name!r}; give one of them another name")
        return whole._copy_with(_blocks={own: first, **dict(others), name: block})

    def with_blocks_called(self, names: Mapping[str, str]) -> "Cohort":
        """The same people with blocks by other names, and in this order: the first is their own measurement.

        ``names`` has the new name of each block by the one that it has.

        >>> import brainroam
        >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
        >>> cohort = cohort.with_block("anatomy", Cohort([np.ones((1, 3))] * 8, cohort.table, measure="table"), "rest")
        >>> turned = cohort.with_blocks_called({"anatomy": "thickness", "rest": "rest"})
        >>> list(turned.blocks), turned.measure
        (['thickness', 'rest'], 'table')
        """
        whole, first = self._as_whole(), self.block(next(iter(names)))._as_whole()
        return first._copy_with(_blocks={new: whole._blocks[name] for name, new in names.items()})

    @property
    def own_units(self) -> bool:
        """Whether features differ in their units: columns of a table, and matrices that are no correlations."""
        if self.measure != "matrices":
            return self.measure == "table"
        of_each = self.per_person("own_units", lambda series: np.array([in_own_units(x) for x in series]))
        told = of_each[np.isfinite(of_each)]
        return bool(len(told) and told.mean() > 0.5)

    @property
    def n_features(self) -> int:
        """How many features a person has: P(P-1)/2 edges, or the columns of a table."""
        return self.n_rois if self.measure == "table" else self.n_rois * (self.n_rois - 1) // 2

    @property
    def truth(self) -> Any:
        """The planted effects of a synthetic cohort, else None."""
        return self._truth

    @property
    def n_rois(self) -> int:
        """Number of regions P, or of columns of a table."""
        return len(self.atlas)

    @property
    def prepared(self) -> tuple[str, ...]:
        """What was done to the series before, in words."""
        return self._prepared

    @property
    def series_digests(self) -> list[str]:
        """SHA-256 of each person's series: shape, then float64 bytes."""
        return self.per_person("digest", lambda series: np.array([series_digest(x) for x in series])).tolist()

    @property
    def block_digests(self) -> list[str]:
        """SHA-256 of all that was measured of each person: `series_digests`, and of several blocks those of each."""
        digests = self.series_digests
        for block in self.blocks.values():
            pairs = zip(digests, block.series_digests, strict=True)
            digests = [hashlib.sha256(f"{one} {other}".encode()).hexdigest() for one, other in pairs]
        return digests

    @cached_property
    def manifest_hash(self) -> str:
        """SHA-256 over subject ids, labels, sites and measurements; the order of people does not matter."""
        return manifest_hash(self._table, self.block_digests)

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
        return self.features.per_person(key, compute, self.origin[1])

    @property
    def origin(self) -> tuple["Cohort", np.ndarray]:
        """The cohort this one was selected from, and the positions of its people there."""
        return self._origin if self._origin is not None else (self, np.arange(len(self)))

    @property
    def on_disk(self) -> bool:
        """Whether series and edges are too large for memory, see `brainroam.data.stored_cohort`."""
        return self.features.on_disk

    def batches(self) -> "Iterator[Cohort]":
        """These people, as many at a time as memory allows."""
        size = self.features.at_once
        if size is None:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.subset(np.arange(start, min(start + size, len(self))))

    def subset(self, index: Sequence[int] | np.ndarray) -> "Cohort":
        """The people at these positions (integers, or a boolean mask), in that order."""
        positions = np.arange(len(self))[np.asarray(index)]
        if len(positions) == 0:
            raise DataError("the selection is empty; check the sites or the subset asked for")
        return self._at(positions)

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
        return self._at(np.flatnonzero(~mask))._copy_with(_excluded=record)

    def exclude_missing(self, max_missing_rois: float = MOST_MISSING) -> "Cohort":
        """Leave out people with more than this share of regions without signal, see `most_missing` of columns."""
        if len(self._blocks) > 1:
            return self._with_some_block(max_missing_rois)
        count, max_missing_rois = self.missing_rois.sum(axis=1), most_missing(self.measure, max_missing_rois)
        over = count > max_missing_rois * self.n_rois
        if not over.any():
            return self
        text = MISSING[self.measure] + " (limit {:.0%})"
        return self.exclude(over, [text.format(c, self.n_rois, max_missing_rois) for c in count[over]])

    def _with_some_block(self, max_missing: float) -> "Cohort":
        """Leave out people who lack too much of every block; a block with too much missing is empty for the person."""
        over = {
            name: block.missing_rois.mean(axis=1) > most_missing(block.measure, max_missing)
            for name, block in self.blocks.items()
        }
        nobody = np.all(list(over.values()), axis=0)
        reasons = ["too much is missing in every block"] * int(nobody.sum())
        cohort = self.exclude(nobody, reasons) if nobody.any() else self
        over = {name: mask[~nobody] for name, mask in over.items()}
        if not any(mask.any() for mask in over.values()):
            return cohort
        whole = cohort._as_whole()
        return whole._copy_with(_blocks={name: block.without(over[name]) for name, block in whole._blocks.items()})

    def using(self, covariates: Iterable[str], nuisance: Iterable[str] | None = None) -> "Cohort":
        """The same people, with these columns as covariates, and these as what our methods take out as directions."""
        projected = self._nuisance if nuisance is None else tuple(nuisance)
        same = self._copy_with(_covariates=tuple(covariates), _nuisance=projected)
        same.covariates([*same._covariates, *same._nuisance])  # one that does not exist is named now
        return same

    def without_labels(self, telling: bool = True) -> "Cohort":
        """The same people without labels and without columns that reveal the diagnosis, for scoring.

        Missing here and in the cohort they were selected from: the label, what a synthetic cohort planted, and columns
        that measure the condition (a raw diagnosis, symptoms; see `brainroam.data.columns`) unless the study
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
        hidden = self._blank_columns(blank)
        if self is not whole:
            hidden._origin = whole._blank_columns(blank), rows
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
        label = self._table["label"]
        table = self._table.assign(label=(label == code).astype(float).where(label.notna()))
        target = TwoClasses(self.target.name, ("rest", self.target.classes[code]))
        return self._copy_with(_table=table, _target=target, _origin=self.origin)

    def _blank_columns(self, columns: dict[str, float]) -> "Cohort":
        """This cohort without these columns, its labels and what was planted."""
        return self._copy_with(_table=self._table.assign(**columns), _truth=None, labels_hidden=True)

    def noting(self, step: str) -> "Cohort":
        """The same people, with one more sentence in `prepared`."""
        return self._copy_with(_prepared=(*self._prepared, step))

    def with_columns(self, columns: pd.DataFrame) -> "Cohort":
        """The same people with these columns, one row each in their order, added to the table or replacing its own."""
        table = self._table.assign(**{str(name): columns[name].array for name in columns})
        return self._copy_with(_table=self._check_table(table, self.target))

    def with_columns_of(self, other: "Cohort") -> "Cohort":
        """The same people with further columns of another table, by their ids; missing for who is not there."""
        further = [name for name in other._table if name not in self._table]
        columns = other._table.set_index("subject")[further].reindex(self._table["subject"])
        return self.with_columns(columns) if further else self

    def predicting(self, target: Target, table: pd.DataFrame) -> "Cohort":
        """The same people with another target, whose values are the ``label`` of this table; no covariate any more."""
        covariates = tuple(name for name in self._covariates if name != target.name)
        checked = self._check_table(table, target)
        return self._as_whole()._copy_with(_table=checked, _target=target, _truth=None, _covariates=covariates)

    def _check_table(self, table: pd.DataFrame, target: Target) -> pd.DataFrame:
        """Check another table of the same people like that of a new cohort."""
        return validate_table(table, len(self), target).assign(n_timepoints=self._table["n_timepoints"])

    def with_series(self, series: Sequence[np.ndarray], *steps: str) -> "Cohort":
        """The same people with other arrays of the same measure, and what was done to them in words."""
        return self.made_of(series, self._table, prepared=(*self._prepared, *steps))

    def measured_by(self, features: Features) -> "Cohort":
        """The same people with other values of the same regions or columns, which are not checked again."""
        features.memory, features.folder = self.features.memory, self.features.folder
        block = Block(self.measure, self.atlas, features)
        return self._copy_with(_blocks={self.block_name: block}, _origin=None)

    def made_of(self, series: Sequence[np.ndarray], table: pd.DataFrame, **changed: Any) -> "Cohort":
        """A new cohort of other arrays and another table; settings that are not given are those of this one."""
        unchanged = {
            "atlas": self.atlas,
            "excluded": self._excluded,
            "truth": self._truth,
            "covariates": self._covariates,
            "prepared": self._prepared,
            "target": self._target,
            "measure": self.measure,
        }
        cohort = Cohort(series, table, **{**unchanged, **changed})
        cohort._nuisance = self._nuisance
        rows = self.origin[1]
        if len(cohort) == len(rows):
            further = {name: block.at(rows) for name, block in self._blocks.items() if name != self.block_name}
            cohort._blocks = {self.block_name: cohort._block, **further}
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
        return self.made_of([*self.series, *other.series], table, excluded=excluded, truth=None)

    def _at(self, positions: np.ndarray) -> "Cohort":
        """A cohort of these people that shares what was measured and computed with this one."""
        whole, rows = self.origin
        table = self._table.iloc[positions].reset_index(drop=True)
        return self._copy_with(_table=table, _origin=(whole, rows[positions]))

    def _as_whole(self) -> "Cohort":
        """These people as a cohort that is not a selection from another one."""
        if self._origin is None:
            return self
        rows = self._origin[1]
        return self._copy_with(_blocks={name: block.at(rows) for name, block in self._blocks.items()}, _origin=None)

    def _copy_with(self, **state: Any) -> "Cohort":
        """A copy with other values of these attributes, which shares all others; nothing is checked again."""
        same = object.__new__(type(self))
        follows = "manifest_hash", "_telling"  # from the table and the measurements
        same.__dict__ = {name: value for name, value in self.__dict__.items() if name not in follows} | state
        return same

    def save(self, path: str | Path) -> Path:
        """Write one ``.npz`` file (arrays and JSON, nothing executable); an interrupted write leaves no file."""
        return save_cohort(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Cohort":
        """Read what `save` wrote, checking its manifest hash."""
        return load_cohort(cls, path)


def _exclusions(rows: Iterable[Sequence[str]]) -> pd.DataFrame:
    return pd.DataFrame([list(row) for row in rows], columns=["subject", "reason"], dtype=object)
