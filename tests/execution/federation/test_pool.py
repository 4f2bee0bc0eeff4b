"""The pool: the same model as in one place, whoever comes first, joins or leaves; and what it refuses."""

import os
import shutil
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from hospital_rounds import round_of
from sklearn.metrics import roc_auc_score
from tests.faults.launcher import die_at_change

import brainroam
from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.errors import SummaryError, UsageError
from brainroam.execution.federation import Pool, Protection, answer
from brainroam.execution.federation.checks import suspicions
from brainroam.execution.federation.files import REQUEST, SUMMARY, Message, Settings, read_message
from brainroam.execution.federation.model import FIXED
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod


@pytest.fixture(scope="module")
def central(hospitals):
    return TunedMethod(method_info("core"), "default", **FIXED).fit(hospitals)


def model_of(folder, cohort):
    return load_method(folder / "pool" / "model", cohort)[0]


def test_pooled_equals_one_fit_in_one_place(hospitals, done, central):
    pooled, site, y = model_of(done, hospitals), hospitals.table["site"].to_numpy(), hospitals.labels
    one, other = central.model_.core_, pooled.model_.core_
    np.testing.assert_array_equal(one.scaffold_.edges, other.scaffold_.edges)
    np.testing.assert_allclose(one.pathways_.skip, other.pathways_.skip, atol=1e-6)
    np.testing.assert_allclose(one.deconfounder_.mean_coef_, other.deconfounder_.mean_coef_, atol=1e-6)
    np.testing.assert_allclose(central.score(hospitals), pooled.score(hospitals), atol=2e-6)
    scores = pd.read_csv(done / "pool" / "scores.csv", index_col="site")["auc"]
    for name in hospitals.sites:
        here = site == name
        assert scores[name] == pytest.approx(roc_auc_score(y[here], central.inner_scores_[here]), abs=1e-9)
    assert pooled.calibration_.threshold == pytest.approx(central.calibration_.threshold, abs=1e-6)
    assert pooled.calibration_.slope == pytest.approx(central.calibration_.slope, rel=0.1)
    for name, shift in central.shifts_.items():
        assert vars(pooled.shifts_[name]) == pytest.approx(vars(shift), abs=1e-5)


def test_a_pooled_model_foretells_the_auc_as_a_fit_in_one_place_does(hospitals, done, central, tmp_path):
    new = brainroam.make_cohort(n_sites=5, n_per_site=60, n_rois=16, seed=1).select(["S05"])
    told, here = (
        brainroam.foretell(model, new).table.set_index("measure").drop(columns=["site", "n"])
        for model in (done / "pool" / "model", central)
    )
    np.testing.assert_allclose(told.loc["auc"], here.loc["auc"], atol=1e-6)
    assert told.loc["balanced_acc"].isna().all() and here.loc["balanced_acc"].notna().all()
    shutil.copytree(done, tmp_path / "files")
    pool = Pool(tmp_path / "files" / "pool")
    pool.withdraw(hospitals.sites[0])
    assert pool.advance().next_round == 3
    assert "third round" in next(brainroam.foretell(tmp_path / "files" / "pool" / "model", new).sentences())


def test_matrices_are_pooled_and_never_mixed_with_series(tmp_path):
    series = brainroam.make_cohort(n_sites=3, n_per_site=60, n_rois=12, seed=1)
    matrices = Cohort([np.corrcoef(x.T) for x in series.series], series.table, series.atlas, measure="matrices")
    for number in (1, 2):
        pool = Pool(tmp_path / "pool")
        pool.receive(round_of(matrices, tmp_path, number, tmp_path / "pool"))
        pool.advance()
    central = TunedMethod(method_info("core"), "default", **FIXED).fit(matrices)
    np.testing.assert_allclose(model_of(tmp_path, matrices).score(matrices), central.score(matrices), atol=2e-6)
    with pytest.raises(SummaryError, match="matrices"):
        Pool(tmp_path / "other").receive(
            [tmp_path / "S01-1.summary", answer(series.select(["S02"])).write(tmp_path / "series.summary")]
        )
    with pytest.raises(SummaryError, match="matrices"):
        answer(series.select(["S01"]), read_message(tmp_path / "pool" / "request", REQUEST))


def test_counts_are_pooled_edge_by_edge_so_that_the_unit_of_one_does_not_matter(tmp_path):
    series = brainroam.make_cohort(n_sites=3, n_per_site=60, n_rois=10, seed=1)
    scores = []
    for larger in (1, 1000):
        counts = [np.exp(4 + 2 * np.corrcoef(x.T)) * (1 - np.eye(10)) for x in series.series]
        for matrix in counts:
            matrix[0, 1] = matrix[1, 0] = larger * matrix[0, 1]
        cohort = Cohort(counts, series.table, series.atlas, measure="matrices")
        folder = tmp_path / str(larger)
        for number in (1, 2):
            pool = Pool(folder / "pool")
            pool.receive(round_of(cohort, folder, number, folder / "pool"))
            pool.advance()
        scores.append(model_of(folder, cohort).score(cohort))
    assert np.std(scores[0]) > 0
    np.testing.assert_allclose(*scores, rtol=1e-5)


@pytest.fixture(scope="module")
def tables():
    """Columns of very different units; some people lack some of them."""
    rng, n = np.random.default_rng(2), 240
    site, y = np.repeat(range(4), n // 4), np.tile([0, 1], n // 2)
    values = rng.normal(size=(n, 40)) + rng.normal(size=(4, 40))[site]
    values[:, :8] += 0.7 * y[:, None]
    values = (5 + values) * 10.0 ** rng.integers(-2, 5, 40)
    values[rng.random(values.shape) < 0.01] = np.nan
    people = {"subject": [f"p{i}" for i in range(n)], "site": [f"S{k}" for k in site], "label": y}
    table = pd.DataFrame({**people, "age": rng.uniform(10, 60, n), "sex": rng.integers(0, 2, n)})
    return Cohort(list(values[:, None]), table, columns_of_table([f"m{k}" for k in range(40)]), measure="table")


def test_a_pool_of_tables_is_one_fit_in_one_place(tables, tmp_path):
    for number in (1, 2, 3):
        pool = Pool(tmp_path / "pool")
        pool.receive(round_of(tables, tmp_path, number, tmp_path / "pool"))
        progress = pool.advance()
    central = TunedMethod(method_info("core"), "default", **FIXED, tau_percentile=(80,)).fit(tables)
    pooled = model_of(tmp_path, tables)
    one, other = central.model_.core_, pooled.model_.core_
    np.testing.assert_array_equal(one.scaffold_.edges, other.scaffold_.edges)
    # A column that somebody lacks is scaled by the people who have it, which a summary does not tell.
    assert np.corrcoef(central.score(tables), pooled.score(tables))[0, 1] > 0.999
    assert progress.lines[0].startswith(f"{len(one.scaffold_)} of 40 columns")
    assert not progress.warnings
    assert progress.scores["auc"].min() > 0.7


def test_a_table_in_other_units_is_noticed_and_noise_is_refused(tables, tmp_path):
    other = tables.select(["S1"])
    other = Cohort([1000 * x for x in other.series], other.table, other.atlas, measure="table")
    paths = round_of(tables, tmp_path, 1, tmp_path / "pool", ["S0", "S2", "S3"])
    pool = Pool(tmp_path / "pool")
    pool.receive([*paths, answer(other).write(tmp_path / "S1-1.summary")])
    assert any("S1" in line and "people differ" in line for line in pool.advance().warnings)
    with pytest.raises(UsageError, match="units"):
        answer(other, protection=Protection(1.0))


def test_any_order_one_by_one_gives_the_same_bytes(done, tmp_path):
    for path in sorted(done.glob("*-[12].summary"), key=lambda path: (path.stem[-1], path.stem[::-1]))[::-1][4:]:
        Pool(tmp_path / "pool").receive([path])
    Pool(tmp_path / "pool").receive(sorted(done.glob("*-2.summary"))[::-1])
    Pool(tmp_path / "pool").advance()
    assert (tmp_path / "pool" / "request").read_bytes() == (done / "pool" / "request").read_bytes()


def test_a_site_withdraws_and_joins_again(hospitals, done, tmp_path):
    shutil.copytree(done, tmp_path / "files")
    before, gone = model_of(tmp_path / "files", hospitals).score(hospitals), hospitals.sites[1]
    pool = Pool(tmp_path / "files" / "pool")
    pool.withdraw(gone)
    assert pool.advance().next_round == 3  # nobody has to send the second round again
    rest = hospitals.select([name for name in hospitals.sites if name != gone])
    alone = TunedMethod(method_info("core"), "default", **FIXED).fit(rest)
    np.testing.assert_allclose(
        model_of(tmp_path / "files", hospitals).score(hospitals), alone.score(hospitals), atol=2e-6
    )
    assert gone not in {message.site for message in received(pool)}
    pool.receive([done / f"{gone}-1.summary", done / f"{gone}-2.summary"])
    pool.advance()
    np.testing.assert_array_equal(model_of(tmp_path / "files", hospitals).score(hospitals), before)


def received(pool):
    return [read_message(path, SUMMARY) for path in (pool.folder / "received").iterdir()]


def test_damaged_doubled_and_mismatched_files_are_refused_by_name(hospitals, done, tmp_path):
    first = done / f"{hospitals.sites[0]}-1.summary"
    other = hospitals.select([hospitals.sites[1]])
    broken = tmp_path / "broken.summary"
    broken.write_bytes(first.read_bytes()[:-1] + b"!")
    with pytest.raises(SummaryError, match=r"broken\.summary"):
        Pool(tmp_path / "pool").receive([broken])
    again = shutil.copy(first, tmp_path / "again.summary")
    with pytest.raises(SummaryError, match="round"):
        Pool(tmp_path / "pool").receive([first, again])
    renamed = tmp_path / "renamed.summary"
    Message(**{**vars(read_message(first, SUMMARY)), "site": "Elsewhere"}).write(renamed)
    with pytest.raises(SummaryError, match="copy"):
        Pool(tmp_path / "pool").receive([first, renamed])
    kind = answer(other, settings=Settings(kind="pearson")).write(tmp_path / "kind.summary")
    with pytest.raises(SummaryError, match=r"kind\.summary .*'pearson'.*'log'"):
        Pool(tmp_path / "pool").receive([first, kind])
    newer = Message(**{**vars(answer(other)), "version": "9.0"}).write(tmp_path / "newer.summary")
    with pytest.raises(SummaryError, match=r"newer\.summary .*'9\.0'"):
        Pool(tmp_path / "pool").receive([first, newer])
    atlas = {**answer(other).atlas, "name": "else", "labels_sha256": "0"}
    regions = Message(**{**vars(answer(other)), "atlas": atlas}).write(tmp_path / "regions.summary")
    with pytest.raises(SummaryError, match=r"regions\.summary .*order"):
        Pool(tmp_path / "pool").receive([first, regions])
    message = answer(other)
    message.arrays["counts"] = np.array([np.nan, 3.0])
    with pytest.raises(SummaryError, match="counts"):
        Pool(tmp_path / "pool").receive([message.write(tmp_path / "nan.summary")])
    assert not (tmp_path / "pool").exists()


def test_labels_swapped_between_rounds_are_noticed(hospitals, done, tmp_path):
    shutil.copytree(done / "pool", tmp_path / "pool")
    pool, name = Pool(tmp_path / "pool"), hospitals.sites[2]
    pool.withdraw(name)
    part = hospitals.select([name])
    swapped = part.with_columns(1 - part.table[["label"]])
    second = read_message(done / f"{name}-2.summary", SUMMARY)
    wrong = answer(swapped).write(tmp_path / "wrong.summary")
    second.write(tmp_path / "second.summary")
    with pytest.raises(SummaryError, match="people"):
        pool.receive([wrong, tmp_path / "second.summary"])


def test_odd_sites_are_told_and_honest_ones_are_not(hospitals, done):
    from brainroam.core.site_summary import SiteSummary

    messages = [read_message(path, SUMMARY) for path in done.glob("*-1.summary")]
    honest = {message.site: SiteSummary.from_arrays(message.arrays) for message in messages}
    assert suspicions(honest) == []
    name, one = next(iter(honest.items()))
    swapped = SiteSummary(**{**vars(one), "contrast": -one.contrast})
    assert "labels swapped" in suspicions({**honest, name: swapped})[0]
    larger = SiteSummary(**{**vars(one), "contrast": 5 * one.contrast})
    assert "prepared otherwise" in suspicions({**honest, name: larger})[0]
    assert any("two names" in text for text in suspicions({**honest, "twin": one}))


def test_a_series_scaled_by_a_constant_changes_nothing(hospitals):
    part = hospitals.select([hospitals.sites[1]])
    from brainroam.data.cohort import Cohort

    scaled = Cohort([1000 * x for x in part.series], part.table, part.atlas)
    for name, value in answer(part).arrays.items():
        np.testing.assert_allclose(answer(scaled).arrays[name], value, atol=1e-9)


def test_too_few_sites_wait(hospitals, tmp_path):
    pool = Pool(tmp_path / "pool")
    pool.receive(round_of(hospitals, tmp_path, 1, tmp_path / "pool", hospitals.sites[:2]))
    assert "3 are needed" in pool.advance().lines[0]


def test_noise_goes_through_all_rounds(hospitals, tmp_path):
    plain, pool = hospitals.using([]), tmp_path / "pool"
    for number in (1, 2, 3):
        options = {"protection": Protection(1000.0), "rng": np.random.default_rng(0)}
        Pool(pool).receive(round_of(plain, tmp_path, number, pool, **options))
        progress = Pool(pool).advance()
    assert progress.scores is not None
    assert np.isfinite(model_of(tmp_path, plain).probability(plain)).all()


DERIVED = {"scaffold.csv", "model", "scores.csv", "report.html", "next_site.json"}


def holds(folder, site):
    """Files of a pool in which a site still is: what it sent, and what says its name or has its rows."""
    name = site.encode()
    return [path for path in folder.rglob("*") if path.is_file() and name in path.read_bytes()]


@pytest.fixture
def reported(done, tmp_path):
    from brainroam.report.pool_page import write_pool_page

    shutil.copytree(done / "pool", tmp_path / "pool")
    write_pool_page(tmp_path / "pool")
    return tmp_path / "pool"


def test_after_a_withdrawal_nothing_of_the_site_is_left(hospitals, reported):
    gone = hospitals.sites[1]
    assert holds(reported, gone)
    pool = Pool(reported)
    pool.withdraw(gone)
    pool.advance()
    assert not holds(reported, gone)
    assert {path.name for path in reported.iterdir()} & DERIVED == {"scaffold.csv", "model"}
    Pool(reported).withdraw(gone)  # once more changes nothing, and is no error


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_withdrawal_killed_at_any_file_operation_is_finished_by_the_next_command(hospitals, reported, tmp_path):
    """The process dies just before its first, second, ... change of the file system; then plain `pool` is typed."""
    gone, number, died = hospitals.sites[1], 0, True
    while died:
        number += 1
        shutil.copytree(reported, tmp_path / "again")
        died = killed_at(number, lambda: Pool(tmp_path / "again").withdraw(gone))
        pool = Pool(tmp_path / "again")
        if gone in pool.sites:  # it had not begun: the same command is typed again
            assert number <= 5
            pool.withdraw(gone)
        if number % 4 == 1:
            pool.advance()
        assert not holds(tmp_path / "again", gone), number
        assert not list((tmp_path / "again").rglob("*.part"))
        shutil.rmtree(tmp_path / "again")
    assert number > 10


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_new_pool_killed_at_any_file_operation_can_be_begun_again(hospitals, done, tmp_path):
    number, died = 0, True
    files = sorted(done.glob("*-1.summary"))
    while died:
        number += 1
        died = killed_at(number, lambda: Pool(tmp_path / "new").receive(files))
        Pool(tmp_path / "new").receive(files)
        assert Pool(tmp_path / "new").sites == hospitals.sites
        shutil.rmtree(tmp_path / "new")
    assert number > 5


def killed_at(number, act):
    """Whether a child process that kills itself before so many changes of the file system died of it."""
    pid = os.fork()
    if not pid:
        try:
            die_at_change(number)()
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_third_summary_without_a_first_stops_nobody(hospitals, done, tmp_path):
    shutil.copytree(done / "pool", tmp_path / "pool")
    name = hospitals.sites[1]
    orphan = next(m.path for m in received(Pool(tmp_path / "pool")) if m.site == name and m.round == 1)
    orphan.unlink()
    assert Pool(tmp_path / "pool").sites == [site for site in hospitals.sites if site != name]
    assert Pool(tmp_path / "pool").advance().next_round == 3
