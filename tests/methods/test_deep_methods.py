"""Promises every deep method keeps, and what each can and cannot learn. The methods come from the registry."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import DataError, UsageError
from brainroam.methods.deep.base import DeepMethod
from brainroam.methods.registry import method_info, method_names
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod

DEEP = [
    name for name in method_names() if isinstance(make := method_info(name).make, type) and issubclass(make, DeepMethod)
]
# Unseen-site AUC each method must exceed after twelve epochs on a strong planted effect (see `planted`).
LEARNS = {
    "gcn": 0.9,
    "gat": 0.9,
    "gin": 0.9,
    "irm": 0.9,
    "coral": 0.9,
    "gsat": 0.9,
    "disc": 0.85,
    "cepg-proxy": 0.9,
    "disco": 0.85,
    "brainnettf": 0.95,
    "agmgc-proxy": 0.9,
    "fc-hgnn": 0.85,
    "xg-gnn": 0.75,
    "deci": 0.7,
    "brainood": 0.9,
    "mean-mlp": 0.95,
}
EXPLAINS = {
    "gat": {"attention"},
    "gsat": {"edges"},
    "disc": {"edges", "regions"},
    "cepg-proxy": {"edges"},
    "disco": {"edges", "gate"},
    "brainnettf": {"attention", "clusters"},
    "agmgc-proxy": {"graph"},
    "fc-hgnn": {"regions"},
    "xg-gnn": {"connectivity", "importance"},
    "deci": {"regions"},
    "brainood": {"edges", "features"},
}
every_method = pytest.mark.parametrize("name", DEEP)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def small() -> Cohort:
    """A few people of three sites, some with regions without signal, some without age or sex."""
    return make_cohort(n_sites=3, n_per_site=10, n_rois=10, seed=3, constant_rois=4, missing_covariates=6)


def sites(cohort: Cohort, *positions: int) -> Cohort:
    return cohort.select([cohort.sites[k] for k in positions])


def fitted(name: str, seed: int = 0, epochs: int = 2, **settings) -> DeepMethod:
    return method_info(name).make(epochs=epochs).fit(sites(small(), 0, 1), seed, **settings)


@cache
def once(name: str) -> DeepMethod:
    """One fit for all tests that only look."""
    return fitted(name, validation=sites(small(), 2))


def same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return one.keys() == two.keys() and all(
        one[k].dtype == two[k].dtype and one[k].tobytes() == two[k].tobytes() for k in one
    )


def test_all_sixteen_are_registered():
    assert set(DEEP) == set(LEARNS)


@every_method
def test_same_seed_same_bytes_and_torch_is_left_alone(name):
    before = torch.get_rng_state()
    model = fitted(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.validation_path_ is None
    assert same(model.state(), once(name).state())  # which was fitted beside validation people: nothing learned of them
    assert not same(model.state(), fitted(name, seed=1).state())


@every_method
def test_validation_path_is_what_a_shorter_fit_scores(name):
    path, held_out = once(name).validation_path_, sites(small(), 2)
    assert path.shape == (2, len(held_out))
    assert np.isfinite(path).all()
    assert np.allclose(path[-1], once(name).score(held_out), atol=1e-9)
    assert np.allclose(path[0], fitted(name, epochs=1).score(held_out), atol=1e-9)


@every_method
def test_one_person_scores_as_in_company(name):
    people = small()
    together = once(name).score(people)
    alone = [once(name).score(people.subset([i]))[0] for i in range(len(people))]
    assert np.isfinite(together).all()
    assert np.allclose(together, alone, rtol=0, atol=1e-6)
    assert len(set(together.round(9))) > 20


@every_method
def test_state_makes_the_same_model(name):
    state = once(name).state()
    before = torch.get_rng_state()
    again = method_info(name).make(epochs=2).load_state({k: v.copy() for k, v in state.items()})
    assert torch.equal(torch.get_rng_state(), before)
    assert same(again.state(), state)
    assert np.array_equal(again.score(small()), once(name).score(small()))
    assert all(np.isfinite(v).all() for k, v in state.items() if k != "network.known_age")


@every_method
def test_saved_and_read_again(name, tmp_path):
    chosen = TunedMethod(method_info(name), "fast", epochs=1).fit(sites(small(), 0, 1))
    if method_info(name).keeps_people:  # links to training people: a file would hold their embeddings, ages and sexes
        with pytest.raises(UsageError, match="person"):
            save_method(tmp_path / "model", chosen, sites(small(), 0, 1))
        assert not (tmp_path / "model").exists()
        return
    again, header = load_method(save_method(tmp_path / "model", chosen, sites(small(), 0, 1)), small())
    assert header["method"] == name
    assert np.array_equal(again.probability(small()), chosen.probability(small()))


@every_method
def test_held_out_people_leave_no_trace(name):
    people, rng = small(), np.random.default_rng(0)
    last = (people.table["site"] == people.sites[2]).to_numpy()
    series = [rng.normal(size=x.shape) if gone else x for x, gone in zip(people.series, last, strict=True)]
    table = people.table
    table.loc[last, "label"] = 1 - table.loc[last, "label"]
    table.loc[last, "age"] = 99.0
    corrupted = sites(Cohort(series, table), 0, 1)
    model = method_info(name).make(epochs=2).fit(corrupted, 0)
    assert same(model.state(), once(name).state())


@every_method
def test_short_and_silent_scans_get_a_finite_score(name):
    people = sites(small(), 2)
    series = [x[:60].copy() for x in people.series]
    series[0][:, :7] = 0.0
    table = people.table
    table["age"] = table["sex"] = np.nan
    assert np.isfinite(once(name).score(Cohort(series, table))).all()


@every_method
def test_one_training_site_is_enough(name):
    model = method_info(name).make(epochs=1).fit(sites(small(), 0), 0)
    assert np.isfinite(model.score(sites(small(), 1))).all()


@every_method
def test_what_a_method_attends_to_is_finite_and_of_every_person(name):
    shown = once(name).explain(small())
    assert set(shown) == EXPLAINS.get(name, set())
    for key, value in shown.items():
        assert np.isfinite(value).all()
        assert value.shape == (10, 10) if key in ("features", "importance") else value.shape[:1] == (30,)
        if key in ("edges", "attention") and name != "brainnettf":
            assert np.allclose(value, value.transpose(0, 2, 1))
            assert ((value > 0).sum((1, 2)) <= 2 * round(0.2 * 45)).all()


@every_method
def test_what_cannot_be_is_said(name):
    make = method_info(name).make
    with pytest.raises(UsageError, match="fitted"):
        make().state()
    with pytest.raises(DataError, match="10 regions"):
        once(name).score(make_cohort(n_sites=2, n_per_site=4, n_rois=12))
    with pytest.raises(UsageError, match="epochs"):
        make(epochs=0).fit(small())
    people = sites(small(), 0)
    with pytest.raises(DataError, match="label"):
        make(epochs=1).fit(people.subset(people.labels == 1))


RELEASED = [name for name in DEEP if method_info(name).released]


@pytest.mark.parametrize("name", RELEASED)
def test_released_settings_train(name):
    chosen = TunedMethod(method_info(name), "fast", recipe="released", epochs=1).fit(sites(small(), 0, 1))
    fitted_with = {setting: getattr(chosen.model_, setting) for setting in method_info(name).released}
    assert fitted_with == {**method_info(name).released, "epochs": 1}  # what is typed comes first
    assert np.isfinite(chosen.score(small())).all()


def test_proxies_alone_have_no_released_settings():
    assert set(DEEP) - set(RELEASED) == {"cepg-proxy", "agmgc-proxy"}
    with pytest.raises(UsageError, match="recipe"):
        TunedMethod(method_info("cepg-proxy"), recipe="released")
    with pytest.raises(UsageError, match="released"):
        TunedMethod(method_info("gcn"), recipe="paper")


@pytest.mark.parametrize("name", DEEP)
def test_the_page_of_the_deep_methods_tells_released_settings(name):
    info = method_info(name)
    differ = [f"{key} {getattr(info.make(), key):g} → {value:g}" for key, value in info.released.items()]
    rows = (Path(__file__).parents[2] / "docs/results/deep.md").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith(f"| `{name}` | {', '.join(differ) or 'no code released'} |") for row in rows)


def test_the_readout_is_as_asked_and_an_unknown_one_refused():
    model = method_info("gcn").make(epochs=1, readout="concat").fit(small())
    assert model.network_.head.weight.shape == (1, 64 * 10)
    with pytest.raises(UsageError, match="'concat'"):
        method_info("gcn").make(readout="concatenate").fit(small())


def test_series_too_short_for_the_convolutions_are_refused():
    short = Cohort([x[:30] for x in small().series], small().table)
    with pytest.raises(DataError, match="40 frames"):
        method_info("xg-gnn").make().fit(short)


def test_xg_as_released_learns_something_else():
    released = method_info("xg-gnn").make(epochs=2, as_released=True).fit(sites(small(), 0, 1))
    assert np.isfinite(released.score(small())).all()
    assert not np.allclose(released.score(small()), once("xg-gnn").score(small()))


@cache
def planted(kind: str) -> Cohort:
    """Five sites whose cases differ in connectivity ("edges"), or in how slowly every region moves ("rhythm")."""
    if kind == "edges":
        return make_cohort(n_sites=5, n_per_site=30, n_rois=12, seed=0, effect=3.0)
    # DeCI carries the series itself on to its heads, and needs more people to see past their phases.
    return make_cohort(n_sites=5, n_per_site=60, n_rois=12, seed=0, effect=0.0, volatility=0.0, rhythm=1.0)


def unseen_site_auc(name: str, people: Cohort) -> float:
    """Learn from three sites, and the AUC at two others."""
    model = method_info(name).make(epochs=12).fit(sites(people, 0, 1, 2))
    return roc_auc_score(sites(people, 3, 4).labels, model.score(sites(people, 3, 4)))


@every_method
def test_learns_what_is_planted(name):
    # DeCI looks at each region alone: connectivity is invisible to it by design.
    assert unseen_site_auc(name, planted("rhythm" if name == "deci" else "edges")) > LEARNS[name]


@every_method
def test_learns_nothing_from_permuted_labels(name):
    table = planted("edges").table
    table["label"] = table.groupby("site")["label"].transform(np.random.default_rng(1).permutation)
    # 60 people at the unseen sites: an AUC of no information has a standard error of 0.075
    assert unseen_site_auc(name, Cohort(planted("edges").series, table)) == pytest.approx(0.5, abs=0.2)
