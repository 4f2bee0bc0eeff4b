"""From preprocessed volumes of fMRIPrep to regional series that the readers read, through nilearn.

`runs` finds the images, `parcellation` the regions, `signals` turns one image into one series, and `output` writes it
as a BIDS derivative. `brainroam.execution.extraction` does it for a whole dataset.
"""

from brainroam.data.extract.settings import Settings

__all__ = ["Settings"]
