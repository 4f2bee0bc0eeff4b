"""Forecasts: what is foretold does not see labels, cannot be changed, and holds as often as it says."""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import brainroam
from brainroam.data.target.order import auc, macro_auc
from brainroam.data.target.outlook import expected_areas, expected_number
from brainroam.data.target_column import with_target
from brainroam.errors import BrainroamError, DataError
from brainroam.evaluation.forecast import Forecast, ForecastError
from brainroam.evaluation.ledger import (
    boldness,
    changed_line,
    end_of,
    read_ledger,
    record_forecast,
    record_reveal,
    revealed,
)
from brainroam.evaluation.pipelines import score_parts
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.verdict import observed_auc, observed_next, observed_on_line, verdict
from brainroam.methods.registry import method_info
from brainroam.methods.saving import save_method
from brainroam.methods.tuning import TunedMethod
from brainroam.report.ledger_page import write_ledger_page
from brainroam.utils.files import content_hash, part_beside, write_text

NOW = "2026-11-18T04:00:00+00:00"


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=8, n_per_site=16, n_rois=10, seed=3)


@pytest.fixture(scope="module")
def fitted(cohort):
    return TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:6]))


@pytest.fixture(scope="module")
def folder(cohort, fitted, tmp_path_factory):
    training = cohort.select(cohort.sites[:6])
    return save_method(tmp_path_factory.mktemp("m") / "model", fitted, training)


@pytest.fixture(scope="module")
def new(cohort):
    return cohort.select(cohort.sites[6:])


@pytest.fixture(scope="module")
def forecast(folder, new):
    return brainroam.foretell(folder, new, time=NOW)


def with_labels(cohort, labels):
    return cohort.with_columns(pd.DataFrame({"label": labels}))


def test_labels_of_the_new_people_do_not_reach_the_forecast(folder, new, forecast, tmp_path):
    first = forecast.save(tmp_path / "a.json").read_bytes()
    labels = new.labels
    telling = new.with_columns(pd.DataFrame({"mean_fd": labels + 0.1}))  # a column that tells the diagnosis
    for changed in (1 - labels, np.full(len(labels), np.nan), np.random.default_rng(0).integers(2, size=len(labels))):
        again = brainroam.foretell(folder, with_labels(new, changed), time=NOW)
        assert again.save(tmp_path / "b.json").read_bytes() == first
        told = [brainroam.foretell(folder, with_labels(telling, y), time=NOW).hash for y in (labels, changed)]
        assert told[0] == told[1]


def test_the_saved_model_and_the_fitted_one_foretell_the_same_sites(fitted, new, forecast):
    in_memory = brainroam.foretell(fitted, new, time=NOW)
    pd.testing.assert_frame_equal(in_memory.table, forecast.table)
    assert in_memory.content["model"]["digest"] == forecast.content["model"]["digest"]
    assert forecast.table.groupby("site").size().tolist() == [4, 4]
    assert np.allclose(
        forecast.people.sort_values("subject")["score"], fitted.score(new)[np.argsort(new.table["subject"])]
    )


def test_a_changed_forecast_is_refused_and_by_its_hash_also_one_sealed_again(forecast, new, tmp_path):
    path = forecast.save(tmp_path / "forecast.json")
    content = json.loads(path.read_text())
    content["sites"][0]["expected"]["auc"]["low_95"] = 0.0
    path.write_text(json.dumps(content))
    with pytest.raises(ForecastError, match="changed"):
        brainroam.reveal(path, new)
    body = {name: value for name, value in content.items() if name not in ("schema", "checksum")}
    forged = Forecast(body)
    forged.save(path)
    assert brainroam.reveal(path, new).table["observed"].notna().all()
    with pytest.raises(ForecastError, match="committed"):
        brainroam.reveal(path, new, hash=forecast.hash)
    assert content_hash(body) == forged.hash != forecast.hash
    record_forecast(tmp_path / "ledger.csv", forecast)
    assert "did not hold" in record_reveal(tmp_path / "ledger.csv", brainroam.reveal(forged, new))[0]


def test_other_people_other_series_and_another_model_are_refused(forecast, cohort, new, folder, fitted):
    with pytest.raises(ForecastError, match="people"):
        brainroam.reveal(forecast, cohort.select(cohort.sites[:6]))
    with pytest.raises(ForecastError, match="people"):
        brainroam.reveal(forecast, new.subset(range(len(new) - 1)))
    swapped = brainroam.Cohort([new.series[1], new.series[0], *new.series[2:]], new.table, new.atlas)
    with pytest.raises(ForecastError, match="series"):
        brainroam.reveal(forecast, swapped)
    with pytest.raises(ForecastError, match="model"):
        other = TunedMethod(method_info("log-ridge"), "default").fit(cohort.select(cohort.sites[:4]))
        brainroam.reveal(forecast, new, model=other)
    assert brainroam.reveal(forecast, new, model=folder).table.equals(
        brainroam.reveal(forecast, new, model=fitted).table
    )
    with pytest.raises(DataError, match="training"):
        brainroam.foretell(folder, cohort)


def test_a_model_and_scans_refuse_a_forecast_that_was_not_made_of_them(forecast, new, folder):
    body = json.loads(json.dumps(forecast.content))
    body["persons"][0]["score"] += 1
    assert brainroam.reveal(Forecast(body), new).table["observed"].notna().all()
    with pytest.raises(ForecastError, match="scores"):
        brainroam.reveal(Forecast(body), new, model=folder)
    body = json.loads(json.dumps(forecast.content))
    body["sites"][1]["expected"]["level"]["low_95"] -= 0.1
    with pytest.raises(ForecastError, match="intervals"):
        brainroam.reveal(Forecast(body), new, model=folder)
    stated = brainroam.foretell(folder, new, prevalence=0.2)
    assert brainroam.reveal(stated, new, model=folder).table["n_judged"].tolist() == [16] * 8


def test_another_block_under_the_same_ids_is_refused(cohort):
    def with_anatomy(shift):
        rows = [np.array([[x.std() + shift, x[:, 0].std()]]) for x in cohort.series]
        anatomy = brainroam.Cohort(rows, cohort.table, measure="table")
        return cohort.with_block("anatomy", anatomy, "rest")

    both = with_anatomy(0.0)
    model = TunedMethod(method_info("fc-ridge"), "default").fit(both.select(cohort.sites[:6]))
    forecast = brainroam.foretell(model, both.select(cohort.sites[6:]))
    assert brainroam.reveal(forecast, both.select(cohort.sites[6:])).table["observed"].notna().all()
    with pytest.raises(ForecastError, match="series"):
        brainroam.reveal(forecast, with_anatomy(1.0).select(cohort.sites[6:]))


def test_a_person_counts_with_all_scans_once_a_diagnosis_is_known_of_one(folder, new):
    scans = pd.DataFrame({"person": [f"p{k // 2}" for k in range(len(new))], "label": np.repeat(new.labels[::2], 2)})
    twice = new.with_columns(scans)
    forecast = brainroam.foretell(folder, twice)
    whole, known = brainroam.reveal(forecast, twice), dict(zip(twice.table["subject"], scans["label"], strict=True))
    some = {who: label if k % 2 else np.nan for k, (who, label) in enumerate(known.items())}
    pd.testing.assert_frame_equal(brainroam.reveal(forecast, some).table, whole.table)
    some |= dict.fromkeys(twice.table["subject"][:4], np.nan)
    found = brainroam.reveal(forecast, some)
    assert found.table["n_judged"].tolist() == [6] * 4 + [8] * 4 and "2 of 16 people" in found.notes[0]


def test_the_clock_and_a_site_of_the_training_are_told(folder, new, cohort, forecast, tmp_path):
    assert "before" in brainroam.reveal(forecast, new, time="2026-11-17T00:00:00+00:00").notes[0]
    same_name = new.with_columns(pd.DataFrame({"site": [cohort.sites[0]] * len(new)}))
    assert any("trained on a site" in line for line in brainroam.foretell(folder, same_name).sentences())
    assert not any("trained on a site" in line for line in forecast.sentences())
    control = TunedMethod(method_info("majority"), "default").fit(cohort.select(cohort.sites[:6]))
    assert "exactly 0.5" in next(brainroam.foretell(control, new).sentences())
    with pytest.raises(BrainroamError, match="prevalence"):
        brainroam.foretell(folder, new, prevalence={"ASD": 0.3, "TD": 0.7})


def test_labels_come_as_a_table_a_mapping_or_a_cohort_and_unknown_ones_do_not_count(forecast, new, tmp_path):
    table = new.table
    words = table["label"].map({1: "ASD", 0: "TD"})
    rows = pd.DataFrame({"participant_id": table["subject"], "dx": words, "age": "?"})
    rows = pd.concat([rows, pd.DataFrame([{"participant_id": "stranger", "dx": "TD", "age": "7"}])])
    rows.to_csv(tmp_path / "labels.csv", index=False)
    by_table = brainroam.reveal(forecast, tmp_path / "labels.csv")
    by_cohort = brainroam.reveal(forecast, new)
    by_mapping = brainroam.reveal(forecast, dict(zip(table["subject"], table["label"], strict=True)))
    assert by_table.labels == by_cohort.labels == by_mapping.labels
    for wrong in (table["label"] + 1, words):  # 1 and 2 would turn the AUC round
        with pytest.raises(DataError, match="cases"):
            brainroam.reveal(forecast, dict(zip(table["subject"], wrong, strict=True)))
    pd.testing.assert_frame_equal(by_table.table, by_cohort.table)
    assert any("1 person with a label" in note for note in by_table.notes)
    for site in new.sites:
        here = (table["site"] == site).to_numpy()
        score = forecast.people.set_index("subject").loc[table["subject"][here], "score"].to_numpy()
        found = by_cohort.table.set_index(["site", "measure"])["observed"]
        assert found[site, "auc"] == pytest.approx(auc(new.labels[here], score))
    rows.loc[0, "dx"] = ""
    rows.to_csv(tmp_path / "labels.csv", index=False)
    assert any("no diagnosis" in note for note in brainroam.reveal(forecast, tmp_path / "labels.csv").notes)


def test_another_share_of_cases_than_was_foretold_is_told(forecast, new):
    assert not any("scatters" in note for note in brainroam.reveal(forecast, new).notes)
    first = np.flatnonzero(new.table["site"] == new.sites[0])
    rare = new.labels.copy()
    rare[first] = np.arange(len(first)) == 0
    (note,) = brainroam.reveal(forecast, with_labels(new, rare).table).notes
    assert note.startswith(f"{new.sites[0]}: 1 of 16 people are cases") and "scatters" in note


def test_the_ledger_counts_each_forecast_once_and_knows_what_was_never_revealed(forecast, folder, new, tmp_path):
    path = tmp_path / "ledger.csv"
    assert record_forecast(path, forecast) == []
    again = brainroam.foretell(folder, new, time="2026-11-18T05:00:00+00:00")
    lines = record_forecast(path, again)
    assert any("before" in line for line in lines) and any("not been revealed" in line for line in lines)
    found = brainroam.reveal(forecast, new)
    lines = record_reveal(path, found)
    assert not any("did not hold" in line or "clock" in line or "changed" in line for line in lines)
    assert any("1 forecast has not" in line for line in lines) and any("2 of 2" in line for line in lines)
    flipped = brainroam.reveal(forecast, with_labels(new, 1 - new.labels).table)
    assert "other labels" in record_reveal(path, flipped)[0]
    rows = revealed(read_ledger(path))
    assert len(rows) == 8 and set(rows["labels"]) == {found.labels}
    assert "bold" in boldness(10, 20) and "shy" in boldness(60, 60) and boldness(3, 4) == ""
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BrainroamError, match="ledger"):
        read_ledger(path)


def test_a_reveal_that_was_killed_leaves_nothing_behind_and_is_written_once(forecast, new, tmp_path):
    path = tmp_path / "ledger.csv"
    record_forecast(path, forecast)
    half = write_text(part_beside(path), "half of a ledger")
    found = brainroam.reveal(forecast, new)
    record_reveal(path, found)
    whole = path.read_bytes()
    assert any("revealed before" in line for line in record_reveal(path, brainroam.reveal(forecast, new)))
    assert path.read_bytes() == whole and not half.exists()


def test_a_site_whose_diagnoses_come_later_is_waited_for_and_counts_then(forecast, new, tmp_path):
    path = tmp_path / "ledger.csv"
    record_forecast(path, forecast)
    first = np.where(new.table["site"] == new.sites[0], new.labels, np.nan)
    lines = record_reveal(path, brainroam.reveal(forecast, with_labels(new, first).table))
    assert any(f"diagnosis yet: {new.sites[1]}" in line for line in lines)
    assert set(revealed(read_ledger(path))["site"]) == {new.sites[0]}
    assert new.sites[1] in write_ledger_page(path).read_text().partition("not revealed</")[2]
    lines = record_reveal(path, brainroam.reveal(forecast, new))
    assert not any("yet" in line for line in lines)
    assert len(revealed(read_ledger(path))) == 8


def test_two_commands_that_write_one_ledger_at_once_lose_nothing(folder, new, forecast, tmp_path):
    path, made = tmp_path / "ledger.csv", []
    for minute in range(6):
        time = f"2026-11-18T04:0{minute}:00+00:00"
        made.append(Forecast({**forecast.content, "made": {**forecast.content["made"], "time": time}}))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: record_forecast(path, one), made))
    ledger = read_ledger(path)
    assert set(ledger["forecast"]) == {one.hash for one in made} and changed_line(ledger) is None


def test_a_ledger_shows_what_was_changed_cut_off_or_tried_before(folder, fitted, cohort, new, forecast, tmp_path):
    path = tmp_path / "ledger.csv"

    def made(people, k, model=folder):
        one = brainroam.foretell(model, people, time=f"2026-11-18T0{k}:00:00+00:00", after=end_of(path))
        return one, record_forecast(path, one)

    first, told = made(new, 1)
    assert told == [] and first.content["after"] == ""
    _, told = made(new.subset(range(1, len(new))), 2)
    assert any("Other people of S07" in line for line in told) and any("people of S08" in line for line in told)
    another = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:5]))
    last, told = made(new, 3, another)
    assert any("by another model" in line for line in told)
    assert any("clock" in line for line in made(new, 0)[1])
    whole, found = path.read_text(), brainroam.reveal(last, new)
    assert not any("changed" in line or "lacks" in line for line in record_reveal(path, found))
    lines = whole.splitlines(keepends=True)

    path.write_text("".join([*lines[:9], *lines[17:]]))  # without the second forecast, which was never revealed
    assert changed_line(read_ledger(path)) == 10
    told = record_reveal(path, found)
    assert any("line 10" in line for line in told) and any("lacks" in line for line in told)

    path.write_text("".join(lines[:9]))  # the first forecast alone hangs together, and the last one knows of more
    assert changed_line(read_ledger(path)) is None
    assert any("lacks" in line for line in record_reveal(path, found))

    path.write_text(whole.replace("S08,16.0,,,auc,", "S08,16.0,,,auc,1", 1))
    assert changed_line(read_ledger(path)) == 6
    path.unlink()
    assert "did not hold" in record_reveal(path, found)[0]


def test_a_site_whose_people_are_all_called_cases_is_named_without_the_advice_of_predict(fitted, new, monkeypatch):
    low = replace(fitted.calibration_, threshold=-100.0)
    monkeypatch.setattr(fitted, "readout_", replace(fitted.readout_, calibration=low))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = [line for line in brainroam.foretell(fitted, new).sentences() if "threshold" in line]
    assert [line[:3] for line in told] == new.sites and "--" not in "".join(told)


def test_a_site_that_the_forecast_called_unlike_is_called_so_again(forecast, new):
    content = json.loads(json.dumps(forecast.content))
    first, second = content["sites"]
    first["looks"]["flagged"], second["looks"]["flagged"] = first["n"], 0
    told = list(brainroam.reveal(Forecast(content), new).sentences())
    assert ["unlike" in line for line in told[:2]] == [True, False]


def test_people_foretold_again_by_the_same_model_count_once(folder, new, forecast, tmp_path):
    path = tmp_path / "ledger.csv"
    for made in (forecast, brainroam.foretell(folder, new, time=NOW.replace("T04", "T05"))):
        record_forecast(path, made)
        record_reveal(path, brainroam.reveal(made, new))
    rows = revealed(read_ledger(path))
    assert len(rows) == len(forecast.table) and set(rows["forecast"]) == {forecast.hash}


def test_a_stated_share_of_cases_and_few_people_widen_the_interval(folder, new):
    def width(cohort, **options):
        table = brainroam.foretell(folder, cohort, **options).table
        rows = table[table["measure"] == "auc"]
        return float((rows["high_95"] - rows["low_95"]).iloc[0])

    site = new.select(new.sites[:1])
    assert width(site) < width(site, prevalence=0.1) and width(site) < width(site.subset(range(6)))
    alone = brainroam.foretell(folder, site.subset([0]))
    assert alone.table["low_95"].isna().all() and "no AUC" in next(alone.sentences())


def test_the_observed_auc_is_inside_as_often_as_promised_where_the_truth_is_known():
    rng, inside, n = np.random.default_rng(1), {0.8: 0, 0.95: 0}, 100
    for _ in range(n):
        n_cases = rng.integers(8, 30, size=11)
        n_controls = rng.integers(8, 30, size=11)
        probit = 0.75 + 0.25 * rng.normal(size=11)  # of the true AUC; the scores of cases are sqrt(2) times this above
        areas = np.array(
            [
                auc(
                    np.repeat([1, 0], [m, k]), np.concatenate([rng.normal(size=m) + np.sqrt(2) * c, rng.normal(size=k)])
                )
                for m, k, c in zip(n_cases, n_controls, probit, strict=True)
            ]
        )
        intervals = observed_auc(areas[:10], n_cases[:10], n_controls[:10], n_cases[10], n_controls[10])
        for level, (low, high) in zip(inside, intervals, strict=True):
            inside[level] += low <= areas[10] <= high
    assert inside[0.95] / n >= 0.9 and 0.73 <= inside[0.8] / n <= 0.95


def test_with_many_people_the_observed_auc_is_the_true_one():
    sites = np.array([0.6, 0.7, 0.65, 0.8, 0.75, 0.7]), np.full(6, 20), np.full(6, 25)
    (_, wide), told = observed_auc(*sites, 1e7, 1e7), verdict(*sites)
    assert wide == pytest.approx((told.next_low, told.next_high), abs=0.005)
    assert observed_auc(*(x[:3] for x in sites), 20, 20)[0] != observed_auc(*sites, 20, 20)[0]
    (_, kept), (_, whole) = observed_auc(*sites, 20, 20, kept=0.5), observed_auc(*sites, 20, 20)
    assert kept[0] < ndtr(0.6) and kept[1] < whole[1]
    assert np.isnan(expected_areas({}, 5, 5, models)["auc"]["low_95"])


def test_parts_of_a_score_are_those_that_were_put_in():
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(400), 20)
    person, level = rng.normal(size=8000) * 2, rng.normal(size=400)[site]
    shift = np.where(np.arange(400) % 2, 1.0, -1.0)[site]  # each site moves by 1 or -1 between versions
    a, b = (person + level + side * shift / 2 + rng.normal(size=8000) for side in (-1, 1))
    shares, kept = score_parts(a, b, site)
    wanted = {"person": 4.0, "site": 1.0, "pipeline": 0.25, "noise": 1.0}
    total = sum(wanted.values())
    assert shares == pytest.approx({name: value / total for name, value in wanted.items()}, abs=0.02)
    assert kept == pytest.approx(4 / 5, abs=0.02)


def test_another_pipeline_widens_the_forecast(folder, fitted, new, forecast):
    rng = np.random.default_rng(0)
    noisy = brainroam.Cohort([x + 2 * x.std() * rng.normal(size=x.shape) for x in new.series], new.table, new.atlas)
    plain = brainroam.foretell(folder, noisy, time=NOW).table.set_index(["site", "measure"])
    wide = brainroam.foretell(folder, noisy, other=new, time=NOW)
    table = wide.table.set_index(["site", "measure"])
    for name, side in (("auc", "low_95"), ("level", "low_95")):
        assert (table.xs(name, level=1)[side] < plain.xs(name, level=1)[side]).all()
    assert "pipeline" in list(wide.sentences())[-1]
    found = brainroam.pipeline_agreement(fitted, noisy, new)
    assert found.kept < 1 and found.people["changed"].sum() == len(wide.content["pipelines"]["changed"])
    same = brainroam.pipeline_agreement(fitted, new, new)
    assert same.kept == pytest.approx(1) and same.changed == 0
    with pytest.raises(DataError, match="common"):
        brainroam.pipeline_agreement(fitted, new.subset(range(5)), new)


# -- numbers


@pytest.fixture(scope="module")
def numbered():
    made = brainroam.make_cohort(n_sites=8, n_per_site=20, n_rois=10, seed=5)
    value = 50 + 10 * made.labels + np.random.default_rng(0).normal(size=len(made)) * 4
    return with_target(made.with_columns(pd.DataFrame({"severity": value})), "severity")


def test_a_number_is_foretold_and_judged_by_correlation_and_mean_error(numbered, tmp_path):
    model = TunedMethod(method_info("fc-ridge"), "default").fit(numbered.select(numbered.sites[:6]))
    new = numbered.select(numbered.sites[6:])
    forecast = brainroam.foretell(model, new, time=NOW)
    hidden = brainroam.foretell(model, new.with_columns(pd.DataFrame({"label": np.arange(len(new))[::-1]})), time=NOW)
    assert hidden.hash == forecast.hash and "correlation" in next(forecast.sentences())
    inner, row = model.inner_sites_, forecast.table[forecast.table["measure"] == "r"].iloc[0]
    look = np.log(model.score(new.select(new.sites[:1])).std(ddof=1))
    z, x = np.arctanh(inner["r"]), np.log(inner["spread"])
    mean, (narrow, wide) = observed_on_line(z, 1 / (inner["n"] - 3), 1 / 17, x, look)
    assert np.allclose(
        row[["expected", "low_80", "high_80", "low_95", "high_95"]].astype(float), np.tanh([mean, *narrow, *wide])
    )
    table = new.table[["subject", "label"]].rename(columns={"label": "severity"})
    table.to_csv(tmp_path / "values.csv", index=False)
    found = brainroam.reveal(forecast.save(tmp_path / "f.json"), tmp_path / "values.csv")
    first = new.select(new.sites[:1])
    observed = found.table.set_index(["site", "measure"])["observed"][new.sites[0]]
    score = model.score(first)
    assert observed["r"] == pytest.approx(np.corrcoef(score, first.targets)[0, 1])
    assert observed["mean_error"] == pytest.approx((model.readout_.predict(score) - first.targets).mean())
    assert brainroam.reveal(forecast, new).labels == found.labels
    with pytest.raises(ForecastError):
        brainroam.reveal(forecast, table[1:].rename(columns={"severity": "label"}))
    assert "severity" in "".join(
        record_forecast(tmp_path / "l.csv", forecast) + record_reveal(tmp_path / "l.csv", found)
    )


def test_a_line_is_used_so_far_as_sites_follow_it():
    rng, x = np.random.default_rng(0), np.linspace(-1, 1, 8)
    steep, v = 0.5 + 2 * x + 0.01 * rng.normal(size=8), np.full(8, 1e-4)
    mean, (_, wide) = observed_on_line(steep, v, 1e-4, x, 0.6)
    assert mean == pytest.approx(np.polyval(np.polyfit(x, steep, 1), 0.6), abs=1e-4)  # of almost its whole slope
    assert wide[1] - wide[0] < 0.1 * np.subtract(*observed_next(steep, v, 1e-4)[1][1][::-1])
    for z, look in ((-steep, 0.6), (rng.permutation(steep), np.nan), (np.full(8, 0.3), 0.6)):
        assert observed_on_line(z, v, 1e-4, x, look) == observed_next(z, v, 1e-4)
    blurred = observed_on_line(steep, v, 1e-4, x, 0.6, blur=0.05)[1][1]
    assert blurred[1] - blurred[0] == pytest.approx(np.hypot(wide[1] - wide[0], 2 * 1.96 * 2 * 0.05**0.5), rel=0.1)


def test_the_spread_of_scores_sharpens_where_ranges_differ_and_does_no_harm_where_not():
    rng = np.random.default_rng(0)
    for differ, narrower in ((0.5, 0.8), (0.0, 1.05)):
        inside, widths = [], []
        for _ in range(80):
            n = rng.integers(20, 80, size=13)
            t = [rng.normal(size=k) * np.exp(differ * rng.normal()) for k in n]
            score = [0.6 * part + rng.normal(size=len(part)) for part in t]
            r = np.array([np.corrcoef(*pair)[0, 1] for pair in zip(t, score, strict=True)])
            spread = np.array([part.std(ddof=1) for part in score])
            level = {"level": np.zeros(12), "level_var": np.ones(12)}
            measured = {"r": r[:12], "n": n[:12], "spread": spread[:12], **level}
            told, plain = (expected_number(measured, n[12], x, models)["expected"]["r"] for x in (spread[12], np.nan))
            inside.append(told["low_95"] <= r[12] <= told["high_95"])
            widths.append([row["high_95"] - row["low_95"] for row in (told, plain)])
        mean = np.mean(widths, axis=0)
        assert np.mean(inside) >= 0.9 and mean[0] < narrower * mean[1]


def test_a_number_that_nobody_named_as_target_is_not_read_and_another_target_is_refused(cohort, numbered, forecast):
    aged = with_target(cohort, "age")
    model = TunedMethod(method_info("fc-ridge"), "default").fit(aged.select(cohort.sites[:6]))
    new = cohort.select(cohort.sites[6:])  # its ages are a covariate to whoever loaded it
    other = new.with_columns(pd.DataFrame({"age": new.table["age"].to_numpy()[::-1]}))
    foretold = brainroam.foretell(model, new, time=NOW)
    assert foretold.hash == brainroam.foretell(model, other, time=NOW).hash
    assert foretold.hash == brainroam.foretell(model, aged.select(new.sites), time=NOW).hash
    for labels in (new, numbered.select(new.sites)):
        with pytest.raises(BrainroamError):
            brainroam.reveal(foretold, labels)
    with pytest.raises(DataError, match="classes"):
        brainroam.reveal(forecast, aged.select(new.sites))
    values = dict(zip(new.table["subject"], new.table["age"], strict=True))
    with pytest.raises(DataError, match="number"):
        brainroam.reveal(foretold, {**values, new.table["subject"][0]: "old"})
    same = brainroam.reveal(foretold, dict.fromkeys(values, 30.0))
    assert same.table.query("measure == 'r'")["observed"].isna().all() and "one value" in next(same.sentences())


def test_steps_of_an_order_are_known_by_their_names(cohort, tmp_path):
    step = 1 + cohort.labels + (np.random.default_rng(0).random(len(cohort)) < 0.5)  # 1, 2, 3: codes 0, 1, 2
    ordered = with_target(cohort.with_columns(pd.DataFrame({"stage": step})), "stage:ordered")
    model = TunedMethod(method_info("fc-ridge"), "default").fit(ordered.select(cohort.sites[:6]))
    new = ordered.select(cohort.sites[6:])
    forecast = brainroam.foretell(model, new)
    names = pd.DataFrame({"subject": new.table["subject"], "stage": step[-len(new) :]})
    names.to_csv(tmp_path / "stages.csv", index=False)
    mapping = dict(zip(names["subject"], names["stage"].astype(float), strict=True))
    for labels in (tmp_path / "stages.csv", mapping):
        pd.testing.assert_frame_equal(brainroam.reveal(forecast, labels).table, brainroam.reveal(forecast, new).table)


def test_the_page_keeps_targets_apart_and_shows_what_was_not_revealed(numbered, forecast, new, tmp_path):
    path = tmp_path / "ledger.csv"
    model = TunedMethod(method_info("fc-ridge"), "default").fit(numbered.select(numbered.sites[:6]))
    of_number = brainroam.foretell(model, numbered.select(numbered.sites[6:]))
    record_reveal(path, brainroam.reveal(forecast, new))
    record_forecast(path, of_number)
    page = write_ledger_page(path).read_text()
    assert page.count("<figure") == 1 and of_number.hash[:12] in page and "not revealed" in page
    record_reveal(path, brainroam.reveal(of_number, numbered.select(numbered.sites[6:])))
    page = write_ledger_page(path).read_text()
    assert page.count("<figure") == 2 and "Correlation, severity" in page and "Forecasts that were not" not in page


def test_several_classes_are_foretold_and_judged_by_names(tmp_path):
    made = brainroam.make_cohort(n_sites=8, n_per_site=45, n_rois=10, seed=3)
    rng = np.random.default_rng(0)
    dx = np.array(["HC", "MDD", "SCZ"])[made.labels * (1 + (rng.random(len(made)) < 0.5))]
    cohort = with_target(made.with_columns(pd.DataFrame({"dx": dx})), "dx")
    model = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:6]))
    save_method(tmp_path / "model", model, cohort.select(cohort.sites[:6]))
    new = cohort.select(cohort.sites[6:])
    forecast = brainroam.foretell(tmp_path / "model", new)
    assert forecast.hash == brainroam.foretell(tmp_path / "model", new, time=forecast.content["made"]["time"]).hash
    assert forecast.table["measure"].tolist() == ["auc", "balanced_acc"] * 2
    assert (forecast.table["low_95"] < forecast.table["expected"]).all()
    names = dict(zip(new.table["subject"], np.array(new.target.classes)[new.targets.astype(int)], strict=True))
    pd.Series(names, name="dx").rename_axis("subject").to_csv(tmp_path / "labels.csv")
    found = [brainroam.reveal(forecast, labels) for labels in (new, names, tmp_path / "labels.csv")]
    assert len({one.labels for one in found}) == 1
    scores = model.score(new)
    for name in new.sites:
        here = (new.table["site"] == name).to_numpy()
        row = found[0].table.query("site == @name and measure == 'auc'")
        assert row["observed"].item() == pytest.approx(float(macro_auc(new.targets[here].astype(int), scores[here])))
    wide = brainroam.foretell(tmp_path / "model", new, prevalence={"HC": 0.96, "MDD": 0.02, "SCZ": 0.02}).table
    assert wide["low_95"][0] < forecast.table["low_95"][0]
    with pytest.raises(DataError, match="BD"):
        brainroam.reveal(forecast, {**names, next(iter(names)): "BD"})
    assert "one person" in next(brainroam.foretell(model, new.subset([0])).sentences())
