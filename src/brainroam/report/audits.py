"""One verdict over all that searched a study for leaks: every sentence of the page about audits reads it."""

from typing import TYPE_CHECKING, NamedTuple

from brainroam.errors import listed

if TYPE_CHECKING:
    from brainroam.report.data import ReportData


class AuditVerdict(NamedTuple):
    """What ``brainroam audit``, the search before somebody else's method ran, and checks of files found together.

    Attributes
    ----------
    n_checks, n_passed : int
    failed : list of str
        Each with its method.
    covered, uncovered : list of str
        The methods of the page that were searched, and those that were not.
    """

    n_checks: int
    n_passed: int
    failed: list[str]
    covered: list[str]
    uncovered: list[str]

    @property
    def sentence(self) -> str:
        """The verdict in words; empty where nothing was searched."""
        if not self.n_checks:
            return ""
        failed = f"; failed: {', '.join(self.failed)}" if self.failed else ", and none failed"
        beside = f", not of {listed(self.uncovered)}" if self.uncovered else ""
        whose = f" They are of the data and of {listed(self.covered)}{beside}." if self.covered else ""
        return f"{self.n_passed} of {self.n_checks} checks for leaks and shortcuts passed{failed}.{whose}"


def audit_verdict(data: "ReportData") -> AuditVerdict:
    """The verdict on the methods of a page; an audit of other data says nothing of them."""
    audit = data.audit if data.audit and data.audit.get("manifest_hash") == data.study["manifest_hash"] else None
    checks = [(c.get("name"), c.get("method"), c.get("passed")) for c in (audit or {"checks": []})["checks"]]
    checks += [(check.name, check.method, check.passed) for check in data.file_checks]
    failed = [f"{name} ({method})" if method else str(name) for name, method, passed in checks if passed is False]
    failed += [f"{name} ({one.get('method')})" for one in data.method_audits for name in one.get("failed", ())]
    searched = {method for _, method, _ in checks}
    searched |= {one.get("method") for one in data.method_audits if one.get("n_checks")}
    return AuditVerdict(
        len(checks) + sum(one.get("n_checks", 0) for one in data.method_audits),
        sum(passed is True for _, _, passed in checks) + sum(one.get("n_passed", 0) for one in data.method_audits),
        list(dict.fromkeys(failed)),
        [name for name in data.names if name in searched],
        [name for name in data.names if name not in searched],
    )
