"""Several blocks across hospitals: the sum of pooled models, its weights, and what the blocks may tell together."""

import numpy as np
import pandas as pd
import pytest
from hospital_rounds import round_of
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam.core.connectivity import cohort_edges
from brainroam.core.site_statistics import COLUMN_PENALTIES, RIDGE_PENALTIES
from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.errors import SummaryError, UsageError
from brainroam.execution.federation import Pool, Protection, answer
from brainroam.execution.federation.files import REQUEST, SUMMARY, read_message
from brainroam.execution.federation.ledger import Ledger
from brainroam.execution.federation.model import FIXED
from brainroam.execution.federation.pool import THRESHOLDS
from brainroam.execution.federation.pooled_block import PooledBlock
from brainroam.execution.federation.show import describe_file
from brainroam.execution.federation.site import read_scores, reading_of
from brainroam.methods.blocks import BlockSum
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod
from brainroam.report.pool_page import write_pool_page


def with_anatomy(cohort, effect=0.5, seed=3, n_columns=30):
    """The same people with a table, a fifth of whose columns follows the diagnosis."""
    rng = np.random.default_rng(seed)
    place = pd.factorize(cohort.table["site"])[0]
    values = rng.normal(size=(len(cohort), n_columns)) + rng.normal(size=(place.max() + 1, n_columns))[place]
    values[:, : n_columns // 5] += effect * (cohort.targets > 0)[:, None]
    atlas = columns_of_table([f"m{k}" for k in range(n_columns)])
    table = Cohort(list((5 + values)[:, None]), cohort.table, atlas, target=cohort.target, measure="table")
    return cohort.with_block("anatomy", table, "rest")


def lacking(cohort, block, mask):
    """The same people, some of whom lack a block."""
    names = list(cohort.blocks)
    found = cohort.block(names[0])
    for name in names[1:]:
        part = cohort.block(name)
        found = found.with_block(name, part.subset(~mask) if name == block else part, names[0])
    return found


@pytest.fixture(scope="module")
def both():
    return with_anatomy(brainroam.make_cohort(n_sites=5, n_per_site=60, n_rois=16, seed=1))


def pooled(cohort, folder, rounds=(1, 2, 3), **options):
    for number in rounds:
        pool = Pool(folder / "pool")
        pool.receive(round_of(cohort, folder, number, folder / "pool", **options))
        progress = pool.advance()
    return progress


@pytest.fixture(scope="module")
def finished(both, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    return folder, pooled(both, folder)


def fitted(cohort, **settings):
    return TunedMethod(method_info("core"), "default", **FIXED, tau_percentile=(80,), **settings).fit(cohort)


def test_each_block_is_that_of_one_place_and_their_scores_are_added(both, finished):
    folder, progress = finished
    model, central = load_method(folder / "pool" / "model", both)[0], fitted(both)
    assert isinstance(model.model_, BlockSum)
    for name, penalties in (("rest", RIDGE_PENALTIES), ("anatomy", COLUMN_PENALTIES)):
        block = both.block(name)
        member = fitted(block, penalties=penalties)
        np.testing.assert_allclose(model.model_.members[name].score(block), member.score(block), atol=1e-5)
    weights, others = model.model_.weights_, central.model_.weights_
    np.testing.assert_allclose(weights / weights.sum(), others / others.sum(), atol=0.05)
    assert np.corrcoef(model.score(both), central.score(both))[0, 1] > 0.999
    assert any("weights of the blocks" in line for line in progress.lines)


def test_what_scores_are_worth_is_known_without_the_scores(both, finished):
    """Sums over people of scores by models without their site, from people and from summaries."""
    folder, _ = finished
    rounds = [{s: read_message(folder / f"{s}-{k}.summary", SUMMARY) for s in both.sites} for k in (1, 2)]
    for name, cohort in both.blocks.items():
        first, second = ({site: message.parts[name] for site, message in found.items()} for found in rounds)
        block = PooledBlock(first, second, THRESHOLDS, both.target, 2)
        sums = np.zeros(3)
        for site in both.sites[1:]:
            people = cohort.select([site])
            edges = cohort_edges(people, "log", 0.7, True)
            model = block.reading_without(frozenset({both.sites[0], site}))
            s = read_scores(model, edges, people.covariates())
            s, t = s - s.mean(), people.labels - people.labels.mean()
            sums += [s @ s, s @ t, t @ t]
        found = block.moments(frozenset({both.sites[0]}))
        np.testing.assert_allclose(found[:2], [4, 240])
        np.testing.assert_allclose(found[2:], sums, rtol=1e-6)


def test_scores_at_a_held_out_site_are_of_a_sum_that_never_saw_it(both, finished):
    """Spoil everything a site sent: what the pool asks it to be read by stays the same, weights included."""
    folder, progress = finished
    asked = read_message(folder / "pool" / "request", REQUEST)
    site = both.sites[2]
    here = (both.table["site"] == site).to_numpy()
    swapped = both.with_columns(pd.DataFrame({"label": np.where(here, 1 - both.labels, both.labels)}))
    other = folder / "other"
    other.mkdir()
    pooled(swapped, other, (1, 2))
    again = read_message(other / "pool" / "request", REQUEST)
    for name in both.blocks:
        for key, value in asked.parts[name].arrays.items():
            if key.startswith(f"{both.sites.index(site)}."):
                np.testing.assert_allclose(again.parts[name].arrays[key], value, atol=1e-9)
    scores = progress.scores.set_index("site")["auc"]
    assert scores.min() > 0.6 and list(scores.index) == both.sites


def test_what_each_block_adds_is_that_of_scores_without_it(both, finished):
    """Of two blocks, the AUC without one is that of the other alone, by a model that never saw the site."""
    folder, progress = finished
    asked = read_message(folder / "pool" / "request", REQUEST)
    for k, site in enumerate(both.sites):
        for name, other in (("rest", "anatomy"), ("anatomy", "rest")):
            people = both.block(other).select([site])
            edges = cohort_edges(people, "log", 0.7, True)
            alone = read_scores(reading_of(asked.parts[other].arrays, k), edges, people.covariates())
            told = progress.scores.set_index("site").loc[site, f"without_{name}"]
            assert told == pytest.approx(roc_auc_score(people.labels, alone), abs=1e-9)
    lines = write_pool_page(folder / "pool")
    gain = 100 * (progress.scores["auc"] - progress.scores["without_anatomy"]).mean()
    assert any(line.startswith(f"anatomy adds {gain:.1f} AUC points to rest") for line in lines)
    text = "\n".join(describe_file(folder / f"{both.sites[0]}-3.summary"))
    assert "without each block (rest, anatomy)" in text


def test_the_sum_is_better_than_a_block_and_a_block_of_noise_gets_little(both, tmp_path):
    noisy = with_anatomy(both.block("rest"), effect=0.0)
    progress = pooled(noisy, tmp_path)
    model = load_method(tmp_path / "pool" / "model", noisy)[0]
    share = model.model_.weights_ / model.model_.weights_.sum()
    assert share[0] > 0.8
    assert progress.scores["auc"].mean() > 0.6


@pytest.mark.parametrize("target", ["number", "classes"])
def test_numbers_and_several_classes_are_added_as_well(target, tmp_path):
    from brainroam.data.target import Classes, Number

    cohort = brainroam.make_cohort(n_sites=4, n_per_site=60, n_rois=12, seed=2)
    rng = np.random.default_rng(0)
    if target == "number":
        goal, label = Number("score"), cohort.labels + rng.normal(size=len(cohort))
    else:
        goal, label = Classes("dx", ("HC", "A", "B")), cohort.labels * rng.integers(1, 3, len(cohort))
    cohort = with_anatomy(cohort.predicting(goal, cohort.table.assign(label=label)).using([]), effect=0.7)
    scores = pooled(cohort, tmp_path).scores
    figure = "r" if target == "number" else "auc"
    assert scores["without_anatomy"].mean() < scores[figure].mean()
    assert sum("anatomy adds" in line for line in write_pool_page(tmp_path / "pool")) == 1
    model, central = load_method(tmp_path / "pool" / "model", cohort)[0], fitted(cohort)
    one, other = model.score(cohort).ravel(), central.score(cohort).ravel()
    assert np.corrcoef(one, other)[0, 1] > 0.99


def test_a_person_or_a_site_without_a_block_is_read_by_the_others(both, tmp_path):
    rng = np.random.default_rng(0)
    without = (both.table["site"] == both.sites[0]).to_numpy() | (
        (both.table["site"] == both.sites[1]).to_numpy() & (rng.random(len(both)) < 0.4)
    )
    some = lacking(both, "anatomy", without)
    scores = pooled(some, tmp_path).scores
    assert scores["auc"].min() > 0.55
    first_site = scores.set_index("site").loc[both.sites[0]]  # where nobody has a table
    assert first_site["without_anatomy"] == first_site["auc"] and first_site["without_rest"] == 0.5
    first = read_message(tmp_path / f"{both.sites[0]}-1.summary", SUMMARY)
    assert list(first.blocks) == ["rest"]
    model = load_method(tmp_path / "pool" / "model", some)[0]
    score = model.score(some)
    rest = model.model_.members["rest"].score(both.block("rest"))
    np.testing.assert_allclose(score[without], model.model_.weights_[0] * rest[without])


def test_few_who_lack_a_block_are_left_out_of_all(both):
    """Two summaries of other people tell about the difference: with one person less, that person's age."""
    site = both.select([both.sites[0]])
    one = np.zeros(len(site), dtype=bool)
    one[7] = True
    parts = answer(lacking(site, "anatomy", one)).parts
    means = [part.arrays["covariate_mean"] for part in parts.values()]
    np.testing.assert_array_equal(*means)
    np.testing.assert_array_equal(*(part.arrays["counts"] for part in parts.values()))
    assert parts["rest"].arrays["counts"].sum() == len(site) - 1
    assert "with other blocks" in parts["rest"].withheld["people"]


def test_a_covariate_that_would_tell_about_those_who_lack_a_block_is_dropped(both):
    site = both.select([both.sites[0]])
    y, sex = site.labels, site.table["sex"].to_numpy()
    few = np.concatenate([np.flatnonzero((y == label) & (sex == 1))[:11] for label in (0, 1)])
    one = np.flatnonzero((y == 1) & (sex == 0))[:1]  # the only woman among them
    mask = np.zeros(len(site), dtype=bool)
    mask[[*few, *one]] = True
    parts = answer(lacking(site, "anatomy", mask)).parts
    assert parts["rest"].arrays["counts"].sum() - parts["anatomy"].arrays["counts"].sum() == mask.sum()
    for part in parts.values():
        place = part.covariates.index("sex")
        assert np.isnan(part.arrays["covariate_mean"][:, place]).all() and "sex" in part.withheld


def test_several_scans_of_a_person_count_once_in_every_block(both):
    site = both.select([both.sites[0]])
    table = site.table.assign(person=site.table["subject"])
    more = table.iloc[:8].assign(subject=[f"{who}-again" for who in table["subject"].iloc[:8]])
    parts = {}
    for name, part in site.blocks.items():
        series = [*part.series, *part.series[:8]]
        everybody = pd.concat([table, more], ignore_index=True)
        parts[name] = Cohort(series, everybody, part.atlas, measure=part.measure, covariates=part.covariate_names)
    twice = parts["rest"].with_block("anatomy", parts["anatomy"], "rest")
    once, again = answer(site), answer(twice)
    for name, value in once.arrays.items():
        np.testing.assert_allclose(again.arrays[name], value, atol=1e-9)


def test_a_site_of_one_block_names_it_and_others_are_refused(both, tmp_path):
    first = answer(both.select([both.sites[0]])).write(tmp_path / "a.summary")
    alone = both.block("rest").select([both.sites[1]])
    with pytest.raises(SummaryError, match="--only"):
        Pool(tmp_path / "pool").receive([first, answer(alone).write(tmp_path / "b.summary")])
    named = answer(alone, block="rest").write(tmp_path / "c.summary")
    Pool(tmp_path / "pool").receive([first, named])
    with pytest.raises(UsageError, match="noise"):
        answer(both.select([both.sites[0]]), protection=Protection(1.0))


def test_the_people_of_each_block_are_kept_to_in_all_rounds(both, finished, tmp_path):
    folder, _ = finished
    site = both.select([both.sites[0]])
    request = read_message(folder / "pool" / "request", REQUEST)
    ledger = Ledger(tmp_path, both.sites[0])
    answer(site, ledger=ledger)
    fewer = np.zeros(len(site), dtype=bool)
    fewer[:3] = True
    with pytest.raises(SummaryError, match="people"):
        answer(lacking(site, "anatomy", fewer), request, ledger=Ledger(tmp_path, both.sites[0]))
    with pytest.raises(SummaryError, match="--only"):
        answer(site.block("rest"), request)


def test_a_file_says_in_words_what_each_block_tells(both, finished):
    folder, _ = finished
    site = both.sites[0]
    for number in (1, 2, 3):
        text = "\n".join(describe_file(folder / f"{site}-{number}.summary"))
        assert "rest: edges of series" in text and "anatomy: 30 columns" in text
    assert "added" in text
    assert "block anatomy:" in "\n".join(describe_file(folder / "pool" / "request"))


def test_arrays_of_an_unnamed_block_are_refused(both, tmp_path):
    message = answer(both.select([both.sites[0]]))
    message.arrays["2/counts"] = message.arrays["0/counts"]
    with pytest.raises(SummaryError, match="block"):
        read_message(message.write(tmp_path / "x.summary"), SUMMARY)


def test_the_pooled_model_predicts_explains_and_refuses_in_words(both, finished):
    folder, _ = finished
    model = brainroam.load_model(folder / "pool" / "model")
    blocks = {name: part.series for name, part in both.blocks.items()}
    blocks["anatomy"] = pd.DataFrame(np.concatenate(blocks["anatomy"]), columns=both.block("anatomy").atlas.labels)
    p = model.predict_proba(blocks, covariates=both.table[["age", "sex"]])[:, 1]
    assert roc_auc_score(both.labels, p) > 0.8
    found = load_method(folder / "pool" / "model", both)[0]
    assert found.model_.explanation(both, 3)["edges"]
