"""Several blocks, and tables, given to the estimators as arrays: what is read is what the model was trained on."""

import warnings

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.data.atlas import anonymous_atlas
from brainroam.errors import DataError

COHORT = brainroam.make_cohort(n_sites=4, n_per_site=14, n_rois=10, seed=5)
Y = pd.Series(COHORT.labels, index=COHORT.table["subject"])
SITE = pd.Series(COHORT.table["site"].to_numpy(), index=Y.index)
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    RNG.normal(size=(len(Y), 6)) + 0.5 * Y.to_numpy()[:, None], Y.index, [f"lh_region{k}_area" for k in range(6)]
)
TASK = np.array([np.corrcoef(x.T) for x in COHORT.series])
TASK[::5] = np.nan
BLOCKS = {"rest": list(COHORT.series), "anatomy": TABLE, "task": TASK}


def of(people, blocks=BLOCKS):
    return {name: [x[i] for i in people] if isinstance(x, list) else x[: len(people)] for name, x in blocks.items()}


FEW = range(8)


@pytest.fixture(scope="module")
def fitted():
    return brainroam.SiteClassifier("fc-ridge", "fast").fit(BLOCKS, Y, site=SITE)


def test_blocks_and_columns_in_another_order_are_read_by_their_names(fitted):
    expected = fitted.predict_proba(of(FEW))
    few = of(FEW)
    turned = {"task": few["task"], "anatomy": few["anatomy"].iloc[:, ::-1].assign(more=1.0), "rest": few["rest"]}
    np.testing.assert_array_equal(fitted.predict_proba(turned), expected)
    table = brainroam.SiteClassifier("fc-ridge", "fast").fit(TABLE, Y, site=SITE)
    np.testing.assert_array_equal(table.predict_proba(TABLE.iloc[:8, ::-1]), table.predict_proba(TABLE.iloc[:8]))
    np.testing.assert_array_equal(table.predict_proba(TABLE.to_numpy()[:8]), table.predict_proba(TABLE.iloc[:8]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            lambda few: {name: few[name] for name in ("rest", "anatomy")},
            "reads the blocks rest, anatomy, task, but X holds",
        ),
        (lambda few: few["task"], "X holds one measurement; give a dictionary"),
        (
            lambda few: few | {"anatomy": few["anatomy"].iloc[:, :4]},
            "X lacks 2 of the 6 columns on which the model was trained, lh_region4_area, lh_region5_area: measure",
        ),
        (lambda few: few | {"task": few["task"][:, :7, :7]}, "10 regions of the block task but these people have 7"),
    ],
)
def test_what_the_model_reads_and_x_lacks_is_named(fitted, changed, words):
    with pytest.raises(DataError, match=words):
        fitted.predict_proba(changed(of(FEW)))


def test_the_rows_of_a_block_in_another_order_are_refused():
    with pytest.raises(DataError, match=r"X\['anatomy'\] and y name the same people in different orders"):
        brainroam.SiteClassifier("fc-ridge", "fast").fit(BLOCKS | {"anatomy": TABLE.iloc[::-1]}, Y, site=SITE)


def test_one_block_of_several_is_read_alone_or_among_the_others():
    alone = brainroam.SiteClassifier("fc-ridge", "fast", blocks="task").fit(BLOCKS, Y, site=SITE)
    few = of(FEW)
    np.testing.assert_array_equal(alone.predict_proba({"task": few["task"]}), alone.predict_proba(few))


def test_people_who_lack_a_block_cost_no_warning_and_regions_have_names():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = brainroam.SiteClassifier("fc-ridge", "fast").fit(BLOCKS, Y, site=SITE)
    named = model.explain(of(FEW), atlas=anonymous_atlas(10, [f"V{k}" for k in range(10)])).pathways
    assert named["region_1"].str.startswith(("V", "lh_", "ROI")).all()
