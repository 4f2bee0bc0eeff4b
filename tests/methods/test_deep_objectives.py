"""What each method adds to the shared layers, against closed forms, finite differences and other implementations."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from brainroam.data.atlas import Atlas, load_atlas
from brainroam.methods.deep.agmgc import N_HATS, SplineConv, hat_basis, roughness
from brainroam.methods.deep.base import People, Shape
from brainroam.methods.deep.brainnettf import ClusterReadout
from brainroam.methods.deep.brainood import BrainOODNetwork
from brainroam.methods.deep.brainood import misalignment as edge_misalignment
from brainroam.methods.deep.coral import misalignment
from brainroam.methods.deep.deci import Cycle, DeCI, Drift
from brainroam.methods.deep.disc import difficulty, generalised_cross_entropy
from brainroam.methods.deep.disco import ALPHA, balance, divergence, entmax, overlap
from brainroam.methods.deep.fc_hgnn import chebyshev, hemispheres, population_links
from brainroam.methods.deep.gsat import GSAT, information
from brainroam.methods.deep.irm import slope_of, squared_mean
from brainroam.methods.deep.layers import GINConv, attention_scorer, stack_layers
from brainroam.methods.deep.xg_gnn import (
    XGGNN,
    MetaNetwork,
    RegionAttention,
    disagreement,
    group_difference,
    row_entropy,
)


@pytest.mark.parametrize(("number", "risk"), [(False, F.binary_cross_entropy_with_logits), (True, F.mse_loss)])
def test_irm_penalty_is_the_squared_slope_in_a_multiplier(number, risk):
    torch.manual_seed(0)
    logit, y = torch.randn(8, dtype=torch.float64), torch.tensor([0.0, 1.0] * 4, dtype=torch.float64)

    def slope(half):
        step = 1e-6
        risks = [risk(w * logit[half], y[half]) for w in (1 + step, 1 - step)]
        return (risks[0] - risks[1]) / (2 * step)

    expected = slope(slice(0, None, 2)) * slope(slice(1, None, 2))
    assert squared_mean(slope_of(logit, People((), y, y, number))).item() == pytest.approx(expected.item(), abs=1e-8)
    assert squared_mean(torch.ones(1)) == 0


def test_coral_equals_numpy_over_all_pairs():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(n, 3)) for n in (5, 7, 9)]
    terms = []
    for a in range(3):
        for b in range(a):
            mean = groups[a].mean(0) - groups[b].mean(0)
            covariance = np.cov(groups[a].T) - np.cov(groups[b].T)
            terms.append((mean**2).mean() + (covariance**2).mean())
    assert misalignment([torch.from_numpy(g) for g in groups]).item() == pytest.approx(np.mean(terms))
    assert misalignment([torch.randn(5, 3)]) == 0


def test_gsat_information_equals_its_closed_form():
    attention, present = torch.tensor([[0.5, 0.9, 0.123]]), torch.tensor([[1.0, 1.0, 0.0]])
    of_the_first = 0.5 * np.log(0.5 / 0.7) + 0.5 * np.log(0.5 / 0.3)
    of_the_second = 0.9 * np.log(0.9 / 0.7) + 0.1 * np.log(0.1 / 0.3)
    assert information(attention, 0.7, present).item() == pytest.approx((of_the_first + of_the_second) / 2, abs=1e-6)
    assert information(torch.full((1, 3), 0.7), 0.7, present).item() == pytest.approx(0, abs=1e-6)
    assert [round(GSAT(interval=3, prior=0.5).prior_at(e), 1) for e in (0, 2, 3, 6, 30)] == [0.9, 0.9, 0.8, 0.7, 0.5]


def test_generalised_cross_entropy_follows_the_gradient_of_its_paper():
    """The gradient of q p^q CE with the weight fixed is q times that of (1 - p^q) / q."""
    logit = torch.tensor([-1.0, 0.3, 2.0], requires_grad=True)
    y, q = torch.tensor([1.0, 0.0, 1.0]), 0.7
    (ours,) = torch.autograd.grad(generalised_cross_entropy(logit, y, q).sum(), logit)
    p = torch.where(y == 1, logit.sigmoid(), 1 - logit.sigmoid())
    (theirs,) = torch.autograd.grad(((1 - p**q) / q).sum(), logit)
    assert torch.allclose(ours, q * theirs)


def test_difficulty_is_one_per_person():
    weight = difficulty(torch.tensor([5.0, -5.0]), torch.tensor([-5.0, 5.0]), torch.tensor([1.0, 1.0]))
    assert weight[0] > 0.99
    assert weight[1] < 0.01


def test_entmax_equals_a_direct_solution():
    torch.manual_seed(0)
    score = torch.randn(20, 5, dtype=torch.float64) * 3
    p = entmax(score)
    assert torch.allclose(p.sum(-1), torch.ones(20, dtype=torch.float64))
    assert (p == 0).any()
    for row, q in zip((ALPHA - 1) * score, p, strict=True):
        tau = (row - q ** (ALPHA - 1))[q > 0]
        assert torch.allclose(tau, tau[0].expand_as(tau))  # one threshold explains every weight that is not zero
        assert (row[q == 0] <= tau[0] + 1e-12).all()
    assert torch.autograd.gradcheck(entmax, (score[:3].requires_grad_(),), atol=1e-4)


def test_experts_overlap_as_far_as_their_masks_agree():
    ones = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert overlap(torch.stack([ones, ones])[None]).item() == pytest.approx(0.9, abs=1e-3)
    assert overlap(torch.stack([ones, torch.tensor([1.0, 1.0, 0.0, 0.0])])[None]) == 0
    assert overlap(torch.ones(1, 2, 4)) == 0


def test_gate_divergence_and_balance_equal_their_formulas():
    p, q = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5])
    assert divergence(p, q).item() == pytest.approx(0.2 * np.log(0.4) + 0.8 * np.log(1.6))
    assert divergence(torch.tensor([1.0, 0.0]), q).item() == pytest.approx(np.log(2))
    shared = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert balance(shared) < balance(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # everybody is heard
    assert balance(shared) < balance(torch.full((2, 2), 0.5))  # few for each person


def test_the_centres_of_the_readout_are_orthonormal():
    torch.manual_seed(0)
    readout = ClusterReadout(n_rois=6, width=8, clusters=5)
    assert torch.allclose(readout.centres @ readout.centres.T, torch.eye(5), atol=1e-6)
    assert "centres" not in dict(readout.named_parameters())
    z = torch.randn(2, 6, 8)
    expected = torch.stack([(z @ c) ** 2 / c.norm() for c in readout.centres], dim=-1).softmax(-1)
    assert torch.allclose(readout.assignment(z), expected, atol=1e-5)
    assert readout(z).shape == (2, 5, 8)


def test_hats_are_a_partition_of_unity():
    torch.manual_seed(0)
    graph = torch.rand(2, 6, 6) * (torch.rand(2, 6, 6) > 0.4)
    basis = hat_basis(graph)
    assert basis.shape == (2, N_HATS, 6, 6)
    assert torch.allclose(basis.sum(1), (graph > 0).float(), atol=1e-6)
    strongest = graph[0] == graph[0].max()
    assert basis[0, :, strongest][:, 0].tolist() == [0, 0, 0, 0, 1]


def test_spline_convolution_equals_loops():
    torch.manual_seed(0)
    layer, h, graph = SplineConv(2), torch.randn(1, 4, 2), torch.rand(1, 4, 4) * (torch.rand(1, 4, 4) > 0.5)
    basis, kernels = hat_basis(graph), layer.kernels.weight.view(2, N_HATS, 2)
    expected = torch.zeros(4, 2)
    for u in range(4):
        neighbours = [v for v in range(4) if graph[0, u, v] > 0]
        for v in neighbours:
            for k in range(N_HATS):
                expected[u] += basis[0, k, u, v] * (kernels[:, k] @ h[0, v]) / len(neighbours)
        expected[u] += layer.root(h[0, u])
    assert torch.allclose(layer(h, basis)[0], expected, atol=1e-5)


def test_roughness_is_the_laplacian_form():
    h, graph = torch.randn(1, 4, 3), torch.rand(1, 4, 4)
    graph = graph + graph.mT
    pairs = [(u, v) for u in range(4) for v in range(4)]
    expected = sum(graph[0, u, v] * (h[0, u] - h[0, v]).square().sum() for u, v in pairs) / 2 / 16
    assert roughness(h, graph).item() == pytest.approx(expected.item(), rel=1e-5)


def test_drift_is_causal_and_starts_as_a_running_sum():
    drift, h = Drift(n_rois=3, width=5), torch.randn(2, 3, 5)
    assert torch.allclose(drift(h), h.cumsum(-1) / 5, atol=1e-6)
    with torch.no_grad():
        drift.filters.copy_(torch.randn(3, 5))
    expected = [sum(drift.filters[1, i - j] * h[0, 1, j] for j in range(i + 1)) for i in range(5)]
    assert torch.allclose(drift(h)[0, 1], torch.stack(expected), atol=1e-5)
    later = h.clone()
    later[..., 3:] += 10
    assert torch.equal(drift(later)[..., :3], drift(h)[..., :3])


def test_brainood_alignment_counts_only_people_with_the_edge():
    adjacency = torch.zeros(3, 3, 3)
    adjacency[:, 0, 1] = 1
    adjacency[:2, 0, 2] = 1
    adjacency[0, 1, 2] = 1  # only one person has it: no deviation to speak of
    logit = torch.randn(3, 3, 3) * adjacency
    expected = (logit[:, 0, 1].std() + logit[:2, 0, 2].std()) / 2
    assert edge_misalignment(logit, adjacency).item() == pytest.approx(expected.item(), rel=1e-3)


def test_brainood_high_pass_is_the_difference_from_the_neighbours_mean():
    network = BrainOODNetwork(stack_layers(GINConv, 4, 2, 1, 0.0), attention_scorer(2, 2, 0.0), 2, 4).eval()
    h, adjacency = torch.randn(1, 4, 2), torch.zeros(1, 4, 4)
    adjacency[0, 0, 1] = adjacency[0, 1, 0] = adjacency[0, 0, 2] = adjacency[0, 2, 0] = 1
    z = h
    for layer in network.high_pass:
        around = torch.stack([(z[0, 1] + z[0, 2]) / 2, z[0, 0], z[0, 0], torch.zeros(2)])[None]
        z = layer.mlp(z - around)
    assert torch.allclose(network.reconstruct(h, adjacency), (z @ z.mT).tanh(), atol=1e-6)


def test_group_differences_and_disagreement_equal_their_formulas():
    torch.manual_seed(0)
    m, y = torch.rand(6, 4, 4), torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    difference = (m[y == 0].mean(0) - m[y == 1].mean(0)).abs()
    expected = torch.sigmoid((difference - difference.mean(0)) / difference.std(0))
    assert torch.allclose(group_difference(m, y), expected, atol=1e-5)
    delta = torch.rand(3, 4, 4)

    def dice(a, b):
        return 2 * (a * b).sum() / (a.sum() + b.sum())

    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = sum(1 - dice(delta[i], delta[j]) for i, j in pairs)
    assert disagreement(delta).item() == pytest.approx(expected.item(), rel=1e-5)
    released = sum(1 - dice(delta[j], delta[j]) for _, j in pairs)
    assert disagreement(delta, with_itself=True).item() == pytest.approx(released.item(), rel=1e-5)
    assert disagreement(delta[:1]) == 0


def test_the_entropy_of_a_difference_is_that_of_its_rows_geometric_means():
    delta = torch.rand(4, 4)
    p = delta.prod(dim=1) ** 0.25
    assert row_entropy(delta).item() == pytest.approx(-(p * p.log()).sum().item(), rel=1e-5)


def test_xg_attention_is_scaled_by_the_whole_width_and_ends_without_a_map():
    torch.manual_seed(0)
    attention, h = RegionAttention(as_released=False), torch.randn(1, 5, 8)
    heads = []
    for k in range(4):
        own = slice(2 * k, 2 * k + 2)
        query, key, value = (part(h)[0][:, own] for part in (attention.query, attention.key, attention.value))
        heads.append((query @ key.T / 8**0.5).softmax(-1) @ value)
    assert torch.allclose(attention(h)[0], torch.cat(heads, dim=1), atol=1e-6)


def test_xg_objective_is_the_sum_over_sites_each_read_as_a_batch_of_its_own():
    torch.manual_seed(0)
    method = XGGNN(per_site=6)
    network = MetaNetwork(n_rois=5, channels=4, dropout=0.0, as_released=False)
    people = People((torch.randn(24, 60, 5), torch.randn(24, 5, 5)), torch.arange(24.0) % 2, torch.arange(24) // 8)
    _, outer = method.draw(people)
    risk, deltas = method.risk_and_differences(network, outer)
    one_by_one = [method.risk_and_differences(network, [batch]) for batch in outer]
    assert risk.item() == pytest.approx(sum(each[0].item() for each in one_by_one), rel=1e-4)
    expected = 1e-4 * sum(row_entropy(delta) for delta in deltas) + 0.01 * disagreement(torch.stack(deltas))
    assert method.penalty(deltas).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_cycle_has_both_residual_sums():
    torch.manual_seed(0)
    cycle, r = Cycle(4, dropout=0.0), torch.randn(2, 3, 4)
    mixed = cycle.first_norm(cycle.mix(cycle.gate(r).sigmoid() * r) + r)
    assert torch.allclose(cycle(r), cycle.second_norm(cycle.mlp(mixed) + mixed), atol=1e-6)


@pytest.mark.parametrize(("frames", "n_blocks", "dropout"), [(179, 1, 0.2), (180, 2, 0.2), (240, 2, 0.0)])
def test_deci_has_blocks_and_dropout_by_the_length_of_series(frames, n_blocks, dropout):
    network = DeCI().build(Shape(rois=5, frames=frames, people=10, sites=2))
    assert (len(network.drifts), network.dropout.p) == (n_blocks, dropout)
    assert len(DeCI(n_blocks=1).build(Shape(5, 300, 10, 2)).drifts) == 1


def test_xg_as_released_propagates_row_sums_and_shares_the_key_layer():
    torch.manual_seed(0)
    network = MetaNetwork(n_rois=5, channels=4, dropout=0.0, as_released=True).eval()
    assert network.connect.attention.value is network.connect.attention.key
    series, x = torch.randn(2, 60, 5), torch.randn(2, 5, 5)
    logit, m = network.learn(series, x)
    h = x
    for layer in network.layers:
        h = layer(torch.einsum("bij,bik->bik", m, h))
    out = network.head(h).sigmoid()
    assert torch.allclose(logit, out[:, 1] - out[:, 0], atol=1e-6)


def test_chebyshev_convolution_equals_polynomials_of_the_laplacian():
    torch.manual_seed(0)
    adjacency = torch.rand(1, 5, 5)
    adjacency = (adjacency + adjacency.mT) * (1 - torch.eye(5))
    adjacency[0, 4] = adjacency[0, :, 4] = 0  # an isolated region stays finite
    degree = adjacency[0, :4, :4].sum(-1)
    laplacian = torch.zeros(5, 5)
    laplacian[:4, :4] = -adjacency[0, :4, :4] / (degree[:, None] * degree).sqrt()
    h = torch.randn(1, 5, 2)
    expected = torch.cat([h[0], laplacian @ h[0], (2 * laplacian @ laplacian - torch.eye(5)) @ h[0]], dim=1)
    assert torch.allclose(chebyshev(h, adjacency)[0], expected, atol=1e-5)


def test_people_are_linked_by_sex_and_age_with_known_people_alone():
    sex = torch.tensor([1.0, 1.0, -1.0, 0.0, 1.0])
    age = torch.tensor([10.0, 11.0, 10.5, 10.0, torch.inf])
    same, other = population_links(sex, age, n_known=4)
    assert same.int().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert other.int().tolist() == [[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_hemispheres_by_name_else_by_coordinate_else_both():
    aal = load_atlas("aal")
    sides = hemispheres(aal)
    assert sides[aal.labels.index("Precentral_L")].tolist() == [1, 0]
    assert sides[aal.labels.index("Precentral_R")].tolist() == [0, 1]
    assert sides[-1].tolist() == [1, 1]  # vermis
    placed = Atlas("x", ("a", "b", "c"), coords=np.array([[-5.0, 0, 0], [5, 0, 0], [0, 0, 0]]))
    assert hemispheres(placed).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert hemispheres(Atlas("y", ("a", "b"))).tolist() == [[1, 1], [1, 1]]
