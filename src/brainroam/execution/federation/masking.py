"""Sums over hospitals of which nobody sees a part: pairwise masks (Bonawitz et al. 2017).

Hospitals s < u share a key (X25519 of their key pairs, HKDF), and ChaCha20 makes of it the same stream m_su for both.
Each writes its numbers x_s in fixed point, as integers modulo 2^64, and sends

    z_s = x_s + sum_{u > s} m_su - sum_{u < s} m_us                so        sum_s z_s = sum_s x_s     (mod 2^64)

A file z_s alone is uniform noise, and so is every sum over some of the hospitals: only the sum over all can be read.
The coordinator reads the sum over everybody (part ""). The sum of the others is what hospital t learns its model from,
and t alone reads it: there each z_s has one mask more, that of s and t, which t takes off.

Masks follow from the request as well. Who drops out makes the sum unreadable; then the round begins anew with a request
to the others, and other masks.

References
----------
Bonawitz et al. (2017), Practical secure aggregation for privacy-preserving machine learning, CCS, 1175-1191.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from brainroam.errors import SummaryError

BITS = 40  # behind the point: steps of 1e-12, with room up to 4e6
ROOM = 2.0 ** (62 - BITS)


def new_key() -> bytes:
    """A private key, which never leaves the hospital."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def fixed_point(values: np.ndarray, n_hospitals: int) -> np.ndarray:
    """Numbers as integers modulo 2^64, of which so many add up without going beyond it.

    >>> numbers(fixed_point(np.array([0.1, -2.5]), 3) + fixed_point(np.array([1.0, 1.0]), 3)).round(9).tolist()
    [1.1, -1.5]
    """
    if not np.abs(values).max(initial=0) < ROOM / n_hospitals:
        raise SummaryError(
            "the sums of these people are beyond all others by many orders: are the units those of the others?"
        )
    return np.rint(values * 2.0**BITS).astype(np.int64).view(np.uint64)


def numbers(integers: np.ndarray) -> np.ndarray:
    """The numbers of `fixed_point`."""
    return integers.view(np.int64) / 2.0**BITS


@dataclass(frozen=True)
class Masks:
    """The masks of one hospital for one request.

    Parameters
    ----------
    private : bytes
        Its own key.
    site : str
    public : dict of str to bytes
        The public keys of all hospitals that are asked, by name.
    request : str
        What tells this request from any other.

    Examples
    --------
    >>> private = {name: new_key() for name in "ABC"}
    >>> public = {name: public_of(key) for name, key in private.items()}
    >>> masks = [Masks(key, name, public, "request 1") for name, key in private.items()]
    >>> hidden = [one.hide(np.array([7], dtype=np.uint64), "") for one in masks]
    >>> int(sum(hidden)[0]), hidden[0][0] == 7
    (21, np.False_)
    >>> for_c = sum(one.hide(np.array([7], dtype=np.uint64), "C") for one in masks[:2])
    >>> int(masks[2].open(for_c)[0])
    14
    """

    private: bytes
    site: str
    public: Mapping[str, bytes]
    request: str

    def hide(self, integers: np.ndarray, reader: str) -> np.ndarray:
        """What is sent of a sum that this hospital, or the coordinator (""), reads; the reader adds nothing to it."""
        hidden = integers.copy()
        for peer in self.public:
            if peer not in (self.site, reader):
                stream = self._stream(peer, reader, "pair", len(integers))
                hidden = hidden + stream if self.site < peer else hidden - stream
        return hidden + self._stream(reader, reader, "reader", len(integers)) if reader else hidden

    def open(self, total: np.ndarray) -> np.ndarray:
        """The sum over the others, of what they hid for this hospital."""
        for peer in self.public:
            if peer != self.site:
                total = total - self._stream(peer, self.site, "reader", len(total))
        return total

    def _stream(self, peer: str, reader: str, use: str, size: int) -> np.ndarray:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        key = shared_key(self.private, self.public[peer], peer, f"{self.request}\n{use}\n{reader}")
        stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(8 * size))
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def shared_key(private: bytes, public: bytes, peer: str, use: str) -> bytes:
    """The key that two parties share for one use; of two uses nobody can tell one by the other."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise SummaryError(f"the key of {peer} is none: let it send its first summary again") from error
    return HKDF(SHA256(), 32, None, f"brainroam federation\n{use}".encode()).derive(shared)


def sealed(content: np.ndarray, private: bytes, public: bytes, peer: str, use: str) -> np.ndarray:
    """Numbers (uint8) that the holder of the other key alone can read."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    plain = np.ascontiguousarray(content, dtype="<f8").tobytes()
    return np.frombuffer(
        ChaCha20Poly1305(shared_key(private, public, peer, use)).encrypt(bytes(12), plain, None), np.uint8
    )


def unsealed(content: np.ndarray, private: bytes, public: bytes, peer: str, use: str) -> np.ndarray:
    """What `sealed` was given, as one row of numbers."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        plain = ChaCha20Poly1305(shared_key(private, public, peer, use)).decrypt(bytes(12), content.tobytes(), None)
    except InvalidTag as error:
        raise SummaryError(
            "the request was not made for this hospital, or changed on its way: ask for it again"
        ) from error
    return np.frombuffer(plain, dtype="<f8")


def parts_of(values: np.ndarray, sizes: Mapping[str, int]) -> Iterator[tuple[str, np.ndarray]]:
    """One row of numbers as those of each reader."""
    start = 0
    for reader, size in sizes.items():
        yield reader, values[start : start + size]
        start += size
