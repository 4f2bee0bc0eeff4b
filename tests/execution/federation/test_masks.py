"""Sums under masks: the model of one place, and nothing of one hospital for anybody else to read."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam.data.target_column import with_target
from brainroam.errors import SummaryError
from brainroam.execution.federation import Pool, answer
from brainroam.execution.federation.files import REQUEST, SUMMARY, read_message
from brainroam.execution.federation.ledger import Ledger
from brainroam.execution.federation.masking import ROOM, Masks, fixed_point, new_key, numbers, public_of
from brainroam.execution.federation.model import FIXED
from brainroam.execution.federation.show import describe_file
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod


def send(cohort, folder, number, names=None, **options):
    """The files with which hospitals that keep a record answer the pool."""
    request = None if number == 1 else read_message(folder / "pool" / "request", REQUEST)
    paths = []
    for name in cohort.sites if names is None else names:
        ledger = Ledger(folder / name, name)
        summary = answer(cohort.select([name]), request, ledger=ledger, **{"masked": True, **options})
        paths.append(summary.write(folder / f"{name}-{number}.summary"))
    return paths


def pooled(cohort, folder, rounds=(1, 2, 3)):
    for number in rounds:
        pool = Pool(folder / "pool")
        pool.receive(send(cohort, folder, number))
        progress = pool.advance()
    return progress


@pytest.fixture(scope="module")
def people():
    """Four hospitals: three diagnoses, one of which the last lacks, a severity, and a grade in steps."""
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=120, n_rois=12, constant_rois=2, all_male_sites=1, seed=2)
    rng, site = np.random.default_rng(0), cohort.table["site"].astype("category").cat.codes.to_numpy()
    dx = np.array(["HC", "MDD", "SCZ"])[cohort.labels * (1 + (rng.random(len(cohort)) < 0.5) * (site < 3))]
    severity = 2.0 * cohort.labels + rng.normal(size=len(cohort)) + 4 * site
    grade = 1 + rng.integers(0, 3, len(cohort)) + cohort.labels
    return cohort.with_columns(pd.DataFrame({"dx": dx, "severity": severity, "grade": grade}))


@pytest.fixture(scope="module")
def done(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    return folder, pooled(people, folder)


@pytest.mark.parametrize("target", ["", "severity", "grade:ordered", "dx"])
def test_under_masks_the_model_is_that_of_one_place(people, tmp_path, target):
    cohort = with_target(people, target) if target else people
    progress = pooled(cohort, tmp_path)
    assert progress.next_round == 4 and not progress.warnings
    fixed = {"tau_percentile": [80], "penalties": [3, 10, 30]} if cohort.target.is_number else {}
    central = TunedMethod(method_info("core"), "default", **FIXED, **fixed).fit(cohort)
    model = load_method(tmp_path / "pool" / "model", cohort)[0]
    np.testing.assert_allclose(model.score(cohort), central.score(cohort), atol=1e-8)
    scores, site = progress.scores.set_index("site"), cohort.table["site"].to_numpy()
    for name in cohort.sites:
        here, held_out = site == name, central.inner_scores_[site == name]
        if target in ("severity", "grade:ordered"):
            r = np.corrcoef(held_out, cohort.targets[here])[0, 1]
            assert scores.loc[name, "r"] == pytest.approx(r, abs=1e-8)
        elif not target:
            assert scores.loc[name, "auc"] == pytest.approx(roc_auc_score(cohort.labels[here], held_out), abs=1e-9)


def test_a_table_under_masks_is_that_of_one_place(tmp_path):
    from brainroam.data.atlas import columns_of_table
    from brainroam.data.cohort import Cohort

    rng, n = np.random.default_rng(2), 240
    site, y = np.repeat(range(4), n // 4), np.tile([0, 1], n // 2)
    values = (5 + rng.normal(size=(n, 30)) + 0.6 * y[:, None] * (np.arange(30) < 6)) * 10.0 ** rng.integers(-2, 6, 30)
    table = {"subject": [f"p{i}" for i in range(n)], "site": [f"S{k}" for k in site], "label": y}
    people = pd.DataFrame({**table, "age": rng.uniform(10, 60, n), "sex": rng.integers(0, 2, n)})
    cohort = Cohort(list(values[:, None]), people, columns_of_table([f"m{k}" for k in range(30)]), measure="table")
    pooled(cohort, tmp_path)
    central = TunedMethod(method_info("core"), "default", **FIXED, tau_percentile=[80], penalties=[1, 3, 10]).fit(
        cohort
    )
    withheld = [read_message(tmp_path / f"S{k}-1.summary", SUMMARY).withheld for k in range(4)]
    model = load_method(tmp_path / "pool" / "model", cohort)[0]
    if not any(withheld):
        np.testing.assert_allclose(model.score(cohort), central.score(cohort), atol=1e-8)
    assert np.corrcoef(model.score(cohort), central.score(cohort))[0, 1] > 0.99


def test_what_one_hospital_sends_is_uniform_noise(people, done):
    folder, _ = done
    files = [read_message(folder / f"{name}-2.summary", SUMMARY).arrays for name in people.sites]
    assert all(set(arrays) == {"counts", "masked"} for arrays in files)
    sent = [arrays["masked"] for arrays in files]
    n = min(map(len, sent))
    for numbers_sent in (sent[0], sent[1], sent[0][:n] + sent[1][:n], sum(one[:n] for one in sent[1:])):
        assert kstest(numbers_sent / 2.0**64, "uniform").pvalue > 1e-4
        bits = np.unpackbits(numbers_sent.view(np.uint8)).mean()
        assert abs(bits - 0.5) < 5 * 0.5 / np.sqrt(64 * len(numbers_sent))
        assert len(np.unique(numbers_sent)) == len(numbers_sent)


def test_the_coordinator_reads_the_sum_of_all_and_each_hospital_that_of_the_others():
    rng, names = np.random.default_rng(0), ["A", "B", "C", "D"]
    private = {name: new_key() for name in names}
    public = {name: public_of(key) for name, key in private.items()}
    masks = {name: Masks(private[name], name, public, "one request") for name in names}
    x = {name: rng.normal(size=50) for name in names}
    total = sum(masks[name].hide(fixed_point(x[name], 4), "") for name in names)
    np.testing.assert_allclose(numbers(total), sum(x.values()), atol=1e-11)
    for_d = sum(masks[name].hide(fixed_point(x[name], 4), "D") for name in "ABC")
    assert np.abs(numbers(for_d)).mean() > 1e4  # noise, for the coordinator
    np.testing.assert_allclose(numbers(masks["D"].open(for_d)), x["A"] + x["B"] + x["C"], atol=1e-11)
    assert np.abs(numbers(masks["C"].open(for_d))).mean() > 1e4  # and for the others
    other = Masks(private["A"], "A", public, "another request")
    assert (other.hide(fixed_point(x["A"], 4), "") != masks["A"].hide(fixed_point(x["A"], 4), "")).all()


def test_sums_that_do_not_fit_are_refused_and_not_turned_around():
    assert numbers(fixed_point(np.array([-ROOM / 4]), 3))[0] == -ROOM / 4
    for too_much in (ROOM, np.nan, np.inf):
        with pytest.raises(SummaryError, match="units"):
            fixed_point(np.array([too_much]), 3)


def test_who_drops_out_ends_the_round_and_the_others_begin_it_anew(people, tmp_path):
    pooled(people, tmp_path, (1,))
    some = people.sites[:3]
    pool = Pool(tmp_path / "pool")
    pool.receive(send(people, tmp_path, 2, some))
    assert pool.advance().next_round == 2  # the sum of three parts cannot be read
    before = [read_message(tmp_path / f"{name}-2.summary", SUMMARY).arrays["masked"] for name in some]
    pool.withdraw(people.sites[3])
    assert pool.advance().next_round == 2
    with pytest.raises(SummaryError, match="--again"):
        send(people, tmp_path, 2, some)
    pool.receive(send(people, tmp_path, 2, some, again=True))
    assert pool.advance().next_round == 3
    after = read_message(tmp_path / f"{some[0]}-2.summary", SUMMARY).arrays["masked"]
    assert not np.isin(after, before[0]).any()
    rest = people.select(some)
    alone = TunedMethod(method_info("core"), "default", **FIXED).fit(rest)
    model = load_method(tmp_path / "pool" / "model", people)[0]
    np.testing.assert_allclose(model.score(people), alone.score(people), atol=1e-8)


def test_a_request_in_the_open_or_with_other_keys_is_refused(people, done, tmp_path):
    folder, _ = done
    name, site = people.sites[0], people.select(people.sites[:1])
    first = read_message(folder / f"{name}-1.summary", SUMMARY)
    assert list(first.keys) == [name] and not read_message(folder / f"{name}-2.summary", SUMMARY).path.is_dir()
    arrays = {"edges": np.arange(9), "centre": np.zeros(9), "priority": np.ones(9)}
    request = replace(first, what=REQUEST, round=2, arrays=arrays, sites=people.sites, site="", keys={}, withheld={})
    ledger = Ledger(folder / name, name)
    with pytest.raises(SummaryError, match="--plain"):
        answer(site, request, ledger=ledger, masked=True)
    assert "factor" in answer(site, request, ledger=ledger).arrays
    asked = read_message(folder / "pool" / "sums", REQUEST)
    forged = replace(asked, keys={**asked.keys, people.sites[1]: asked.keys[name]})
    with pytest.raises(SummaryError, match="keys"):
        answer(site, forged, ledger=ledger, masked=True)
    stranger = replace(asked, keys={**asked.keys, "": public_of(new_key()).hex()})
    with pytest.raises(SummaryError, match="not made for this hospital"):
        answer(site, stranger, ledger=ledger, masked=True)
    with pytest.raises(SummaryError, match="record"):
        answer(site, asked)


def test_a_hospital_that_wants_none_makes_the_round_an_open_one(people, tmp_path):
    paths = send(people, tmp_path, 1, people.sites[:3])
    paths += send(people, tmp_path, 1, people.sites[3:], masked=False)
    pool = Pool(tmp_path / "pool")
    pool.receive(paths)
    progress = pool.advance()
    assert any("in the open" in line for line in progress.lines)
    assert not read_message(tmp_path / "pool" / "request", REQUEST).keys


def test_one_hospital_that_moves_the_model_most_is_named(people, tmp_path):
    """A factor of 30 in round 2 was pooled without a word."""
    from brainroam.execution.federation import masked

    pooled(people, tmp_path, (1,))
    honest, loud = masked.sums_of_people, people.sites[1]
    pool = Pool(tmp_path / "pool")
    pool.receive(send(people, tmp_path, 2, [name for name in people.sites if name != loud]))
    masked.sums_of_people = lambda *a: masked.Sums(900 * (s := honest(*a)).gram, -30 * s.by_class, s.present)
    try:
        pool.receive(send(people, tmp_path, 2, [loud]))
    finally:
        masked.sums_of_people = honest
    pool.advance()
    pool.receive(send(people, tmp_path, 3))
    (told,) = [text for text in pool.advance().warnings if "moves the pooled model" in text]
    assert told.startswith(f"site {loud}:")


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_a_record_with_a_key_is_read_by_its_owner_only(people, done):
    folder, _ = done
    (record,) = (folder / people.sites[0]).glob("*.ledger")
    assert record.stat().st_mode & 0o077 == 0


def test_masked_files_are_told_in_words(people, done):
    folder, _ = done
    text = "\n".join(describe_file(folder / f"{people.sites[0]}-2.summary"))
    assert "under masks" in text and "noise" in text
    assert "key of" in "\n".join(describe_file(folder / f"{people.sites[0]}-1.summary"))
    assert "under masks" in "\n".join(describe_file(folder / "pool" / "sums"))
