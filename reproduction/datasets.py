"""The five datasets of the paper, and which of them a cohort is."""

from dataclasses import dataclass

from brainroam.data.cohort import Cohort
from brainroam.data.readers import PRESETS


@dataclass(frozen=True)
class Dataset:
    """One column of the paper's tables.

    Attributes
    ----------
    name : str
        As ``published.csv`` names it.
    title : str
        As the paper prints it.
    reader : str
        Whose preset ``paper`` holds its sites.
    n_rois : int
        Regions of its atlas.
    """

    name: str
    title: str
    reader: str
    n_rois: int = 116

    @property
    def sites(self) -> tuple[str, ...]:
        """The ten sites the paper keeps."""
        return PRESETS["paper"][self.reader].sites

    @property
    def gate_budget(self) -> int:
        """K of the paper's network."""
        return PRESETS["paper"][self.reader].gate_budget


DATASETS = (
    Dataset("abide", "ABIDE", "abide"),
    Dataset("abide-cc200", "ABIDE (CC200)", "abide", n_rois=200),
    Dataset("rest-meta-mdd", "REST-meta-MDD", "rest-meta-mdd"),
    Dataset("srpbs", "SRPBS", "srpbs"),
    Dataset("abcd", "ABCD (ADHD-task)", "abcd"),
)


def dataset_of(cohort: Cohort, reader: str | None = None) -> Dataset | None:
    """The dataset of the paper that these people are; None for any other data.

    Known by the reader that read the paper's sites, else by the names of the sites; and by the regions of the atlas.

    >>> import brainroam
    >>> dataset_of(brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)) is None
    True
    """
    for dataset in DATASETS:
        known = dataset.reader == reader if reader else set(cohort.sites) == set(dataset.sites)
        if known and cohort.n_rois == dataset.n_rois:
            return dataset
    return None
