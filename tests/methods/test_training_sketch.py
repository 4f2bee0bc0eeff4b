"""Training people are recognised together, strangers are not, and nobody can be told alone."""

import json

import numpy as np
import pytest

from brainroam import make_cohort
from brainroam.errors import ModelFileError
from brainroam.methods.training_sketch import known_share, sketch


@pytest.fixture(scope="module")
def trained():
    return make_cohort(n_sites=4, n_per_site=40, n_rois=8, seed=0)


@pytest.fixture(scope="module")
def strangers():
    return make_cohort(n_sites=4, n_per_site=40, n_rois=8, seed=1)


def training(cohort):
    return {"manifest_hash": cohort.manifest_hash, "sketch": sketch(cohort)}


def test_parts_and_mixtures_are_recognised(trained, strangers):
    known = training(trained)
    assert known_share(known, trained) == 1
    assert known_share(known, trained.subset(range(30))) == 1
    mixed = trained.subset(range(80)).concat(
        type(strangers)(strangers.series[:80], strangers.table[:80].assign(subject=[f"x{i}" for i in range(80)]))
    )
    assert known_share(known, mixed) == pytest.approx(0.5, abs=0.15)


def test_strangers_are_not(trained, strangers):
    known = training(trained)
    assert known_share(known, strangers) == 0
    assert all(known_share(known, strangers.subset(range(k, k + 8))) == 0 for k in range(0, 160, 8))


def test_a_single_person_cannot_be_told_from_a_stranger(trained, strangers):
    known = training(trained)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(known["sketch"]), dtype=np.uint8))
    assert 0.3 < bits.mean() < 0.5
    assert known_share(known, trained.subset([5])) == known_share(known, strangers.subset([5])) == 0


def test_a_model_that_says_nothing_or_nonsense(trained):
    assert known_share({}, trained) == 0
    for nonsense in ({"sketch": "no hex"}, {"sketch": 7}, json.loads("[]")):
        with pytest.raises(ModelFileError, match="trained on"):
            known_share(nonsense, trained)
