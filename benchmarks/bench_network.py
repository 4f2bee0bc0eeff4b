"""Line-graph propagation against torch's dense and sparse products, and what one leave-one-site-out fold costs.

    python benchmarks/bench_network.py [ABIDE_pcp]

An epoch of CORE beside the deep baselines is timed by `bench_baselines`.
"""

import resource
import statistics
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from common import growth, people, race, seconds
from threadpoolctl import threadpool_limits

from brainroam import make_cohort
from brainroam.core.connectivity import edge_pairs
from brainroam.core.gate import RoiCliques, propagate
from brainroam.core.linegraph import LineGraph, line_graph
from brainroam.methods.core import Core

BATCH, HIDDEN = 32, 16


def random_graph(size: int, n_rois: int = 116) -> LineGraph:
    """The line graph of some random edges."""
    rng = np.random.default_rng(0)
    pairs = edge_pairs(n_rois)
    pairs = pairs[np.sort(rng.choice(len(pairs), size, replace=False))]
    return line_graph(pairs, rng.normal(size=size))


def there_and_back(product, nodes: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Forward through one product, and a gradient back through it."""
    return torch.autograd.grad(product(nodes), nodes, gradient)[0]


def bench_propagation(size: int) -> None:
    """sum_q A~_pq x_q of a batch of people, and its gradient."""
    graph = random_graph(size)
    dense = torch.tensor(graph.propagation.toarray(), dtype=torch.float32)
    sparse = dense.to_sparse_csr()
    nodes = torch.randn(size, BATCH, HIDDEN, requires_grad=True)
    gradient = torch.randn(size, BATCH, HIDDEN)

    def by_dense(x: torch.Tensor) -> torch.Tensor:
        return (dense @ x.reshape(size, -1)).reshape(x.shape)

    def by_torch_sparse(x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(sparse, x.reshape(size, -1)).reshape(x.shape)

    ours = partial(propagate, RoiCliques.of(graph))
    for other in (by_dense, by_torch_sparse):
        torch.testing.assert_close(ours(nodes), other(nodes), atol=1e-5, rtol=1e-4)
        mine, theirs = (there_and_back(product, nodes, gradient) for product in (ours, other))
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    race(
        f"propagation there and back, {size}",
        partial(there_and_back, ours, nodes, gradient),
        {
            "dense torch matmul": partial(there_and_back, by_dense, nodes, gradient),
            "torch.sparse CSR, torch's gradient": partial(there_and_back, by_torch_sparse, nodes, gradient),
        },
        repeats=15,
    )


def bench_growth(sizes: tuple[int, ...] = (800, 1600, 3000)) -> None:
    """With the non-zeros of A~."""
    graphs = [random_graph(size) for size in sizes]
    nodes = [torch.randn(size, BATCH, HIDDEN) for size in sizes]
    calls = [partial(propagate, RoiCliques.of(graph), x) for graph, x in zip(graphs, nodes, strict=True)]
    growth("propagation", "non-zeros", [graph.propagation.nnz for graph in graphs], calls, repeats=9)


def bench_fold() -> None:
    """CORE on all sites but one, tuning included: processor time and peak memory of the process."""
    cohort = people(root=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    held_out = cohort.table["site"].value_counts().idxmax()
    train = cohort.select([site for site in cohort.sites if site != held_out])
    model = Core()
    spent = seconds(lambda: model.fit(train).score(cohort.select([held_out])))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print(
        f"core, one fold alone: {spent:.1f} s of processor time, peak memory of this process {peak:.0f} MB", flush=True
    )


def bench_sites(sizes: tuple[int, ...] = (4, 8, 16), per_site: int = 15) -> None:
    """A fit of CORE, tuning included, as a study gains sites of the same size."""
    cohorts = [make_cohort(n_sites=n, n_per_site=per_site, n_rois=60) for n in sizes]
    growth("core", f"sites of {per_site} people", sizes, [partial(Core().fit, cohort) for cohort in cohorts], repeats=1)


def bench_start(repeats: int = 5) -> None:
    """Processor time of `brainroam --help` and `brainroam check`."""
    data = ["--atlas", "aal", "--max-missing-rois", "1"]
    commands = {"--help": ["--help"]}
    if len(sys.argv) > 1:
        commands["check ABIDE"] = ["check", sys.argv[1], *data]
    for name, arguments in commands.items():
        times = []
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            program = [sys.executable, "-c", "from brainroam.cli import main; main()", *arguments]
            subprocess.run(program, capture_output=True)  # check leaves with 1 where it finds problems
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times.append((spent, time.perf_counter() - start))
        spent, wall = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"brainroam {name}: {spent:.2f} s of processor time, {wall:.2f} s on the wall clock", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Sparse")
    with threadpool_limits(1):
        for scaffold_size in (800, 3000):
            bench_propagation(scaffold_size)
        bench_growth()
        bench_sites()
        bench_start()
        bench_fold()
