"""The record of what a site agreed to and answered, beside the files it sends; it never leaves the hospital.

The site's own first round fixes settings, covariates, counts, noise and people. A later request that asks for anything
else is refused with the difference shown, because two answers that differ in one column or one person tell that column
or person by subtraction. So the same request gets the same answer, to the last bit, and of different requests for a
round (a site joined, another withdrew) a few are answered; with noise, whose budget is that of one answer, one is.

Rows are kept as salted hashes of label, covariates and series, and people as salted hashes of their names and of their
series. Round 1 may begin anew once as many rows as the minimum count have changed, gone or come, and of the people
themselves none or as many: against every first round before, so that no two summaries differ by a few. Whoever stands
under the same name, or has the same series, is the same person, however the table was written since.

What a summary is called says nothing about whose it is. So a first round is held against all records of the folder,
by whatever name of a site or block: there, whoever has the same series, or the same name, label and covariates, is the
same person. Nothing is told of the same measurements under a second name.

From reading the record to writing it the folder is locked, so that of answers asked for at once each sees the others.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.errors import SummaryError, listed
from brainroam.execution.federation.disclosure import disclosable_edges
from brainroam.execution.federation.files import Message, Settings, target_in_words
from brainroam.execution.federation.protection import Protection
from brainroam.utils.files import content_hash, one_at_a_time, read_checksummed, write_checksummed

DIFFERENT = 3  # requests of a round that are answered
NOTHING_ASKED: dict[str, Any] = {"answers": [], "asked": [], "edges": []}


class Ledger:
    """The record of one site, in the folder that its files are written to.

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp(), "Hospital A")
    >>> ledger.content["rounds"], ledger.told_edges.tolist()
    ([], [])
    """

    def __init__(self, folder: str | Path, site: str, block: str = "") -> None:
        self.site, self.block, named = site, block, f"{site}\n{block}" if block else site
        self.path = Path(folder) / f"site-{hashlib.sha256(named.encode()).hexdigest()[:16]}.ledger"
        self._read()

    def _read(self) -> None:
        begun = {"site": self.site, "block": self.block, "salt": secrets.token_hex(16), "rounds": []}
        told = read_checksummed(self.path, SummaryError) if self.path.exists() else {}
        self.content: dict[str, Any] = begun | NOTHING_ASKED | told

    @contextmanager
    def held(self) -> Iterator[None]:
        """Read the record anew, and let nobody else read or write one in this folder until this is left."""
        with one_at_a_time(self.path):
            self._read()
            yield

    def of_block(self, block: str) -> "Ledger":
        """The record of one of several blocks of the same site: its people, and the edges told of it."""
        return Ledger(self.path.parent, self.site, block)

    def agree(
        self,
        cohort: Cohort,
        request: Message | None,
        settings: Settings,
        covariates: Sequence[str],
        protection: Protection | None,
        min_count: int,
        least: int,
    ) -> None:
        """Refuse terms or people that differ from the first round, which fixes both."""
        terms = {
            **asdict(settings),
            "covariates": list(covariates),
            "protection": dict(vars(protection)) if protection else {},
            "min_count": min_count,
            "min_per_class": least,
            "regions": cohort.atlas.name,
            "target": target_in_words(cohort.target),
        }
        rounds = self.content["rounds"]
        gone, new = self._changes(cohort, rounds[-1]) if rounds else (0, 0)
        if request is None and (gone or new or not rounds):
            self._begin(terms, cohort, min_count)
            gone = new = 0
        if not self.content["rounds"]:
            raise SummaryError(
                f"there is no record of the first round of {self.site} in {self.path.parent}: write all files of a "
                "site to one folder, beginning with round 1"
            )
        self._require_terms(terms, self.content["rounds"][-1]["terms"], request)
        if gone or new:
            raise SummaryError(
                f"the people of {self.site} are not those of its first round: {gone} of them have gone or changed, "
                f"{new} are new. Answers that differ by them would tell who they are: nothing was written. If somebody "
                f"has withdrawn, let the coordinator take the whole site out (pool --without {self.site})"
            )
        self._require_few_requests(request, protection)

    def record(self, request: Message | None, n_people: int) -> None:
        """Record the answer that is about to be sent."""
        answer = [1 if request is None else request.round, _identity(request)]
        if request is not None and request.round == 2 and request.keys:
            asked = [value for name, value in request.arrays.items() if name.endswith(".edges")]
            self.content["asked"] = np.unique(np.concatenate([*asked, self.content["asked"]])).astype(int).tolist()
            if request.sites not in (sums := self.content.get("sums", [])):
                self.content["sums"] = [*sums, request.sites]
        elif request is not None and request.round == 2:
            edges, before = request.arrays["edges"], self.told_edges
            new_edges = edges[disclosable_edges(edges, request.arrays["priority"], before, n_people)]
            self.content["edges"] = np.union1d(before, new_edges).tolist()
            self.content["asked"] = np.union1d(self.content["asked"], edges).astype(int).tolist()
        if answer not in self.content["answers"]:
            self.content["answers"] = [*self.content["answers"], answer]
        write_checksummed(self.path, self.content)
        self.path.chmod(0o600)  # it holds the key, and hashes of people

    def noise(self, request: Message | None) -> np.random.Generator:
        """The noise of an answer: the same for the same request, since averaging many answers would remove it."""
        seed = hashlib.sha256(f"{self.content['salt']} {_identity(request)}".encode()).hexdigest()
        return np.random.default_rng(int(seed, 16))

    @property
    def private(self) -> bytes:
        """The key under which this site's sums are masked; made once, it never leaves."""
        from brainroam.execution.federation.masking import new_key

        if "key" not in self.content:
            self.content["key"] = new_key().hex()
        return bytes.fromhex(self.content["key"])

    @property
    def is_masked(self) -> bool:
        """Whether the first summary of these people was sent with a key."""
        return bool(self.content["rounds"]) and self.content["rounds"][-1].get("masked", False)

    def agree_to_masks(self, masked: bool) -> None:
        """Write down with round 1 whether later rounds are under masks."""
        self.content["rounds"][-1]["masked"] = masked

    def require_apart(self, request: Message, again: bool) -> None:
        """Refuse sums over hospitals that differ by one from sums told before: the difference is that one's own."""
        for sites in [] if again else self.content.get("sums", []):
            differ = set(sites) ^ set(request.sites)
            if len(differ) == 1:
                raise SummaryError(
                    f"{request.path} asks for sums over {len(request.sites)} hospitals that differ from those of a "
                    f"request answered before by {listed(differ)} alone: who has both sums has the products of "
                    f"{listed(differ)}. Nothing was written. If {listed(differ)} never sent its part of the one, or "
                    "agrees, say: --again"
                )

    @property
    def told_edges(self) -> np.ndarray:
        """The edges of which products were told before."""
        return np.array(self.content["edges"], dtype=int)

    def _begin(self, terms: Mapping[str, Any], cohort: Cohort, min_count: int) -> None:
        """A first round, unless it differs by a few people, or by its terms alone, from one that was told before."""
        for other in self._others():
            self._require_others_told(other, terms, cohort, min_count)
        people = self._persons(cohort)
        for before in self.content["rounds"]:
            rows = self._changes(cohort, before)
            of_people = _unknown(before["persons"], people), _unknown(people, before["persons"])
            few = [pair for pair in (of_people, rows) if any(0 < n < min_count for n in pair)]
            if few:
                gone, new = few[0]
                raise SummaryError(
                    f"{gone} people of {self.site} have gone or changed since a first summary of it, and {new} are "
                    "new: the difference of two summaries would tell who they are. Nothing was written. Let the "
                    f"coordinator take the whole site out (pool --without {self.site}); it can begin anew once "
                    f"{min_count} people differ"
                )
            if not any(of_people):
                self._require_terms(terms, before["terms"])
        begun = {"terms": dict(terms), "people": self._rows(cohort, terms["covariates"]), "persons": people}
        self.content |= {"rounds": [*self.content["rounds"], begun], **NOTHING_ASKED}

    def _others(self) -> "list[Ledger]":
        """The records of other sites and blocks in the same folder."""
        names = (
            (told["site"], told.get("block", ""))
            for told in (
                read_checksummed(path, SummaryError) for path in sorted(self.path.parent.glob("site-*.ledger"))
            )
        )
        return [Ledger(self.path.parent, *name) for name in names if name != (self.site, self.block)]

    def _require_others_told(self, other: "Ledger", terms: Mapping[str, Any], cohort: Cohort, min_count: int) -> None:
        """Refuse people whom another record has already, or all of them but a few."""
        who = f"{other.site}{f', block {other.block}' if other.block else ''}"
        people = other._persons(cohort)
        for before in other.content["rounds"]:
            told = before["persons"]
            gone, new = _unknown(told, people, False), _unknown(people, told, False)
            if gone == len(told) or new == len(people):
                continue  # nobody is among both
            if 0 < gone < min_count or 0 < new < min_count:
                raise SummaryError(
                    f"{new} people of {self.site} were not among those told of as {who}, and {gone} of those are "
                    "missing: the difference of two summaries would tell who they are. Nothing was written"
                )
            same_series = _series(people) & _series(told)
            if not gone and not new and same_series:
                raise SummaryError(
                    f"the people of {self.site} were told of as {who} before: what is told twice under two names tells "
                    f"more. Go on as {who}, or let the coordinator take that out (pool --without {other.site})"
                )
            if not gone and not new:
                self._require_terms(
                    {name: value for name, value in terms.items() if name != "regions"}, before["terms"]
                )

    def _require_terms(
        self, terms: Mapping[str, Any], agreed: Mapping[str, Any], request: Message | None = None
    ) -> None:
        other = [
            f"{name} {agreed.get(name)!r}, now {terms[name]!r}" for name in terms if terms[name] != agreed.get(name)
        ]
        if other:
            raise SummaryError(
                f"{request.path if request else 'this round'} is not what {self.site} agreed to in round 1: "
                f"{listed(other)}; nothing was written"
            )

    def _require_few_requests(self, request: Message | None, protection: Protection | None) -> None:
        this_round = 1 if request is None else request.round
        before = [identity for number, identity in self.content["answers"] if number == this_round]
        most = 1 if protection else DIFFERENT
        if _identity(request) not in before and len(before) >= most:
            raise SummaryError(
                f"{self.site} has answered {most} different request(s) of round {this_round} already, and answers no "
                "more: each tells a little about the same people"
            )
        if request is not None and request.round == 3:
            read = [array for name, array in request.arrays.items() if name.endswith(".edges")]
            strange = np.setdiff1d(np.concatenate([*read, np.empty(0, dtype=int)]), self.content["asked"])
            if len(strange):
                raise SummaryError(f"{request.path} reads {len(strange)} edges that round 2 did not ask for")

    def _changes(self, cohort: Cohort, before: Mapping[str, Any]) -> tuple[int, int]:
        """How many rows have gone or changed since a first round, and how many are new."""
        return _differences(before["people"], self._rows(cohort, before["terms"]["covariates"]))

    def _rows(self, cohort: Cohort, covariates: Sequence[str]) -> list[str]:
        """A hash of label, covariates and series of each scan."""
        rows = cohort.table.reindex(columns=["label", *covariates]).astype(object).to_numpy().tolist()
        identities = zip(rows, cohort.series_digests, strict=True)
        # Text, since a value that is missing has no other place in what is hashed.
        return sorted(content_hash([self.content["salt"], list(map(str, row)), digest]) for row, digest in identities)

    def _persons(self, cohort: Cohort) -> dict[str, dict[str, list[str]]]:
        """A hash of everybody's name; by it, hashes of their series, and of their name, label and covariates."""
        found: dict[str, dict[str, list[str]]] = {}
        table = cohort.table.reindex(columns=["label", *cohort.covariate_names]).astype(object)
        who = persons(cohort.table)
        rows = [[str(name), *map(str, row)] for name, row in zip(who, table.to_numpy().tolist(), strict=True)]
        hashes = (self._hashes(values) for values in (who, cohort.series_digests, rows))
        for name, series, row in zip(*hashes, strict=True):
            own = found.setdefault(name, {"series": [], "rows": []})
            own["series"].append(series)
            own["rows"].append(row)
        return found

    def _hashes(self, values: Iterable[Any]) -> list[str]:
        return [content_hash([self.content["salt"], str(value)]) for value in values]


def _differences(before: Sequence[str], now: Sequence[str]) -> tuple[int, int]:
    """How many rows have gone, and how many are new."""
    one, other = Counter(before), Counter(now)
    return (one - other).total(), (other - one).total()


def _series(people: Mapping[str, Mapping[str, list[str]]]) -> set[str]:
    return {one for own in people.values() for one in own["series"]}


def _unknown(
    people: Mapping[str, Mapping[str, list[str]]], others: Mapping[str, Mapping[str, list[str]]], by_name: bool = True
) -> int:
    """How many people are not among others, neither by series nor by name (else by name, label and covariates)."""
    series, rows = _series(others), {one for own in others.values() for one in own["rows"]}
    return sum(
        series.isdisjoint(own["series"]) and (name not in others if by_name else rows.isdisjoint(own["rows"]))
        for name, own in people.items()
    )


def _identity(request: Message | None) -> str:
    """What tells one request from another; empty for the first round, which answers none."""
    return request.identity if request else ""
