"""The gated network against its equations, written as loops over people and pathways."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brainroam.core.connectivity import edge_pairs
from brainroam.core.gate import EPS, GatedNetwork, PathwayGraph, RoiCliques, propagate
from brainroam.core.linegraph import line_graph


def scaffold(n=9, seed=0, order=None, dtype=torch.float64):
    """A random line graph, in double precision."""
    rng = np.random.default_rng(seed)
    pairs = edge_pairs(6)[np.sort(rng.permutation(15)[:n])]
    consensus = rng.normal(size=n)
    order = np.arange(n) if order is None else order
    return PathwayGraph.of(line_graph(pairs[order], consensus[order]), dtype=dtype)


def dense(graph):
    """A~ as a matrix."""
    return graph.propagation @ torch.eye(len(graph.prior), dtype=graph.prior.dtype)


def network(seed=0, **settings):
    """A network in double precision whose every weight is random, and larger than where training starts."""
    settings = {"channels": 3, "hidden": 5} | settings
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = GatedNetwork(**settings).double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, dtype=torch.float64))
    return net


def features(n=9, people=4, channels=3, seed=1):
    return torch.tensor(np.random.default_rng(seed).normal(size=(n, people, channels)))


def perceptron(module, x):
    first, last = module[0], module[2]
    hidden = np.maximum(first.weight.detach().numpy() @ x + first.bias.detach().numpy(), 0)
    return last.weight.detach().numpy() @ hidden + last.bias.detach().numpy()


def by_loops(net, h0, graph):
    """Logit, gates and z of every person, pathway by pathway."""
    h0, prior = h0.numpy(), graph.prior.numpy()
    weights = dense(graph).numpy()
    embed = net.embed.weight.detach().numpy(), net.embed.bias.detach().numpy()
    n, people, _ = h0.shape
    logits, gates, zs = [], [], []
    for i in range(people):
        context = perceptron(net.phi, np.mean([h0[p, i] for p in range(n)], axis=0))
        g = np.ones(n)
        if net.gated:
            for p in range(n):
                local = perceptron(net.psi, np.concatenate([h0[p, i], context]))[0]
                g[p] = 1 / (1 + np.exp(-(local + net.prior_strength * prior[p]) / net.temperature))
        h = [embed[0] @ h0[p, i] + embed[1] for p in range(n)]
        for update in net.updates:
            messages = [sum(weights[p, q] * g[q] * h[q] for q in range(n)) for p in range(n)]
            h = [h[p] + perceptron(update, np.concatenate([h[p], messages[p]])) for p in range(n)]
        z = sum(g[p] * h[p] for p in range(n)) / (sum(g) + EPS)
        logits.append(perceptron(net.rho, z)[0])
        gates.append(g)
        zs.append(z)
    return np.array(logits), np.array(gates).T, np.array(zs)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layers": 1},
        {"layers": 3},
        {"layers": 0},
        {"channels": 1},
        {"temperature": 0.3, "prior_strength": 2.5},
        {"prior_strength": 0.0},
        {"gated": False},
    ],
)
def test_the_network_is_its_equations(settings):
    net, graph = network(**settings), scaffold()
    h0 = features(channels=settings.get("channels", 3))
    reading = net(h0, graph)
    logit, gates, z = by_loops(net, h0, graph)
    np.testing.assert_allclose(reading.gates.detach(), gates, atol=1e-12)
    np.testing.assert_allclose(reading.z.detach(), z, atol=1e-11)
    np.testing.assert_allclose(reading.logit.detach(), logit, atol=1e-11)


def test_single_precision_is_close():
    net, graph = network(), scaffold()
    logit = by_loops(net, features(), graph)[0]
    single = scaffold(dtype=torch.float32)
    np.testing.assert_allclose(net.float()(features().float(), single).logit.detach(), logit, atol=1e-4)


def test_propagation_has_the_gradient_of_the_dense_product():
    graph, x = scaffold(), features().requires_grad_()
    weights = features(seed=2)
    (found,) = torch.autograd.grad((propagate(graph.propagation, x) * weights).sum(), x)
    (expected,) = torch.autograd.grad((torch.einsum("pq,qbc->pbc", dense(graph), x) * weights).sum(), x)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert torch.autograd.gradcheck(
        lambda nodes: propagate(graph.propagation, nodes), features(people=2).requires_grad_()
    )


def test_gates_lie_between_zero_and_one_and_without_gating_are_one():
    graph, h0 = scaffold(), features()
    gates = network().gates(h0, graph)
    assert ((gates > 0) & (gates < 1)).all()
    assert (network(gated=False).gates(h0, graph) == 1).all()


def test_without_prior_strength_the_prior_has_no_say():
    graph, h0 = scaffold(), features()
    other = PathwayGraph(-3 * graph.prior, graph.propagation)
    silent, open_ear = network(prior_strength=0.0), network(prior_strength=1.0)
    assert torch.equal(silent(h0, graph).logit, silent(h0, other).logit)
    assert not torch.allclose(open_ear(h0, graph).logit, open_ear(h0, other).logit)


def test_a_larger_prior_opens_the_gate():
    net, graph = network(), scaffold()
    with torch.no_grad():
        net.psi[2].weight.zero_()  # the person has no say, only the prior
        found = net.gates(features(), graph)
    assert (found[graph.prior.argsort()].diff(dim=0) > 0).all()


def test_people_do_not_see_each_other():
    net, graph, h0 = network(), scaffold(), features()
    together = net(h0, graph)
    for i in range(h0.shape[1]):
        alone = net(h0[:, i : i + 1], graph)
        np.testing.assert_allclose(alone.logit.detach(), together.logit[i : i + 1].detach(), atol=1e-12)
        np.testing.assert_allclose(alone.gates.detach(), together.gates[:, i : i + 1].detach(), atol=1e-12)


def test_the_order_of_pathways_does_not_matter():
    net, graph, h0 = network(), scaffold(), features()
    order = np.random.default_rng(0).permutation(9)
    shuffled = net(h0[order], scaffold(order=order))
    straight = net(h0, graph)
    np.testing.assert_allclose(shuffled.logit.detach(), straight.logit.detach(), atol=1e-12)
    np.testing.assert_allclose(shuffled.gates.detach(), straight.gates[order].detach(), atol=1e-12)


@pytest.mark.parametrize("n", [1, 5, 12])
def test_the_same_weights_read_any_scaffold(n):
    net = network()
    expected = by_loops(net, features(n=n), scaffold(n=n))[0]
    np.testing.assert_allclose(net(features(n=n), scaffold(n=n)).logit.detach(), expected, atol=1e-11)


def test_contributions_add_up_to_the_slope_of_the_readout():
    net, graph, h0 = network(), scaffold(), features()
    reading = net(h0, graph)
    z, expected = reading.z.detach(), np.zeros(h0.shape[1])
    with torch.no_grad():
        for k in range(z.shape[1]):  # the directional slope of rho at z, by central differences
            step = torch.zeros_like(z)
            step[:, k] = 1e-6
            slope = (net.rho(z + step) - net.rho(z - step)).squeeze(-1) / 2e-6
            expected += (slope * z[:, k]).numpy()
    np.testing.assert_allclose(net.contributions(h0, graph).sum(dim=0), expected, atol=1e-7)
    assert net.contributions(h0, graph).shape == h0.shape[:2]


def random_graph(n_rois, size, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(edge_pairs(n_rois))[:size]
    return line_graph(pairs, rng.normal(size=len(pairs)))


@settings(deadline=None)
@given(n_rois=st.integers(2, 25), size=st.integers(1, 300), seed=st.integers(0, 99))
def test_the_product_is_that_of_the_matrix(n_rois, size, seed):
    graph = random_graph(n_rois, size, seed)
    x = np.random.default_rng(seed).normal(size=(len(graph), 3))
    found = RoiCliques.of(graph, dtype=torch.float64) @ torch.tensor(x)
    np.testing.assert_allclose(found, graph.propagation @ x, atol=1e-13)


@pytest.mark.parametrize("size", [800, 3000])
def test_single_precision_is_close_at_the_sizes_in_use(size):
    graph = random_graph(116, size, 0)
    x = np.random.default_rng(1).normal(size=(size, 5)).astype(np.float32)
    np.testing.assert_allclose(RoiCliques.of(graph) @ torch.tensor(x), graph.propagation @ x, atol=1e-5)


def test_a_hub_does_not_fill_up_the_blocks_of_the_others():
    star = np.array([[0, k] for k in range(1, 200)])
    cliques = RoiCliques.of(line_graph(star, np.ones(len(star))))
    assert sum(block.numel() for block in cliques.blocks) == 199**2 + 199


def test_blocks_hold_little_more_than_the_matrix():
    graph = random_graph(116, 3000, 0)
    assert sum(block.numel() for block in RoiCliques.of(graph).blocks) < 1.6 * graph.propagation.nnz
