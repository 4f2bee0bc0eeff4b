"""Facts of the study in words, for the methods text, the checklists and the model card."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brainroam import __version__
from brainroam.data.people import COVARIATES, NUISANCE
from brainroam.errors import BrainroamError, counted
from brainroam.evaluation.predictions_file import TUNING as FROM_FILE
from brainroam.methods.base import ANYTHING, MethodInfo
from brainroam.methods.blocks import names_of
from brainroam.methods.controls import confounds_of
from brainroam.methods.registry import bare_name, method_info, parse_name
from brainroam.report.data import ReportData
from brainroam.utils.parameters import settings_of

TUNING = {
    "full": "the whole grid of each method, every training site with both classes held out once in turn",
    "default": "default hyper-parameters; epochs and threshold from holding out every training site once, alone where "
    "epochs are chosen and otherwise in five groups of sites",
    "fast": "default hyper-parameters; the threshold from five groups of training sites, each held out once, of a "
    "network from one of them with its epochs",
    FROM_FILE: "as the authors of the file did it",
}
PROTOCOL = {
    "loso": "leave one site out: every site was held out once and the method trained on all the others",
    "loio": "leave one institution out: every institution was held out once, with all its sites",
    "halves": "halves of the sites: sites were dealt at random into two halves, the method trained on each and tested "
    "at every site of the other, repeatedly, and the results of a site averaged",
    "cv": "in-distribution folds: a random part of every site was held out, stratified by site and label",
}


@dataclass(frozen=True)
class MethodFact:
    """A method as it is named, described and cited."""

    name: str
    summary: str
    citation: str
    references: tuple[str, ...]
    seeds: tuple[int, ...]
    needs: tuple[str, ...]
    covariate_use: str = ""
    covariates: tuple[str, ...] = ()
    projected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What several sections say of the study.

    Attributes
    ----------
    people, scans, sites, excluded : int
    flow : str
        How many people of which kind.
    seeds : list of int
    tunings : list of str
        How the methods were tuned.
    versions : dict of str to list of str
        Of every package that made the runs; more than one where the runs disagree.
    methods : list of MethodFact
        That are compared under the main protocol.
    """

    people: int
    scans: int
    flow: str
    sites: int
    excluded: int
    seeds: list[int]
    tunings: list[str]
    versions: dict[str, list[str]]
    methods: list[MethodFact]

    @property
    def counted(self) -> str:
        """The people, and the scans where these are more."""
        return counted(self.people, "person", "people") + (f", {self.scans} scans" if self.repeated else "")

    @property
    def repeated(self) -> bool:
        """Whether somebody has several scans."""
        return self.scans > self.people

    @property
    def tuning(self) -> str:
        """How the methods were tuned, in words."""
        return "; ".join(TUNING[name] for name in self.tunings)


def gather_facts(data: ReportData) -> Facts:
    """Read them off the runs."""
    sites = data.study["sites"]
    versions: dict[str, set[str]] = {}
    for _, result in data.finished:
        for package, version in result.get("versions", {}).items():
            versions.setdefault(package, set()).add(version)
    scores = data.results.scores
    return Facts(
        people=len(data.everybody),
        scans=len(data.participants),
        flow=data.target.flow(data.everybody["label"]),
        sites=len(sites),
        excluded=len(data.study["excluded"]),
        seeds=sorted(int(seed) for seed in scores["seed"].unique()),
        tunings=sorted(scores["tuning"].unique()),
        versions={package: sorted(numbers) for package, numbers in sorted(versions.items())}
        or {"brainroam": [__version__]},
        methods=[_method(data, name) for name in data.compared],
    )


def _method(data: ReportData, name: str) -> MethodFact:
    scores = data.results.scores
    rows = scores[(scores["method"] == name) & (scores["protocol"] == data.protocol)]
    seeds = tuple(sorted(int(seed) for seed in rows["seed"].unique()))
    if name in data.from_files:
        return MethodFact(name, "scores made elsewhere, read from a file", "", (), seeds, ())
    registered, fixed = parse_name(bare_name(name))
    try:
        info = method_info(registered)
    except BrainroamError:  # an estimator that evaluate was given, or somebody else's plug-in
        names = (
            run["summary"] for spec, run in data.results.records if spec.name == bare_name(name) and "summary" in run
        )
        return MethodFact(name, next(names, "not a method of this version of brainroam"), "", (), seeds, ())
    described = data.study.get("covariates")  # not in studies of earlier versions
    of_study = COVARIATES if described is None else [name for name, seen in described.items() if seen["used"]]
    nuisance = nuisance_used(info, fixed, data.study)
    covariates = tuple(one for one in covariates_used(info, fixed, of_study) if one not in nuisance)
    uses = info.needs, info.covariate_use, covariates, nuisance
    blocks = names_of(fixed.get("blocks", ()))
    if set(fixed) == {"blocks"} and registered in data.compared:
        alone = f"{registered} of {join_names(blocks)} alone"
        return MethodFact(name, alone, "", (), seeds, *uses)
    published = tuple(part for part in info.citation.split("; ") if re.search(r"\b(19|20)\d\d\b", part))
    summary = _summary(info, data.words.kinds, blocks)
    return MethodFact(name, summary, info.citation, published, seeds, *uses)


def _summary(info: MethodInfo, kinds: Mapping[str, str], blocks: Sequence[str]) -> str:
    """What a method does with these blocks, or with all, by the kind of each: one that reads no brain, the same."""
    if ANYTHING in info.reads:
        return info.summary
    read = [name for name in blocks or kinds if kinds.get(name) in info.reads]
    does = {kinds[name]: OF_KIND.get(kinds[name], {}).get(info.name, info.summary) for name in read}
    only = f", of {join_names(read)} alone" if read and len(read) < len(kinds) else ""
    if len(set(does.values())) <= 1:
        return next(iter(does.values()), info.summary) + only
    return "; ".join(f"of {OF[kind]}: {text}" for kind, text in does.items()) + only


def covariate_sentences(data: ReportData, facts: Facts) -> list[str]:
    """What each method did with covariates; nothing where no method could use any.

    A covariate that is not known for anybody was not removed by anybody, whatever was asked for.
    """
    seen = data.study.get("covariates", {})
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    if not any(fact.covariates or fact.projected or "covariates" in fact.needs for fact in facts.methods):
        return []
    for fact in facts.methods:
        projected = tuple(name for name in fact.projected if seen.get(name, {}).get("known", 1))
        present = tuple(name for name in fact.covariates if seen.get(name, {}).get("known", 1))
        if projected:
            groups.setdefault(("projected", projected), []).append(fact.name)
        if present or not projected:
            groups.setdefault((fact.covariate_use if present else "", present), []).append(fact.name)
    ones = f"{data.words.feature}s"
    sentences = [in_words(use, methods, names, ones) for (use, names), methods in groups.items()]
    used = {name for fact in facts.methods for name in fact.covariates}
    gaps = {name: facts.people - seen[name]["known"] for name in sorted(used & set(seen))}
    some = [f"{name} for {n}" for name, n in gaps.items() if 0 < n < facts.people]
    if some:
        sentences.append(f"unknown values ({', '.join(some)} of {facts.people} people) stood at the training mean")
    nobody = [name for name, n in gaps.items() if n == facts.people]
    if nobody:
        sentences.append(f"{join_names(nobody)} {'was' if len(nobody) == 1 else 'were'} not known and so not used")
    return sentences


#: What methods do with tables and matrices, where it is not what their summary says of series.
OF_KIND = {
    "table": {
        "ensemble": "ridges of all columns by nine penalties, as held-out sites believe each, site means removed",
        "fc-ridge": "ridge of all columns, site means removed",
        "core": "as ensemble, beside a scaffold of the columns whose contrast the sites agree on",
        "scaffold-ridge": "ridge of the columns whose contrast the sites agree on, deconfounded by site",
    },
    "matrices": {
        "ensemble": "sum of two readers of all edges: Pearson, logarithm (of no correlations: as of a table)",
        "fc-ridge": "ridge on the matrices' edges, site means removed",
    },
}
OF = {"series": "series", "matrices": "matrices", "table": "tables"}
USE = {
    "removed": "{methods} removed {names} from the {ones}",
    "projected": "{methods} projected what moves with {names} within site and class out of the {ones}",
    "kept": "{methods} removed differences between sites and kept the effects of {names}",
    "read": "{methods} read {names} and nothing of the brain",
    "linked": "{methods} linked people of like {names}",
    "": "{methods} used {names}",
}


def covariates_used(info: MethodInfo, fixed: Mapping[str, Any], of_study: Sequence[str]) -> tuple[str, ...]:
    """The covariates a method uses: those of its name, else of its recipe, else of the study.

    >>> from brainroam.methods.registry import method_info
    >>> covariates_used(method_info("scaffold-ridge"), {}, ["age", "iq"])
    ('age', 'iq')
    >>> covariates_used(method_info("fc-ridge"), {}, ["age", "iq"])
    ()
    """
    own = settings_of(info.make).get("covariates")
    if own is None:
        return COVARIATES if info.covariate_use == "linked" else ()  # by its paper, whatever a study removes
    if info.covariate_use == "projected":
        return ()
    names = fixed.get("covariates", own.default)
    if names is not None:
        return tuple(names)
    return confounds_of(of_study) if info.covariate_use == "read" else tuple(of_study)


def nuisance_used(info: MethodInfo, fixed: Mapping[str, Any], study: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns whose directions a method takes out: those of its name, else of the study.

    >>> from brainroam.methods.registry import method_info
    >>> [nuisance_used(method_info(name), {}, {}) for name in ("core", "ensemble", "fc-ridge", "core-paper")]
    [('mean_fd',), ('mean_fd',), (), ()]
    """
    own = settings_of(info.make)
    key = "nuisance" if "nuisance" in own else "covariates" if info.covariate_use == "projected" else ""
    project = fixed.get("project", own["project"].default if "project" in own else True)
    if not key or not project:
        return ()
    names = fixed.get(key, own[key].default)
    of_study = tuple(name for name, seen in study.get("covariates", {}).items() if seen.get("projected"))
    return tuple(names) if names is not None else of_study or NUISANCE


def in_words(use: str, methods: Sequence[str], names: Sequence[str], ones: str = "edges") -> str:
    """One sentence, in the past tense of a report.

    >>> in_words("removed", ["core"], ["age", "sex"])
    'core removed age and sex from the edges'
    """
    if not names:
        return f"{join_names(methods)} used no covariates"
    return USE.get(use, USE[""]).format(methods=join_names(methods), names=join_names(names), ones=ones)


def join_names(names: Sequence[str]) -> str:
    """Names with commas and an 'and'."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
