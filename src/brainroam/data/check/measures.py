"""Rules about tables and matrices: units, copies, zeros, columns that are no measures, mixed kinds of edges."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from shlex import quote

import numpy as np
import pandas as pd
from scipy import stats

from brainroam.data.check.column_shapes import describe_columns, golden_column, missing_columns, zero_at_sites
from brainroam.data.check.duplicates import correlations, identical_pairs
from brainroam.data.check.report import Finding
from brainroam.data.check.series import copies
from brainroam.data.check.site_pattern import unlike_sites
from brainroam.data.cohort import Cohort
from brainroam.data.columns import HEAD_SIZE
from brainroam.data.edge_values import is_fisher_z, largest_edge
from brainroam.data.measurements import NOT_SYMMETRIC, TURNED
from brainroam.data.readers.which_columns import measures_condition
from brainroam.errors import counted, listed

FACTOR = 5.0  # of a site's median from that of the others, beyond which a unit differs (mm and cm: 10)
FAR = 6.0  # median distances, of people within sites and of sites, beyond which a factor is none of them (4 SD)
NEAR_TEN, NEARLY_ALL = 0.15, 0.8  # of a power of ten, in its logarithm; share of a site's columns
ALIKE = 1.5  # factors of one unit: the largest over the smallest
MANY_SITES = 3  # with other units, beyond which they are one finding
MANY = 0.05  # share of people with a zero in a column whose others are all positive

MOST_PAIRS = 10  # of people with identical measures that are named
FEWEST = 5  # people of a site, or columns, from which on it can be compared
IS_AGE = 0.98  # correlation with age
MANY_COPIES = 0.2  # share of columns
OTHER_SPREAD = 2.0  # of edges at a site, against other sites: partial correlations spread two to four times less
LOOKED_AT, SOME = 12, 0.2  # people of a site whose edges may be Fisher's z, and their share that is told of
MOSTLY = 0.5
MAX_P, MIN_GAP = 0.01, 0.15  # of the shares of cases and of controls who lack a block


def each_block(cohort: Cohort, rule: Callable[[Cohort], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a rule about each measurement; of several among those who have it, with its name."""
    if not cohort.blocks:
        yield from rule(cohort)
    for name, block in cohort.blocks.items():
        if (present := cohort.has_block(name)).any():
            for finding in rule(block.subset(present)):
                yield replace(finding, message=f"{name}: {finding.message}")


def check_measures(cohort: Cohort) -> Iterator[Finding]:
    """Findings about each measurement that is no series, and about several of them together."""
    yield from each_block(cohort, _check_block)
    yield from asymmetric(cohort)
    if cohort.blocks:
        yield from missing_blocks(cohort)
        yield from same_blocks(cohort)


def _check_block(cohort: Cohort) -> Iterator[Finding]:
    present = np.flatnonzero(~cohort.missing_rois.all(axis=1))
    if cohort.measure == "series" or not len(present):
        return
    cohort = cohort.subset(present)
    if cohort.measure == "table":
        yield from copied_rows(cohort)
        yield from units(cohort)
        yield from zeros(cohort)
        yield from no_measures(cohort)
        yield from copied_columns(cohort)
        yield from describe_columns(cohort)
        yield from missing_columns(cohort)
        yield from zero_at_sites(cohort)
        yield from golden_column(cohort)
        yield from head_size(cohort)
    else:
        yield from edge_units(cohort)
        yield from diagonals(cohort)
        mixed, edges = list(mixed_edges(cohort)), correlations(cohort)
        yield from mixed
        if not mixed:
            yield from unlike_sites(cohort, edges)
        yield from copies(cohort, edges)  # the last to use the edges: it writes over them


def missing_blocks(cohort: Cohort) -> Iterator[Finding]:
    """People who lack one of several measurements, and whether cases lack it more often than controls."""
    table = cohort.table
    for name in cohort.blocks:
        gone = ~cohort.has_block(name)
        if not gone.any():
            continue
        people = tuple(table.loc[gone, "subject"])
        where = table.loc[gone, "site"].value_counts()
        whole = [site for site in where.index if where[site] == (table["site"] == site).sum()]
        message = f"{counted(len(people), 'person lacks', 'people lack')} {name}: {listed(people)}"
        message += f" (by site: {listed(f'{site} {n}' for site, n in where.items())})"
        remedy = f"they are predicted from the other blocks; add what is missing of {name}, if it exists"
        if whole:
            message += f"; nobody of {listed(whole)} has it"
        yield Finding("note", "lacks-block", message, remedy, subjects=people)
        for label in cohort.target.diagnoses(table["label"]):
            counts = [[int((gone & (label == y)).sum()), int((~gone & (label == y)).sum())] for y in (1, 0)]
            shares = [k / max(k + rest, 1) for k, rest in counts]
            if abs(shares[0] - shares[1]) > MIN_GAP and stats.fisher_exact(counts).pvalue < MAX_P:
                message = f"{shares[0]:.0%} of the cases and {shares[1]:.0%} of the controls lack {name}"
                remedy = "what is missing then tells the diagnosis: find out why, and leave out who lacks it if need be"
                yield Finding("warning", "lacks-by-class", message, remedy)


def same_blocks(cohort: Cohort) -> Iterator[Finding]:
    """Two blocks that hold the same numbers."""
    held = {
        name: set(_columns(block).values() if block.measure == "table" else map(str.encode, block.series_digests))
        for name, block in cohort.blocks.items()
    }
    names = list(held)
    for k, one in enumerate(names):
        for other in names[k + 1 :]:
            shared = len(held[one] & held[other])
            if shared > 0.5 * min(len(held[one]), len(held[other])):
                message = f"the blocks {one} and {other} hold the same numbers under two names"
                yield Finding("warning", "same-blocks", message, "leave one of them out: it would count twice")


def _columns(cohort: Cohort) -> dict[str, bytes]:
    """The content of each column that varies, by its name."""
    values = np.concatenate(cohort.series)
    with np.errstate(all="ignore"):
        varies = np.nanmax(values, axis=0) > np.nanmin(values, axis=0)
    return {name: values[:, k].tobytes() for k, name in enumerate(cohort.atlas.labels) if varies[k]}


def copied_columns(cohort: Cohort) -> Iterator[Finding]:
    """Columns that are copies of another under a second name."""
    first: dict[bytes, str] = {}
    copies = [
        (name, first[content]) for name, content in _columns(cohort).items() if first.setdefault(content, name) != name
    ]
    if copies:
        each = listed(f"{name} = {other}" for name, other in copies)
        message = f"{counted(len(copies), 'column is a copy', 'columns are copies')} of another: {each}"
        many = len(copies) > MANY_COPIES * cohort.n_rois
        remedy = f"keep each measure once: what stands twice counts twice; {_without(copies[0][0])}"
        yield Finding("warning" if many else "note", "copied-columns", message, remedy)


def no_measures(cohort: Cohort) -> Iterator[Finding]:
    """Columns that are ids, ages or the diagnosis."""
    values, table = np.concatenate(cohort.series), cohort.table
    names = np.array(cohort.atlas.labels, dtype=object)
    suspects: Mapping[str, np.ndarray] = {
        "the age": (np.abs(_correlations(values, table["age"].to_numpy(dtype=float))) > IS_AGE) & (names != "age"),
        "ids or row numbers": _counting(values),
        cohort.target.worded("the diagnosis", f"the target, {cohort.target.name}"): _tell_the_target(cohort, values),
    }
    for what, columns in suspects.items():
        if columns.any():
            is_label = what.startswith(("the diagnosis", "the target"))
            message = f"{listed(names[columns])} {'seems' if columns.sum() == 1 else 'seem'} to be {what}"
            remedy = _without(names[columns][0])
            yield Finding("error" if is_label else "warning", "no-measure", message, remedy)


def _tell_the_target(cohort: Cohort, values: np.ndarray) -> np.ndarray:
    """Mask of columns that are the target; of several classes, columns that separate two of them as symptoms do."""
    label, site, target = cohort.table["label"], cohort.table["site"], cohort.target
    if target.is_number:
        return np.abs(_correlations(values, label.to_numpy(dtype=float))) > IS_AGE
    telling = np.zeros(values.shape[1], dtype=bool)
    for one, other in combinations(np.unique(label.dropna()), 2):
        of_pair = label.map({one: 0.0, other: 1.0})
        telling |= measures_condition(values, of_pair, site)
    return telling


def _correlations(values: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of each column with another, over those who have both; 0 where these are few."""
    frame, column = pd.DataFrame(values), pd.Series(other)
    enough = (frame.notna().to_numpy() & column.notna().to_numpy()[:, None]).sum(axis=0) > 2 * FEWEST
    if column.nunique() < FEWEST:
        return np.zeros(values.shape[1])
    with np.errstate(all="ignore"):
        return np.where(enough, np.nan_to_num(frame.corrwith(column).to_numpy()), 0.0)


def _counting(values: np.ndarray) -> np.ndarray:
    """Columns of whole numbers that go up, or down, from row to row."""
    if len(values) < 2 * FEWEST:
        return np.zeros(values.shape[1], dtype=bool)
    with np.errstate(invalid="ignore"):
        steps = np.diff(values, axis=0)
        return np.asarray(
            (values == np.round(values)).all(axis=0) & ((steps > 0).all(axis=0) | (steps < 0).all(axis=0))
        )


def head_size(cohort: Cohort) -> Iterator[Finding]:
    """Intracranial volume among the measures."""
    columns = [name for name in cohort.atlas.labels if HEAD_SIZE.search(name)]
    if columns and cohort.n_rois > len(columns):
        message = f"the size of the head is read as a measure: {listed(columns)}"
        remedy = f"it differs between the sexes and is no region; name it as a covariate, or {_without(columns[0])}"
        yield Finding("note", "head-size", message, remedy)


def edge_units(cohort: Cohort) -> Iterator[Finding]:
    """Edges that are no correlations, covariances among them."""
    if not cohort.own_units:
        return
    largest = max(map(largest_edge, cohort.series))
    message = f"edges go up to {largest:.3g} and are read as no correlations, each in units of its spread"
    if np.mean([_may_be_covariance(x) for x in cohort.series]) > MOSTLY:
        remedy = "they may be covariances, whose size says little: give correlations, r = c_ij / sqrt(c_ii c_jj)"
        yield Finding("warning", "covariances", message, remedy)
    else:
        yield Finding("note", "own-units", message, "nothing, if they are stream counts or the like")


def _may_be_covariance(x: np.ndarray) -> bool:
    """Whether variances that differ stand on the diagonal: no edge is larger than they allow."""
    variance = np.nan_to_num(np.diag(x))
    bound = np.sqrt(np.outer(variance, variance).clip(0)) * (1 + 1e-6)
    return bool(np.ptp(variance) > 1e-3 * variance.max() and (np.abs(np.nan_to_num(x)) <= bound).all())


def _without(name: str) -> str:
    """How a column is left out of the measures."""
    return f'leave it out: columns: ["*", "!{name}"] of its block, or measures: among the options of one wide table'


def diagonals(cohort: Cohort) -> Iterator[Finding]:
    """Diagonals of zeros, which are taken for 1 beside correlations."""
    zero = np.array([np.abs(np.nan_to_num(np.diag(x))).max() < 1e-9 for x in cohort.series])
    if not zero.any() or (zero.all() and cohort.own_units):
        return
    who = tuple(cohort.table.loc[zero, "subject"])
    message = f"the diagonal is zero in the matrices of {counted(len(who), 'person', 'people')}: {listed(who)}"
    shares = pd.Series(zero).groupby(cohort.table["site"].to_numpy()).mean()
    if not zero.all() and shares.isin([0, 1]).all():  # whole sites: their edges were made in another way
        message += f": everybody's of {listed(shares.index[shares == 1])}, nobody's of other sites"
        remedy = "see whether the edges of these sites are Fisher's z, or partial correlations, and others' are not"
        yield Finding("warning", "zero-diagonal", message, remedy, subjects=who)
    else:
        yield Finding("note", "zero-diagonal", message, "nothing: it is taken for 1, as of a correlation", subjects=who)


def asymmetric(cohort: Cohort) -> Iterator[Finding]:
    """Matrices that were not symmetric when they were read."""
    for step in cohort.prepared:
        if NOT_SYMMETRIC in step:
            yield Finding(
                "warning", "not-symmetric", step, "directed edges are not read; check how the files were made"
            )


def mixed_edges(cohort: Cohort) -> Iterator[Finding]:
    """Fisher's z at some sites and correlations at others; partial correlations at some and full ones at others."""
    site = cohort.table["site"].to_numpy()
    counts = {name: np.flatnonzero(site == name) for name in cohort.sites if (site == name).sum() >= FEWEST}
    if len(counts) < 2:
        return
    turned = TURNED in cohort.prepared
    looks_z = {
        name: np.array([_is_fisher_z(cohort.series[k], turned) for k in rows[:LOOKED_AT]])
        for name, rows in counts.items()
    }
    z, r = ([name for name in counts if fits(looks_z[name])] for fits in (lambda x: x.mean() > 0.5, lambda x: ~x.any()))
    remedy = "give all sites one of the two: r = tanh(z)"
    if z and r:
        limit = (np.tanh(1.0) if turned else 1.0) + 1e-6
        beyond = np.mean([largest_edge(cohort.series[k]) > limit for name in z for k in counts[name]]) > MOSTLY
        remedy = f"read them so with --z-at {quote(','.join(z))} (in the study file edges: {{{z[0]}: z}})"
        how = "some are beyond 1" if beyond else "by their eigenvalues"
        message = f"edges are Fisher's z at {listed(z)} ({how}) and correlations at {listed(r)}"
        yield Finding("error" if beyond else "warning", "mixed-edges", message, remedy)
        return
    share = np.concatenate(list(looks_z.values())).mean()
    if not turned and share > SOME:
        message = f"the matrices of {share:.0%} of the people have the eigenvalues of Fisher's z, not of correlations"
        yield Finding("warning", "fisher-z", message, f"they are read as correlations: {remedy}")
    upper = np.triu_indices(cohort.n_rois, 1)
    spread = np.array([np.nanstd(x[upper]) for x in cohort.series])
    usual = {name: float(np.median(spread[rows])) for name, rows in counts.items()}
    for name, value in usual.items():
        others = float(np.median([v for other, v in usual.items() if other != name]))
        if value * OTHER_SPREAD < others or value > OTHER_SPREAD * others:
            message = (
                f"edges spread {value:.2f} here and {others:.2f} at other sites: partial and full correlations, or "
                "another way to compute them, are probably mixed"
            )
            yield Finding("warning", "mixed-edges", message, "compute the edges of all sites in one way", name)


def _is_fisher_z(x: np.ndarray, turned: bool) -> bool:
    """Of one person, whose edges may have been turned back into correlations when they were read."""
    with np.errstate(invalid="ignore", divide="ignore"):
        given = np.arctanh(x * ~np.eye(len(x), dtype=bool)) if turned else x
    return is_fisher_z(given, np.diag(x))


def units(cohort: Cohort) -> Iterator[Finding]:
    """Sites whose positive columns have another size than everywhere else; many such sites are one finding.

    Scanners differ: a factor counts where it is far beyond what people within sites, and other sites, differ by. Those
    that no unit explains, as they differ from column to column, are one finding on the effects of these sites.
    """
    values, site = np.concatenate(cohort.series), cohort.table["site"].to_numpy()
    names = np.array(cohort.atlas.labels, dtype=object)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns that nobody of a site has
        logs = np.log(np.where((values > 0) | np.isnan(values), values, np.inf))
        levels = np.stack([np.nanmedian(logs[site == name], axis=0) for name in cohort.sites])
        within = np.nanmedian(np.abs(logs - levels[np.searchsorted(cohort.sites, site)]), axis=0)
        gaps = levels - np.nanmedian(levels, axis=0)
        between = np.nanmedian(np.abs(gaps), axis=0) if len(gaps) >= FEWEST else 0.0
        least = np.maximum(np.log(FACTOR), FAR * np.maximum(within, between))
        strange = np.isfinite(gaps) & (np.abs(gaps) > least)
    strange_at = {name: row for name, row in zip(cohort.sites, strange, strict=True) if row.any()}
    by_site = dict(zip(cohort.sites, gaps, strict=True))
    of_units = {name: row for name, row in strange_at.items() if _is_unit(by_site[name], row)}
    others = {name: row for name, row in strange_at.items() if name not in of_units}
    if others:
        each = listed(f"{name} ({row.sum()} of {len(row)} columns)" for name, row in others.items())
        message = f"columns are of another size than at other sites, by factors that differ from one to another: {each}"
        remedy = (
            "no unit does that, but strong site effects do: another scanner, software version or scaling; see whether "
            "these sites were processed as the others. Methods take out the means of sites, not their spread"
        )
        yield Finding("warning", "site-effects", message, remedy)
    remedy = "give all sites one unit (mm, not cm)"
    if len(of_units) > MANY_SITES:
        each = listed(f"{name} ({row.sum()})" for name, row in of_units.items())
        message = f"columns are of another size than at other sites, at {len(of_units)} sites: {each}"
        yield Finding("warning", "other-units", message, remedy)
        return
    for name, row in of_units.items():
        factor = np.exp(by_site[name])
        each = listed(f"{n} (x {r:.3g})" for n, r in zip(names[row], factor[row], strict=True))
        message = f"{counted(int(row.sum()), 'column is', 'columns are')} of another size than at other sites: {each}"
        yield Finding("warning", "other-units", message, remedy, name)


def _is_unit(gaps: np.ndarray, strange: np.ndarray) -> bool:
    """Whether the log factors (M,) of a site's strange columns are those of a unit.

    Of several they are the same, or nearly all powers of ten; and nearly all other columns are as at other sites or of
    the same factors, where the effects of a site leave all sizes between.

    >>> factors, strange = np.array([10, 11, 950, 1.1]), np.array([True, True, True, False])
    >>> _is_unit(np.log(factors), strange), _is_unit(np.log([6, 30, 50, 1]), strange)
    (True, False)
    """
    tens, others = gaps[strange] / np.log(10), gaps[~strange & np.isfinite(gaps)]
    apart = np.abs(others[:, None] - gaps[strange]).min(axis=1)
    between = (np.abs(others) > np.log(FACTOR) / 2) & (apart > np.log(ALIKE))
    if between.sum() > (1 - NEARLY_ALL) * len(others):
        return False
    powers = np.mean(np.abs(tens - np.round(tens)) < NEAR_TEN) >= NEARLY_ALL
    return bool(powers or (len(tens) > 1 and np.ptp(gaps[strange]) < np.log(ALIKE)))


def zeros(cohort: Cohort) -> Iterator[Finding]:
    """Columns that are positive but for some zeros, which then mean missing.

    Others are far from zero, in units of their own site: one in centimetres is near zero for those in millimetres.
    """
    values, site = np.concatenate(cohort.series), cohort.table["site"].to_numpy()
    zero = (values == 0).mean(axis=0)
    positive = pd.DataFrame(np.where(values > 0, values, np.nan))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns that nobody has
        small = np.nanmin(positive / positive.groupby(site).transform("median"), axis=0) > 0.1
    columns = (zero > 0) & (zero < MANY) & small & ~(values < 0).any(axis=0)
    if columns.any():
        each = listed(np.array(cohort.atlas.labels, dtype=object)[columns])
        people = cohort.table[(values[:, columns] == 0).any(axis=1)]
        where = listed(f"{site} {n}" for site, n in people["site"].value_counts().items())
        message = f"zeros stand among values far from zero in {columns.sum()} columns: {each}; in rows of "
        message += f"{listed(people['subject'])} (people by site: {where})"
        remedy = "leave the cells empty if zero means missing"
        yield Finding("warning", "zero-as-missing", message, remedy, subjects=tuple(people["subject"]))


def copied_rows(cohort: Cohort) -> Iterator[Finding]:
    """People with the very same measures, more than chance explains, each with the first of them."""
    first: dict[int, int] = {}
    for one, other in identical_pairs(cohort):
        first.setdefault(other, first.get(one, one))
    remedy = "one person on both sides of a split leaks the label"
    for one, other in [(cohort.table.iloc[a], cohort.table.iloc[b]) for b, a in list(first.items())[:MOST_PAIRS]]:
        pair = one["subject"], other["subject"]
        message = f"{listed(pair)} have identical measures"
        message += ", and opposite labels" if one["label"] != other["label"] else ""
        yield Finding("error", "identical-people", message, remedy, subjects=pair)
    if len(first) > MOST_PAIRS:
        message = f"{len(first) - MOST_PAIRS} people more have the measures of another"
        yield Finding("error", "identical-measures", message, remedy)
    by_chance = pd.Series(cohort.series_digests).duplicated(keep=False).sum() - len({*first, *first.values()})
    if by_chance:
        message = (
            f"{counted(by_chance, 'person has', 'people have')} the measures of somebody else, as chance would have"
        )
        yield Finding("note", "alike-by-chance", f"{message} it in columns of so few values", "nothing")
