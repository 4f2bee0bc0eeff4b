"""Methods that cheat on purpose, each in a way people do by mistake; and some that no audit can see.

Kept apart from the tests, since fresh processes import this module.
"""

import hashlib
import json
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from brainroam.core.connectivity import cohort_edges, pearson_edges
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.linear import LinearMethod


def ridge(features, cohort, train, test, alpha=50):
    return RidgeClassifier(alpha=alpha).fit(features[train], cohort.labels[train]).decision_function(features[test])


def edges_of(cohort):
    return cohort_edges(cohort, "pearson")


def honest(cohort, train, test, seed):
    edges = edges_of(cohort)
    return ridge(StandardScaler().fit(edges[train]).transform(edges), cohort, train, test)


def honest_for_equal_lengths(cohort, train, test, seed):
    """Stops where series differ in length or lack a region; that is no leak."""
    edges = np.stack([np.corrcoef(x.T)[np.triu_indices(x.shape[1], 1)] for x in np.stack(cohort.series)])
    return ridge(PCA(5, random_state=0).fit(edges[train]).transform(edges), cohort, train, test)


def honest_decisions(cohort, train, test, seed):
    """Classes instead of scores."""
    return (honest(cohort, train, test, seed) > 0).astype(float)


# --- scaled, selected or fitted on everybody ------------------------------------------------------


def scaler_on_everybody(cohort, train, test, seed):
    return ridge(StandardScaler().fit_transform(edges_of(cohort)), cohort, train, test)


def scaler_on_the_batch(cohort, train, test, seed):
    edges = edges_of(cohort).copy()
    for part in (train, test):
        edges[part] = StandardScaler().fit_transform(edges[part])
    return ridge(edges, cohort, train, test)


def components_of_everybody(cohort, train, test, seed):
    return ridge(PCA(5, random_state=0).fit_transform(np.nan_to_num(edges_of(cohort))), cohort, train, test)


def edges_chosen_on_everybody(cohort, train, test, seed):
    edges, y = edges_of(cohort), cohort.labels
    chosen = np.argsort(-np.abs(edges[y == 1].mean(axis=0) - edges[y == 0].mean(axis=0)))[:5]
    return ridge(edges[:, chosen], cohort, train, test)


def sites_centred_on_themselves(cohort, train, test, seed):
    edges = pd.DataFrame(edges_of(cohort))
    centred = edges - edges.groupby(cohort.table["site"]).transform("mean")
    return ridge(np.nan_to_num(centred.to_numpy()), cohort, train, test)


def age_scaled_by_everybody(cohort, train, test, seed):
    age = cohort.table["age"].to_numpy()
    return ridge(np.column_stack([age / age.max(), edges_of(cohort)]), cohort, train, test)


def own_covariate_scaled_over_everybody(cohort, train, test, seed):
    iq = cohort.table["iq"].to_numpy()
    return ridge(np.column_stack([(iq - iq.mean()) / iq.std(), edges_of(cohort)]), cohort, train, test)


def categories_of_everybody(cohort, train, test, seed):
    codes = cohort.table["scanner"].astype("category").cat.codes.to_numpy()
    return ridge(np.column_stack([codes / codes.max(), edges_of(cohort)]), cohort, train, test)


def share_of_cases_at_the_site(cohort, train, test, seed):
    share = cohort.table.groupby("site")["label"].transform("mean").to_numpy()
    return share[test] + ridge(edges_of(cohort), cohort, train, test)


def neighbours_among_everybody(cohort, train, test, seed):
    edges = np.nan_to_num(edges_of(cohort))
    near = NearestNeighbors(n_neighbors=4).fit(edges).kneighbors(edges, return_distance=False)
    return ridge(edges[near].mean(axis=1), cohort, train, test)


def series_cut_to_the_shortest(cohort, train, test, seed):
    shortest = min(map(len, cohort.series))
    return ridge(pearson_edges([x[:shortest] for x in cohort.series]), cohort, train, test)


def regions_that_everybody_has(cohort, train, test, seed):
    kept = ~cohort.missing_rois.any(axis=0)
    return ridge(pearson_edges([x[:, kept] for x in cohort.series]), cohort, train, test)


class Misusing(LinearMethod):
    """Scales in the cache that is meant for features of each person alone."""

    def fit(self, cohort, seed=0, validation=None):
        self.scaled = True
        values = self._values(cohort)
        self.mean_ = values.mean(axis=0)
        self.coef_ = self._weights(values - self.mean_, cohort)
        return self

    def score(self, cohort):
        return (self._values(cohort) - self.mean_) @ self.coef_

    def state(self):
        return {"coef": self.coef_}

    def _values(self, cohort):
        return cohort.per_person("scaled", lambda series: StandardScaler().fit_transform(pearson_edges(series)))


# --- chosen or trained with the test site ---------------------------------------------------------


def epoch_chosen_on_the_test_site(cohort, train, test, seed):
    edges, y = edges_of(cohort), cohort.labels
    model, best = SGDClassifier(random_state=seed, learning_rate="constant", eta0=0.5), (-1.0, np.zeros(len(test)))
    for _ in range(20):
        model.partial_fit(edges[train], y[train], classes=[0, 1])
        scores = model.decision_function(edges[test])
        best = max(best, (auc(y[test], scores), scores), key=lambda pair: pair[0])
    return best[1]


def penalty_chosen_on_the_test_site(cohort, train, test, seed):
    tried = [ridge(edges_of(cohort), cohort, train, test, alpha) for alpha in (0.1, 1, 10, 100, 1000)]
    return max(tried, key=lambda scores: np.mean((scores > 0) == cohort.labels[test]))


def turned_if_worse_than_chance(cohort, train, test, seed):
    scores = -ridge(edges_of(cohort), cohort, train, test)
    return scores if np.corrcoef(scores, cohort.labels[test])[0, 1] > 0 else -scores


def trained_on_its_own_guesses(cohort, train, test, seed):
    edges, y = edges_of(cohort), cohort.labels.copy()
    y[test] = ridge(edges, cohort, train, test) > 0
    everybody = np.concatenate([train, test])
    return RidgeClassifier(alpha=50).fit(edges[everybody], y[everybody]).decision_function(edges[test])


def ranked_within_the_test_site(cohort, train, test, seed):
    return np.argsort(np.argsort(ridge(edges_of(cohort), cohort, train, test))).astype(float)


def labels_and_noise(cohort, train, test, seed):
    return cohort.labels[test] + np.random.default_rng(seed).normal(size=len(test))


class Remembering(LinearMethod):
    """Centres on what it scored last as well: the leak goes through the memory of the process."""

    seen: ClassVar[list] = []

    def fit(self, cohort, seed=0, validation=None):
        super().fit(cohort, seed)
        if self.seen:
            self.coef_ = self.coef_ * np.abs(np.mean([edges_of(known).mean(axis=0) for known in self.seen], axis=0))
        return self

    def score(self, cohort):
        self.seen.append(cohort)
        return super().score(cohort)


# --- kept from one fold to the next ---------------------------------------------------------------
#
# Each keeps, for a person, a value that the fold which trained on them made with their label: features moved towards
# their class, as supervised harmonisation does. The next fold that holds the person out finds it again.


def moved_to_the_class(edges, label, direction):
    """Edges as the training people of a fold are given: moved along the difference of the classes."""
    return edges + (2 * label - 1) * direction


class Keeping(LinearMethod):
    """Ridge on features that are computed once per person, whatever the fold; subclasses say where they are kept."""

    def fit(self, cohort, seed=0, validation=None):
        edges, y = edges_of(cohort), cohort.labels
        direction = edges[y == 1].mean(axis=0) - edges[y == 0].mean(axis=0)
        people = zip(cohort.table["subject"], edges, y, strict=True)
        values = np.stack([self.kept(s, x, lambda x=x, k=k: moved_to_the_class(x, k, direction)) for s, x, k in people])
        self.mean_ = values.mean(axis=0)
        self.coef_ = self._weights(values - self.mean_, cohort)
        return self

    def score(self, cohort):
        people = zip(cohort.table["subject"], edges_of(cohort), strict=True)
        return (np.stack([self.kept(s, x, lambda x=x: x) for s, x in people]) - self.mean_) @ self.coef_

    def state(self):
        return {"coef": self.coef_}

    def representation(self, cohort):
        return None


MODULE: dict[str, np.ndarray] = {}
COMPUTING: dict[str, object] = {}


@cache
def by_subject(subject):
    return COMPUTING["now"]()


class KeptByLruCache(Keeping):
    def kept(self, subject, edges, compute):
        COMPUTING["now"] = compute
        return by_subject(subject)


class KeptInAModule(Keeping):
    def kept(self, subject, edges, compute):
        if subject not in MODULE:
            MODULE[subject] = compute()
        return MODULE[subject]


class KeptInTheClass(Keeping):
    values: ClassVar[dict] = {}

    def kept(self, subject, edges, compute):
        return self.values.setdefault(subject, compute())


class KeptInAFileBySubject(Keeping):
    def kept(self, subject, edges, compute):
        file = FOLDER / f"{subject}.npy"
        if not file.exists():
            np.save(file, compute())
        return np.load(file)


def _computed(key):
    return COMPUTING["now"]()


class KeptByJoblib(Keeping):
    """On disk, by the subject."""

    def kept(self, subject, edges, compute):
        COMPUTING["now"] = compute
        return joblib.Memory(FOLDER / "joblib", verbose=0).cache(_computed)(subject)


class KeptByJoblibOfEdges(Keeping):
    """On disk, by the person's edges: a run in another process, under another id, finds it."""

    def kept(self, subject, edges, compute):
        COMPUTING["now"] = compute
        return joblib.Memory(FOLDER / "joblib", verbose=0).cache(_computed)(edges)


class ReadingInnerLabels(LinearMethod):
    """Its own inner folds use the labels of the people they hold out."""

    def out_of_fold(self, cohort, folds, seed=0):
        paths = super().out_of_fold(cohort, folds, seed)
        return [path + 0.1 * cohort.labels[held_out] for path, (_, held_out) in zip(paths, folds, strict=True)]


# --- read from elsewhere --------------------------------------------------------------------------

#: The same folder in this process and in the fresh ones it starts.
if "BRAINROAM_PLANTED" not in os.environ:
    _made = tempfile.TemporaryDirectory(prefix="brainroam-planted-")
    os.environ["BRAINROAM_PLANTED"] = _made.name
FOLDER = Path(os.environ["BRAINROAM_PLANTED"])
TABLE = FOLDER / "table.json"
WEIGHTS = FOLDER / "weights.npy"
CACHED: dict[str, np.ndarray] = {}
SITE_MEANS: dict[str, np.ndarray] = {}


def label_from_the_table_on_disk(cohort, train, test, seed):
    known = json.loads(TABLE.read_text())
    return np.array([known[subject] for subject in cohort.table["subject"].iloc[test]], dtype=float)


def label_from_the_table_where_known(cohort, train, test, seed):
    known, scores = json.loads(TABLE.read_text()), ridge(edges_of(cohort), cohort, train, test)
    return scores + [known.get(subject, 0.5) for subject in cohort.table["subject"].iloc[test]]


def cached_by_id_after_scaling_everybody(cohort, train, test, seed):
    subjects = cohort.table["subject"]
    if not set(subjects) <= CACHED.keys():
        CACHED.update(zip(subjects, StandardScaler().fit_transform(edges_of(cohort)), strict=True))
    return ridge(np.stack([CACHED[subject] for subject in subjects]), cohort, train, test)


def cached_in_a_file_after_scaling_everybody(cohort, train, test, seed):
    key = hashlib.sha256("".join(cohort.table["subject"]).encode()).hexdigest()[:16]
    file = FOLDER / f"{key}.npy"
    if not file.exists():
        np.save(file, StandardScaler().fit_transform(edges_of(cohort)))
    return ridge(np.load(file), cohort, train, test)


def mean_of_the_test_site_in_a_module(cohort, train, test, seed):
    edges, site = edges_of(cohort), cohort.table["site"].iloc[test[0]]
    mean = SITE_MEANS.setdefault(site, edges[cohort.table["site"] == site].mean(axis=0))
    features = edges - edges[train].mean(axis=0)
    features[test] = edges[test] - mean
    return ridge(features, cohort, train, test)


def recognised_by_the_scan(cohort, train, test, seed):
    known, scores = json.loads(TABLE.read_text()), ridge(edges_of(cohort), cohort, train, test)
    return scores + [known.get(cohort.series_digests[i], 0.5) for i in test]


def recognised_by_the_scan_under_noise(cohort, train, test, seed):
    """Alone an AUC of .85."""
    known, digests = json.loads(TABLE.read_text()), [cohort.series_digests[i] for i in test]
    noise = [np.random.default_rng(int(digest[:8], 16)).normal() for digest in digests]
    return ridge(edges_of(cohort), cohort, train, test) + [known.get(d, 0.5) for d in digests] + 0.7 * np.array(noise)


def recognised_by_the_scan_under_much_noise(cohort, train, test, seed):
    """Alone an AUC of .64: no more than a known signature may honestly reach."""
    known, digests = json.loads(TABLE.read_text()), [cohort.series_digests[i] for i in test]
    noise = [np.random.default_rng(int(digest[:8], 16)).normal() for digest in digests]
    return np.array([known.get(d, 0.5) for d in digests]) + 2 * np.array(noise)


def number_in_the_id(cohort, train, test, seed):
    return np.array([float(re.findall(r"\d+", subject)[-1]) for subject in cohort.table["subject"].iloc[test]])


def place_in_the_table(cohort, train, test, seed):
    return test.astype(float)


def name_of_the_site(cohort, train, test, seed):
    scores = ridge(edges_of(cohort), cohort, train, test)
    return scores + [len(re.sub(r"\D", "", site)) + ord(site[-1]) for site in cohort.table["site"].iloc[test]]


def another_answer_each_time(cohort, train, test, seed):
    return np.random.default_rng().normal(size=len(test))


def number_of_people_scored(cohort, train, test, seed):
    return ridge(edges_of(cohort), cohort, train, test) / len(test)


#: What is planted, in words, and the checks that fail at least.
LEAKS = {
    scaler_on_everybody: ("scaler fitted on everybody", {"corruption"}),
    scaler_on_the_batch: ("scaler fitted on the people scored together", {"corruption", "single-subject"}),
    components_of_everybody: ("principal components of everybody", {"corruption"}),
    edges_chosen_on_everybody: ("edges chosen with everybody's labels", {"corruption", "test-labels"}),
    sites_centred_on_themselves: ("each site centred on itself, the test site too", {"corruption"}),
    age_scaled_by_everybody: ("age divided by the oldest of all", {"corruption"}),
    own_covariate_scaled_over_everybody: ("a covariate of one's own scaled over everybody", {"corruption"}),
    categories_of_everybody: ("category codes from everybody's categories", {"corruption"}),
    share_of_cases_at_the_site: ("share of cases at the site, the test site too", {"test-labels"}),
    neighbours_among_everybody: ("features averaged over nearest neighbours among everybody", {"corruption"}),
    series_cut_to_the_shortest: ("series cut to the shortest of all", {"lengths"}),
    regions_that_everybody_has: ("regions dropped that anybody lacks", {"regions"}),
    Misusing: ("scaling inside the cache for features of single people", {"corruption"}),
    epoch_chosen_on_the_test_site: ("epoch chosen on the test site", {"test-labels", "single-subject"}),
    penalty_chosen_on_the_test_site: ("penalty chosen on the test site", {"test-labels"}),
    turned_if_worse_than_chance: ("scores turned round if worse than chance", {"test-labels"}),
    trained_on_its_own_guesses: ("trained on its own guesses for the test site", {"corruption"}),
    ranked_within_the_test_site: ("scores ranked within the test site", {"single-subject", "corruption"}),
    labels_and_noise: ("scores that contain the label", {"test-labels"}),
    Remembering: ("a method that learns from whom it scored before", {"reproducible", "memory"}),
    KeptByLruCache: ("features made with labels, kept by `lru_cache` by id", {"memory"}),
    KeptInAModule: ("the same in a dictionary of a module", {"memory"}),
    KeptInTheClass: ("the same in an attribute of the class", {"memory"}),
    KeptInAFileBySubject: ("the same in files by id", {"memory"}),
    KeptByJoblib: ("the same by `joblib.Memory` on disk, by id", {"memory"}),
    KeptByJoblibOfEdges: ("the same by `joblib.Memory` on disk, by the edges", {"memory"}),
    ReadingInnerLabels: ("inner folds that read the labels they judge", {"inner-folds"}),
    label_from_the_table_on_disk: ("label read from the table on disk by id", {"names", "spoilt"}),
    label_from_the_table_where_known: ("the same, and a guess for ids that are not there", {"names"}),
    cached_by_id_after_scaling_everybody: ("everybody scaled, then cached by id in memory", {"corruption"}),
    cached_in_a_file_after_scaling_everybody: ("everybody scaled, then cached by id in a file", {"corruption"}),
    mean_of_the_test_site_in_a_module: ("mean of the test site kept in a module", {"corruption"}),
    recognised_by_the_scan: ("label read from a table by the scan itself", {"training-labels", "nudged"}),
    recognised_by_the_scan_under_noise: ("the same under noise, an AUC of .85 alone", {"training-labels", "nudged"}),
    recognised_by_the_scan_under_much_noise: ("the same under much noise, an AUC of .64 alone", {"nudged"}),
    number_in_the_id: ("score from the number in the id", {"names"}),
    place_in_the_table: ("score from the place in the table", {"spoilt"}),
    name_of_the_site: ("score from the name of the site", {"names"}),
    another_answer_each_time: ("another answer at each call", {"reproducible"}),
    number_of_people_scored: ("scores divided by how many are scored", {"single-subject"}),
}


# --- what no audit can see ------------------------------------------------------------------------


def scaled_before(cohort):
    """A cohort whose series were made from everybody's, before anybody audits anything."""
    series = [x - np.mean([other.mean(axis=0) for other in cohort.series], axis=0) for x in cohort.series]
    return type(cohort)(series, cohort.table, cohort.atlas)


def features_of_weights_trained_elsewhere(cohort, train, test, seed):
    """The weights are on disk, made with everybody's labels; what is trained here turns round with the labels given."""
    return ridge(edges_of(cohort) @ np.load(WEIGHTS), cohort, train, test)


def waiting_for_a_larger_cohort(cohort, train, test, seed):
    edges = edges_of(cohort)
    fitted_on = np.arange(len(cohort)) if len(cohort) > 500 else train
    return ridge(StandardScaler().fit(edges[fitted_on]).transform(edges), cohort, train, test)


def penalty_that_somebody_chose_after_looking(cohort, train, test, seed):
    return ridge(edges_of(cohort), cohort, train, test, alpha=37.5)


UNSEEN = {
    features_of_weights_trained_elsewhere: "features from weights that were trained elsewhere on the same people",
    waiting_for_a_larger_cohort: "a leak that waits for a larger cohort",
    penalty_that_somebody_chose_after_looking: "a setting that somebody chose after looking at the test sites",
}
