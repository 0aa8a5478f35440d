"""Interpolated n-gram models of bytes, the floor that a network must beat.

Witten and Bell 1991 (IEEE Transactions on Information Theory 37(4)): an order is mixed
with the next lower one by the number of different bytes that have followed a context,

    p(w | h) = (c(h, w) + t(h) p(w | h')) / (c(h) + t(h)),

with c a count, t the number of different bytes after h, and h' as h without its first
byte. Below the first order stands 1/256.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ORDERS = (1, 2, 3, 4, 5)  # five bytes fit into the 64 bits of a code
NAMES = {order: f"{order}-gram" for order in ORDERS}
CHUNK = 1 << 22  # bytes counted at once

Codes = NDArray[np.int64]
Counts = tuple[Codes, Codes]  # sorted codes, and how often each stands there


@dataclass(frozen=True)
class Order:
    """Counts of one order: of bytes after contexts, and of the contexts."""

    joint: Counts
    context: Counts
    kinds: Codes  # different bytes after each context

    def mix(self, codes: Codes, lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of the last byte of each code, given the others.

        Args:
            codes: `(n,)` of this order.
            lower: `(n,)` the same by the next lower order.
        """
        seen, of = _find(self.context[0], codes >> 8)
        count = np.where(seen, self.context[1][of], 0)
        kinds = np.where(seen, self.kinds[of], 0)
        met, at = _find(self.joint[0], codes)
        both = np.where(met, self.joint[1][at], 0)
        mixed = (both + kinds * lower) / np.maximum(count + kinds, 1)
        return np.where(seen, mixed, lower)


class Ngrams:
    """N-gram models of the orders 1 to 5, of the same bytes.

    Args:
        windows: arrays `(window, length + 1)` of bytes; every byte but the first of a
            window is predicted from those before it in its window.
    """

    def __init__(self, windows: Iterable[NDArray[np.integer]]) -> None:
        none = np.empty(0, np.int64)
        counts: dict[int, Counts] = dict.fromkeys(ORDERS, (none, none))
        for chunk in _chunks(windows):
            for order in ORDERS:
                found = np.unique(_codes(chunk, order), return_counts=True)
                counts[order] = _added(counts[order], found)
        self.orders = {
            n: _order(*found) for n, found in counts.items() if len(found[0])
        }

    def bits(self, windows: NDArray[np.integer]) -> dict[str, NDArray[np.float64]]:
        """Return the bits of every predicted byte, by the name of the model.

        Args:
            windows: `(window, length + 1)` bytes.

        Returns:
            `(window, length)` each. Where a window has fewer bytes before a byte than
            an order asks for, that order gives what the next lower one does.
        """
        read = np.full((len(windows), windows.shape[1] - 1), 1 / 256)
        bits: dict[str, NDArray[np.float64]] = {}
        for order in ORDERS:
            codes = _codes(windows, order)
            if order in self.orders and codes.size:
                known = read[:, -codes.shape[1] :]
                mixed = self.orders[order].mix(codes.ravel(), known.ravel())
                read[:, -codes.shape[1] :] = mixed.reshape(codes.shape)
            bits[NAMES[order]] = -np.log2(read)
        return bits


def _codes(windows: NDArray[np.integer], order: int) -> Codes:
    """Return `(window, place)` numbers of each byte and the `order - 1` before it.

    The first byte of a window is predicted by nothing, so it ends no code.
    """
    wide = windows.astype(np.int64)
    first = max(1, order - 1)
    ends = wide.shape[1] - first
    codes = np.zeros((len(wide), max(0, ends)), np.int64)
    for back in range(order - 1, -1, -1) if ends > 0 else ():
        codes = codes << 8 | wide[:, first - back :][:, :ends]
    return codes


def _chunks(windows: Iterable[NDArray[np.integer]]) -> Iterable[NDArray[np.integer]]:
    """Return the same windows in fewer and larger arrays."""
    held: list[NDArray[np.integer]] = []
    for some in windows:
        held.append(some)
        if sum(part.size for part in held) >= CHUNK:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _added(one: Counts, other: Counts) -> Counts:
    codes, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    np.add.at(counts, at, np.concatenate([one[1], other[1]]))
    return codes, counts


def _order(codes: Codes, counts: Codes) -> Order:
    contexts, first, kinds = np.unique(
        codes >> 8, return_index=True, return_counts=True
    )
    return Order((codes, counts), (contexts, np.add.reduceat(counts, first)), kinds)


def _find(sorted_codes: Codes, codes: Codes) -> tuple[NDArray[np.bool_], Codes]:
    """Return which codes are among sorted ones, and where those stand."""
    at = np.minimum(np.searchsorted(sorted_codes, codes), len(sorted_codes) - 1)
    return sorted_codes[at] == codes, at
