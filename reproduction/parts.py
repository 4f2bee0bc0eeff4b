"""What each part of the paper runs: configured methods under a protocol.

The ablation, the sweeps, the edges and the embedding are those of the paper's method, ``core-paper``, whose scaffold
takes positive edges, trained for a fixed number of epochs. The ablation of ``core`` follows, where held-out training
sites decide how far the network is believed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from brainroam.errors import unknown
from brainroam.evaluation.stats.families import SWEEPS
from brainroam.methods.registry import full_name

EPOCHS = 10

#: The paper's name of each system in its tables, and ours.
SYSTEMS = {
    "GCN": "gcn",
    "GAT": "gat",
    "GIN": "gin",
    "IRM": "irm",
    "CORAL": "coral",
    "GSAT": "gsat",
    "DisC": "disc",
    "CEPG": "cepg-proxy",
    "DiSCO": "disco",
    "BrainNetTF": "brainnettf",
    "AGMGC": "agmgc-proxy",
    "FC-HGNN": "fc-hgnn",
    "XG-GNN": "xg-gnn",
    "DeCI": "deci",
    "BrainOOD": "brainood",
    "CORE": "core",
}
REFERENCES = ("ensemble", "tangent-ridge", "log-ridge", "fc-ridge", "mean-mlp", "confounds")
NETWORK, PAPER = "core-network", "core-paper"

#: The paper's four ablations, as settings of the network.
WITHOUT: dict[str, dict[str, Any]] = {
    "w/o CD": {"deconfounding": "pooled"},
    "w/o TP": {"profiles": False},
    "w/o PG": {"prior_strength": 0.0},
    "w/o SG": {"gated": False},
}

#: What we do differently from the paper, each with the setting that undoes it in ``core``.
UNDONE: dict[str, dict[str, Any]] = {
    "positive edges, as they are": {"sign": "positive", "orient": False},
    "both signs, as they are": {"orient": False},
    "joint training": {"train": "joint"},
    "r_site in training": {"train_residual": "site"},
    "network alone": {"skip": "none"},
    "Pearson edges": {"kind": "pearson", "robust": False},
    "64 hidden units": {"hidden": 64},
    "literal profiles": {"profiles": True, "stretch": None},
    "each site's own slopes": {"slopes": "site"},
    "Huber contrasts": {"contrast": "huber"},
    "all pathways in the network": {"max_pathways": None},
    "constant rate, epochs chosen": {"updates": None, "learning_rate": 1e-3},
}
#: Of these, what ``core-network`` does differently from the paper.
UNDONE_IN_NETWORK = tuple(
    name for name in UNDONE if name not in ("network alone", "Pearson edges", "constant rate, epochs chosen")
)


#: The paper's grid of thresholds, but for its defaults.
THRESHOLDS: dict[str, tuple[float, ...]] = {
    "tau_percentile": (70, 75, 85, 90),
    "eta": (0.7, 0.8, 0.85, 0.9),
    "zeta": (0.75, 0.8, 0.85, 0.9),
}


class Job(NamedTuple):
    """Configured methods to run under one protocol."""

    protocol: str
    methods: tuple[str, ...]


class Paper:
    """The jobs of each part.

    Parameters
    ----------
    systems : sequence of str, optional
        Our names of the methods in the tables; by default the paper's sixteen, the other readings of CORE and our
        references.
    epochs : int
        Of the network in ablation, sweeps and figures.
    gate_budget : int, optional
        K where the paper's is not 80.

    Examples
    --------
    >>> list(Paper(["gcn"]).jobs("loso"))
    [Job(protocol='loso', methods=('gcn',))]
    >>> Paper(epochs=3).ablation()["w/o PG"]
    'core-paper[epochs=3,prior_strength=0.0]'
    """

    def __init__(
        self, systems: Sequence[str] | None = None, epochs: int = EPOCHS, gate_budget: int | None = None
    ) -> None:
        self.fixed: dict[str, Any] = {} if gate_budget in (None, 80) else {"budget": gate_budget}
        self.trained = {**self.fixed, "epochs": epochs}
        self.core, self.network = full_name("core", self.fixed), full_name(NETWORK, self.trained)
        self.chosen = full_name(PAPER, self.fixed)
        self.complete, self.letter = self.variant({}), self.variant({"sign": "both"})
        cheap_first = (*REFERENCES, *self.readings.values())
        baselines = [name for name in SYSTEMS.values() if name != "core"]
        self.systems = tuple(systems) if systems else (*cheap_first, *baselines)

    @property
    def readings(self) -> dict[str, str]:
        """How we read CORE, by what the tables call it."""
        return {
            "CORE, epochs chosen by inner sites": self.chosen,
            f"CORE, {self.trained['epochs']} epochs": self.complete,
            "CORE, both signs (the letter)": self.letter,
            "CORE, both signs, oriented by site folds": self.network,
            "CORE, our defaults": self.core,
        }

    def variant(self, settings: dict[str, Any]) -> str:
        """The paper's method with some settings changed."""
        return full_name(PAPER, {**self.trained, **settings})

    def ablation(self) -> dict[str, str]:
        """The paper's method complete, and without each part."""
        return {"complete": self.complete, **{what: self.variant(change) for what, change in WITHOUT.items()}}

    def core_ablation(self) -> dict[str, str]:
        """``core`` with the profiles it goes without by default, and without each part."""
        complete = {**self.fixed, "profiles": True}
        return {what: full_name("core", complete | change) for what, change in {"complete": {}, **WITHOUT}.items()}

    def thresholds(self) -> dict[str, str]:
        """The paper's method with one threshold of the scaffold at another point of the paper's grid."""
        points = [(name, value) for name, values in THRESHOLDS.items() for value in values]
        return {
            "80, .75, .70": self.complete,
            **{f"{name} {value:g}": self.variant({name: value}) for name, value in points},
        }

    def sweep(self, over: str) -> dict[tuple[int, ...], str]:
        """The paper's method at each point of a sweep."""
        return {tuple(point.values()): self.variant(point) for point in SWEEPS[over]}

    def deviations(self) -> dict[str, str]:
        """``core`` with one deviation undone at a time."""
        changed = {what: full_name("core", {**self.fixed, **change}) for what, change in UNDONE.items()}
        return {"core": self.core, **changed}

    def network_deviations(self) -> dict[str, str]:
        """``core-network`` with one deviation undone at a time."""
        undone = {what: full_name(NETWORK, {**self.trained, **UNDONE[what]}) for what in UNDONE_IN_NETWORK}
        return {NETWORK: self.network, **undone}

    def jobs(self, part: str) -> Iterator[Job]:
        """What a part runs; parts that are not made of runs ask for nothing."""
        if part not in PARTS:
            raise unknown("part of the paper", part, PARTS)
        made_of: dict[str, list[tuple[str, Iterable[str]]]] = {
            "loso": [("loso", self.systems)],
            "cv": [("cv", self.systems)],
            "ablation": [("loso", self.ablation().values()), ("loso", self.core_ablation().values())],
            "thresholds": [("loso", self.thresholds().values())],
            "k": [("loso", self.sweep("budget").values())],
            "windows": [("loso", self.sweep("window").values())],
            "embedding": [("loso", (self.complete, self.core, "brainood"))],
            "edges": [("loso", (self.complete, self.letter))],
            "sites": [("loso", (self.complete,))],
            "deviations": [("loso", self.network_deviations().values()), ("loso", self.deviations().values())],
        }
        for protocol, methods in made_of.get(part, []):
            yield Job(protocol, tuple(methods))


#: In the order in which they are computed: the cheapest first.
PARTS = (
    *("dataset", "variation", "edges", "sites", "learning", "propositions", "complexity", "ablation", "thresholds"),
    *("deviations", "k", "loso", "embedding", "cost", "cv", "windows"),
)
