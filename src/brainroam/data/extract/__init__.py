"""From preprocessed volumes to regional series, through nilearn: what fMRIPrep wrote becomes what the readers read.

`runs` finds the images, `parcellation` the regions, `signals` turns one image into one series, and `output` writes it
as a BIDS derivative. `brainroam.execution.extraction` does it for a whole dataset.
"""

from brainroam.data.extract.settings import Settings

__all__ = ["Settings"]
