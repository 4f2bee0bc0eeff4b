"""Hospitals that cannot share: CORE from summaries, in three rounds of plain files.

``site`` runs inside the hospital and needs no network; ``pool`` runs at the coordinator and sees summaries only.

    round   a site sends                                              the pool answers with
    1       counts, covariate moments, b_e, Gamma_e, d_e              deconfounder, scaffold; which edges are needed
    2       sums of products of residuals on those edges              the model; for each site the reading without it
    3       how that reading orders its own people                    scores by site, calibration, the next site

The mathematics is `brainroam.core.site_summary`; here are the files, the disclosure rules and the checks.
"""

from brainroam.execution.federation.pool import Pool
from brainroam.execution.federation.protection import Protection
from brainroam.execution.federation.site import answer

__all__ = ["Pool", "Protection", "answer"]
