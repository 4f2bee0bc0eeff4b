"""Does a plan hold what it promises? Worlds of several kinds in which the truth is known.

    python scripts/plan_worlds.py --worlds 150 --keep worlds
    python scripts/plan_worlds.py --first 150 --worlds 60 --keep worlds

A world draws the connectivity of people directly (M edges, correlated noise, a mean for each site) and reads it by
ridge on site-centred edges. Kinds of worlds, in turn:

    equal      every site has the same effect
    unequal    the effect of a site differs in size and in direction
    subtypes   three kinds of cases, in shares that differ between sites
    sizes      unequal effects, and sites of very different size
    small      unequal effects, sites of 12 to 24 people

A plan of k = 8, 12 or 16 sites (`draws`, `fit_law`) foretells the gain of more sites, of as many people at the present
sites, and their difference. Truth: 100 training sets of k sites, of k + m, and of k sites with as many people, drawn
anew, each read at 400 new sites; as scores are normal within a class, the AUC at a site needs no test people. Worlds
found in the folder ``--keep`` are not drawn again. The figures of docs/reliability.md come from here.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from common import parser_of
from scipy.special import ndtr

from brainroam.data.target.figures import AREA
from brainroam.evaluation.planning.draws import draws
from brainroam.evaluation.planning.law import fit_law
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights

KINDS = ("equal", "unequal", "subtypes", "sizes", "small")
SITES = (8, 12, 16)
TRUE_SETS, TRUE_SITES, DRAWS = 100, 400, 20
MIDDLE = 0.75  # true AUC of k sites that parts hard worlds from easy ones
QUESTIONS = ("more sites", "more people", "sites minus people")


class World(NamedTuple):
    """Edges x = site mean + y * effect of the site and kind of case + noise of covariance L L'."""

    kind: str
    effects: np.ndarray  # (kinds of cases, M)
    spread: float  # of a site's effect, as a share of the effect's length
    noise: np.ndarray  # (M, M): L
    penalty: float  # in units of the mean squared length
    people: int  # at a site, on average

    def draw_sites(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Effects (n, kinds, M) and shares of the kinds (n, kinds) of n sites."""
        k, m = self.effects.shape
        length = np.linalg.norm(self.effects, axis=1)[:, None]
        size = 1 + self.spread * rng.normal(size=(n, 1, 1))
        turned = self.spread * length * rng.normal(size=(n, k, m)) / np.sqrt(m)
        share = rng.dirichlet(np.full(k, 2.0), size=n) if k > 1 else np.ones((n, 1))
        return size * self.effects + turned, share

    def draw_size(self, rng: np.random.Generator) -> int:
        """People at a site."""
        size = self.people * (rng.lognormal(-0.32, 0.8) if self.kind == "sizes" else 1)
        return max(int(size), 10)

    def draw_people(self, n: int, effects: np.ndarray, share: np.ndarray, rng: np.random.Generator):
        """Edges of n people of one site, centred, and their labels."""
        label = np.arange(n) % 2
        kind = rng.choice(len(share), size=n, p=share)
        x = rng.normal(size=(n, self.noise.shape[0])) @ self.noise.T + label[:, None] * effects[kind]
        return x - x.mean(axis=0), label

    def weights(self, x: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Ridge."""
        gram = x.T @ x
        gram[np.diag_indices_from(gram)] += self.penalty * np.square(x).sum() / len(x)
        return np.linalg.solve(gram, x.T @ (label - label.mean()))

    def true_auc(self, w: np.ndarray, effects: np.ndarray, share: np.ndarray) -> float:
        """Mean over sites of sum over kinds of share * Phi(w' effect / sqrt(2 w' L L' w))."""
        apart = effects @ w / np.sqrt(2 * np.square(self.noise.T @ w).sum())
        return float((share * ndtr(apart)).sum(axis=1).mean())


def make_world(number: int) -> tuple[World, int, int, np.random.Generator]:
    """Settings of a world, k and m."""
    rng, kind = np.random.default_rng([35, number]), KINDS[number % len(KINDS)]
    m, factors = int(rng.choice([45, 105, 190, 276])), 6
    noise = np.linalg.cholesky(np.eye(m) + (load := rng.normal(size=(m, factors)) * rng.uniform(0.1, 0.4)) @ load.T)
    wanted = rng.uniform(0.8, 2.4) * (1.3 if kind == "subtypes" else 1)  # distance between classes in units of noise
    effects = rng.normal(size=(3 if kind == "subtypes" else 1, m)) * (rng.random(m) < rng.choice([0.1, 1.0]))
    effects *= wanted / np.linalg.norm(np.linalg.solve(noise, effects.T), axis=0)[:, None]
    people = int(rng.integers(12, 25) if kind == "small" else rng.integers(24, 60))
    spread = 0.0 if kind in ("equal", "subtypes") else float(rng.uniform(0.2, 0.6))
    world = World(kind, effects, spread, noise, float(rng.choice([0.3, 1.0, 3.0])), people)
    k = int(SITES[number // len(KINDS) % len(SITES)])
    return world, k, int(rng.choice([5, k])), rng


def curve(world: World, k: int, rng: np.random.Generator) -> pd.DataFrame:
    """The learning curve that a plan measures: one row per draw and test site."""
    effects, share = world.draw_sites(k, rng)
    parts = [world.draw_people(world.draw_size(rng), effects[e], share[e], rng) for e in range(k)]
    x, label = (np.concatenate(part) for part in zip(*parts, strict=True))
    site = np.repeat([f"S{e:02}" for e in range(k)], [len(part[1]) for part in parts])
    rows = []
    for draw in draws(pd.DataFrame({"site": site, "label": label}), DRAWS, 0):
        kept, place = x[draw.train].copy(), site[draw.train]
        for name in np.unique(place):
            kept[place == name] -= kept[place == name].mean(axis=0)
        score = x @ world.weights(kept, label[draw.train])
        for name in np.unique(site[draw.test]):
            here = site == name
            cell = (draw.n_sites, draw.share, draw.number, len(draw.train), name)
            n_cases = label[here].sum()
            rows.append((*cell, auc(label[here], score[here]), float(site_weights(n_cases, here.sum() - n_cases))))
    return pd.DataFrame(rows, columns=["n_sites", "share", "draw", "n_people", "site", "auc", "weight"])


def true_aucs(world: World, k: int, more: int, rng: np.random.Generator) -> np.ndarray:
    """AUC at new sites of models of k sites, of k + more, and of k with as many people, (training sets, 3)."""
    there = world.draw_sites(TRUE_SITES, rng)
    found = []
    for _ in range(TRUE_SETS):
        effects, share = world.draw_sites(k + more, rng)
        sizes = [world.draw_size(rng) for _ in range(k + more)]
        parts = [world.draw_people(n, effects[e], share[e], rng) for e, n in enumerate(sizes)]
        fuller = [
            world.draw_people(round(n * (k + more) / k), effects[e], share[e], rng) for e, n in enumerate(sizes[:k])
        ]
        training = (parts[:k], parts, fuller)
        found.append(
            [world.true_auc(world.weights(*map(np.concatenate, zip(*t, strict=True))), *there) for t in training]
        )
    return np.array(found)


def measured(number: int, folder: Path) -> tuple[pd.DataFrame, dict]:
    """Curve and truth of a world, drawn or read."""
    file = folder / f"world-{number}.csv"
    if not file.with_suffix(".json").is_file():
        world, k, more, rng = make_world(number)
        curve(world, k, rng).to_csv(file, index=False)
        aucs = true_aucs(world, k, more, rng)
        gains = np.column_stack([aucs[:, 1] - aucs[:, 0], aucs[:, 2] - aucs[:, 0], aucs[:, 1] - aucs[:, 2]])
        error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
        known = {"kind": world.kind, "k": k, "more": more, "aucs": aucs.mean(axis=0).tolist()}
        known |= {"gains": gains.mean(axis=0).tolist(), "errors": error.tolist()}
        file.with_suffix(".json").write_text(json.dumps(known))
    return pd.read_csv(file), json.loads(file.with_suffix(".json").read_text())


def promises(table: pd.DataFrame, k: int, more: int) -> list[tuple[float, float, float]]:
    """What the plan says to the three questions, as `plan` does."""
    law = fit_law(table, k, weights=table.groupby("site")["weight"].first())
    people, fuller = law.people_per_site, law.people_per_site * (k + more) / k
    return [law.gain(k + more), law.gain(k, fuller), law.gain(k + more, people, k, fuller)]


def main() -> None:
    """Print gains promised and found."""
    parser = parser_of(__doc__)
    parser.add_argument("--worlds", type=int, default=120)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--keep", type=Path, default=Path("worlds"))
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(given.first, given.first + given.worlds):
        table, known = measured(number, given.keep)
        level = f"AUC {'below' if known['aucs'][0] < MIDDLE else 'from'} {MIDDLE}"
        full = table[(table["share"] == 1) & (table["n_sites"] == known["k"] - 1)]
        if mean_over_sites(full["auc"], full["weight"]) < AREA.least:
            continue
        for name, promised, true in zip(
            QUESTIONS, promises(table, known["k"], known["more"]), known["gains"], strict=True
        ):
            rows.append((name, known["kind"], known["k"], level, *(100 * value for value in (*promised, true))))
    found = pd.DataFrame(rows, columns=["question", "kind", "k", "level", "promised", "low", "high", "found"])
    found["inside"] = found["found"].between(found["low"], found["high"])
    for by in (["question"], ["question", "kind"], ["question", "k"], ["question", "level"]):
        print(summary(found, by).round(2).to_string(), "\n")


def summary(found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Worlds, gains inside their interval, mean promised and found, error (rms), mean width."""
    found = found.assign(off=(found["promised"] - found["found"]) ** 2, width=found["high"] - found["low"])
    cells = found.groupby(by, sort=False)
    table = cells.agg(worlds=("inside", "size"), inside=("inside", "sum"), promised=("promised", "mean"))
    table["found"], table["rms"] = cells["found"].mean(), np.sqrt(cells["off"].mean())
    table["below"], table["above"] = (
        cells.apply(lambda c, s=side: int((c[s[0]] > c[s[1]]).sum()), include_groups=False)
        for side in (("low", "found"), ("found", "high"))
    )
    return table.assign(width=cells["width"].mean())


if __name__ == "__main__":
    main()
