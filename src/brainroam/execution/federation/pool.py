"""At the coordinator: receive summaries in any order, keep them in a folder, and go as far as they allow.

The folder holds the summaries (``received``), the ``request`` for the next round, and what follows from them:
``scaffold.csv``, ``model``, ``scores.csv``. Everything is computed from the summaries each time, sites in the order of
their names, so that a site that joins later, or withdraws, leaves the model that the others give.

A withdrawal is written into ``pool.json`` before anything is deleted, and crossed out there once nothing is left: of
the site's files, of what was computed with them, and of third summaries, which tell how such a model did elsewhere. If
the process dies in between, whatever is done with the pool next begins by finishing it.
"""

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from brainroam.core.scaffold import Scaffold, edges_of
from brainroam.core.site_summary import SiteProducts, SiteSummary, SummaryEvidence
from brainroam.data.folds import other_sites
from brainroam.data.target import TWO_CLASSES, Target, is_control
from brainroam.errors import EmptyScaffoldError, SummaryError, listed, unknown, visible
from brainroam.execution.federation.checks import refuse_copies, refuse_other_people, suspicions
from brainroam.execution.federation.files import REQUEST, SUMMARY, Message, read_message
from brainroam.execution.federation.model import reading, save_pooled
from brainroam.execution.federation.scores import (
    calibration_of,
    calibration_of_classes,
    calibration_of_numbers,
    order_of,
    shifts_of,
    shifts_of_classes,
    shifts_of_numbers,
)
from brainroam.utils.files import clear_parts, content_hash, part_beside, read_checksummed, write_checksummed, write_csv
from brainroam.utils.model_files import membership_lines

MIN_SITES = 3
THRESHOLDS = {"tau_percentile": 80.0, "eta": 0.75, "zeta": 0.70}
POOL, RECEIVED, ASKED = "pool.json", "received", "request"
#: What follows from the summaries, by the round after which it is there; the last two are made by the report.
FOLLOWS = {1: ("scaffold.csv", ASKED), 2: ("model",), 3: ("scores.csv", "next_site.json", "report.html")}


@dataclass
class Progress:
    """How far the pool is: the round to be asked for next (4: done), what was found, and what is odd."""

    next_round: int
    lines: list[str]
    warnings: list[str] = field(default_factory=list)
    scores: pd.DataFrame | None = None


class Pool:
    """A folder of summaries and what follows from them.

    Parameters
    ----------
    folder : path
    thresholds : dict, optional
        tau_percentile, eta and zeta of the scaffold; those of the folder, or the defaults, where not given.
    """

    def __init__(self, folder: str | Path, thresholds: Mapping[str, float] | None = None) -> None:
        self.folder = Path(folder)
        clear_parts(self.folder, self.folder / RECEIVED)
        begun = (self.folder / POOL).is_file()
        if self.folder.exists() and not begun and any(self.folder.iterdir()):
            raise SummaryError(f"{self.folder} exists and is no pool of summaries; choose another name")
        kept = read_checksummed(self.folder / POOL, SummaryError) if begun else {}
        self.thresholds = {**kept.get("thresholds", THRESHOLDS), **(thresholds or {})}
        self._withdrawn: list[str] = kept.get("withdrawn", [])
        for name in self.thresholds:
            if name not in THRESHOLDS:
                raise unknown("setting of a pool", name, THRESHOLDS)
        if kept.get("deleting"):
            self._delete_withdrawn()
        self._messages = self._received()

    def receive(self, paths: Sequence[str | Path]) -> None:
        """Take summaries in; one that is damaged, doubled or does not fit the others is refused by name, with all."""
        messages = {key: dict(of_sites) for key, of_sites in self._messages.items()}
        for message in (read_message(path, SUMMARY) for path in paths):
            before = messages[message.round].get(message.site)
            if before is not None and before.digest == message.digest and before.path.parent == self.folder / RECEIVED:
                continue  # the same file again
            if before is not None:
                raise SummaryError(
                    f"{message}: there is another file of this site and round, {before.path}; keep one. To replace "
                    f"what it sent before: brainroam pool --without {message.site} --out {self.folder}"
                )
            for other in [*messages[1].values()][:1]:
                message.require_same(other)
            if message.round > 1 and message.site not in messages[1]:
                raise SummaryError(f"{message}: this site has sent no first summary; pool that before, or with it")
            messages[message.round][message.site] = message
        for of_sites in messages.values():
            refuse_copies(of_sites)
        target = common_target(messages[1].values())
        for site, message in messages[2].items():
            if not message.protection and not messages[1][site].protection:
                first, second = _summary(messages[1][site], target), _products(message, target)
                refuse_other_people(site, first, second, _counts(message, target))
        self._messages = messages
        self._keep()

    def withdraw(self, site: str) -> None:
        """Take everything of a site out again, and delete it with all that followed from it; may be repeated."""
        if site not in self._messages[1] and _hashed(site) not in self._withdrawn:
            raise unknown("site", site, self._messages[1])
        self._withdrawn = sorted({*self._withdrawn, _hashed(site)})
        self._remember(deleting=True)
        self._delete_withdrawn()
        self._messages = self._received()

    def _delete_withdrawn(self) -> None:
        for name in self._withdrawn:
            for path in (self.folder / RECEIVED).glob(f"{name}-*.summary"):
                path.unlink(missing_ok=True)
        for path in (self.folder / RECEIVED).glob("*-3.summary"):
            path.unlink(missing_ok=True)
        self._forget(0)
        self._remember()

    def _forget(self, done: int) -> None:
        """Delete what follows only from rounds beyond those that are done."""
        for name in (name for number, names in FOLLOWS.items() if number > done for name in names):
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                # Moved away first: a model that is half deleted is none, and clear_parts takes such leftovers away.
                shutil.rmtree(path.rename(part_beside(path)))
            else:
                path.unlink(missing_ok=True)

    def _remember(self, deleting: bool = False) -> None:
        content = {"thresholds": self.thresholds, "withdrawn": self._withdrawn, "deleting": deleting}
        write_checksummed(self.folder / POOL, content)

    @property
    def sites(self) -> list[str]:
        """The sites that take part, by name."""
        return sorted(self._messages[1])

    @property
    def target(self) -> Target:
        """What is predicted; of several classes, with all that any site has."""
        return common_target(self._messages[1].values())

    @threadpool_limits.wrap(limits=1)  # the same bytes on any number of cores
    def advance(self) -> Progress:
        """Compute what the summaries allow, write it, and say what is asked for next."""
        target = self.target
        first = {name: _summary(message, target) for name, message in self._messages[1].items()}
        if len(first) < MIN_SITES:
            self._forget(0)
            return Progress(1, [f"{len(first)} site(s) so far ({listed(self.sites)}); {MIN_SITES} are needed to go on"])
        like, odd = self._messages[1][self.sites[0]], suspicions(first)
        evidence = SummaryEvidence(first, like.covariates, None, like.pairs, target.has_controls)
        scaffolds = {frozenset[str](): evidence.scaffold(self.sites, **self.thresholds)}
        scaffolds |= self._without(evidence, 1)
        whole = scaffolds[frozenset()]
        self._write_scaffold(whole, evidence)
        people = f"{int(sum(summary.counts.sum() for summary in first.values()))} people of {len(first)} sites"
        lines = [f"{len(whole)} of {len(whole.consensus)} {like.unit_of_reading}s agreed on, from {people}"]
        lines += [f"note: {note}" for note in [*evidence.deconfounder.notes_, *self._withheld()]]
        needed = edges_of(scaffolds.values())
        second = {name: _products(message, target) for name, message in self._messages[2].items()}
        waiting = [name for name in self.sites if name not in second or not np.isin(needed, second[name].edges).all()]
        if waiting:
            # Also what is needed once a site has withdrawn, so that the others need not send this round again.
            pairs = self._without(evidence, 2) if len(self.sites) > MIN_SITES else {}
            asked = edges_of([*scaffolds.values(), *pairs.values()])
            centre = evidence.deconfounder.mean_intercept_[asked]
            self._forget(1)
            wanted = {"edges": asked, "centre": centre, "priority": np.abs(whole.consensus[asked])}
            self._ask(like, 2, wanted)
            lines.append(f"round 2: waiting for {listed(waiting, 30)}; send them {self.folder / ASKED}")
            return Progress(2, lines, odd)
        evidence = SummaryEvidence(first, like.covariates, second, like.pairs, target.has_controls)
        return self._third(evidence, scaffolds, first, like, lines, odd)

    def _third(
        self,
        evidence: SummaryEvidence,
        scaffolds: Mapping[frozenset[str], Scaffold],
        first: Mapping[str, SiteSummary],
        like: Message,
        lines: list[str],
        odd: list[str],
    ) -> Progress:
        """Model and readings without each site; with all third summaries also scores and calibration."""
        pathways = evidence.pathways(self.sites, scaffolds[frozenset()])
        readings: dict[str, np.ndarray] = {}
        for k, name in enumerate(self.sites):
            if (left_out := frozenset({name})) in scaffolds:
                arrays = reading(evidence.pathways(other_sites(self.sites, left_out), scaffolds[left_out]))
                readings |= {f"{k}.{key}": value for key, value in arrays.items()}
        held_out = [name for k, name in enumerate(self.sites) if f"{k}.edges" in readings]
        notes = list(evidence.deconfounder.notes_)
        if len(held_out) < len(self.sites):
            alone = sorted(set(self.sites) - set(held_out))
            notes.append(f"never held out, because without them the scaffold is empty: {listed(alone)}")
        digests = [self._messages[k][name].digest for name in self.sites for k in (1, 2)]
        request = content_hash([digests, self.thresholds])
        third = {name: m.arrays for name, m in self._messages[3].items() if m.request == request}
        waiting = [name for name in held_out if name not in third]
        model: dict[str, Any] = {"counts": {name: summary.counts for name, summary in first.items()}, "notes": notes}
        if not waiting:
            model |= _calibrated([third[name] for name in held_out], self.target)
        save_pooled(self.folder / "model", pathways, like, thresholds=self.thresholds, target=self.target, **model)
        lines.append(f"model: {self.folder / 'model'}")
        lines += membership_lines("core", sum(int(summary.counts.sum()) for summary in first.values()))
        self._ask(like, 3, readings, request)
        if waiting:
            self._forget(2)
            lines.append(f"round 3: waiting for {listed(waiting, 30)}; send them {self.folder / ASKED}")
            return Progress(3, lines, odd)
        scores = _scores(held_out, third, self.target)
        lines.append(f"scores by site: {write_csv(self.folder / 'scores.csv', scores)}")
        return Progress(4, lines, odd, scores)

    def _withheld(self) -> list[str]:
        """What sites do not tell, in their words."""
        first = [self._messages[1][name] for name in self.sites]
        lines = [f"site {m.site}: {visible(what)} {visible(why)}" for m in first for what, why in m.withheld.items()]
        later = (m for m in self._messages[2].values() if "edges" in m.withheld)
        return lines + [f"site {m.site}, round 2: edges {visible(m.withheld['edges'])}" for m in later]

    def _without(self, evidence: SummaryEvidence, number: int) -> dict[frozenset[str], Scaffold]:
        """The scaffolds without every so many sites, where the others agree on any edge."""
        scaffolds = {}
        for left_out in map(frozenset, combinations(self.sites, number)):
            try:
                scaffolds[left_out] = evidence.scaffold(other_sites(self.sites, left_out), **self.thresholds)
            except EmptyScaffoldError:
                continue
        return scaffolds

    def _ask(self, like: Message, number: int, arrays: dict[str, np.ndarray], request: str = "") -> None:
        asked = Message(REQUEST, number, like.settings, like.atlas, like.covariates, arrays, "", request)
        facts = {"sites": self.sites, "measure": like.measure, "target": self.target.described()}
        Message(**{**vars(asked), **facts}).write(self.folder / ASKED)

    def _write_scaffold(self, scaffold: Scaffold, evidence: SummaryEvidence) -> None:
        edges = scaffold.edges
        columns = {"edge": edges, "region_1": evidence.pairs[edges, 0], "region_2": evidence.pairs[edges, 1]}
        for name in ("consensus", "sign_consistency", "stability"):
            columns[name] = getattr(scaffold, name)[edges]
        write_csv(self.folder / "scaffold.csv", pd.DataFrame(columns))

    def _received(self) -> dict[int, dict[str, Message]]:
        """All summaries; what a site sent later counts with its first one only."""
        messages: dict[int, dict[str, Message]] = {1: {}, 2: {}, 3: {}}
        for path in sorted((self.folder / RECEIVED).glob("*.summary")):
            message = read_message(path, SUMMARY)
            messages[message.round][message.site] = message
        return {number: {k: m for k, m in sites.items() if k in messages[1]} for number, sites in messages.items()}

    def _keep(self) -> None:
        """Files are named by hashes: a site's name never becomes a path."""
        self._withdrawn = [name for name in self._withdrawn if name not in map(_hashed, self._messages[1])]
        self._remember()
        for number, of_sites in self._messages.items():
            for site, message in of_sites.items():
                path = self.folder / RECEIVED / f"{_hashed(site)}-{number}.summary"
                if message.path != path:
                    of_sites[site] = read_message(message.write(path), SUMMARY)


def _hashed(site: str) -> str:
    return hashlib.sha256(site.encode()).hexdigest()[:16]


def common_target(messages: Iterable[Message]) -> Target:
    """The target of these sites; of several classes with those of all sites, controls first."""
    targets = [message.predicts for message in messages]
    if not targets or not targets[0].is_classes:
        return targets[0] if targets else TWO_CLASSES
    names = {name for target in targets for name in target.classes}
    return replace(targets[0], classes=tuple(sorted(names, key=lambda name: (not is_control(name), name))))


def _summary(message: Message, target: Target) -> SiteSummary:
    summary = SiteSummary.from_arrays(message.arrays)
    return summary.among(message.predicts.classes, target.classes) if target.is_classes else summary


def _products(message: Message, target: Target) -> SiteProducts:
    products = SiteProducts(**{name: value for name, value in message.arrays.items() if name != "counts"})
    return products.among(message.predicts.classes, target.classes) if target.is_classes else products


def _counts(message: Message, target: Target) -> np.ndarray:
    """People by class, among all classes."""
    counts = message.arrays["counts"]
    if not target.is_classes:
        return counts
    by_class = dict(zip(message.predicts.classes, counts.tolist(), strict=True))
    return np.array([by_class.get(name, 0) for name in target.classes])


def _calibrated(parts: Sequence[dict[str, np.ndarray]], target: Target) -> dict[str, Any]:
    """What third summaries teach beside the scores."""
    if target.is_number:
        line = calibration_of_numbers(parts)
        return {"calibration": line, "shifts": shifts_of_numbers(parts, line)}
    if target.is_classes:
        return {"calibration": calibration_of_classes(parts), "shifts": shifts_of_classes(parts, target)}
    return {"calibration": calibration_of(parts), "shifts": shifts_of(parts)}


def _scores(sites: Sequence[str], third: Mapping[str, Mapping[str, np.ndarray]], target: Target) -> pd.DataFrame:
    """One row per site; of a number with the error of its level, on the scale it is learned on."""
    counts = np.stack([third[name]["counts"] for name in sites])
    start = {"method": "core", "protocol": "loso", "site": sites, "n": counts.sum(axis=1)}
    parts = [third[name] for name in sites]
    if target.is_number:
        line = calibration_of_numbers(parts)
        residual = np.array([-line.slope, 1.0])
        return pd.DataFrame(
            {
                **start,
                "r": [order_of(part) for part in parts],
                "level": [float(line(part["mean"][0]) - part["mean"][1]) for part in parts],
                "error_sd": [
                    float(np.sqrt(residual @ part["moments"] @ residual / part["counts"][0])) for part in parts
                ],
                "sd": [float(np.sqrt(part["moments"][1, 1] / part["counts"][0])) for part in parts],
            }
        )
    if target.is_classes:
        present, names = counts > 0, target.classes
        aucs = np.where(present, np.stack([part["auc"] for part in parts]), np.nan)
        of_each = {f"n_{name}": counts[:, k] for k, name in enumerate(names)}
        of_each |= {f"auc_{name}": aucs[:, k] for k, name in enumerate(names)}
        variances = np.stack([part["auc_variance"] for part in parts])
        return pd.DataFrame(
            {
                **start,
                "auc": np.nanmean(aucs, axis=1),
                "auc_variance": variances[:, 0],
                "class_variance": variances[:, 1],
                **of_each,
            }
        )
    return pd.DataFrame(
        {
            **start,
            "n_cases": counts[:, 1],
            "auc": [float(third[name]["auc"]) for name in sites],
            "mean_score_controls": [float(third[name]["mean"][0]) for name in sites],
            "mean_score_cases": [float(third[name]["mean"][1]) for name in sites],
        }
    )
