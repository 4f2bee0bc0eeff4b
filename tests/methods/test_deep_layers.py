"""Every shared layer and graph against a literal small computation."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from brainroam.data.cohort import Cohort
from brainroam.methods.deep.base import People, mixed_up, shuffled_batches, site_balanced_batches
from brainroam.methods.deep.graph_baselines import by_site, site_risks
from brainroam.methods.deep.graphs import (
    adjacency_matrices,
    connectivity_matrices,
    edge_matrix,
    standardised_series,
    strongest_edges,
    whole_series,
)
from brainroam.methods.deep.layers import (
    EdgeScorer,
    GATConv,
    GCNConv,
    GINConv,
    NodeNorm,
    SelfAttention,
    concrete,
    propagation,
    reverse_gradient,
    straight_through,
)

# A path 0 - 1 - 2 and an isolated node 3.
PATH = torch.zeros(1, 4, 4)
PATH[0, 0, 1] = PATH[0, 1, 0] = PATH[0, 1, 2] = PATH[0, 2, 1] = 1.0
FEATURES = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [3.0, -1.0]]])


@pytest.fixture
def cohort():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(length, 6)) for length in (30, 40, 35)]
    series[1][:, 2] = 7.0  # no signal
    table = pd.DataFrame({"subject": ["a", "b", "c"], "site": "S", "label": [0, 1, 0]})
    return Cohort(series, table)


def test_gcn_on_a_path_equals_a_sum_by_hand():
    layer = GCNConv(2, 1)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[2.0, 1.0]]))
        layer.linear.bias.fill_(0.5)
    # h W = 2, 1, 5, 5; degrees with loops 2, 3, 2, 1
    expected = [2 / 2 + 1 / 6**0.5, 2 / 6**0.5 + 1 / 3 + 5 / 6**0.5, 1 / 6**0.5 + 5 / 2, 5.0]
    assert torch.allclose(layer(FEATURES, PATH)[0, :, 0], torch.tensor(expected) + 0.5)


def test_propagation_has_a_largest_eigenvalue_of_one():
    assert torch.linalg.eigvalsh(propagation(PATH)[0])[-1] == pytest.approx(1)


def test_gin_adds_a_node_and_its_neighbours():
    layer = GINConv(2, 1).eval()
    summed = FEATURES.clone()
    summed[0, 0] += FEATURES[0, 1]
    summed[0, 1] += FEATURES[0, 0] + FEATURES[0, 2]
    summed[0, 2] += FEATURES[0, 1]
    assert torch.allclose(layer(FEATURES, PATH), layer.mlp(summed))


def test_gat_is_a_softmax_over_neighbours_and_oneself():
    torch.manual_seed(0)
    layer = GATConv(2, 4, heads=2)
    h = layer.linear(FEATURES)[0].detach().numpy()
    left, right, bias = (p.detach().numpy() for p in (layer.left, layer.right, layer.bias))
    expected = np.zeros((4, 4))
    neighbours = {0: [0, 1], 1: [0, 1, 2], 2: [1, 2], 3: [3]}
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        for u, others in neighbours.items():
            logit = np.array([left[head] @ h[u, part] + right[head] @ h[v, part] for v in others])
            weight = np.exp(np.where(logit > 0, logit, 0.2 * logit))
            expected[u, part] = weight / weight.sum() @ h[others, part]
    assert np.allclose(layer(FEATURES, PATH)[0].detach(), expected + bias, atol=1e-6)
    attention = layer.attention(FEATURES, PATH)
    assert torch.allclose(attention.sum(-1), torch.ones(1, 2, 4))
    assert (attention[0, :, 0, 2] == 0).all()


def test_node_norm_pools_people_and_regions():
    h = torch.randn(5, 3, 2) * 4 + 1
    normed = NodeNorm(2)(h).flatten(0, 1)
    assert torch.allclose(normed.mean(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(normed.var(0, correction=0), torch.ones(2), atol=1e-3)


def test_edge_scorer_is_an_mlp_on_both_ends():
    scorer = EdgeScorer(2, 3, nn.Sequential(nn.ReLU(), nn.Conv1d(3, 1, 1)))
    ends = torch.tensor([[[0, 1], [0, 3]]])
    first = torch.cat([scorer.halves.weight[:3], scorer.halves.weight[3:]], dim=1)
    for k, (u, v) in enumerate(ends[0].tolist()):
        both = torch.cat([FEATURES[0, u], FEATURES[0, v]])
        hidden = (first @ both + scorer.halves.bias[:3] + scorer.halves.bias[3:]).relu()
        expected = scorer.rest[1].weight[0, :, 0] @ hidden + scorer.rest[1].bias[0]
        assert torch.allclose(scorer(FEATURES, ends)[0, k], expected, atol=1e-6)


def test_concrete_samples_exceed_one_half_with_the_probability():
    torch.manual_seed(0)
    logit = torch.full((20000,), 0.8)
    share = (concrete(logit, training=True) > 0.5).float().mean().item()
    assert share == pytest.approx(1 / (1 + np.exp(-0.8)), abs=0.02)
    assert torch.equal(concrete(logit, training=False), logit.sigmoid())


def test_straight_through_has_one_value_and_another_gradient():
    soft = torch.tensor([0.3, 0.7], requires_grad=True)
    value = straight_through((soft > 0.5).float(), soft**2)
    value.sum().backward()
    assert torch.allclose(value, torch.tensor([0.0, 1.0]))
    assert torch.allclose(soft.grad, torch.tensor([0.6, 1.4]))


def test_a_reversed_gradient_has_the_opposite_sign():
    z = torch.tensor([2.0], requires_grad=True)
    (3 * reverse_gradient(z)).backward()
    assert z.grad.item() == -3


def test_self_attention_equals_its_formula():
    torch.manual_seed(0)
    layer, h = SelfAttention(4, heads=2), torch.randn(1, 3, 4)
    query, key, value = layer.query(h)[0], layer.key(h)[0], layer.value(h)[0]
    heads, weights = [], []
    for part in (slice(0, 2), slice(2, 4)):
        weights.append((query[:, part] @ key[:, part].T / 2**0.5).softmax(-1))
        heads.append(weights[-1] @ value[:, part])
    assert torch.allclose(layer(h)[0], layer.out(torch.cat(heads, dim=1)), atol=1e-6)
    assert torch.allclose(layer.weights(h)[0], torch.stack(weights).mean(0), atol=1e-6)


def test_features_are_correlations_without_the_diagonal(cohort):
    x = connectivity_matrices(cohort)
    expected = np.corrcoef(cohort.series[0].T) - np.eye(6)
    assert np.allclose(x[0], expected, atol=1e-6)
    assert (x[1, 2] == 0).all()
    assert torch.isfinite(x).all()


def test_graph_keeps_the_strongest_edges(cohort):
    adjacency = adjacency_matrices(cohort, density=0.2)
    strength = np.abs(np.corrcoef(cohort.series[0].T))[np.triu_indices(6, 1)]
    kept = adjacency[0].numpy()[np.triu_indices(6, 1)] == 1
    assert set(np.flatnonzero(kept)) == set(np.argsort(-strength)[:3])
    assert torch.equal(adjacency, adjacency.mT)
    assert (adjacency.diagonal(dim1=1, dim2=2) == 0).all()


def test_edges_that_do_not_exist_are_marked_absent(cohort):
    ends, present = strongest_edges(cohort, density=1.0)
    assert present.sum(1).tolist() == [15, 10, 15]
    assert (edge_matrix(present, ends, 6)[1, 2] == 0).all()


def test_series_are_standardised_cut_and_padded(cohort):
    frames = standardised_series(cohort, 32)
    x = cohort.series[2][:32]
    assert np.allclose(frames[2], (x - x.mean(0)) / x.std(0), atol=1e-5)
    assert (frames[0, 30:] == 0).all()
    assert (frames[1, :, 2] == 0).all()
    padded, weight = whole_series(cohort)
    assert padded.shape == (3, 40, 6)
    assert torch.allclose(weight.sum(1), torch.ones(3))
    assert (weight[0, 30:] == 0).all()


def test_shuffled_batches_hold_everybody_once_and_none_is_tiny():
    batches = list(shuffled_batches(33, 16))
    assert sorted(torch.cat(batches).tolist()) == list(range(33))
    assert min(map(len, batches)) == 11


def test_batches_hold_as_many_people_of_every_site():
    site = torch.tensor([0] * 12 + [1] * 5)
    y = torch.tensor([0.0, 1.0] * 6 + [0.0, 0.0, 0.0, 1.0, 1.0])
    batches = list(site_balanced_batches(site, y, per_site=4))
    assert len(batches) == 3
    assert all((site[batch] == e).sum() == 4 for batch in batches for e in (0, 1))
    assert set(torch.cat(batches).tolist()) == set(range(17))
    assert all(y[batch[:4]].sum() == 2 for batch in batches)  # classes of the first site spread evenly


def test_risks_are_mean_losses_by_site():
    batch = People((), torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1, 0, 1]))
    logit = torch.tensor([0.0, 2.0, -1.0])
    expected = [np.log1p(np.exp(-2.0)), (np.log(2) + np.log1p(np.exp(1.0))) / 2]
    assert np.allclose(site_risks(logit, batch), expected)
    assert [rows.tolist() for rows in by_site(logit, batch.site)] == [[2.0], [0.0, -1.0]]


def test_mixup_mixes_inputs_and_labels_alike():
    torch.manual_seed(0)
    y = torch.tensor([0.0, 1.0, 1.0, 0.0])
    mixed = mixed_up(People((y[:, None].clone(),), y, torch.zeros(4)))
    assert torch.allclose(mixed.inputs[0][:, 0], mixed.y)
