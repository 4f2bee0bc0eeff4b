"""How the cost of CORE's stages grows, against the paper's O(N T P^2 + N M + N R W M_S + epochs L N M_S N_m D).

One size grows at a time, from a small study; the exponent is the slope of log processor seconds on log size. Below
about 1 overheads that do not grow still weigh in.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from brainroam.utils.optional import extra

BASE = {"people": 80, "regions": 80, "volumes": 300, "pathways": 800}
GROWTH = (1, 2, 4)
REPEATS = 2


def exponents(base: dict[str, int] | None = None, growth: Sequence[float] = GROWTH) -> pd.DataFrame:
    """One row per stage and size: the exponent in the paper, the one measured, and the seconds at the largest size."""
    sizes = base or BASE
    rows = []
    for stage, prepare, grows in _stages():
        for what, stated in grows.items():
            points = [{**sizes, what: round(sizes[what] * factor)} for factor in growth]
            with threadpool_limits(1):
                seconds = [_fastest(prepare(**point)) for point in points]
            slope = np.polyfit(np.log([point[what] for point in points]), np.log(seconds), 1)[0]
            rows.append(
                {"stage": stage, "grows": what, "stated": stated, "measured": float(slope), "seconds": seconds[-1]}
            )
    return pd.DataFrame(rows)


def _fastest(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of some repeats, each long enough to be measured."""
    work()
    found = []
    for _ in range(REPEATS):
        start, count = time.process_time(), 0
        while time.process_time() - start < 0.02:
            work()
            count += 1
        found.append((time.process_time() - start) / count)
    return min(found)


def _stages() -> Iterator[tuple[str, Callable[..., Callable[[], object]], dict[str, int]]]:
    yield "static edges", _edges, {"people": 1, "volumes": 1, "regions": 2}
    yield "deconfounding and scaffold", _scaffold, {"people": 1, "regions": 2}
    yield "temporal profiles", _profiles, {"people": 1, "volumes": 1, "pathways": 1}
    yield "an epoch of the network", _epoch, {"people": 1, "pathways": 1}


def _series(people: int, regions: int, volumes: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(people, volumes, regions)))


def _edges(people: int, regions: int, volumes: int, pathways: int) -> Callable[[], object]:
    from brainroam.core.connectivity import pearson_edges

    series = _series(people, regions, volumes)
    return lambda: pearson_edges(series)


def _scaffold(people: int, regions: int, volumes: int, pathways: int) -> Callable[[], object]:
    from brainroam.core.deconfound import SiteDeconfounder
    from brainroam.core.scaffold import extract_scaffold

    rng = np.random.default_rng(0)
    edges = rng.normal(size=(people, regions * (regions - 1) // 2))
    site, y = np.arange(people) % 3, np.arange(people) // 3 % 2
    names, age = np.array([f"S{e}" for e in site]), pd.DataFrame({"age": rng.normal(size=people)})

    def work() -> object:
        residuals = SiteDeconfounder(slopes="site").fit(edges, covariates=age, site=names).residuals_
        return extract_scaffold(residuals, y, names, tau_percentile=50, eta=0.5, zeta=0.5)

    return work


def _profiles(people: int, regions: int, volumes: int, pathways: int) -> Callable[[], object]:
    from brainroam.core.connectivity import edge_pairs
    from brainroam.core.profile import temporal_descriptors

    series, pairs = _series(people, regions, volumes), edge_pairs(regions)[:pathways]
    return lambda: temporal_descriptors(series, pairs)


def _epoch(people: int, regions: int, volumes: int, pathways: int) -> Callable[[], object]:
    torch = extra("torch", "torch")

    from brainroam.core.connectivity import edge_pairs
    from brainroam.core.gate import GatedNetwork, PathwayGraph
    from brainroam.core.linegraph import line_graph
    from brainroam.core.site_folds import Episode
    from brainroam.core.training import Schedule, train_network

    rng = np.random.default_rng(0)
    # As many neighbours at any size, as the paper assumes: the regions grow with the pathways.
    wide = edge_pairs(max(regions, round(pathways / 8)))
    pairs = wide[np.sort(rng.choice(len(wide), pathways, replace=False))]
    graph = PathwayGraph.of(line_graph(pairs, rng.normal(size=pathways)))
    features = torch.as_tensor(rng.normal(size=(pathways, people, 3)), dtype=torch.float32)
    episode = Episode(features, torch.arange(people).remainder(2).float(), graph)
    network = GatedNetwork(hidden=16)
    return lambda: train_network(network, [episode], Schedule(budget=pathways / 2), epochs=1)
