"""Rounds 2 and 3 where no hospital's products are seen: the sums that models need, under masks (`masking`).

Round 2 asks every hospital for one part per model: that of all hospitals, which the coordinator reads, and for each
hospital t that of the others, which t alone reads. A part is, on the edges of that model's scaffold and with r the
residuals by the slopes that its hospitals pool,

    sum rr' (upper triangle), sums of r by class, people who have the edge

in units that all share. How pooling changes a hospital's own slopes follows from first summaries; it is told to that
hospital alone, sealed with its key. In round 3 hospital t takes the masks off the sum of the others, learns the model
without it, reads its own people by it and tells what `scores` says. So the coordinator never has the products of one
hospital, nor a difference of two sums that would be them.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from brainroam.core.pathways import Pathways
from brainroam.core.ridge import Rows
from brainroam.core.scaffold import Scaffold
from brainroam.core.site_summary import own_residuals
from brainroam.core.site_sums import Sums, ridge_of_sums
from brainroam.data.folds import other_sites
from brainroam.data.target import Target
from brainroam.errors import SummaryError
from brainroam.execution.federation.disclosure import EDGES_PER_PERSON
from brainroam.execution.federation.files import SUMMARY, Message, read_message
from brainroam.execution.federation.kinds import Kind
from brainroam.execution.federation.labels import Labels
from brainroam.execution.federation.masking import Masks, fixed_point, numbers, public_of, sealed, unsealed
from brainroam.execution.federation.model import off_residuals, reading
from brainroam.execution.federation.people import People
from brainroam.execution.federation.pooled_block import LeftOut, PooledBlock, share_moved
from brainroam.utils.files import content_hash

POOL = ""  # who reads the sum over all hospitals


def readers_of(request: Message) -> dict[str, int]:
    """Who reads a part of this second request, and its position among the arrays."""
    names = [POOL, *request.sites]
    return {name: f for f, name in enumerate(names) if f"part.{f}.edges" in request.arrays}


def size_of(n_edges: int, target: Target) -> int:
    """How many numbers a part has."""
    return n_edges * (n_edges + 1) // 2 + (Kind.of(target).rows + 1) * n_edges


def packed(sums: Sums, unit: np.ndarray, target_unit: float) -> np.ndarray:
    """Sums as one row of numbers, in units of the edges and of the target."""
    scale = np.ones(len(sums.by_class))
    scale[1:] = target_unit
    upper = np.triu_indices(len(unit))
    gram = (sums.gram / np.outer(unit, unit))[upper]
    return np.concatenate([gram, (sums.by_class / unit / scale[:, None]).ravel(), sums.present])


def unpacked(row: np.ndarray, unit: np.ndarray, target_unit: float) -> Sums:
    """The sums of `packed`.

    >>> sums = Sums(np.array([[4.0, 1.0], [1.0, 9.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0]))
    >>> unit = np.array([2.0, 3.0])
    >>> [each.tolist() for each in unpacked(packed(sums, unit, 1.0), unit, 1.0)] == [each.tolist() for each in sums]
    True
    """
    n = len(unit)
    n_upper = n * (n + 1) // 2
    gram, scale = np.zeros((n, n)), np.ones((len(row) - n_upper - n) // n)
    gram[np.triu_indices(n)] = row[:n_upper]
    gram = (gram + np.triu(gram, 1).T) * np.outer(unit, unit)
    scale[1:] = target_unit
    return Sums(gram, row[n_upper:-n].reshape(-1, n) * unit * scale[:, None], row[-n:])


# --- in the hospital --------------------------------------------------------------------------------------------------


def sums_of_people(values: np.ndarray, people: People, slopes: np.ndarray, huber_k: float) -> Sums:
    """The sums of one hospital from values (n, N), where pooling changes its slopes (d, N) by these."""
    deconfounder, residuals = own_residuals(values, people.covariates, huber_k)
    raw, here = deconfounder.encoder_.impute(people.covariates), ~np.isnan(values).all(axis=0)
    r = np.nan_to_num(residuals) - np.where(here, (raw - raw.mean(axis=0)) @ slopes, 0)
    r -= r.mean(axis=0)
    return Sums(r.T @ r, Labels.of(people.y).rows.T @ r, len(r) * here.astype(float))


def masked_sums(request: Message, people: People, site: str, private: bytes) -> tuple[np.ndarray, int]:
    """What a hospital sends: its part of all sums but the one it reads, under masks; how many edges it left out."""
    masks, target_unit = masks_of(request, site, private, request.identity), float(request.arrays["target_unit"])
    own = f"slopes.{request.sites.index(site)}"
    pool = bytes.fromhex(request.keys[POOL])
    slopes = unsealed(request.arrays[own], private, pool, "the coordinator", request.request)
    place = {name: k for k, name in enumerate(request.sites)}
    parts, left_out = [], 0
    for reader, f in readers_of(request).items():
        edges, unit = request.arrays[f"part.{f}.edges"], request.arrays[f"part.{f}.unit"]
        told = np.delete(request.arrays["people"], place[reader]) if reader else request.arrays["people"]
        if len(told) < 2 or len(edges) > EDGES_PER_PERSON * told.sum():
            raise SummaryError(
                f"{request.path} asks for {len(edges)} edges of {told.sum()} people: too many to be told"
            )
        if reader == site:
            continue
        change, slopes = np.split(slopes, [people.covariates.shape[1] * len(edges)])
        values = people.on(edges, request.settings.huber_k)
        sums = sums_of_people(values, people, change.reshape(-1, len(edges)), request.settings.huber_k)
        row = packed(sums, unit, target_unit)
        parts.append(masks.hide(fixed_point(row, len(request.sites)), reader))
        left_out = max(left_out, int((sums.present == 0).sum()))
    return np.concatenate(parts), left_out


def opened_reading(reading: Mapping[str, np.ndarray], masks: Masks) -> dict[str, np.ndarray]:
    """The reading that a third request asks for, learned from the sum of the other hospitals."""
    unit, target_unit = reading["unit"], float(reading["target_unit"])
    sums = unpacked(numbers(masks.open(reading["sum"])), unit, target_unit)
    beside: dict[str, Any] = {"counts": reading["counts"]}
    if "levels" in reading:
        beside |= {"target_unit": target_unit, "rows": Rows(reading["levels"][:, :-1], reading["levels"][:, -1])}
    scale, (weights,) = ridge_of_sums(sums, np.ones(len(unit)), [tuple(reading["penalties"])], **beside)
    weights = (weights.T / scale).T
    there = reading["whole"].any(axis=tuple(range(1, reading["whole"].ndim)))
    moved = share_moved(reading["whole"][there], weights[there], scale[there])
    return {**reading, "weights": weights, "moved": np.array(moved)}


def masks_of(request: Message, site: str, private: bytes, identity: str) -> Masks:
    """The masks of a hospital, whose own key must be the one that the request names."""
    public = {name: bytes.fromhex(request.keys[name]) for name in request.sites}
    if public.get(site) != public_of(private) or len(set(public.values())) < len(public):
        raise SummaryError(f"{request.path} names other keys than the hospitals have: nothing was written")
    return Masks(private, site, public, identity)


# --- at the coordinator -----------------------------------------------------------------------------------------------


class MaskedBlock(PooledBlock):
    """The one block of hospitals that answer under masks; first summaries are told in the open.

    Parameters
    ----------
    first, thresholds, target
        See `PooledBlock`.
    answers : mapping of str to Message
        Second summaries that have come.
    private : bytes
        The key of the pool.
    """

    def __init__(
        self,
        first: Mapping[str, Message],
        answers: Mapping[str, Message],
        thresholds: Mapping[str, Any],
        target: Target,
        private: bytes,
    ) -> None:
        super().__init__(first, {}, thresholds, target)
        self._answers, self._private = dict(answers), private
        self.keys = {POOL: public_of(private).hex(), **{name: first[name].keys[name] for name in self.sites}}

    @cached_property
    def folds(self) -> dict[str, tuple[list[str], Scaffold]]:
        """The hospitals and the scaffold of each model, by who reads its sums."""
        found = {POOL: (self.sites, self._told(self.sites, self.whole))}
        for name in self.sites:
            scaffold, others = self._scaffold(frozenset({name})), other_sites(self.sites, {name})
            if scaffold is not None:
                found[name] = others, self._told(others, scaffold)
        return found

    def _told(self, sites: Sequence[str], scaffold: Scaffold) -> Scaffold:
        """The most wanted of its edges, as many as so many people may be summed on."""
        most = EDGES_PER_PERSON * sum(int(self.summaries[name].counts.sum()) for name in sites)
        wanted = np.argsort(-np.abs(scaffold.consensus[scaffold.edges]), kind="stable")[:most]
        return scaffold.on(np.sort(wanted))

    @cached_property
    def unit(self) -> np.ndarray:
        """The unit (M,) of each edge in sums: about how much people differ in it."""
        spreads = [summary.spread for summary in self.summaries.values() if summary.spread is not None]
        if not spreads:
            return np.ones(self.summaries[self.sites[0]].fit.intercept.shape)
        middle = np.nanmedian(np.stack(spreads), axis=0)
        return np.where(middle > 0, middle, 1.0)

    @property
    def target_unit(self) -> float:
        """Standard deviation of a number within hospitals; 1 of classes."""
        return float(self.statistics.beside_sums(self.sites, self.whole.edges).get("target_unit", 1.0))

    def request(self, least_sites: int) -> dict[str, np.ndarray]:
        """Edges and units of each sum, and how pooling changes the slopes of each hospital, for its eyes only."""
        place = {name: f for f, name in enumerate([POOL, *self.sites])}
        arrays = {"people": np.array([self.summaries[name].counts.sum() for name in self.sites])}
        arrays["target_unit"] = np.array(self.target_unit)
        slopes: dict[str, list[np.ndarray]] = {name: [] for name in self.sites}
        for reader, (sites, scaffold) in self.folds.items():
            arrays[f"part.{place[reader]}.edges"] = scaffold.edges
            arrays[f"part.{place[reader]}.unit"] = self.unit[scaffold.edges]
            deconfounder = self.statistics.deconfounder_at(sites)
            changes = np.nan_to_num(deconfounder.pooling_changes()[1][..., scaffold.edges])
            for name, change in zip(deconfounder.sites_, changes, strict=True):
                slopes[name].append(change.ravel())
        for k, name in enumerate(self.sites):
            public = bytes.fromhex(self.keys[name])
            arrays[f"slopes.{k}"] = sealed(np.concatenate(slopes[name]), self._private, public, name, self.inputs)
        return arrays

    @property
    def inputs(self) -> str:
        """What the second request follows from."""
        firsts = [[name, self.keys[name], self._firsts[name].digest] for name in self.sites]
        return content_hash([firsts, self.thresholds, self.keys[POOL]])

    def waiting(self) -> list[str]:
        """The hospitals that have not answered this very request."""
        identity = self.asked.identity
        return [n for n in self.sites if n not in self._answers or self._answers[n].request != identity]

    @cached_property
    def totals(self) -> dict[str, np.ndarray]:
        """The sum of what all hospitals sent, by reader; that of the coordinator has no masks left."""
        sizes = {name: size_of(len(scaffold), self.target) for name, (_, scaffold) in self.folds.items()}
        totals = {name: np.zeros(size, dtype=np.uint64) for name, size in sizes.items()}
        for name in self.sites:
            own, start = read_message(self._answers[name].path, SUMMARY).arrays["masked"], 0
            if len(own) != sum(size for reader, size in sizes.items() if reader != name):
                raise SummaryError(f"{self._answers[name]} has another length than the sums it was asked for")
            for reader in (reader for reader in sizes if reader != name):
                totals[reader] += own[start : start + sizes[reader]]
                start += sizes[reader]
        return totals

    @cached_property
    def _pathways(self) -> Pathways:
        sites, scaffold = self.folds[POOL]
        sums = unpacked(numbers(self.totals[POOL]), self.unit[scaffold.edges], self.target_unit)
        return self.statistics.pathways_of_sums(sites, scaffold, sums, [self.statistics.penalties])[0]

    def pathways(self) -> Pathways:
        """Of all hospitals, from the sum that the coordinator reads."""
        return self._pathways

    def reading_without(self, left_out: LeftOut) -> dict[str, np.ndarray] | None:
        """What hospital t needs to learn the model without it; the weights follow from the sum that it alone reads."""
        (name,) = left_out
        if name not in self.folds:
            return None
        sites, scaffold = self.folds[name]
        edges, beside = scaffold.edges, self.statistics.beside_sums(sites, scaffold.edges)
        whole = reading(self.pathways())
        there = np.isin(edges, whole["edges"])
        weights = np.zeros((len(edges), *whole["weights"].shape[1:]))
        weights[there] = whole["weights"][np.isin(whole["edges"], edges)]
        found = {
            **off_residuals(self.statistics.deconfounder_at(sites), edges),
            "sum": self.totals[name],
            "unit": self.unit[edges],
            "counts": beside["counts"],
            "penalties": np.array(self.statistics.penalties),
            "target_unit": np.array(self.target_unit),
            "whole": weights,
        }
        if "rows" in beside:  # which row is whose does not matter, nor is it told
            found["levels"] = np.linalg.qr(np.column_stack(beside["rows"]), mode="r")
        return found
