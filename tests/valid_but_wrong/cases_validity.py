"""Arrays and cohorts: site names, covariates, labels, matrices given as series, people who belong together."""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.valid_but_wrong.campaign import Case

from brainroam import CoreClassifier, EnsembleClassifier, SiteDeconfounder, evaluate, make_cohort
from brainroam.core.connectivity import pearson_edges
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.scaffold import extract_scaffold
from brainroam.core.tangent import TangentEdges
from brainroam.data.check import check_cohort
from brainroam.data.cohort import Cohort
from brainroam.data.target import two_classes
from brainroam.evaluation.splits import folds
from brainroam.methods.familiarity import known_share
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod, inner_folds

N = 24


@cache
def small(n_sites: int = 3) -> Cohort:
    return make_cohort(n_sites=n_sites, n_per_site=N // n_sites, n_rois=8, seed=1)


def changed(**columns: Any) -> Cohort:
    """The small cohort with other columns."""
    cohort = small()
    return Cohort(cohort.series, cohort.table.assign(**columns))


def sites(*names: object) -> Callable[[Path], Any]:
    """A cohort whose people are dealt to these sites."""
    return lambda _: changed(site=np.resize(np.array(names, dtype=object), N)).sites


def series(*arrays: np.ndarray) -> Callable[[Path], Any]:
    """A cohort with these arrays for series."""
    return lambda _: Cohort([arrays[i % len(arrays)] for i in range(4)], people(4))


def people(n: int) -> pd.DataFrame:
    return pd.DataFrame({"subject": [f"p{i}" for i in range(n)], "site": list("AB") * (n // 2), "label": [0, 0, 1, 1]})


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def encoded(values: Any, name: str = "q", n_columns: int = 1) -> Callable[[Path], Any]:
    """Whether a covariate becomes so many columns."""
    return lambda _: len(CovariateEncoder().fit(pd.DataFrame({name: values})).names_) == n_columns


def deconfounded(covariates: pd.DataFrame, **fit: Any) -> SiteDeconfounder:
    """A deconfounder of two sites of thirty people whose edges follow age."""
    age = np.random.default_rng(0).uniform(8, 40, 60)
    edges = 0.05 * age[:, None] + noise(60, 3, seed=1) / 10
    site = np.repeat(["A", "B"], 30)
    return SiteDeconfounder().fit(edges, covariates=covariates.assign(age=age), site=site, **fit)


def classes(*labels: object, positive: object = None) -> Callable[[Path], Any]:
    """The condition among these labels."""
    return lambda _: two_classes(labels, positive)[0][1]


def fitted(estimator: Any, cohort: Cohort, **fit: Any) -> Any:
    table = cohort.table
    return estimator.fit(cohort.series, **({"y": table["label"], "site": table["site"]} | fit))


def check_says(cohort: Cohort, code: str) -> str:
    """What `brainroam check` says of a cohort under this code, as a warning for the campaign to see."""
    said = [f"{f.message}; {f.remedy}" for f in check_cohort(cohort).findings if f.code == code]
    warnings.warn("; ".join(said), stacklevel=2)
    return code


def families(**columns: Any) -> Cohort:
    """Two children in each family, at one site."""
    return changed(group=np.repeat([f"F{i}" for i in range(N // 2)], 2), **columns)


def split_groups(cohort: Cohort, parts: Any) -> int:
    """How many groups are on both sides of some fold; -1 where no fold holds anybody out."""
    group = cohort.table["group"].str.lower().to_numpy()
    folds = list(parts)
    return sum(len(set(group[train]) & set(group[test])) for train, test in folds) if folds else -1


def recorded_notes(
    cohort: Cohort, folder: Path, method: str = "scaffold-ridge[tau_percentile=50,eta=0.5]"
) -> list[str]:
    """The notes in the files of a study."""
    import json

    evaluate(cohort, [method], tuning="fast", out=folder / "runs")
    files = (folder / "runs" / "runs").glob("*.json")
    return [note for file in files for note in json.loads(file.read_text())["notes"]]


def predicted_share(folder: Path, trained: Cohort, asked: Cohort) -> float:
    selected = TunedMethod(method_info("fc-ridge"), "fast").fit(trained)
    save_method(folder / "model", selected, trained)
    return known_share(load_method(folder / "model", asked)[1]["training"], asked)


def pipeline_gap(_: Path) -> bool:
    """A pipeline of scikit-learn gives y to every step: a planted difference of 1 has to survive it."""
    y = np.tile([0, 1], 30)
    values = make_pipeline(FunctionTransformer(), SiteDeconfounder()).fit_transform(y[:, None] + noise(60, 3) / 10, y)
    return abs(values[y == 1].mean() - values[y == 0].mean() - 1) < 0.1


def how_to_example(_: Path) -> bool:
    """``--set covariates='["age","iq"]'`` with an IQ that arrives as text: age and IQ are both removed."""
    rng = np.random.default_rng(0)
    iq = rng.normal(100, 15, 60).round(1)
    found = deconfounded(pd.DataFrame({"iq": iq.astype(str)}))
    return found.encoder_.names_ == ["iq", "age"] and bool(found.estimable_.all()) and not found.notes_


MATRIX = np.corrcoef(noise(50, 6).T)
TEXT_IQ = [f"{value:.1f}" for value in 100 + 15 * noise(60)]
MANY = [f"level {i}" for i in range(60)]
TWO_NAMES = "give each site one name in your table"

# fmt: off
_CASES: list[tuple[str, str, Callable[[Path], Any], str, str]] = [
    # --- one site under two names ---
    ("site-case", "sites 'Site 0' and 'SITE 0'", sites("Site 0", "SITE 0", "B"), "refused", TWO_NAMES),
    ("site-space", "sites 'site0' and 'site0 '", sites("site0", "site0 ", "B"), "refused", TWO_NAMES),
    ("site-underscore", "sites 'Site_0' and 'Site 0'", sites("Site_0", "Site 0", "B"), "refused", TWO_NAMES),
    ("site-hyphen", "sites 'Max-Mun' and 'MaxMun'", sites("Max-Mun", "MaxMun", "B"), "refused", TWO_NAMES),
    ("site-number", "sites 1 and 1.0", sites(1, 1.0, "B"), "refused", TWO_NAMES),
    ("site-zero", "sites '01' and '1'", sites("01", "1", "B"), "refused", TWO_NAMES),
    ("site-composed", "site Zürich, composed and decomposed", sites("Z\u00fcrich", "Zu\u0308rich"), "refused", "u0308"),
    ("site-zero-width", "a zero-width space in a site name", sites("NYU", "NY\u200bU", "B"), "refused", "u200b"),
    ("site-full-width", "full-width letters", sites("NYU", "\uff2e\uff39\uff35", "B"), "refused", TWO_NAMES),
    ("site-sharp-s", "sites 'Straße' and 'STRASSE'", sites("Straße", "STRASSE"), "refused", TWO_NAMES),
    ("site-nbsp", "a no-break space", sites("New York", "New\u00a0York", "B"), "refused", TWO_NAMES),
    ("site-different", "sites UCLA_1 and UCLA_2", sites("UCLA_1", "UCLA_2"), "right", ""),
    ("site-numbers-apart", "sites 'Site 1-1' and 'Site 11'", sites("Site 1-1", "Site 11"), "right", ""),
    ("site-scripts", "sites in Chinese and Hindi", sites("北京", "上海", "कि", "का"), "right", ""),
    ("site-deconfounder", "two names in SiteDeconfounder.fit", lambda _: SiteDeconfounder().fit(noise(6, 3), site=["A", "a", "B"] * 2), "refused", TWO_NAMES),
    ("site-classifier", "two names in EnsembleClassifier.fit", lambda _: fitted(EnsembleClassifier(), small(), site=np.resize(["A", "A ", "B"], N)), "refused", TWO_NAMES),
    ("site-core", "two names in CoreClassifier.fit", lambda _: fitted(CoreClassifier(), small(), site=np.resize(["A", "a", "B"], N)), "refused", TWO_NAMES),
    ("site-concat", "two cohorts with one site each way", lambda _: small().concat(Cohort(small().series, small().table.assign(site="s01", subject=[f"x{i}" for i in range(N)]))), "refused", TWO_NAMES),
    ("site-missing", "a site that is None in fit", lambda _: fitted(EnsembleClassifier(), small(), site=[None, *["A", "B"] * 11, "A"]), "refused", "the site is missing for person 0"),
    ("institution-twice", "institutions 'NYU' and 'nyu'", lambda _: list(folds(changed(institution=np.resize(["NYU", "nyu", "UM"], N)).table, "loio")), "refused", "give each institution one name"),
    # --- covariates ---
    ("covariate-text-numbers", "IQ as text", encoded(TEXT_IQ, "iq"), "right", ""),
    ("covariate-text-unknown", "IQ as text with n/a", encoded([*TEXT_IQ, "n/a", ""], "mean FD"), "right", ""),
    ("covariate-how-to", "the how-to's example: age and an IQ that arrives as text", how_to_example, "right", ""),
    ("covariate-decimal-comma", "numbers with decimal commas", encoded([f"{100 + i},5" for i in range(60)]), "refused", "write decimal points"),
    ("covariate-mixed", "numbers and the word 'high'", encoded([*TEXT_IQ, "high"]), "refused", "holds numbers, but also high"),
    ("covariate-many-levels", "a text with a level for everybody", encoded(MANY), "refused", "join rare levels, or leave it out"),
    ("covariate-six-levels", "six scanners for 200 people", encoded(np.resize(list("abcdef"), 200)), "refused", "6 levels for 200 people"),
    ("covariate-few-people", "four scanners for 20 people", encoded(np.resize(list("abcd"), 20)), "refused", "one for every 10 people"),
    ("covariate-five-levels", "five scanners for 60 people", encoded(np.resize(list("abcde"), 60), n_columns=4), "right", ""),
    ("covariate-date", "a scan date as text", encoded(["2012-03-04", "2013-01-02"] * 5), "refused", "is a date"),
    ("covariate-date-german", "a date as 04.03.2012", encoded(["04.03.2012", "05.03.2012"] * 5), "refused", "is a date"),
    ("covariate-datetime", "a date as pandas has it", encoded(pd.to_datetime(["2012-03-04"] * 10)), "refused", "the age at that date"),
    ("covariate-id", "an id as covariate", encoded(list(range(40)), "SUB_ID"), "refused", "is an id"),
    ("covariate-subject", "the column subject as covariate", lambda _: small().covariates(["subject"]), "refused", "every person has another id"),
    ("covariate-label", "the diagnosis as covariate", lambda _: small().covariates(["age", "label"]), "refused", "it is what is predicted"),
    ("covariate-site", "the site as covariate", lambda _: small().covariates(["site"]), "refused", "sites are handled by their names"),
    ("covariate-huge", "a covariate of 1e300", encoded([1e300, 1.0, 2.0]), "refused", "leave unknown ones empty"),
    ("covariate-infinite", "an infinite covariate", encoded([np.inf, 1.0, 2.0]), "refused", "must be finite or missing"),
    ("covariate-int-names", "columns named 0 and 1", lambda _: CovariateEncoder().fit(pd.DataFrame(noise(9, 2))).names_ == ["0", "1"], "right", ""),
    ("covariate-level-spaces", "'GE' and 'GE '", lambda _: CovariateEncoder().fit(pd.DataFrame({"s": ["GE", "GE ", "Siemens"]})).names_ == ["s=Siemens"], "right", ""),
    ("covariate-text-at-prediction", "numbers in training, text numbers later", lambda _: np.allclose(CovariateEncoder().fit(pd.DataFrame({"iq": [90.0, 110.0]})).transform(pd.DataFrame({"iq": ["110"]})), 1), "right", ""),
    ("covariate-method", "a method told to remove a text of many levels", lambda _: TunedMethod(method_info("confounds"), "fast", covariates=["first_name"]).fit(changed(first_name=MANY[:N])), "refused", "has 16 levels for 16 people"),
    ("notes-once", "a site too small for its covariates", lambda _: ([n for n in SiteDeconfounder() .fit(noise(24, 3), covariates=noise(24, 4), site=["A"] * 20 + ["B"] * 4) .notes_ if "B" in n] == ["site B (4 people) cannot estimate q1, q2, q3, q4: the mean slope of the other sites is used"]), "right", ""),
    ("notes-nowhere", "a covariate no site can estimate", lambda _: ("no site can estimate sex: nothing of it is removed from anybody" in SiteDeconfounder().fit(noise(24, 3), covariates=pd.DataFrame({"sex": [1.0] * 24})).notes_), "right", ""),
    ("notes-recorded", "what a fit could not estimate, in the run's file", lambda folder: any("cannot estimate sex" in note for note in recorded_notes(changed(sex=1.0), folder)), "right", ""),
    # --- connectivity matrices and other arrays given as series ---
    ("matrix-correlation", "nilearn's correlation matrices as series", series(MATRIX), "refused", "an array of time x regions for each person"),
    ("matrix-zero-diagonal", "matrices with a zero diagonal", series(MATRIX - np.eye(6)), "refused", "is a connectivity matrix"),
    ("matrix-fisher", "Fisher z matrices, infinite on the diagonal", series(np.where(np.eye(6) == 1, np.inf, MATRIX)), "refused", "is a connectivity matrix"),
    ("matrix-covariance", "covariance matrices as series", series(np.cov(noise(50, 6).T)), "refused", "is a connectivity matrix"),
    ("matrix-float32", "matrices in single precision", series(MATRIX.astype(np.float32)), "refused", "is a connectivity matrix"),
    ("matrix-pearson-edges", "matrices in pearson_edges", lambda _: pearson_edges([MATRIX]), "refused", "is a connectivity matrix"),
    ("matrix-tangent", "matrices in TangentEdges", lambda _: TangentEdges().fit([MATRIX, MATRIX]), "refused", "is a connectivity matrix"),
    ("matrix-deconfounder", "an array (n, P, P) in SiteDeconfounder", lambda _: SiteDeconfounder().fit(np.stack([MATRIX] * 8)), "refused", "give the upper triangles"),
    ("square-series", "as many volumes as regions", series(noise(6, 6), noise(6, 6, seed=1)), "right", ""),
    ("series-two-volumes", "series of two volumes", series(noise(2, 6)), "refused", "at least 3 volumes"),
    ("series-one-region", "series of one region", series(noise(20, 1)), "refused", "2 regions"),
    ("series-all-alike", "forty people with one and the same series", lambda _: evaluate(Cohort([small().series[0]] * N, small().table), ["fc-ridge"], tuning="fast"), "refused", "people have the same series"),
    ("series-all-alike-fit", "one series for everybody in fit", lambda _: fitted(EnsembleClassifier(), Cohort([small().series[0]] * N, small().table)), "refused", "people have the same series"),
    ("series-alike-check", "one series for everybody, checked", lambda _: check_says(Cohort([small().series[0]] * 4, people(4)), "one-series"), "warned", "check how files are assigned to people"),
    ("edges-infinite", "infinite edges", lambda _: SiteDeconfounder().fit(np.full((6, 2), np.inf)), "refused", "infinity"),
    ("edges-other-atlas", "edges of another atlas in transform", lambda _: SiteDeconfounder().fit(noise(9, 3)).transform(noise(9, 6)), "refused", "Another atlas?"),
    ("age-absurd", "an age of 1e300", lambda _: changed(age=[1e300, *[20.0] * (N - 1)]), "refused", "leave unknown values empty"),
    # --- the deconfounder in a pipeline ---
    ("pipeline-y", "y in a pipeline is no covariate", pipeline_gap, "right", ""),
    ("no-site", "no site: everybody is of one", lambda _: len(SiteDeconfounder().fit(noise(9, 3)).sites_) == 1, "right", ""),
    ("controls-missing", "fit_on='controls' at a site of cases", lambda _: SiteDeconfounder(fit_on="controls").fit(noise(8, 3), [0, 0, 0, 0, 1, 1, 1, 1], site=list("AAAABBBB")), "refused", "no controls at B"),
    ("controls-words", "fit_on='controls' with words", lambda _: np.isfinite(SiteDeconfounder(fit_on="controls").fit(noise(8, 3), ["TD", "ASD"] * 4).residuals_).all(), "warned", "ASD is taken for the condition"),
    ("controls-ambiguous", "fit_on='controls' with 1 and 2", lambda _: SiteDeconfounder(fit_on="controls").fit(noise(8, 3), [1, 2] * 4), "refused", "which is the condition cannot be known"),
    # --- which label is the condition ---
    ("labels-td", "labels TD and ASD", lambda p: classes("TD", "ASD")(p) == "ASD", "warned", "sort labels and would turn the AUC around"),
    ("labels-hc", "labels HC and AD", lambda p: classes("HC", "AD")(p) == "AD", "warned", "AD is taken for the condition"),
    ("labels-control", "labels control and case", lambda p: classes("control", "case")(p) == "case", "warned", "case is taken"),
    ("labels-healthy", "labels healthy and depressed", lambda p: classes("healthy", "depressed")(p) == "depressed", "warned", "depressed is taken"),
    ("labels-case", "labels 'Healthy Controls' and 'Schizophrenia'", lambda p: classes("Healthy Controls", "Schizophrenia")(p) == "Schizophrenia", "right", ""),
    ("labels-bool", "labels false and true", lambda p: bool(classes(False, True)(p)), "right", ""),
    ("labels-signs", "labels -1 and 1", lambda p: classes(-1, 1)(p) == 1, "right", ""),
    ("labels-text-numbers", "labels '0' and '1'", lambda p: classes("0", "1")(p) == "1", "right", ""),
    ("labels-one-two", "labels 1 and 2 (ABIDE: 1 is autism)", classes(1, 2), "refused", "say positive=1 or positive=2"),
    ("labels-one-two-said", "labels 1 and 2 with positive=1", lambda p: classes(1, 2, positive=1)(p) == 1, "right", ""),
    ("labels-unknown-words", "labels A and B", classes("A", "B"), "refused", "give 1 for the condition"),
    ("labels-two-controls", "labels HC and TD", classes("HC", "TD"), "refused", "which is the condition cannot be known"),
    ("labels-wrong-positive", "a positive that is no label", classes("A", "B", positive="C"), "refused", "positive='C' is not in y"),
    ("labels-three", "three classes where two are needed", classes(0, 1, 2), "refused", "y must have two classes"),
    ("labels-missing", "a label that is missing", classes(0, 1, None), "refused", "y is missing for person 2"),
    ("labels-fit", "fit with labels 1 and 2", lambda _: fitted(EnsembleClassifier(), small(), y=small().labels + 1), "refused", "which is the condition cannot be known"),
    ("labels-one-person", "one person with the condition", lambda _: TunedMethod(method_info("fc-ridge"), "fast").fit(changed(label=[1, *[0] * (N - 1)])), "refused", "training needs at least two people of each"),
    ("labels-one-person-core", "one person with the condition, core", lambda _: fitted(CoreClassifier(), changed(label=[1, *[0] * (N - 1)])), "refused", "training needs at least two people of each"),
    # --- predicting for the people of the training ---
    ("predict-same", "predict for the training people", lambda folder: predicted_share(folder, small(), small()) == 1, "right", ""),
    ("predict-part", "predict for most of the training people", lambda folder: predicted_share(folder, small(), small().subset(range(20))) > 0.9, "right", ""),
    ("predict-renamed", "predict for training people under other ids", lambda folder: predicted_share(folder, small(), changed(subject=[f"x{i}" for i in range(N)])) > 0.9, "right", ""),
    ("predict-new", "predict for new people", lambda folder: predicted_share(folder, small(), make_cohort(n_sites=2, n_per_site=30, n_rois=8, seed=9)) == 0, "right", ""),
    # --- people who belong together ---
    ("family-cv", "siblings in folds within sites", lambda _: split_groups(families(), folds(families().table, "cv")) == 0, "right", ""),
    ("family-cv-repeats", "siblings in repeated folds", lambda _: split_groups(families(), folds(families().table, "cv", n_splits=3, n_repeats=4)) == 0, "right", ""),
    ("family-inner", "siblings in inner folds", lambda _: split_groups(families(site="A"), inner_folds(families(site="A"), 0)) == 0, "right", ""),
    ("family-across-sites", "siblings at two sites, one held out", lambda _: (split_groups(families(site=["A", "B"] * 12), folds(families(site=["A", "A", "B", "C"] * 6).table, "loso")) == 0), "right", ""),
    ("family-all-held-out", "every family at both sites", lambda _: list(folds(families(site=["A", "B"] * 12).table, "loso")), "refused", "no participants remain to train on"),
    ("family-note", "relatives left out of training, in the run's file", lambda folder: any("also at" in note for note in recorded_notes(changed(group=["F", *[None] * 8, "F", *[None] * 14]), folder, "fc-ridge")), "right", ""),
    ("family-spelling", "families 'F1' and 'f1 '", lambda _: (split_groups(families(), folds(changed(group=[g.lower() if i % 2 else g for i, g in enumerate(families().table["group"])]).table, "cv")) == 0), "right", ""),
    ("family-check", "check says what is kept together", lambda _: check_says(families(), "kept-together"), "warned", "every split keeps them on one side"),
    ("family-check-sites", "check names families at several sites", lambda _: check_says(families(site=["A", "B"] * 12), "group-across-sites"), "warned", "left out of training"),
    ("family-diagnosis", "a column 'group' that holds the diagnosis", lambda _: "study_group" in changed(group=["patient", "control"] * 12).table, "warned", "taken for a diagnosis or study arm"),
    ("family-id-twice", "one id for two scans", lambda _: changed(subject=["twin", "twin", *[f"p{i}" for i in range(N - 2)]]), "refused", "name a person with several scans in the column 'person'"),
    ("scaffold-alias", "two names in extract_scaffold", lambda _: extract_scaffold(noise(24, 6), np.tile([0, 1], 12), np.resize(["A", "a", "B"], 24)), "refused", TWO_NAMES),
]
# fmt: on
CASES = [
    Case(name, what, lambda _: None, run, outcome, phrase, None if outcome == "refused" else bool)
    for name, what, run, outcome, phrase in _CASES
]
