"""What a fitted CORE reads: its pathways, and which of them moved whom."""

import numpy as np
import pandas as pd
import torch

from brainroam.atlas import Atlas
from brainroam.cohort import Cohort
from brainroam.connectivity import edge_pairs
from brainroam.core import CoreClassifier


class Explanation:
    """The pathways of a fitted classifier and how the people of a cohort use them.

    Attributes
    ----------
    gates, contributions : ndarray of shape (n, M_S)
        Of each person and pathway, in the order of ``scaffold_.edges``; a contribution moves the logit.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> clf = CoreClassifier(hidden=4, budget=4, epochs=1, tau_percentile=60)
    >>> explanation = Explanation(clf.fit_cohort(cohort, cohort.covariates(["age", "sex"])), cohort)
    >>> explanation.pathways()[["rank", "region_1", "region_2"]].head(1).to_numpy().tolist()
    [[1, 'ROI_004', 'ROI_011']]
    >>> len(explanation.people(top=3)) == 3 * len(cohort)
    True
    """

    def __init__(self, classifier: CoreClassifier, cohort: Cohort) -> None:
        self.classifier, self.cohort = classifier, cohort
        people = classifier.read_cohort(cohort, cohort.table)
        with torch.no_grad():
            self.gates = classifier.network_(people.features, people.graph).gates.T.cpu().numpy()
        self.contributions = classifier.network_.contributions(people.features, people.graph).T.cpu().numpy()

    def pathways(self) -> pd.DataFrame:
        """One row per pathway, the largest consensus contrast first."""
        scaffold = self.classifier.scaffold_
        table = self._regions()
        table["d_com"] = scaffold.consensus[scaffold.edges]
        table["kappa"] = scaffold.sign_consistency[scaffold.edges]
        table["pi"] = scaffold.stability[scaffold.edges]
        table["mean_gate"] = self.gates.mean(axis=0)
        table["mean_size_of_contribution"] = np.abs(self.contributions).mean(axis=0)
        table = table.iloc[np.argsort(-table["d_com"].abs(), kind="stable")]
        table.insert(0, "rank", np.arange(1, len(table) + 1))
        return table.reset_index(drop=True)

    def people(self, top: int = 10) -> pd.DataFrame:
        """The pathways that moved each person's logit most, one row each."""
        names = self._regions()[["region_1", "region_2"]]
        largest = np.argsort(-np.abs(self.contributions), axis=1, kind="stable")[:, :top]
        parts = []
        for i, subject in enumerate(self.cohort.table["subject"]):
            part = names.iloc[largest[i]].reset_index(drop=True)
            part.insert(0, "subject", subject)
            part.insert(1, "rank", np.arange(1, len(part) + 1))
            part["gate"], part["contribution"] = self.gates[i, largest[i]], self.contributions[i, largest[i]]
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def _regions(self) -> pd.DataFrame:
        """Names and, where the atlas knows them, MNI coordinates of the two regions of each pathway."""
        atlas: Atlas = self.cohort.atlas
        pairs = edge_pairs(len(atlas))[self.classifier.scaffold_.edges]
        labels = np.array(atlas.labels, dtype=object)
        columns = {f"region_{k + 1}": labels[pairs[:, k]] for k in (0, 1)}
        if atlas.coords is not None:
            columns |= {f"{axis}_{k + 1}": atlas.coords[pairs[:, k], c] for k in (0, 1) for c, axis in enumerate("xyz")}
        return pd.DataFrame(columns)
