"""`evaluate` as users call it: a method that did not come with brainroam is searched for leaks first.

Once per study, by the leak checks alone and on few people, so that it costs little beside the study; a folder of runs
keeps the verdict. It is printed on stderr. A leak is a warning and does not stop the study: `audit` says more.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from brainroam.audit.candidates import MethodCandidate
from brainroam.audit.fresh import FreshProcesses
from brainroam.audit.leaks import leak_checks, usable_sites
from brainroam.data.cohort import Cohort
from brainroam.errors import listed
from brainroam.evaluation import runner
from brainroam.evaluation.code_version import code_version
from brainroam.methods.adapter import resolve
from brainroam.methods.registry import is_ours
from brainroam.utils.files import write_text
from brainroam.utils.threads import one_thread

KEPT = "method-audits.json"
MOST_SITES, MOST_OF_A_CLASS = 4, 10  # of a cohort, and at each site
Given = ParamSpec("Given")
_audits: dict[str, dict[str, Any]] = {}  # of studies that keep nothing


def _searched(evaluate: Callable[Given, runner.Results]) -> Callable[Given, runner.Results]:
    @wraps(evaluate)
    def searched(*args: Given.args, **kwargs: Given.kwargs) -> runner.Results:
        given = signature(evaluate).bind(*args, **kwargs).arguments
        search(given["cohort"], list(foreign(given["methods"], given.get("parameters") or {})), given.get("out"))
        return evaluate(*args, **kwargs)

    return searched


evaluate = _searched(runner.evaluate)


def foreign(methods: Any, parameters: Mapping[str, Any]) -> Iterator[MethodCandidate]:
    """Those of the methods that did not come with brainroam.

    >>> list(foreign(["fc-ridge", "core[budget=20]"], {}))
    []
    """
    for info, own in resolve(methods):
        if not is_ours(info) and not info.in_distribution_only:
            yield MethodCandidate(info, {**parameters, **own})


def search(cohort: Cohort, candidates: Sequence[MethodCandidate], out: str | Path | None = None) -> None:
    """Print what the leak checks say of each, unless they have said it in this study before."""
    file = None if out is None else Path(out) / KEPT
    known = _audits if file is None else _read(file)
    keys = {f"{item.name} {code_version(item.info)} {cohort.manifest_hash}": item for item in candidates}
    new = {key: item for key, item in keys.items() if key not in known}
    if not new:
        return
    with FreshProcesses() as processes:
        for key, item in new.items():
            verdict, leak = _verdict(item, cohort, processes)
            known[key] = {"key": key, "method": item.name, "verdict": verdict, "leak": leak}
            print(f"audit of {item.name}: {verdict}", file=sys.stderr)
            if leak:
                warnings.warn(f"{item.name} leaks, and its results cannot be believed: {verdict}", stacklevel=4)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"audits": list(known.values())}, indent=1))


@one_thread()
def _verdict(item: MethodCandidate, cohort: Cohort, processes: FreshProcesses) -> tuple[str, bool]:
    """In words, and whether a leak was found; by few people, or by everybody where a method needs more."""
    some, checks, problem = few(cohort), None, ""
    for people in [some] if len(some) == len(cohort) or cohort.on_disk else [some, cohort]:
        try:
            checks = list(leak_checks(item, people, processes))
            break
        except Exception as error:  # whatever a method of somebody else raises, it raises in the study too
            problem = f"{type(error).__name__}: {error}"
    if checks is None:
        return f"could not be done: {problem}", False
    failed = [f"{check.name} ({check.evidence})" for check in checks if check.passed is False]
    if failed:
        return f"{len(failed)} of {len(checks)} checks failed: {listed(failed)}", True
    return f"no leak found by {len(checks)} checks with {len(people)} people; brainroam audit does more", False


def few(cohort: Cohort) -> Cohort:
    """A few people of both classes of a few sites; everybody where that would be too few to hold out a site.

    >>> from brainroam.data.synthetic import make_cohort
    >>> few(make_cohort(n_sites=6, n_per_site=30, n_rois=8))
    Cohort(80 people, 4 sites, 40 with the condition, 8 regions of 'custom')
    """
    sites = usable_sites(cohort)[:MOST_SITES]
    if len(sites) < 2:
        return cohort
    groups = cohort.table[cohort.table["site"].isin(sites)].groupby(["site", "label"])
    return cohort.subset(np.sort(groups.head(MOST_OF_A_CLASS).index.to_numpy()))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        return {audit["key"]: audit for audit in json.loads(file.read_text(encoding="utf-8"))["audits"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}  # none yet, or not ours
