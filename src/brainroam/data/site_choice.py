"""Which sites of the data belong to a study, and what each is called: ``sites``, ``exclude_sites``, ``site_names``.

Sites are renamed first, so the other two speak of the names that everybody sees. A site may also be called by its
institution. Sites that are not among ``sites`` are no part of the study, and nothing is said of their people; people of
``exclude_sites`` stand among those who were left out.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.spellings import require_present
from brainroam.errors import listed, unknown


@dataclass(frozen=True)
class SiteChoice:
    """The sites of a study.

    Attributes
    ----------
    keep : tuple of str, optional
        Only these sites; None for all.
    exclude : tuple of str
        Sites to leave out.
    names : mapping of str to str
        The name of a site by how it is written in the data, where that differs.
    all_must_exist : bool
        Whether every site of ``keep`` has to be there; otherwise those that are not are only warned about.
    """

    keep: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    all_must_exist: bool = True

    def rename(self, site: pd.Series) -> pd.Series:
        """The names of sites, by which they go from here on.

        >>> SiteChoice(names={"koeln": "Köln"}).rename(pd.Series(["koeln", "Köln", "Oslo"])).tolist()
        ['Köln', 'Köln', 'Oslo']
        """
        require_present(self.names, site)
        return site.map(lambda name: self.names.get(name, name))

    def kept(self, table: pd.DataFrame) -> np.ndarray:
        """Who is of the sites to keep."""
        if self.keep is None:
            return np.ones(len(table), dtype=bool)
        present = _present(table)
        absent = [site for site in self.keep if site not in present]
        if absent and (self.all_must_exist or len(absent) == len(self.keep)):
            raise unknown("site", absent[0], present)
        if absent:
            warnings.warn(f"the data have no people from {listed(absent, limit=20)}", stacklevel=3)
        return _is_of(table, self.keep)

    def excluded(self, table: pd.DataFrame) -> np.ndarray:
        """Who is of the sites to leave out."""
        present = _present(table)
        for site in self.exclude:
            if site not in present:
                raise unknown("site to exclude", site, present)
        return _is_of(table, self.exclude)

    def reasons(self, table: pd.DataFrame) -> list[str]:
        """Why each of these people is left out, all of them of excluded sites.

        >>> SiteChoice(exclude=("Oslo",)).reasons(pd.DataFrame({"site": ["Oslo"]}))
        ['site Oslo is excluded']
        """
        return [f"site {site} is excluded" for site in table["site"]]

    def of(self, cohort: Cohort) -> Cohort:
        """The people of a cohort that belong to the study.

        >>> from brainroam.data.synthetic import make_cohort
        >>> SiteChoice(exclude=("S01",)).of(make_cohort(n_sites=3, n_per_site=4, n_rois=8)).sites
        ['S02', 'S03']
        """
        if self.names:
            cohort = cohort.with_columns(self.rename(cohort.table["site"]).to_frame("site"))._as_whole()
        excluded = self.excluded(cohort.table)
        if excluded.any():
            cohort = cohort.exclude(excluded, self.reasons(cohort.table[excluded]))
        kept = self.kept(cohort.table)
        return cohort if kept.all() else cohort.subset(kept)


ALL_SITES = SiteChoice()


def _present(table: pd.DataFrame) -> list[str]:
    return sorted({*_names(table).to_numpy().ravel()} - {""})


def _is_of(table: pd.DataFrame, sites: tuple[str, ...]) -> np.ndarray:
    return _names(table).isin(sites).any(axis=1).to_numpy()


def _names(table: pd.DataFrame) -> pd.DataFrame:
    """Both names of everybody's site."""
    return table[[name for name in ("site", "institution") if name in table]].astype(str)
