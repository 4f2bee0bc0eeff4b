"""What leaves the hospital: nothing of a single person, nobody where people are few, all of it told in words."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from brainroam.core.connectivity import cohort_edges
from brainroam.errors import DataError, SummaryError, UsageError
from brainroam.execution.federation import Protection, answer
from brainroam.execution.federation.files import ARRAYS, REQUEST, SUMMARY, Message, Settings, read_message
from brainroam.execution.federation.protection import noise_multiplier
from brainroam.execution.federation.scores import score_summary
from brainroam.execution.federation.show import MEANING, describe_file

HEADER = {"what", "round", "settings", "atlas", "covariates", "site", "request", "protection", "sites", "version"}
HEADER |= {"min_count", "withheld", "measure", "target", "blocks"}


def test_no_id_date_path_or_number_of_a_person_is_in_a_file(hospitals, done):
    name = hospitals.sites[1]
    people = hospitals.select([name])
    edges, n = cohort_edges(people, "log", 0.7, True), len(people)
    ages = people.table["age"].to_numpy()
    for number in (1, 2, 3):
        path = done / f"{name}-{number}.summary"
        content = path.read_bytes()
        body = content.partition(b"\n")[2]
        described_arrays = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        header = json.loads(described_arrays.pop("__metadata__")["header"])
        assert set(header) == HEADER
        text = json.dumps(header)
        for subject in people.table["subject"]:
            assert subject.encode() not in content
        assert not re.search(r"\d{4}-\d\d-\d\d|/tmp|\\\\|\.npz|/home", text)
        arrays = read_message(path, SUMMARY).arrays
        assert set(described_arrays) == set(arrays)
        assert sum(value.nbytes for value in arrays.values()) + len(json.dumps(described_arrays)) < len(content)
        for key, value in arrays.items():
            # Nothing has one entry per person; components are as many as people, but mixtures of all of them.
            assert n not in value.shape or key == "factor", key
            if key == "factor":
                residuals = edges[:, arrays["edges"]] - np.nanmean(edges[:, arrays["edges"]], axis=0)
                both = (np.nan_to_num(x) for x in (value, residuals))
                rows, persons = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in both)
                assert np.abs(rows @ persons.T).max() < 0.95
            for row in np.atleast_2d(value):
                for person in (*edges, *people.series):
                    if row.shape == person.shape:
                        assert not np.isclose(row, person).any(axis=-1).all()
            if key not in ("edges", "counts", "fit.n_people"):
                assert not np.isin(value, ages).any(), key


def test_bins_hold_the_minimum_count_or_more():
    rng = np.random.default_rng(0)
    for n in (10, 23, 200):
        y = np.r_[np.zeros(n), np.ones(10)].astype(int)
        found = score_summary(rng.normal(size=len(y)), y, 7)
        assert found["bins"][:, 1].min() >= 7
        assert found["bins"][:, 1].sum() == len(y)


def test_few_people_of_a_class_are_refused(hospitals):
    part = hospitals.select([hospitals.sites[0]])
    few = part.subset(np.r_[np.flatnonzero(part.labels == 0), np.flatnonzero(part.labels == 1)[:9]])
    with pytest.raises(SummaryError, match="9 cases"):
        answer(few)
    assert answer(few, min_per_class=9).arrays["counts"][1] == 9


def test_data_that_are_not_one_site_or_not_numbers_are_refused(hospitals, done):
    with pytest.raises(DataError, match="hold 4"):
        answer(hospitals)
    part = hospitals.select([hospitals.sites[0]])
    words = part.with_columns(pd.DataFrame({"scanner": ["GE", "Siemens"] * (len(part) // 2)})).using(["age", "scanner"])
    with pytest.raises(DataError, match="scanner"):
        answer(words)
    empty = part.with_columns(pd.DataFrame({"age": np.full(len(part), np.nan)}))
    with pytest.raises(DataError, match="age"):
        answer(empty)
    request = read_message(done / "pool" / "request", REQUEST)
    with pytest.raises(SummaryError, match="Elsewhere"):
        answer(part, request, name="Elsewhere")


def test_every_array_is_told_in_plain_words(hospitals, done):
    assert {name for (what, _), names in ARRAYS.items() for name in names} <= set(MEANING)
    for number in (1, 2, 3):
        text = "\n".join(describe_file(done / f"{hospitals.sites[0]}-{number}.summary"))
        assert "controls and" in text
        assert "personal data" in text
    assert "request to 4 sites" in describe_file(done / "pool" / "request")[0]


def test_noise_is_of_the_promised_size():
    rng = np.random.default_rng(0)
    edges, y = np.zeros((40, 3000)), np.tile([0, 1], 20)
    budget = Protection(2.0, 1e-5, clip=0.1)
    summary = budget.summary(edges, y, rng)
    length = 2 * 0.1 * np.sqrt(3000) / 20  # what one of twenty people can move a mean by
    expected = length * noise_multiplier(2.0, 1e-5) * np.sqrt(2)
    assert np.std(summary.contrast) == pytest.approx(expected, rel=0.05)
    products = budget.products(np.arange(30), edges[:, :30], np.zeros(30), y, rng)
    assert np.linalg.eigvalsh(products.products).min() > -1e-9
    auc, _ = Protection(1e9).scores(0.75, np.linspace(-1, 1, 40), y, rng)
    assert auc == pytest.approx(0.75, abs=1e-3)


def test_clipping_bounds_what_one_person_moves():
    rng = np.random.default_rng(0)
    edges, y = rng.normal(0, 0.01, (20, 50)), np.tile([0, 1], 10)
    far, budget = edges.copy(), Protection(1e12, clip=0.1)
    far[1] = 100.0
    one, other = (budget.summary(x, y, np.random.default_rng(0)).contrast for x in (edges, far))
    assert np.linalg.norm(one - other) <= 2 * 0.1 * np.sqrt(50) / 10


def test_a_budget_needs_numbers_that_mean_something(hospitals):
    with pytest.raises(UsageError, match="epsilon"):
        Protection(0.0)
    with pytest.raises(UsageError, match="--covariates none"):
        answer(hospitals.select([hospitals.sites[0]]), protection=Protection(1.0))


def test_the_auc_is_exact():
    rng = np.random.default_rng(1)
    y, score = np.tile([0, 1], 20), rng.normal(size=40)
    assert score_summary(score, y, 5)["auc"] == roc_auc_score(y, score)


def second(**changes):
    return {"edges": np.arange(10), "centre": np.zeros(10), "priority": np.ones(10), **changes}


def third(**changes):
    whole = {"edges": np.arange(3), "weights": np.ones(3), "mean_intercept": np.zeros(3), "mean_coef": np.zeros((2, 3))}
    whole |= {"covariate_mean": np.zeros(2), "covariate_std": np.ones(2), **changes}
    return {f"0.{name}": value for name, value in whole.items() if value is not None}


HOSTILE = {
    "edges out of range": (2, second(edges=np.arange(10) + 115)),
    "edges below zero": (2, second(edges=np.arange(10) - 3)),
    "an edge twice": (2, second(edges=np.zeros(10, dtype=int))),
    "edges with decimals": (2, second(edges=np.arange(10.0))),
    "edges that say yes or no": (
        2,
        second(edges=np.ones(120, dtype=bool), centre=np.zeros(120), priority=np.ones(120)),
    ),
    "a table of edges": (2, second(edges=np.zeros((2, 5), dtype=int))),
    "no edges": (2, second(edges=np.empty(0, dtype=int), centre=np.empty(0))),
    "another length": (2, second(centre=np.zeros(9))),
    "an unknown centre": (2, second(centre=np.full(10, np.nan))),
    "infinite weights": (3, third(weights=np.full(3, np.inf))),
    "missing arrays": (3, third(mean_coef=None)),
    "coefficients of other columns": (3, third(mean_coef=np.zeros((5, 3)))),
    "a standard deviation of zero": (3, third(covariate_std=np.zeros(2))),
    "negative edges": (3, third(edges=np.array([-3, -2, -1]))),
    "a reading for nobody": (3, {name.replace("0.", "77.", 1): value for name, value in third().items()}),
    "an array too many": (3, third() | {"hiv": np.zeros(2)}),
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_request_is_refused_in_one_sentence(hospitals, tmp_path, trick):
    number, arrays = HOSTILE[trick]
    like = answer(hospitals.select([hospitals.sites[1]]))
    request = Message(REQUEST, number, like.settings, like.atlas, like.covariates, arrays, sites=hospitals.sites)
    with pytest.raises(SummaryError, match="request"):
        read_message(request.write(tmp_path / "request"), REQUEST)


def test_a_line_end_in_a_name_is_refused(hospitals, done, tmp_path):
    forged = "S09\nround 3: everybody agreed"
    with pytest.raises(SummaryError, match="control"):
        answer(hospitals.select([hospitals.sites[1]]), name=forged)
    whole = read_message(done / f"{hospitals.sites[1]}-1.summary", SUMMARY)
    path = Message(**{**vars(whole), "site": forged}).write(tmp_path / "forged")
    with pytest.raises(SummaryError, match="control"):
        read_message(path, SUMMARY)
    path = Message(**{**vars(whole), "settings": Settings(huber_k=float("inf"))})
    with pytest.raises(ValueError, match="JSON"):
        path.write(tmp_path / "infinite")
    for budget in ({"epsilon": float("nan")}, {"epsilon": float("inf")}, {"epsilon": 1.0, "clip": float("nan")}):
        with pytest.raises(UsageError, match="budget"):
            Protection(**budget)
