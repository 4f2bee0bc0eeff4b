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
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from brainroam.core.recipe import ETA, TAU_PERCENTILE, ZETA
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.errors import EmptyScaffoldError, SummaryError, listed, unknown, visible
from brainroam.execution.federation.checks import moving_most, refuse_copies, refuse_other_people, suspicions
from brainroam.execution.federation.files import REQUEST, SUMMARY, Message, read_message
from brainroam.execution.federation.kinds import Kind
from brainroam.execution.federation.model import save_pooled
from brainroam.execution.federation.pooled_block import (
    PooledBlock,
    block_weights,
)
from brainroam.execution.federation.schema import is_masked, require_counts
from brainroam.utils.files import clear_parts, content_hash, part_beside, read_checksummed, write_checksummed, write_csv
from brainroam.utils.model_files import membership_lines

MIN_SITES = 3
THRESHOLDS = {"tau_percentile": float(TAU_PERCENTILE), "eta": ETA, "zeta": ZETA}
POOL, RECEIVED, ASKED, SUMS = "pool.json", "received", "request", "sums"
WITHOUT = "without_"  # columns of scores.csv: the figure of the sum of the other blocks
IN_THE_OPEN = (
    "note: round 2 is told in the open, hospital by hospital: sums under masks need one block, no noise, and a first "
    "summary without --plain from every hospital (docs/federation.md)"
)
NOT_ASKED: dict[str, Any] = {"protection": {}, "min_count": 0, "withheld": {}}
#: What follows from the summaries, by the round after which it is there; the last two are made by the report.
FOLLOWS = {1: ("scaffold.csv", ASKED, SUMS), 2: ("model",), 3: ("scores.csv", "next_site.json", "report.html")}


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
        earlier = read_checksummed(self.folder / POOL, SummaryError) if begun else {}
        self.thresholds = {**earlier.get("thresholds", THRESHOLDS), **(thresholds or {})}
        self._withdrawn: list[str] = earlier.get("withdrawn", [])
        self._left_out: set[str] = set()
        self._key: str = earlier.get("key", "")
        for name in self.thresholds:
            if name not in THRESHOLDS:
                raise unknown("setting of a pool", name, THRESHOLDS)
        if earlier.get("deleting"):
            self._delete_withdrawn()
        self._messages = self._read_received()

    def receive(self, paths: Sequence[str | Path], again: Sequence[str] | None = None) -> None:
        """Take summaries in; one that is damaged, doubled or does not fit the others is refused by name, with all.

        Of sites that have withdrawn only those named in ``again`` are taken; whoever calls this without it takes all.
        """
        for site in again or ():
            if _site_hash(site) not in self._withdrawn:
                raise SummaryError(f"site {visible(site)} has not withdrawn from {self.folder}")
        messages = {key: dict(of_sites) for key, of_sites in self._messages.items()}
        for message in (read_message(path, SUMMARY).without_sums() for path in paths):
            if again is not None and message.site not in again and _site_hash(message.site) in self._withdrawn:
                self._left_out.add(message.site)
                continue
            before = messages[message.round].get(message.site)
            if before is not None and before.digest == message.digest and before.path.parent == self.folder / RECEIVED:
                continue  # the same file again
            if before is not None and (message.round == 1 or message.request == before.request):
                raise SummaryError(
                    f"{message}: there is another file of this site and round, {before.path}; keep one. To replace "
                    f"what it sent before: brainroam pool --without {message.site} --out {self.folder}"
                )
            for other in [*messages[1].values()][: None if message.blocks else 1]:
                message.require_same(other)
            if message.round > 1 and message.site not in messages[1]:
                raise SummaryError(f"{message}: this site has sent no first summary; pool that before, or with it")
            messages[message.round][message.site] = message
        for of_sites in messages.values():
            refuse_copies(of_sites)
        target = common_target(messages[1].values())
        kind = Kind.of(target)
        for site, message in messages[2].items():
            firsts = messages[1][site].parts
            for name, part in message.parts.items():
                if name not in firsts:
                    raise SummaryError(f"{message}: its first summary has no block {name!r}")
                if not message.protection and not messages[1][site].protection and not is_masked(message):
                    first, second = kind.summary(firsts[name]), kind.products(part)
                    sent, contrast = kind.contrasts(first, second)
                    refuse_other_people(site, first, sent, contrast, second, kind.counts(part))
        for number in (2, 3):
            for message in messages[number].values():
                self._require_counts(message, messages[1][message.site], target)
        self._messages = messages
        self._keep()

    def _require_counts(self, message: Message, first: Message, target: Target) -> None:
        """A later summary is of as many people as the first."""
        parts, kind = message.parts if message.round == 2 else {"": message}, Kind.of(target)
        for name, part in parts.items():
            firsts = [first.parts[name]] if message.round == 2 else [*first.parts.values()]
            try:
                require_counts(kind.counts(part), [kind.counts(one) for one in firsts])
            except ValueError as error:
                raise SummaryError(f"{message}: {error}") from error

    def withdraw(self, site: str) -> None:
        """Take everything of a site out again, and delete it with all that followed from it; may be repeated."""
        if site not in self._messages[1] and _site_hash(site) not in self._withdrawn:
            raise unknown("site", site, self._messages[1])
        self._withdrawn = sorted({*self._withdrawn, _site_hash(site)})
        self._remember(deleting=True)
        self._delete_withdrawn()
        self._messages = self._read_received()

    def _delete_withdrawn(self) -> None:
        for name in self._withdrawn:
            for path in (self.folder / RECEIVED).glob(f"{name}-*.summary"):
                path.unlink(missing_ok=True)
        for path in (self.folder / RECEIVED).glob("*-3.summary"):
            path.unlink(missing_ok=True)
        for path in (self.folder / RECEIVED).glob("*-2.summary"):
            if is_masked(read_message(path, SUMMARY)):
                path.unlink(missing_ok=True)  # a part of a sum that cannot be read any more
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
        content = {"thresholds": self.thresholds, "withdrawn": self._withdrawn, "deleting": deleting, "key": self._key}
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
        target, firsts = self.target, self._by_block(1)
        if not firsts or max(map(len, firsts.values())) < MIN_SITES:
            self._forget(0)
            sites = f"{len(self.sites)} site(s) so far ({listed(self.sites)})"
            return Progress(1, [*self._left_out_lines(), f"{sites}; {MIN_SITES} are needed to go on"])
        lines, warnings, blocks = self._left_out_lines(), list[str](), dict[str, PooledBlock]()
        ready = {name: of_sites for name, of_sites in firsts.items() if len(of_sites) >= MIN_SITES}
        for name, of_sites in ready.items():
            label = f"{name}: " if name else ""
            seconds = self._by_block(2).get(name, {})
            try:
                block = self._block(of_sites, seconds, target, 2 if len(ready) > 1 else 1)
            except EmptyScaffoldError as error:
                if len(ready) == 1:
                    raise
                lines.append(f"note: {label}left out, because {error}")
                continue
            blocks[name] = block
            counts = sum(int(summary.counts.sum()) for summary in block.summaries.values())
            lines.append(
                f"{label}{len(block.whole)} of {len(block.whole.consensus)} {block.like.unit_of_reading}s agreed on, "
                f"from {counts} people of {len(block.sites)} sites"
            )
            lines += [f"note: {label}{note}" for note in block.statistics.deconfounder.notes_]
            warnings += [f"{label}{text}" for text in suspicions(block.summaries)]
        if not blocks:
            raise EmptyScaffoldError("the sites agree on nothing in any block")
        lines += [
            f"note: {name}: left out, because {len(of_sites)} site(s) have it and {MIN_SITES} are needed"
            for name, of_sites in firsts.items()
            if name not in ready
        ]
        lines += [f"note: {note}" for note in self._withheld()]
        self._write_scaffold(blocks)
        waiting = sorted({name for block in blocks.values() for name in block.waiting()})
        if waiting:
            self._forget(1)
            self._ask(2, blocks, {name: block.request(MIN_SITES) for name, block in blocks.items()})
            lines += [] if any(block.keys for block in blocks.values()) else [IN_THE_OPEN]
            lines.append(f"round 2: waiting for {listed(waiting, 30)}; send them {self.folder / ASKED}")
            return Progress(2, lines, warnings)
        return self._model_and_scores(blocks, lines, warnings)

    def _left_out_lines(self) -> list[str]:
        return [
            f"note: {name} has withdrawn, and its files were left out; should it take part again, say: --again {name}"
            for name in sorted(self._left_out)
        ]

    def _model_and_scores(self, blocks: Mapping[str, PooledBlock], lines: list[str], warnings: list[str]) -> Progress:
        """Model and readings without each site; with all third summaries also scores and calibration."""
        members, sites = list(blocks.values()), self.sites
        weights = block_weights(members).weights if len(members) > 1 else np.ones(1)
        readings: dict[str, dict[str, np.ndarray]] = {name: {} for name in blocks}
        held_out = []
        for k, name in enumerate(sites):
            left_out = frozenset({name})
            here = block_weights(members, left_out).weights if len(members) > 1 else np.ones(1)
            models = [block.reading_without(left_out) for block in members]
            if any(model is not None for model in models):
                held_out.append(name)
            for block, model, weight in zip(blocks, models, here, strict=True):
                if model is not None:
                    weighted = {"weights": weight * model["weights"]} if len(members) > 1 else {}
                    readings[block] |= {f"{k}.{key}": value for key, value in {**model, **weighted}.items()}
        notes = [note for block in members for note in block.statistics.deconfounder.notes_]
        if len(held_out) < len(sites):
            alone = sorted(set(sites) - set(held_out))
            notes.append(f"never held out, because without them the scaffold is empty: {listed(alone)}")
        if len(members) > 1:
            notes.append(self._told_weights(blocks, weights))
            lines.append(notes[-1])
        request = content_hash([[self._messages[k][name].digest for name in sites for k in (1, 2)], self.thresholds])
        kind, steps = (
            Kind.of(self.target),
            Kind.of(self.target).at_steps([self._messages[1][name] for name in held_out]),
        )
        answers = {name: m for name, m in self._messages[3].items() if m.request == request}
        third = {name: kind.from_first_step(m.arrays) for name, m in answers.items()}
        waiting = [name for name in held_out if name not in third]
        scores = None if waiting else kind.results(held_out, third).join(steps)
        learned: dict[str, Any] = {}
        if scores is not None:
            learned = kind.learned([third[name] for name in held_out])
            learned["inner_sites"] = kind.inner_sites(scores)
        pooled = {name: (block.like, block.pathways()) for name, block in blocks.items()}
        n_people = {name: self._n_people(name) for name in sites}
        save_pooled(self.folder / "model", pooled, weights, n_people, self.thresholds, notes, self.target, **learned)
        lines.append(f"model: {self.folder / 'model'}")
        lines += membership_lines("scaffold", sum(n_people.values()))
        self._ask(3, blocks, readings, request)
        for member in members:
            told = {name: float(arrays["moved"]) for name, arrays in third.items() if "moved" in arrays}
            warnings += moving_most(told if member.keys else member.moved())
        if scores is None:
            self._forget(2)
            lines.append(f"round 3: waiting for {listed(waiting, 30)}; send them {self.folder / ASKED}")
            return Progress(3, lines, warnings)
        if len(blocks) > 1:
            scores = scores.join(self._without_each(held_out, third, list(blocks)))
        lines.append(f"scores by site: {write_csv(self.folder / 'scores.csv', scores)}")
        return Progress(4, lines, warnings, scores)

    def _without_each(
        self, sites: Sequence[str], third: Mapping[str, Mapping[str, np.ndarray]], blocks: Sequence[str]
    ) -> pd.DataFrame:
        """How well people are ordered without each block; as with it where a site lacks the block."""
        rows = []
        for site in sites:
            own = dict(zip(self._messages[3][site].blocks, third[site]["without"].tolist(), strict=True))
            rows.append([own.get(block, Kind.of(self.target).figure(third[site])) for block in blocks])
        return pd.DataFrame(rows, columns=[f"{WITHOUT}{block}" for block in blocks])

    def _told_weights(self, blocks: Mapping[str, PooledBlock], weights: np.ndarray) -> str:
        """The shares of the blocks in the score of a person, in words."""
        moments = [block.moments(frozenset()) for block in blocks.values()]
        spread = np.array([np.sqrt(m.squares / m.n_people) if m.n_people else 1.0 for m in moments])
        shares = weights * spread / (weights * spread).sum()
        text = ", ".join(f"{name} {share:.0%}" for name, share in zip(blocks, shares, strict=True))
        return f"weights of the blocks, from held-out sites: {text}"

    def _by_block(self, number: int) -> dict[str, dict[str, Message]]:
        """The messages of a round by block and site, blocks in the order of the first site that has them."""
        by_block: dict[str, dict[str, Message]] = {}
        for site in self.sites:
            if site in self._messages[number]:
                for name, part in self._messages[number][site].parts.items():
                    by_block.setdefault(name, {})[site] = part
        return by_block

    def _n_people(self, site: str) -> int:
        """How many people a site has, of several blocks in the one that most have."""
        return max(int(part.arrays["counts"].sum()) for part in self._messages[1][site].parts.values())

    def _withheld(self) -> list[str]:
        """What sites withhold, and why."""
        parts = {k: [p for m in self._messages[k].values() for p in m.parts.items()] for k in (1, 2)}
        lines = [
            f"site {m.site}: {f'{name}, ' if name else ''}{visible(what)} {visible(why)}"
            for name, m in sorted(parts[1], key=lambda pair: pair[1].site)
            for what, why in m.withheld.items()
        ]
        return lines + [
            f"site {m.site}, round 2: {f'{name}, ' if name else ''}edges {visible(m.withheld['edges'])}"
            for name, m in parts[2]
            if "edges" in m.withheld
        ]

    def _block(
        self, firsts: Mapping[str, Message], seconds: Mapping[str, Message], target: Target, n_left_out: int
    ) -> PooledBlock:
        """The summaries of a block: under masks where it is the only one and all of its hospitals have keys."""
        if self._messages[1].keys() != firsts.keys() or not all(m.keys for m in firsts.values()) or n_left_out > 1:
            in_the_open = {name: m for name, m in seconds.items() if not is_masked(m)}
            return PooledBlock(firsts, in_the_open, self.thresholds, target, n_left_out)
        from brainroam.execution.federation.masked import MaskedBlock
        from brainroam.execution.federation.masking import new_key

        if not self._key:
            self._key = new_key().hex()
            self._remember()
        masked = {name: m for name, m in seconds.items() if is_masked(m)}
        block = MaskedBlock(firsts, masked, self.thresholds, target, bytes.fromhex(self._key))
        # The bytes that hospitals were sent are asked for again, on whatever machine this is done.
        told = read_message(self.folder / SUMS, REQUEST) if (self.folder / SUMS).is_file() else None
        if told is None or told.request != block.inputs:
            told = self._request(2, {"": block}, {"": block.request(MIN_SITES)}, block.inputs)
            told.write(self.folder / SUMS)
        block.asked = told
        return block

    def _request(
        self,
        number: int,
        blocks: Mapping[str, PooledBlock],
        arrays: Mapping[str, dict[str, np.ndarray]],
        request: str,
    ) -> Message:
        header: dict[str, Any] = {"sites": self.sites, "target": self.target.described(), "request": request}
        parts = {
            name: replace(
                block.like,
                what=REQUEST,
                round=number,
                arrays=arrays[name],
                site="",
                keys=dict(block.keys),
                **header,
                **NOT_ASKED,
            )
            for name, block in blocks.items()
        }
        first = next(iter(parts.values()))
        return first if "" in parts else replace(first, arrays={}).of_parts(parts)

    def _ask(
        self,
        number: int,
        blocks: Mapping[str, PooledBlock],
        arrays: Mapping[str, dict[str, np.ndarray]],
        request: str = "",
    ) -> None:
        """Write the request: the one that is kept in round 2 under masks, and in round 3 which one its sums are of."""
        block = next(iter(blocks.values()))
        if block.keys and number == 2:
            block.asked.write(self.folder / ASKED)
            return
        told = self._request(number, blocks, arrays, request)
        replace(told, sums=block.asked.identity if block.keys else "").write(self.folder / ASKED)

    def _write_scaffold(self, blocks: Mapping[str, PooledBlock]) -> None:
        tables = []
        for name, block in blocks.items():
            edges, pairs = block.whole.edges, block.statistics.pairs
            columns = {"edge": edges, "region_1": pairs[edges, 0], "region_2": pairs[edges, 1]}
            for what in ("consensus", "sign_consistency", "stability"):
                columns[what] = getattr(block.whole, what)[edges]
            tables.append(pd.DataFrame({**({"block": name} if name else {}), **columns}))
        write_csv(self.folder / "scaffold.csv", pd.concat(tables, ignore_index=True))

    def _read_received(self) -> dict[int, dict[str, Message]]:
        """All summaries; what a site sent later counts with its first one only."""
        messages: dict[int, dict[str, Message]] = {1: {}, 2: {}, 3: {}}
        for path in sorted((self.folder / RECEIVED).glob("*.summary")):
            message = read_message(path, SUMMARY).without_sums()
            messages[message.round][message.site] = message
        return {number: {k: m for k, m in sites.items() if k in messages[1]} for number, sites in messages.items()}

    def _keep(self) -> None:
        """Files are named by hashes: a site's name never becomes a path."""
        self._withdrawn = [name for name in self._withdrawn if name not in map(_site_hash, self._messages[1])]
        self._remember()
        for number, of_sites in self._messages.items():
            for site, message in of_sites.items():
                path = self.folder / RECEIVED / f"{_site_hash(site)}-{number}.summary"
                if message.path != path:
                    whole = read_message(message.path, SUMMARY)
                    of_sites[site] = read_message(whole.write(path), SUMMARY).without_sums()


def _site_hash(site: str) -> str:
    return hashlib.sha256(site.encode()).hexdigest()[:16]


def common_target(messages: Iterable[Message]) -> Target:
    """The target of these sites; of several classes with those of all sites, controls first; of an order its steps."""
    messages = list(messages)
    return Kind.of(messages[0].predicts).common(messages) if messages else TWO_CLASSES
