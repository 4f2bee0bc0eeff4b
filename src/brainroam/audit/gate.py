"""`evaluate` as users call it: methods that did not come with brainroam are audited first.

Once per study, by the leak checks alone and on few people, so that it costs little beside the study; a folder of runs
keeps the verdict. It is printed on stderr. When the runs are done, their figures are computed again where no such
method ran (`brainroam.audit.recheck`), their scores are looked at as those of a file are
(`brainroam.evaluation.checks`), and so is whether a score depended on who else was scored: a leak may wait for the
whole study. A leak is a warning and does not stop the study: `audit` says more. Figures that do not come again are an
error.
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
from brainroam.audit.recheck import refuted
from brainroam.data.cohort import Cohort
from brainroam.errors import BrainroamError, counted, listed
from brainroam.evaluation import runner
from brainroam.evaluation.checks import Check, check_scores
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.results import Results
from brainroam.evaluation.runner import COMPANY
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.methods.registry import is_ours, resolve
from brainroam.utils.files import content_hash, write_text
from brainroam.utils.optional import one_thread

KEPT = "method-audits.json"
COMPUTED_AGAIN = "computed-again.txt"  # the runs whose figures came again
MOST_SITES, MOST_OF_A_CLASS = 4, 10  # of a cohort, and at each site
Given = ParamSpec("Given")
_audits: dict[str, dict[str, Any]] = {}  # of studies that keep nothing


def _searching_for_leaks(evaluate: Callable[Given, Results]) -> Callable[Given, Results]:
    @wraps(evaluate)
    def searched(*args: Given.args, **kwargs: Given.kwargs) -> Results:
        bound = signature(evaluate).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        candidates = list(foreign_methods(arguments["methods"], arguments["parameters"] or {}))
        if not candidates:
            return evaluate(*args, **kwargs)
        cohort = arguments["cohort"]
        search_leaks(cohort, candidates, arguments["out"])
        results = evaluate(*args, **kwargs)
        settings = (arguments[name] for name in ("methods", "parameters", "n_splits", "n_repeats"))
        compute_again(results, cohort, *settings)
        check_finished_runs(results, cohort, candidates)
        return results

    return searched


evaluate = _searching_for_leaks(runner.evaluate)


def foreign_methods(methods: Any, parameters: Mapping[str, Any]) -> Iterator[MethodCandidate]:
    """Those of the methods that did not come with brainroam.

    >>> list(foreign_methods(["fc-ridge", "core[budget=20]"], {}))
    []
    """
    for info, own in resolve(methods):
        if not is_ours(info) and not info.in_distribution_only:
            yield MethodCandidate(info, {**parameters, **own})


def search_leaks(cohort: Cohort, candidates: Sequence[MethodCandidate], out: str | Path | None = None) -> None:
    """Run the leak checks on each candidate that this study has not checked yet, and print the outcome."""
    file = None if out is None else Path(out) / KEPT
    audits = _audits if file is None else _read(file)
    new = {key: item for item in candidates if (key := _audit_key(item, cohort)) not in audits}
    if not new:
        return
    with FreshProcesses() as processes:
        for key, item in new.items():
            verdict, checks = _verdict(item, cohort, processes)
            failed = [check.name for check in checks if check.passed is False]
            audits[key] = {
                "key": key,
                "method": item.name,
                "verdict": verdict,
                "leak": bool(failed),
                "n_checks": len(checks),
                "n_passed": sum(check.passed is True for check in checks),
                "failed": failed,
            }
            print(f"audit of {item.name}: {verdict}", file=sys.stderr)
            if failed:
                _warn(item.name, failed)
    _write(file, audits)


def compute_again(
    results: Results, cohort: Cohort, methods: Any, parameters: Mapping[str, Any] | None, n_splits: int, n_repeats: int
) -> None:
    """Refuse a study whose figures do not come again where somebody else's method never was; once for the same runs."""
    runs = content_hash(sorted(spec.hash for spec, _ in results.records))
    file = None if results.path is None else results.path / COMPUTED_AGAIN
    if file is not None and file.is_file() and file.read_text(encoding="utf-8").strip() == runs:
        return
    wrong = refuted(results, cohort, methods, parameters or {}, n_splits, n_repeats)
    if not wrong:
        if file is not None:
            write_text(file, runs + "\n")
        return
    if results.path is not None:
        folder = RunsFolder(results.path)
        for run, words in wrong.items():
            folder.keep(folder.runs[run][0], {"status": "failed", "error": words, "traceback": ""})
        folder.write_tables()
    runs_in_words = listed([f"{spec}: {wrong[spec.hash]}" for spec, _ in results.records if spec.hash in wrong], 3)
    raise BrainroamError(
        f"{counted(len(wrong), 'run', 'runs')} of {len(results.records)} cannot be believed: {runs_in_words}. A method "
        "of this study changes what measures it, or its rivals: leave it out, and begin again in a new process"
    )


def check_finished_runs(results: Results, cohort: Cohort, candidates: Sequence[MethodCandidate]) -> None:
    """Check the scores of finished runs for signs of a leak, and keep the outcome with that of the leak checks."""
    file = None if results.path is None else results.path / KEPT
    audits = _audits if file is None else _read(file)
    for item in candidates:
        suspicious = [check for check in check_scores(results, [item.name]) if check.passed is False]
        evidence = [f"{check.name} ({check.evidence})" for check in suspicious]
        names = [check.name for check in suspicious]
        for spec, outcome in results.records:
            if spec.method == item.name and COMPANY in outcome["notes"]:
                names, evidence = [*names, "single-subject"], [*evidence, f"single-subject (at {spec.fold}: {COMPANY})"]
                break
        audit = audits.get(_audit_key(item, cohort))
        if not names or audit is None:
            continue
        words = f"the scores of its runs fail {counted(len(names), 'check', 'checks')}: {listed(evidence)}"
        if words in audit["verdict"]:
            continue
        audits[_audit_key(item, cohort)] = {
            **audit,
            "verdict": f"{audit['verdict']}; {words}",
            "suspicious": True,
            "n_checks": audit["n_checks"] + len(names),
            "failed": [*audit["failed"], *names],
        }
        print(f"audit of {item.name}: {words}", file=sys.stderr)
        if not audit["leak"]:
            warnings.warn(f"the scores of {item.name} are suspicious: {', '.join(names)} failed", stacklevel=4)
    _write(file, audits)


def _audit_key(item: MethodCandidate, cohort: Cohort) -> str:
    return f"{item.name} {code_version(item.info)} {cohort.manifest_hash}"


def _warn(name: str, failed: Sequence[str]) -> None:
    warnings.warn(f"{name} leaks, and its results cannot be believed: {', '.join(failed)} failed", stacklevel=5)


@one_thread()
def _verdict(item: MethodCandidate, cohort: Cohort, processes: FreshProcesses) -> tuple[str, list[Check]]:
    """The outcome in words and the checks, on few people, or on everybody where a method needs more."""
    some, checks, problem = few_people(cohort), list[Check](), ""
    for people in [some] if len(some) == len(cohort) or cohort.on_disk else [some, cohort]:
        try:
            checks = list(leak_checks(item, people, processes))
            break
        except Exception as error:  # whatever a method of somebody else raises, it raises in the study too
            problem = f"{type(error).__name__}: {error}"
    failed = [f"{check.name} ({check.evidence})" for check in checks if check.passed is False]
    if not checks:
        return f"could not be done: {problem}", []
    if failed:
        return f"{len(failed)} of {len(checks)} checks failed: {listed(failed)}", checks
    return f"no leak found by {len(checks)} checks with {people.counted}; brainroam audit does more", checks


def few_people(cohort: Cohort) -> Cohort:
    """A few people of both classes of a few sites; everybody where that would be too few to hold out a site.

    >>> from brainroam.data.synthetic import make_cohort
    >>> few_people(make_cohort(n_sites=6, n_per_site=30, n_rois=8))
    Cohort(80 people, 4 sites, 40 with the condition, 8 regions of 'custom')
    """
    sites = usable_sites(cohort)[:MOST_SITES]
    if len(sites) < 2:
        return cohort
    people = cohort.table[cohort.table["site"].isin(sites)]
    kinds = cohort.target.order.strata(people["label"].to_numpy())
    most = max(2 * MOST_OF_A_CLASS // len(np.unique(kinds)), MOST_OF_A_CLASS)
    some = people.groupby([people["site"], kinds]).head(most)
    return cohort.subset(np.sort(some.index.to_numpy()))


def _write(file: Path | None, audits: Mapping[str, Any]) -> None:
    if file is not None and audits:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"audits": list(audits.values())}, indent=1))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        return {audit["key"]: audit for audit in json.loads(file.read_text(encoding="utf-8"))["audits"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}  # none yet, or not ours
