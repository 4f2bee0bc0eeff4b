"""Whether a model is asked about the people it was trained on, without a list of those people in the model.

Such predictions look better than any new site's. A list of digests would tell who took part, so the model keeps a
sketch: one bit for each training person, at a place that follows from their series, among twice as many bits as people.
About 40 % of the bits are set, so a stranger meets a set bit two times in five, and nobody can be told from a stranger
by one bit; many people together can.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import binom

from brainroam.data.cohort import Cohort
from brainroam.errors import ModelFileError

BITS_PER_PERSON = 2
MAX_P = 1e-4  # how rarely strangers may be taken for training people


def sketch(cohort: Cohort) -> str:
    """The bits of a training cohort, as hexadecimal text.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=16, n_rois=8)
    >>> training = {"manifest_hash": "", "sketch": sketch(cohort)}
    >>> known_share(training, cohort.subset(range(20))), known_share(training, brainroam.make_cohort(n_rois=8, seed=1))
    (1.0, 0.0)
    """
    bits = np.zeros(8 * -(-BITS_PER_PERSON * len(cohort) // 8), dtype=bool)
    bits[_places(cohort, len(bits))] = True
    return np.packbits(bits).tobytes().hex()


def known_share(training: Mapping[str, Any], cohort: Cohort) -> float:
    """About which share of these people a model was trained on; 0 where chance could explain what is found.

    ``training`` is what the model's file says of its training people. The very same cohort is known by its hash; of
    others, fewer than about ten training people cannot be recognised.
    """
    try:
        if training.get("manifest_hash") == cohort.manifest_hash:
            return 1.0
        packed = bytes.fromhex(training.get("sketch", ""))
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelFileError(f"the model does not say what it was trained on: {error}") from error
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(bool)
    if not len(bits):
        return 0.0
    met, filled = int(bits[_places(cohort, len(bits))].sum()), float(bits.mean())
    if binom.sf(met - 1, len(cohort), filled) > MAX_P:
        return 0.0
    return (met / len(cohort) - filled) / (1 - filled)


def _places(cohort: Cohort, n_bits: int) -> list[int]:
    """A bit for each person; the digest is hashed again, so that the bit says little of it."""
    hashes = (hashlib.sha256(f"sketch {digest}".encode()).hexdigest() for digest in cohort.series_digests)
    return [int(text, 16) % n_bits for text in hashes]
