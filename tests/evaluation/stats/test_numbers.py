"""A number at held-out sites: order, level and scale apart, and a study of it from runs to comparison."""

import numpy as np
import pandas as pd
import pytest
from tests.evaluation.number_coverage_study import number_coverage

import brainroam
from brainroam.core.connectivity import edges
from brainroam.data.target import Number
from brainroam.data.target.base import Place
from brainroam.data.target.sites_number import level_of_sites, level_off, over_sites, site_metrics
from brainroam.data.target_column import with_target
from brainroam.errors import UsageError
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.compare import compare_methods

AGE = Number("age", transform="log")
PLACE = Place("a site it has never seen", "the next site", "site")


def judged(sites, target=AGE):
    """The row of a method by its metrics at sites."""
    found = target.order.judge(sites["r"].to_numpy(), sites[["n"]].to_numpy(), np.zeros((len(sites), 0)), models)
    ends = {name: getattr(found, name) for name in ("low", "high", "next_low", "next_high", "reason")}
    return {"r": found.mean, "n_sites": len(sites), **ends, **over_sites(sites, models)}


def correlated(y, r, rng):
    """A prediction with exactly this correlation with y."""
    t = (y - y.mean()) / y.std()
    e = rng.normal(size=len(y))
    e -= e.mean() + t * (t @ e) / len(y)
    return 50 + r * t + np.sqrt(1 - r**2) * e / e.std()


def study(r, n=40, target=None, protocol="loso", institutions=None):
    """Scores and predictions of methods with these correlations at sites."""
    target, rng, predictions, scores = target or Number("x"), np.random.default_rng(0), [], []
    for k in range(len(next(iter(r.values())))):
        y = rng.normal(50, 10, n)
        for method, values in r.items():
            rows = pd.DataFrame({"subject": [f"{k}-{i}" for i in range(n)], "label": y})
            rows = rows.assign(method=method, protocol=protocol, site=f"S{k}", seed=0, score=0.0)
            rows = rows.assign(predicted=correlated(y, values[k], rng), institution=(institutions or [""] * 99)[k])
            rows = rows.assign(low_80=np.nan, high_80=np.nan, low_90=np.nan, high_90=np.nan)
            predictions.append(rows)
            key = {"method": method, "protocol": protocol, "site": f"S{k}", "seed": 0}
            scores.append({**key, **target.at_site(rows, {"constant": 50.0})})
    return pd.DataFrame(scores), pd.concat(predictions, ignore_index=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = brainroam.make_cohort(n_sites=5, n_per_site=20, n_rois=10, seed=1)
    x = edges(made.series)
    number = 50 + 20 * (x[:, :8] - x[:, :8].mean(axis=0)).sum(axis=1) + np.random.default_rng(0).normal(0, 3, len(x))
    cohort = with_target(made.with_columns(pd.DataFrame({"score": number})), "score")
    return brainroam.evaluate(cohort, ["fc-ridge", "majority"], out=tmp_path_factory.mktemp("n") / "runs")


def test_order_level_and_scale_are_told_apart():
    truth = np.array([10.0, 20, 30, 40])
    shifted = site_metrics(truth, truth + 5, 25.0, Number("x"))
    assert (shifted["r"], shifted["level"], shifted["scale"]) == pytest.approx((1, 5, 1))
    wide = site_metrics(truth, 2 * truth - 25, 25.0, Number("x"))
    assert (wide["r"], wide["level"], wide["scale"]) == pytest.approx((1, 0, 0.5))
    assert wide["mae_constant"] == 10
    constant = site_metrics(truth, np.full(4, 25.0), 25.0, Number("x"))
    assert constant["r"] == 0 and np.isnan(constant["scale"]) and constant["r2"] == 0


def test_a_logarithm_orders_on_its_own_scale_and_errs_in_years():
    truth = np.array([8.0, 16, 32, 64])
    found = site_metrics(truth, 2 * truth, 20.0, AGE)
    assert found["r"] == pytest.approx(1) and found["scale"] == pytest.approx(1)
    assert found["mae"] == pytest.approx(truth.mean())


def test_the_verdict_says_what_travels(results):
    found = brainroam.compare(results)
    row = found.table.set_index("method").loc["fc-ridge"]
    assert row["verdict"].startswith("Order travels")
    assert 0 < row["next_low"] < row["low"] < row["r"] < row["high"] < row["next_high"]
    assert "same for everybody" in found.table.set_index("method").loc["majority", "verdict"]
    assert found.paired["p"].notna().all()


def test_a_method_that_lacks_sites_stands_last_and_says_so(results):
    rows = results.scores
    few = rows[(rows["method"] == "majority") | rows["site"].isin(["S01", "S02"])]
    people = results.predictions
    people = people[(people["method"] == "majority") | people["site"].isin(["S01", "S02"])]
    found = compare_methods(few, people, target=results.target)
    assert found.table["method"].tolist() == ["majority", "fc-ridge"]
    assert found.table[["n_sites", "of_sites"]].to_numpy().tolist() == [[5, 5], [2, 5]]
    assert "fc-ridge has no result at S03, S04, S05: its row is over 2 of 5 sites." in found.notes
    assert found.table["r"].is_monotonic_increasing


def test_runs_of_a_number_are_read_back_and_resumed(results):
    again = brainroam.evaluation.results.load_runs(results.path)
    assert again.target == results.target
    pd.testing.assert_frame_equal(again.scores, results.scores)
    inside = results.predictions.query("method == 'fc-ridge'")
    assert np.mean(inside["label"].between(inside["low_80"], inside["high_80"])) > 0.6
    site = inside[inside["site"] == "S01"]
    r = results.scores.query("method == 'fc-ridge' and site == 'S01'")["r"].item()
    assert r == pytest.approx(np.corrcoef(site["label"], site["predicted"])[0, 1])


def test_a_method_for_two_classes_is_refused_before_anything_is_computed():
    cohort = with_target(brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8), "mean_fd:number")
    with pytest.raises(UsageError, match="fc-svm"):
        brainroam.evaluate(cohort, ["fc-svm"])


def test_the_report_of_a_number_has_every_chapter(results, tmp_path):
    page = brainroam.write_report(results, tmp_path / "report.html", figures=tmp_path).read_text()
    assert "Order travels" in page and (tmp_path / "predicted.png").is_file()
    for chapter in ("people", "provenance", "methods", "checklist", "probast", "model-card", "next-site", "comparison"):
        assert f'<section id="{chapter}"' in page, chapter
    methods = page.split('data-name="methods"')[1].split("</table>")[0]
    assert all(f">{name}</th>" in methods for name in results.scores["method"].unique())


def test_too_few_sites_give_no_interval():
    sites = pd.DataFrame({"n": 30.0, "r": [0.3, 0.4, 0.5], "level": 0.0, "error_sd": 1.0, "sd": 2.0, "scale": 1.0})
    found = judged(sites.assign(mae=1.0, mae_constant=2.0, gain_se=0.1, r2=0.1, r2_constant=0.2))
    assert np.isnan(found["next_low"]) and "fewer" in found["reason"]


@pytest.mark.parametrize(("n_sites", "equal"), [(4, True), (12, False)])
def test_intervals_of_the_order_cover(n_sites, equal):
    mean, following = number_coverage(n_sites, equal, n_studies=150)
    assert mean > 0.9 and following > 0.9


def test_level_errors_of_opposite_sign_do_not_cancel_at_two_sites():
    truth = np.arange(20.0)
    at = [site_metrics(truth, truth + off, 10.0, Number("x")) for off in (-4, 4)]
    assert judged(pd.DataFrame(at))["off"] == pytest.approx(4)


def test_where_sites_do_not_differ_the_level_is_known_no_better_than_its_mean():
    """Six alike sites: a mean of 0 with variance 2 v / 6, counted as `next_site` counts it, and tau 0."""
    sites = pd.DataFrame({"n": 25.0, "level": [0.1, -0.1] * 3, "error_sd": 5.0})
    of_mean = 25 / 24  # 5^2 of 25 people, whose own mean took one degree of freedom
    assert level_off(sites, models) == pytest.approx(np.sqrt(2 * of_mean / 6))
    ahead = level_of_sites(sites, models)
    assert ahead.tau == 0 and (ahead.high - ahead.low) / 2 == pytest.approx(1.96 * level_off(sites, models), rel=0.05)
    assert level_off(sites.assign(level=3.0), models) == pytest.approx(np.sqrt(9 + 2 * of_mean / 6))


@pytest.mark.parametrize(("spread", "low", "high"), [(0.0, 0.0, 0.6), (1.0, 0.8, 1.3)])
def test_sites_of_one_or_two_people_do_not_make_the_level_seem_off(spread, low, high):
    """Fifty sites of 1 to 20 people whose errors scatter by 2.5: a person alone has no variance to be weighed by."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        errors = [rng.normal(rng.normal(0, spread), 2.5, n) for n in rng.integers(1, 21, 50)]
        rows = [{"n": len(e), "level": e.mean(), "error_sd": e.std()} for e in errors]
        found.append(level_off(pd.DataFrame(rows), models))
    assert low < np.median(found) < high


def test_a_gain_nobody_can_see_is_none_however_sure_it_is():
    """Predictions a thousandth nearer to the truth than a constant, at every person of eight sites."""
    rng = np.random.default_rng(0)
    at = []
    for _ in range(8):
        truth = rng.normal(50, 10, 30)
        nearly = 50 + 0.001 * np.sign(truth - 50)
        at.append(site_metrics(truth, nearly, 50.0, Number("x")))
    found = judged(pd.DataFrame(at))
    assert found["gain_low"] > 0 and (found["better"], found["worse"]) == (0, 0)
    assert "no better than a constant" in Number("x").verdict(found, pd.DataFrame(), PLACE)[1]


def test_what_a_block_adds_to_the_order_is_said():
    """Against Fisher's z of the two methods, sites of equal size."""
    r = {"ensemble": [0.5, 0.6, 0.55, 0.65], "ensemble[blocks=rest]": [0.4, 0.5, 0.5, 0.45]}
    r |= {"ensemble[blocks=anatomy]": [0.5, 0.62, 0.5, 0.6]}
    found = compare_methods(*study(r), target=Number("x")).sentences
    anatomy, rest = found[:2]
    whole, alone = (np.tanh(np.arctanh(r[name]).mean()) for name in ("ensemble", "ensemble[blocks=rest]"))
    assert anatomy.startswith("anatomy adds to the order that rest gives, r ")
    assert f"r {whole:.2f} instead of {alone:.2f}".replace("0.", ".") in anatomy and "better at 4 of 4" in anatomy
    assert rest.startswith("rest adds") and rest.endswith("cannot tell that from nothing")


def test_a_level_travels_only_together_with_an_order_that_does():
    """A constant's level travels too: with no order at all, it says nothing."""
    about = {"n": 40, "level": 0.01, "sd": 5.0, "error_sd": 5.0, "scale": 1.0, "mae": 4.0, "mae_constant": 4.0}
    sites = pd.DataFrame([about | {"gain_se": 0.3, "r2": 0.0, "r2_constant": 0.0}] * 8)
    none, some = (
        " ".join(AGE.verdict(judged(sites.assign(r=r)), pd.DataFrame(), PLACE)) for r in (np.tile([0.1, -0.1], 4), 0.8)
    )
    assert "Level: expect to be off by" in none and "Level travels" not in none
    assert "Level travels: expect to be off by" in some


@pytest.mark.parametrize(("protocol", "reason"), [("cv", "nothing about the next site"), ("halves", "leave-one-site")])
def test_folds_and_halves_say_nothing_of_a_next_site(protocol, reason):
    row = compare_methods(*study({"m": [0.6, 0.65, 0.7, 0.62, 0.66, 0.6]}, protocol=protocol), target=Number("x")).table
    assert row["next_low"].isna().all() and row["low"].notna().all() and reason in row["reason"].iloc[0]
    assert reason in row["verdict"].iloc[0] and "travels" not in row["verdict"].iloc[0]


def test_institutions_widen_the_interval_of_a_number_as_of_an_auc():
    """Sites of one institution are alike: eight sites of four institutions are four measurements."""
    r = {"m": [0.7, 0.7, 0.3, 0.3, 0.6, 0.6, 0.4, 0.4]}
    alone, shared = (
        compare_methods(*study(r, institutions=names), target=Number("x")).table.iloc[0]
        for names in (None, ["A", "A", "B", "B", "C", "C", "D", "D"])
    )
    assert shared["n_institutions"] == 4 and shared["r"] == pytest.approx(alone["r"], abs=0.02)
    assert shared["next_high"] - shared["next_low"] > 1.2 * (alone["next_high"] - alone["next_low"])
    assert shared["high"] - shared["low"] > 1.2 * (alone["high"] - alone["low"])


def test_blocks_are_corrected_together():
    """Three blocks, each a little better than nothing by itself: none is claimed after Holm's correction."""
    rng, names = np.random.default_rng(3), ("a", "b", "c")
    whole = 0.5 + 0.02 * rng.normal(size=8)
    r = {"core": whole}
    for name in names:
        others = "+".join(other for other in names if other != name)
        r[f"core[blocks={others}]"] = whole - np.array([0.025, 0.035, -0.001, 0.035, 0.02, -0.002, 0.035, 0.02])
    found = compare_methods(*study(r), target=Number("x"))
    assert (found.blocks["p"] < 0.05).all() and (found.blocks["p_holm"] >= 0.05).any()
    assert [text.endswith("nothing") for text in found.added] == (found.blocks["p_holm"] >= 0.05).tolist()
    assert any("what each block adds" in text for text in found.families)
