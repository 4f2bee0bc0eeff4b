"""Sites whose mean connectivity is unlike everybody else's: columns in another order, or of another atlas.

Mean edges of two sites with the same regions agree: r is .89 to .96 between a site of ABIDE and the others together.
A site whose two halves agree with each other, but which does not agree with the other sites, has other regions. With
ten regions of ABIDE drawn by chance and six people of each site that never named a site wrongly (0 of 1,200; with four
regions 20, so fewer than eight are not looked at).

Regions whose sign is turned at one site turn that of their edges with all other regions. With M and O the mean edges
there and at the other sites as matrices, the signs s that bring them together, s_i M_ij s_j = O_ij, are those of the
leading eigenvector of M o O, entry by entry. A site is named when they raise the agreement by `MIN_TURNED`.

Left and right exchanged keep most of that agreement; the differences between the sides (`data.atlas.anatomy`) turn
their sign. With the others', those of a site of ABIDE correlate .76 to .92, those of a person .38 in the median with
AAL and .32 with CC200, and -.07 in the person who is least like it.
"""

from collections.abc import Iterator

import numpy as np

from brainroam.data.atlas.anatomy import mirrored_edges, sidedness
from brainroam.data.check.duplicates import correlations
from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort
from brainroam.errors import listed

MIN_REGIONS = 8
FEWEST, MOST = 6, 30  # people of a site that are needed, and that are enough
MIN_HALVES = 0.5  # agreement of the halves of a site below which its mean says nothing
LEAST_SHARE = 0.5  # of that agreement, with the other sites
MIN_SIDED = 0.1  # sidedness of the median person below which the sides are too alike to be told apart
MIN_SITE_SIDED = 0.3  # the same of sites
MIN_TURNED = 0.3
MIN_MIRRORED = 50  # pairs of edges; fewer agree or disagree by chance


def unlike_sites(cohort: Cohort, edges: np.ndarray) -> Iterator[Finding]:
    """Sites whose halves agree with each other but not with other sites, and exchanged left and right.

    ``edges`` are the `correlations` of everybody; where they are only some of the edges, a part of each site is looked
    at with all of them.
    """
    rows = {str(s): rows for s, rows in cohort.table.groupby("site").indices.items() if len(rows) >= FEWEST}
    if len(rows) < 2 or cohort.n_rois < MIN_REGIONS:
        return
    if edges.shape[1] == cohort.n_rois * (cohort.n_rois - 1) // 2:
        people = {site: edges[here] for site, here in rows.items()}
    else:
        rows = {site: _some(here) for site, here in rows.items()}
        people = {site: correlations(cohort.subset(here)) for site, here in rows.items()}
    means = {site: _mean(part) for site, part in people.items()}
    turned = _turned_sites(means, cohort.n_rois)
    for site, (signs, before, after) in turned.items():
        names = [label for label, here in zip(cohort.atlas.labels, signs, strict=True) if here]
        message = (
            f"{len(names)} of {len(signs)} regions have the opposite sign than at the other sites, or all others do "
            f"({listed(names)}): mean connectivity agrees by r = {after:.2f} with signs turned, {before:.2f} as it is"
        )
        yield Finding("warning", "turned-signs", message, "compare the signs of its series with the source", site)
    for site in [site for site in means if site not in turned]:
        part, others = people[site], [means[other] for other in means if other != site and other not in turned]
        halves = _agreement(_mean(part[::2]), _mean(part[1::2]))
        alike = _agreement(means[site], _mean(np.array(others))) if others else halves
        if halves >= MIN_HALVES and alike < LEAST_SHARE * halves:
            message = (
                f"mean connectivity is unlike that of the other sites (r = {alike:.2f}; {halves:.2f} between two "
                "halves of this site)"
            )
            remedy = "its regions are probably in another order, or of another atlas: compare the columns of its series"
            yield Finding("warning", "unlike-site", message, remedy, site)
    pairs = cohort.atlas.homologues
    if pairs is not None:
        yield from _find_exchanged(cohort, rows, people, means, mirrored_edges(pairs))


def _find_exchanged(
    cohort: Cohort,
    rows: dict[str, np.ndarray],
    people: dict[str, np.ndarray],
    means: dict[str, np.ndarray],
    mirrored: tuple[np.ndarray, np.ndarray],
) -> Iterator[Finding]:
    """Sites, then people of the other sites, whose differences between the sides have the opposite sign."""
    if len(mirrored[0]) < MIN_MIRRORED:
        return
    halves = {s: sidedness(_mean(part[::2])[None], _mean(part[1::2]), mirrored)[0] for s, part in people.items()}
    kept, turned, sides, centres = list(means), [], dict.fromkeys(means, 1.0), dict(means)
    while len(kept) > 1:  # the site most unlike the others first: it is no measure for the next
        centres = {site: _mean(np.array([means[other] for other in kept if other != site])) for site in means}
        sides = {site: float(sidedness(means[site][None], centres[site], mirrored)[0]) for site in means}
        worst = min((site for site in kept if halves[site] >= MIN_SITE_SIDED), key=sides.__getitem__, default=kept[0])
        if not sides[worst] < -MIN_SITE_SIDED:
            break
        kept.remove(worst)
        turned.append(worst)
    usual = float(np.median([sides[site] if len(kept) > 1 else halves[site] for site in kept]))
    if not usual >= MIN_SITE_SIDED:
        return
    remedy = "compare the order of the columns, and whether images were flipped, with the other sites"
    for site in sorted(turned):
        which = "" if len(means) > 2 else ", or at the other site"
        message = (
            f"left and right are probably exchanged{which}: differences between the sides correlate {sides[site]:.2f} "
            f"with those of the other sites ({usual:.2f} is usual)"
        )
        yield Finding("warning", "exchanged-sides", message, remedy, site)
    each = {site: sidedness(people[site], centres[site], mirrored) for site in means if site not in turned}
    median = float(np.nanmedian(np.concatenate(list(each.values()))))
    if median < MIN_SIDED:
        return
    subjects = cohort.table["subject"].to_numpy()
    for site, r in each.items():
        who = tuple(subjects[rows[site][r < -median / 2]])
        if who:
            message = f"left and right are probably exchanged in {len(who)} of {len(r)} people: {listed(who)}"
            yield Finding("warning", "exchanged-sides", message, remedy, site, who)


def _turned_sites(means: dict[str, np.ndarray], n_rois: int) -> dict[str, tuple[np.ndarray, float, float]]:
    """Sites with turned regions: which, and the agreement before and after; the clearest is no measure for the next."""
    kept, turned = dict(means), dict[str, tuple[np.ndarray, float, float]]()
    while len(kept) > 2:
        found = {}
        for site in kept:
            others = _mean(np.array([kept[other] for other in kept if other != site]))
            found[site] = *_turned_signs(kept[site], others, n_rois), _agreement(kept[site], others)
        site, (signs, after, before) = max(found.items(), key=lambda item: item[1][1] - item[1][2])
        if not (signs.any() and after - before > MIN_TURNED):
            break
        turned[site] = signs, before, after
        del kept[site]
    return turned


def _turned_signs(mean: np.ndarray, others: np.ndarray, n_rois: int) -> tuple[np.ndarray, float]:
    """The fewer of the regions that differ in sign from the others, and the agreement once they are turned."""
    u, v = np.triu_indices(n_rois, 1)
    product = np.zeros((n_rois, n_rois))
    product[u, v] = product[v, u] = np.nan_to_num(mean * others)
    sign = np.where(np.linalg.eigh(product)[1][:, -1] < 0, -1, 1)
    for _ in range(n_rois):  # where the eigenvector hardly reaches, by what the signs of all others say
        sign, before = np.where(product @ sign < 0, -1, 1), sign
        if (sign == before).all():
            break
    sign *= -1 if (sign < 0).sum() > n_rois / 2 else 1
    return sign < 0, _agreement(sign[u] * sign[v] * mean, others)


def _some(rows: np.ndarray) -> np.ndarray:
    """At most `MOST` of these positions, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST)).astype(int)]


def _mean(edges: np.ndarray) -> np.ndarray:
    """Mean of each column over the people who have it; NaN where nobody does."""
    known = np.isfinite(edges)
    with np.errstate(invalid="ignore"):
        return np.where(known, edges, 0).sum(axis=0, dtype=float) / known.sum(axis=0)


def _agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson correlation over the edges that both know; 0 where there is nothing to compare."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    return float(np.corrcoef(a, b)[0, 1]) if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0
