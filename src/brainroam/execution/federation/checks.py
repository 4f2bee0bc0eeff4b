"""What a coordinator can notice about a summary: copies, other labels, other scales.

Each check compares a site with the others, so it needs three sites; it warns and leaves the decision to people. What
cannot be noticed is said in docs/federation.md.
"""

from collections.abc import Mapping

import numpy as np

from brainroam.core.site_summary import SiteProducts, SiteSummary
from brainroam.errors import SummaryError, listed
from brainroam.execution.federation.files import Message

AGAINST = -0.1  # correlation of a site's contrast with the mean of the others below which labels may be swapped
ALIKE = 0.9  # correlation of two sites' contrasts above which one may be a copy of the other
SCALE = 2.0  # times the median of the other sites
MIN_SITES = 3


def refuse_copies(messages: Mapping[str, Message]) -> None:
    """An error where two sites sent the very same numbers."""
    first_with: dict[str, Message] = {}
    for message in messages.values():
        if message.digest in first_with:
            raise SummaryError(
                f"{message} holds the very numbers of {first_with[message.digest]}: one is a copy; which?"
            )
        first_with[message.digest] = message


def refuse_other_people(
    site: str, first: SiteSummary, sent: np.ndarray, contrast: np.ndarray, second: SiteProducts, counts: np.ndarray
) -> None:
    """An error where a second summary is of other people or labels than the first of the same site.

    On edges that nobody lacks, the class means of the residuals differ by exactly the contrast that was sent; the mean
    of each of several classes against the first, or the slope on a number, is exactly that of the sums. In a table
    everybody may lack something: there most columns must differ by less than half a standard error.
    """
    gap = np.abs(contrast - sent[..., second.edges])
    if first.spread is None:
        same = np.nanquantile(gap, 0.05) < 1e-6 * np.nanmedian(np.abs(sent))
    else:
        error = first.spread[second.edges] * np.sqrt(_scatter_of_contrast(first))
        same = np.nanmedian(gap / np.maximum(error, 1e-300)) < 0.5
    if not np.array_equal(counts, first.counts) or not same:
        raise SummaryError(
            f"site {site}: its second summary is of other people, labels or settings than its first; it has to send "
            f"both again, after: brainroam pool --without {site} --out POOL"
        )


def suspicions(summaries: Mapping[str, SiteSummary]) -> list[str]:
    """What is odd about single sites, in words."""
    sites, texts = sorted(summaries), []
    if len(sites) < MIN_SITES:
        return []
    spreads = [each.spread for each in summaries.values() if each.spread is not None]
    unit = np.nanmedian(spreads, axis=0) if spreads else 1.0  # columns of a table have units of their own
    unit = np.where(unit > 0, unit, 1.0)
    contrast = np.stack([np.nan_to_num(_contrast(summaries[name]) / unit) for name in sites])
    scale = contrast.std(axis=1) / np.sqrt([_scatter_of_contrast(summaries[name]) for name in sites])
    level = np.array([np.nanstd(summaries[name].fit.intercept / unit) for name in sites])
    for k, name in enumerate(sites):
        others = np.arange(len(sites)) != k
        along = _correlation(contrast[k], contrast[others].mean(axis=0))
        if along < AGAINST:
            texts.append(f"site {name}: its contrast runs against the other sites (r = {along:.2f}): labels swapped?")
        for what, values in (("people differ", scale), ("mean values differ", level)):
            ratio = values[k] / max(float(np.median(values[others])), 1e-300)
            if not 1 / SCALE < ratio < SCALE:
                texts.append(
                    f"site {name}: its {what} {ratio:.2g} times as much as at other sites: prepared otherwise?"
                )
        twins = [sites[j] for j in range(k) if _correlation(contrast[k], contrast[j]) > ALIKE]
        if twins:
            texts.append(f"site {name}: nearly the numbers of {listed(twins)}: the same people under two names?")
    return texts


def moving_most(moved: Mapping[str, float]) -> list[str]:
    """Which site moves the pooled model by more than all others together, in words.

    >>> moving_most({"A": 0.1, "B": 0.9, "C": 0.2})[0][:55]
    'site B: it moves the pooled model by more than all othe'
    """
    total = sum(moved.values())
    return [
        f"site {name}: it moves the pooled model by more than all others together (by {share:.0%}; the others by "
        f"{total - share:.0%} in sum): check its units, its labels and its number of people, or leave it out (pool "
        f"--without {name})"
        for name, share in sorted(moved.items())
        if share > total - share and len(moved) >= MIN_SITES
    ]


def _contrast(summary: SiteSummary) -> np.ndarray:
    """The contrast of a site; of several classes that of its first two."""
    if summary.contrast.ndim == 1:
        return summary.contrast
    first, second = np.flatnonzero(summary.counts)[:2]
    return summary.contrast[second] - summary.contrast[first]


def _scatter_of_contrast(summary: SiteSummary) -> float:
    """Variance of the contrast of an edge whose residuals have variance 1."""
    if summary.target is not None:
        return 1 / max(float(summary.target[1]), 1e-300)
    return float((1 / summary.counts[np.flatnonzero(summary.counts)[:2]]).sum())


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])
