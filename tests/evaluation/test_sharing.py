"""What folds share changes nothing: studies against folds fitted one by one, each with nothing remembered."""

import numpy as np
import pytest

from brainroam import Cohort, evaluate, make_cohort
from brainroam.methods.base import Method
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import inner_folds

CORE = 'core[hidden=4,budget=4,updates=6,tau_percentile=50,eta=0.6,skip="none"]'


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=5, n_per_site=14, n_rois=14, seed=3)


@pytest.mark.parametrize("method", ["ensemble", "fc-ridge", "log-ridge", "scaffold-ridge", CORE])
def test_a_study_equals_folds_of_which_none_knows_another(cohort, method):
    study = evaluate(cohort, [method]).predictions.set_index("subject")["score"]
    for site in cohort.sites[-2:]:  # the last, which could remember most
        alone = evaluate(Cohort(cohort.series, cohort.table), [method], sites=[site]).predictions
        np.testing.assert_array_equal(alone["score"], study[alone["subject"]])


def test_inner_folds_of_the_scaffold_equal_fits_one_by_one(cohort):
    folds, model = list(inner_folds(cohort, "full", 0)), method_info("scaffold-ridge").make()
    shared = model.out_of_fold(cohort, folds)
    for fold, scores in zip(folds, shared, strict=True):
        fresh = Cohort(cohort.series, cohort.table)
        np.testing.assert_allclose(scores, Method.out_of_fold(model, fresh, [fold])[0], rtol=0, atol=1e-8)
