"""The objective against its formula, and training that follows its seed, its schedule and nothing else."""

from itertools import count

import numpy as np
import pytest
import torch

from brainroam.core import training
from brainroam.core.connectivity import edge_pairs
from brainroam.core.gate import PathwayGraph
from brainroam.core.linegraph import line_graph
from brainroam.core.site_folds import Episode, predict_logits
from brainroam.core.training import (
    Adam,
    Schedule,
    Trial,
    _batches,
    build_network,
    choose_epochs,
    objective,
    train_network,
    training_epochs,
)
from brainroam.data.target import TWO_CLASSES

SCHEDULE = Schedule(budget=3, budget_weight=0.01, learning_rate=0.01, batch_size=8)


def episode(people=20, n=8, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    graph = line_graph(edge_pairs(6)[np.sort(rng.permutation(15)[:n])], rng.normal(size=n))
    labels = np.arange(people) % 2
    features = rng.normal(size=(n, people, 3)) + signal * (labels - 0.5)[None, :, None]
    return Episode(
        torch.tensor(features, dtype=torch.float32),
        torch.tensor(labels, dtype=torch.float32),
        PathwayGraph.of(graph),
    )


def weights(network):
    return b"".join(value.numpy().tobytes() for value in network.state_dict().values())


def trained(seed=0, **settings):
    network = build_network(seed, hidden=6, **settings)
    return train_network(network, [episode(seed=0), episode(people=13, n=5, seed=1)], SCHEDULE, seed, epochs=3)


def test_the_objective_is_cross_entropy_plus_the_gate_budget():
    network, some = build_network(0, hidden=6), episode()
    people = torch.tensor([3, 0, 11, 7])
    with torch.no_grad():
        found = objective(network, some.some(people), SCHEDULE).item()
        reading = network(some.features[:, people], some.graph)
    losses = []
    for logit, y, gates in zip(reading.logit, some.labels[people], reading.gates.T, strict=True):
        p = 1 / (1 + np.exp(-logit.item()))
        cross_entropy = -np.log(p if y == 1 else 1 - p)
        losses.append(cross_entropy + 0.01 * abs(gates.sum().item() - 3))
    assert found == pytest.approx(np.mean(losses), abs=1e-6)


def test_without_gates_there_is_no_budget_to_keep():
    network, some, people = build_network(0, hidden=6, gated=False), episode(), torch.arange(5)
    with torch.no_grad():
        logit = network(some.features[:, people], some.graph).logit
        expected = torch.nn.functional.binary_cross_entropy_with_logits(logit, some.labels[people])
        assert objective(network, some.some(people), SCHEDULE).item() == expected.item()


def test_a_heavy_budget_pulls_the_sum_of_gates_to_it():
    schedule = Schedule(budget=3, budget_weight=1.0, learning_rate=0.02)
    network, some = build_network(0, hidden=6), episode()
    train_network(network, [some], schedule, epochs=30)
    with torch.no_grad():
        sums = network(some.features, some.graph).gates.sum(dim=0)
    assert (sums - 3).abs().mean() < 0.5


def test_training_lowers_the_objective_and_learns_the_labels():
    network, some = build_network(0, hidden=6), episode(people=40)
    before = objective(network, some, SCHEDULE).item()
    train_network(network, [some], SCHEDULE, epochs=20)
    assert objective(network, some, SCHEDULE).item() < before
    assert ((predict_logits(network, some) > 0) == some.labels.numpy()).mean() > 0.9


def test_the_same_seed_gives_the_same_bytes():
    assert weights(trained(0)) == weights(trained(0))
    assert weights(trained(0)) != weights(trained(1))


def test_torchs_and_numpys_own_random_state_is_neither_used_nor_changed():
    torch.manual_seed(123)
    np.random.seed(123)  # noqa: NPY002  numpy's own state is what this is about
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = weights(trained(0))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    torch.manual_seed(456)
    assert weights(trained(0)) == first


def test_every_person_is_visited_once_per_epoch_in_batches_of_about_equal_size():
    episodes = [episode(people=n, seed=n) for n in (20, 7, 8)]
    seen: dict[int, list[int]] = {}
    for some, people in _batches(episodes, 8, np.random.default_rng(0)):
        seen.setdefault(len(some), []).extend(people.tolist())
        assert 6 <= len(people) <= 8
    assert {n: sorted(people) for n, people in seen.items()} == {n: list(range(n)) for n in (20, 7, 8)}


def test_the_caller_hears_of_every_epoch_before_the_first_and_after_each():
    network = build_network(0, hidden=6)
    epochs = training_epochs(network, [episode()], SCHEDULE)
    untouched = weights(network)
    assert next(epochs) == 0 and weights(network) == untouched
    assert next(epochs) == 1 and weights(network) != untouched


def test_listening_changes_nothing():
    network = build_network(0, hidden=6)
    for epoch in training_epochs(network, [episode()], SCHEDULE):
        predict_logits(network, episode())
        if epoch == 2:
            break
    silent = train_network(build_network(0, hidden=6), [episode()], SCHEDULE, epochs=2)
    assert weights(network) == weights(silent)


def test_prediction_does_not_look_at_labels():
    network, some = trained(), episode()
    blind = Episode(some.features, torch.full_like(some.labels, torch.nan), some.graph)
    np.testing.assert_array_equal(predict_logits(network, some), predict_logits(network, blind))


def test_adam_takes_the_steps_of_torch():
    ours, theirs = (torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)) for _ in "ab")
    theirs.load_state_dict(ours.state_dict())
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=0.1)
    optimiser = Adam(ours, learning_rate=0.01, weight_decay=0.1)
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(20, 3)), dtype=torch.float32)
    for _ in range(30):
        (ours(x) ** 2).mean().backward()
        optimiser.step()
        reference.zero_grad()
        (theirs(x) ** 2).mean().backward()
        reference.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-7, rtol=1e-6)


# --- the schedule ----------------------------------------------------------------------------------------------------


def test_the_rate_warms_up_for_a_tenth_and_falls_to_zero_by_the_cosine():
    schedule = Schedule(learning_rate=0.02, updates=200)
    rates = np.array([schedule.rate(update, 200) for update in range(1, 201)])
    expected = [0.02 * min(1, u / 20) * (1 + np.cos(np.pi * u / 200)) / 2 for u in range(1, 201)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    assert rates.argmax() == 19 and rates[0] < 0.002 and rates[-1] == 0
    assert {Schedule(learning_rate=0.02).rate(update, 200) for update in (1, 20, 200)} == {0.02}


@pytest.mark.parametrize("updates", [1, 30, 100])
def test_about_as_many_updates_are_made_as_asked_for_in_whole_epochs(monkeypatch, updates):
    rates = []

    def step(self):
        rates.append(self.learning_rate)
        self.steps += 1

    monkeypatch.setattr(Adam, "step", step)
    episodes = [episode(people=20), episode(people=13, n=5, seed=1)]  # 3 and 2 batches of at most 8
    schedule = Schedule(budget=3, learning_rate=0.01, batch_size=8, updates=updates)
    train_network(build_network(0, hidden=6), episodes, schedule)
    assert len(rates) == max(5, updates)
    np.testing.assert_allclose(rates, [schedule.rate(u + 1, len(rates)) for u in range(len(rates))])


def test_a_number_of_epochs_stands_above_the_schedule():
    network = build_network(0, hidden=6)
    assert weights(train_network(network, [episode()], SCHEDULE, epochs=0)) == weights(build_network(0, hidden=6))


# --- epochs chosen on held-out groups, with networks that do as they are told ----------------------------------------


class Puppet:
    """Stands in for a network whose held-out AUC before training and after each epoch is given."""

    def __init__(self, aucs):
        self.aucs, self.trained = aucs, -1

    def epochs(self):
        for epoch in count():
            self.trained = epoch
            yield epoch

    def logits(self):
        """Scores of four controls and four cases with that AUC: some cases above all controls, the rest below."""
        above = round(4 * self.aucs[self.trained])
        return np.array([0.0] * 4 + [1.0] * above + [-1.0] * (4 - above))


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.setattr(training, "predict_logits", lambda network, _: network.logits())
    label, site = np.repeat([0, 1], 4), np.full(8, "S1")

    def make(*paths):
        return [Trial(puppet := Puppet(path), puppet.epochs(), None, label, site) for path in paths]

    return make


def test_the_epoch_with_the_best_mean_auc_is_chosen_and_never_the_untrained_network(trials):
    epochs, logits = choose_epochs(trials([1, 0.5, 1, 0.5, 0.5], [1, 0.5, 0.75, 0.5, 0.5]), limit=4, patience=9)
    assert epochs == 2
    np.testing.assert_array_equal(logits[1], [0, 0, 0, 0, 1, 1, 1, -1])


def test_looking_ends_after_patience_without_improvement(trials):
    made = trials([0.5, 0.75, 0.5, 0.5, 1, 1], [0.25, 0.75, 0.5, 0.5, 1, 1])
    assert choose_epochs(made, limit=5, patience=2)[0] == 1
    assert made[0].network.trained == 3


def test_a_group_counts_by_its_sites_with_both_classes():
    label, site = np.repeat([0, 1], 4), np.array(["A"] * 2 + ["B"] * 2 + ["A"] * 2 + ["B"] + ["C"])
    assert TWO_CLASSES.coding.site_orders(label, site, np.array([0, 2, 0, 2, 1, 3, 1, 9.0])) == [
        0.75,
        0.5,
    ]  # C has a case alone


def test_where_no_group_can_be_held_out_all_epochs_are_taken():
    assert choose_epochs([], limit=7, patience=2) == (7, [])
