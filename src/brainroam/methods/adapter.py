"""Anybody's estimator as a `Method`: a scikit-learn pipeline, a network wrapped by skorch, a class of plain torch.

What has ``fit(X, y)`` and ``decision_function(X)`` or ``predict_proba(X)`` can be judged beside ours:

    score = decision_function(X)        or, where there is none,        predict_proba(X)[:, 1]

It is cloned for every fit. Parameters ``random_state`` that are None take the seed of the run, and so do the global
generators of numpy, Python and torch while it learns. ``site``, ``groups`` (the same), ``covariates`` and ``tr`` are
passed to ``fit`` where scikit-learn's metadata routing says that it, or a part of it, requests them; ``covariates`` and
``tr`` also when people are scored, ``site`` never. Threshold and calibration come from inner held-out sites, as for
every method (`brainroam.methods.tuning`).
"""

import inspect
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, get_args

import cloudpickle
import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object

from brainroam.core.connectivity import EdgeKind, edges_to_matrix
from brainroam.core.covariates import CovariateEncoder
from brainroam.data.cohort import Cohort
from brainroam.data.target import CLASSES, NUMBER, ORDERED, TWO
from brainroam.errors import MethodError, UsageError, listed, unknown
from brainroam.methods.base import ANYTHING, Method, MethodInfo
from brainroam.methods.edge_features import EdgeFeatures
from brainroam.methods.registry import Judged, resolve, with_name

Input = Literal["edges", "series", "matrices", "table"]
SCORING = ("decision_function", "predict_proba")
NO_SCORE = "a {} has neither decision_function nor predict_proba"
REMEDY = "CalibratedClassifierCV"
READS: dict[str, tuple[str, ...]] = {
    "edges": ("series", "matrices", "table"),
    "matrices": ("series", "matrices"),
    "series": ("series",),
    "table": (ANYTHING,),
}


class EstimatorMethod(Method):
    """An estimator of scikit-learn's kind as a method of a study.

    Parameters
    ----------
    estimator : object
        With ``fit`` and ``decision_function`` or ``predict_proba``; or, for a number, a regressor, or a class of one's
        own with ``predict``. It is never fitted itself: every fit takes a clone (a deep copy, where it has no
        ``get_params``).
    input : {"edges", "series", "matrices", "table"}, optional
        What X is: Pearson correlations (n, M) of all pairs of regions, or, where no series were measured, the edges of
        the matrices or the columns of the table in their own units, missing ones at the mean of the training people;
        the list of series (T_i, P); the edges as matrices (n, P, P) with ones on the diagonal; or the covariates of the
        study as numbers, missing ones at the training mean. By default edges, or series where the estimator's tags say
        that it takes three-dimensional input only.

    Attributes
    ----------
    model_ : object
        The fitted clone.

    Examples
    --------
    >>> import brainroam
    >>> from sklearn.linear_model import RidgeClassifier
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> mine = EstimatorMethod(RidgeClassifier(alpha=10), input="matrices")
    >>> mine.fit(cohort)
    Traceback (most recent call last):
    ValueError: Found array with dim 3, while dim <= 2 is required by RidgeClassifier.
    >>> EstimatorMethod(RidgeClassifier(alpha=10)).fit(cohort).score(cohort.without_labels()).shape
    (36,)
    """

    def __init__(self, estimator: Any, input: Input | None = None) -> None:
        self.number = _is_regressor(estimator)
        if not self.number:
            _require_verbs(estimator)
        self.estimator, self.input = estimator, _usual_input(estimator) if input is None else input
        if self.input not in get_args(Input):
            raise unknown("input of an estimator", input, get_args(Input))
        self.edge_kinds = (EdgeKind(),) if self.input in ("edges", "matrices") else ()

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Fit a clone."""
        model = _with_seed(_clone_unfitted(self.estimator), seed)
        self.features_, self.encoder_ = EdgeFeatures("pearson", scaled=False), CovariateEncoder()
        covariates = cohort.covariates()
        self.covariates_ = [name for name in covariates if covariates[name].notna().any()]
        if self.input == "table":
            if not self.covariates_:
                raise MethodError("input='table' gives the covariates of the study, and it has none; name some")
            self.encoder_.fit(covariates[self.covariates_])
        elif self.edge_kinds:
            self.features_.fit_transform(cohort)
        site = cohort.table["site"].to_numpy(dtype=str)
        with (
            _routing(model, "fit", {"site": site, "groups": site, **self._people(cohort)}) as asked,
            _seed_generators(seed),
        ):
            fitted = model.fit(self._inputs(cohort), cohort.targets if self.number else cohort.labels, **asked)
        if fitted is None:
            raise MethodError(f"{type(model).__name__}.fit returned None; end it with 'return self'")
        self.model_ = fitted
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The decision function, or the probability of the condition; of a regressor its prediction."""
        verb = "predict" if self.number else _scoring_verb(self.model_)
        _require_no_site(getattr(self.model_, verb), verb)
        with _routing(self.model_, verb, self._people(cohort)) as asked:
            scores = np.asarray(getattr(self.model_, verb)(self._inputs(cohort), **asked))
        if verb == "predict_proba":
            if scores.shape != (len(cohort), 2):
                raise MethodError(
                    f"predict_proba returned shape {scores.shape} for {len(cohort)} people; return two columns, the "
                    "probabilities of control and condition"
                )
            return scores[:, 1]
        return scores

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the fitted estimator shows: attributes that end in ``_``, parts and weights included."""
        state = dict(_arrays("", self.model_, set()))
        if self.edge_kinds:
            state["fill"] = self.features_.fill_
        return state

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Refused: arrays do not make somebody else's estimator."""
        raise UsageError(
            f"a fitted {type(self.estimator).__name__} cannot be restored from arrays; keep it with skops or joblib"
        )

    def _inputs(self, cohort: Cohort) -> Any:
        """X of these people."""
        if self.input == "series":
            return cohort.series
        if self.input == "table":
            values = self.encoder_.impute(cohort.table)
            return pd.DataFrame(values, columns=self.encoder_.names_)
        edges = self.features_.transform(cohort)
        if cohort.measure == "table":
            return pd.DataFrame(edges, columns=cohort.atlas.feature_names)
        return edges if self.input == "edges" else edges_to_matrix(edges) + np.eye(cohort.n_rois)

    def _people(self, cohort: Cohort) -> dict[str, Any]:
        """Metadata of people that may be used in scoring as well."""
        table = cohort.table.reset_index(drop=True)
        covariates = {"covariates": table[self.covariates_]} if self.covariates_ else {}
        return covariates | ({"tr": table["tr"].to_numpy(dtype=float)} if table["tr"].notna().all() else {})


def estimator_info(method: Any) -> MethodInfo:
    """Registry entry of an estimator, named by its class.

    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> estimator_info(make_pipeline(StandardScaler(), RidgeClassifier())).name
    'StandardScaler+RidgeClassifier'
    """
    method = method if isinstance(method, EstimatorMethod) else EstimatorMethod(method)
    parts = [method.estimator, *(part for part in _settings(method.estimator).values() if hasattr(part, "fit"))]
    drawn = any(_open_seeds(method.estimator)) or any(_package(part) not in ("sklearn", "brainroam") for part in parts)
    return MethodInfo(
        _usual_name(method.estimator),
        partial(EstimatorMethod, method.estimator, method.input),
        f"{_usual_name(method.estimator)}, an estimator of the user's, on {method.input}",
        stochastic=drawn,
        estimator=method.estimator,
        reads=READS[method.input],
        targets=(NUMBER, ORDERED) if method.number else (TWO, CLASSES),
        one_against_rest=True,
    )


def resolve_own(method: Judged) -> tuple[MethodInfo, dict[str, Any]]:
    """As `brainroam.methods.registry.resolve`, for one object of the user's instead of a registered name."""
    if isinstance(method, str):
        return _of_file(method)
    if isinstance(method, MethodInfo):
        return method, {}
    if hasattr(method, "method_and_settings"):  # a SiteEstimator is a method with its settings, not one more estimator
        return method.method_and_settings()
    if isinstance(method, type) and issubclass(method, Method):
        return MethodInfo(method.__name__, method, method.__doc__ or ""), {}
    if isinstance(method, Method) and not isinstance(method, EstimatorMethod):
        raise UsageError(f"give the class {type(method).__name__}, or a MethodInfo, not an instance: every fold is new")
    info = estimator_info(method)
    return with_name(info.name, info, {})


def in_file(text: str) -> Any:
    """The object that ``my_methods.py:pipeline`` names; the code of that file is run."""
    path, _, name = text.rpartition(":")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise UsageError(f"{path} of {text!r} is not a file; write it as my_methods.py:pipeline")
    module = _load_module(file, file.stat().st_mtime_ns)
    if not hasattr(module, name):
        raise unknown(f"name in {path}", name, [name for name in vars(module) if not name.startswith("_")])
    return getattr(module, name)


def _of_file(text: str) -> tuple[MethodInfo, dict[str, Any]]:
    """The method of a file, by its name there; a class of an estimator and a function that makes one are called."""
    content = in_file(text)
    if isinstance(content, MethodInfo | str) or (isinstance(content, type) and issubclass(content, Method)):
        return resolve(content)[0]
    if isinstance(content, type) or inspect.isfunction(content):
        if needed := arguments_of(content):
            raise UsageError(f"{text} is called without arguments, and it needs {listed(needed)}: give them defaults")
        content = content()
    return with_name(text.rpartition(":")[2], *resolve_own(content))


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Names of required arguments of a callable.

    >>> arguments_of(lambda cohort, train, seed=0: None)
    ['cohort', 'train']
    """
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty and parameter.kind in positional
    ]


@cache
def _load_module(file: Path, changed: int) -> ModuleType:
    """A file as a module; what it defines is sent to other processes by value, since they cannot import it."""
    print(f"running the code of {file}", file=sys.stderr)
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    if sys.modules[file.stem] is not module and getattr(sys.modules[file.stem], "__file__", None) != str(file):
        raise UsageError(f"{file.name} has the name of a module that is in use; rename the file")
    sys.modules[file.stem] = module
    sys.path.append(str(file.parent))  # as Python does for a script: for what it imports from beside it
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


def _is_regressor(estimator: Any) -> bool:
    """Whether an estimator predicts numbers: it says so, or has no method that scores classes."""
    if isinstance(estimator, type) or not hasattr(estimator, "predict"):
        return False
    if not hasattr(estimator, "__sklearn_tags__"):
        return hasattr(estimator, "fit") and not any(hasattr(estimator, verb) for verb in SCORING)
    try:
        return is_regressor(estimator)
    except (AttributeError, TypeError, ValueError):  # a pipeline that is not whole
        return False


def _require_verbs(estimator: Any) -> None:
    if isinstance(estimator, type):
        raise UsageError(f"give an estimator, not its class: {estimator.__name__}()")
    if inspect.isroutine(estimator):
        raise UsageError(
            f"give the estimator that {estimator.__name__} makes, not the function: {estimator.__name__}()"
        )
    name = type(estimator).__name__
    if not hasattr(estimator, "fit"):
        raise UsageError(
            f"a {name} has no fit(X, y); wrap a network by skorch, or in a class with fit and decision_function "
            "(docs/tutorials/any-estimator.md)"
        )
    # What a search or a pipeline offers may depend on parts that are known after fit, so classes are asked as well.
    if not any(hasattr(estimator, verb) or hasattr(type(estimator), verb) for verb in SCORING):
        raise UsageError(f"{NO_SCORE.format(name)}; a score is needed for each person, such as by {REMEDY}")


def _scoring_verb(model: Any) -> str:
    """The verb by which a fitted model scores people."""
    for verb in SCORING:
        if hasattr(model, verb):
            return verb
    raise MethodError(f"{NO_SCORE.format(type(model).__name__)} once it is fitted; voting='soft' of a vote, {REMEDY}")


def _require_no_site(score: Callable[..., Any], verb: str) -> None:
    """Refuse a model that cannot score people without knowing their site."""
    for name, parameter in inspect.signature(score).parameters.items():
        if name in ("site", "groups") and parameter.default is parameter.empty:
            raise MethodError(
                f"{verb} asks for {name!r}, which nobody knows of a model at a new site: use it in fit only, or give "
                "it a default"
            )


def _usual_input(estimator: Any) -> Input:
    if not hasattr(estimator, "__sklearn_tags__"):
        return "edges"
    tags = get_tags(estimator).input_tags
    return "series" if tags.three_d_array and not tags.two_d_array else "edges"


def _usual_name(estimator: Any) -> str:
    """Name of an estimator: its class, the steps of a pipeline, the estimator in a search or wrapper."""
    if hasattr(estimator, "steps"):
        parts = [part for _, part in estimator.steps if part not in (None, "passthrough")]
        return "+".join(map(_usual_name, parts))
    inner = getattr(estimator, "estimator", None)
    name = type(estimator).__name__
    return f"{name}({_usual_name(inner)})" if hasattr(inner, "fit") else name


def _settings(estimator: Any) -> dict[str, Any]:
    return estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}


def _package(part: Any) -> str:
    return type(part).__module__.partition(".")[0]


def _open_seeds(estimator: Any) -> list[str]:
    """Parameters of an estimator and its parts that take a seed and have none."""
    settings = _settings(estimator)
    return [name for name in settings if name.rpartition("__")[2] == "random_state" and settings[name] is None]


def _clone_unfitted(estimator: Any) -> Any:
    try:
        return clone(estimator, safe=False)
    except (RuntimeError, TypeError) as error:
        name = type(estimator).__name__
        raise MethodError(
            f"a {name} cannot be cloned for a fold: {error}; let __init__ store its parameters as they are, under "
            "their own names, and do the rest in fit"
        ) from error


def _with_seed(model: Any, seed: int) -> Any:
    seeds = dict.fromkeys(_open_seeds(model), seed)
    return model.set_params(**seeds) if seeds else model


@contextmanager
def _seed_generators(seed: int) -> Iterator[None]:
    """The generators that code without ``random_state`` draws from, set by the seed and put back afterwards."""
    # NPY002: the global generator is not ours to avoid, as somebody else's code draws from it.
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if torch:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch:
            torch.set_rng_state(before[2])


@contextmanager
def _routing(model: Any, verb: str, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The items of ``known`` that a verb of the model requests by metadata routing, which is on within the block.

    A part asks by ``set_fit_request(site=True)``; a model that has no parts also by a parameter of that name.
    """
    with config_context(enable_metadata_routing=True):
        routing = get_routing_for_object(model)
        asked = set(routing.consumes(verb, known))
        if not isinstance(routing, MetadataRouter):
            asked |= known.keys() & inspect.signature(getattr(model, verb)).parameters.keys()
        yield {name: value for name, value in known.items() if name in asked}


def _arrays(name: str, part: Any, seen: set[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Numeric arrays in a fitted object and its parts."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
        yield name, part
    elif hasattr(part, "state_dict"):
        for key, value in part.state_dict().items():
            if hasattr(value, "detach"):
                yield f"{name}.{key}", value.detach().cpu().numpy()
    elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
        for k, item in enumerate(part):
            yield from _arrays(f"{name}.{k}", item, seen)
    elif not name or hasattr(part, "fit"):
        learned: Callable[[str], bool] = (
            (lambda key: key == "steps" or (key.endswith("_") and key[0] != "_"))
            if hasattr(part, "get_params")
            else (lambda key: True)
        )
        for key, value in getattr(part, "__dict__", {}).items():
            if learned(key):
                yield from _arrays(f"{name}.{key}".lstrip("."), value, seen)
