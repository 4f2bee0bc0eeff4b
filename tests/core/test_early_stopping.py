"""Choosing epochs on inner held-out sites, with networks that do as they are told."""

from itertools import count

import numpy as np
import pytest
import torch

from brainroam.core import early_stopping as inner
from brainroam.core.early_stopping import Trial, choose_epochs, confirm_epochs
from brainroam.core.training import Episode

LABELS = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])


class Puppet:
    """Stands in for a network whose held-out AUC after each epoch is given."""

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
    monkeypatch.setattr(inner, "predict_logits", lambda network, _: network.logits())
    episode = Episode(torch.zeros(1, 8, 1), LABELS, None)

    def make(*paths):
        puppets = [Puppet(path) for path in paths]
        return [Trial(f"S{k}", puppet, puppet.epochs(), episode) for k, puppet in enumerate(puppets)]

    return make


def test_the_epoch_with_the_best_mean_auc_is_chosen(trials):
    found = choose_epochs(trials([0, 0.5, 1, 0.5, 0.5], [0, 0.5, 0.75, 0.5, 0.5]), limit=4, patience=9)
    assert (found.epochs, found.auc) == (2, pytest.approx(0.875))
    np.testing.assert_array_equal(found.logits["S1"], [0, 0, 0, 0, 1, 1, 1, -1])


def test_training_stops_after_patience_without_improvement(trials):
    made = trials([0.5, 0.75, 0.5, 0.5, 1, 1], [0.25, 0.75, 0.5, 0.5, 1, 1])
    found = choose_epochs(made, limit=5, patience=2)
    assert found.epochs == 1
    assert made[0].network.trained == 3


def test_what_is_not_better_than_chance_variation_is_not_earned(trials):
    assert choose_epochs(trials([0.5, 1.0], [0.75, 0.5], [0.5, 0.5]), limit=1, patience=5).epochs == 0
    assert choose_epochs(trials([0.5, 0.75], [0.5, 0.75], [0.5, 0.75]), limit=1, patience=5).epochs == 1


def test_without_a_skip_connection_the_untrained_network_is_no_candidate(trials):
    path = [1.0, 0.5, 0.75, 0.5]
    assert choose_epochs(trials(path, path), limit=3, patience=5, must_earn=False).epochs == 2
    assert choose_epochs(trials(path, path), limit=0, patience=5, must_earn=False).epochs == 0


def test_a_fixed_number_is_kept_whatever_it_is_worth(trials):
    found = choose_epochs(trials([1, 0.5, 0.25, 0.25], [1, 0.5, 0.25, 0.25]), limit=3, patience=1, fixed=True)
    assert (found.epochs, found.auc) == (3, pytest.approx(0.25))


def test_further_sites_are_trained_for_the_chosen_epochs_only(trials):
    first = choose_epochs(trials([0.5, 0.75, 0.5], [0.25, 0.75, 0.5]), limit=2, patience=1)
    more = trials([0.5, 0.5, 1], [0.5, 1, 0.25])
    more = [Trial(f"more {trial.site}", trial.network, trial.epochs, trial.held_out) for trial in more]
    found = confirm_epochs(first, more)
    assert (found.epochs, found.auc) == (1, pytest.approx(0.75))
    assert list(found.logits) == ["S0", "S1", "more S0", "more S1"]
    assert more[0].network.trained == 1


def test_what_further_sites_do_not_confirm_is_not_trained(trials):
    first = choose_epochs(trials([0.5, 0.75], [0.5, 0.75]), limit=1, patience=1)
    more = [
        Trial(f"more {trial.site}", trial.network, trial.epochs, trial.held_out) for trial in trials([1, 0], [1, 0])
    ]
    assert first.epochs == 1
    assert confirm_epochs(first, more).epochs == 0
