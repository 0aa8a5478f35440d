"""What a network makes of context beyond its training length, on the same bytes.

The bytes beyond the training length L in the longest test windows are read in three
ways: in windows of L side by side, in windows of L that slide by L/16, and in their
whole context. Press et al. 2022 (arXiv:2108.12409, appendix B) show why: longer inputs
also spare the first bytes of windows their short context, and a window that slides does
so without reading beyond L. What is left of a gain then is the use of length.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from posenc_compare.records.quantities import Curve, Headline, Quantity, Row, View

MARGIN = 0.02  # bits that count as no loss
STRIDES = 16  # steps in which a window slides over its own length
SHORTEST = 16  # the shortest context is the training length divided by this

FULL = Quantity(
    "full_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every byte beyond the training length is predicted in its whole context",
    title="beyond L: full context",
)
SLIDING = Quantity(
    "sliding_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="the same bytes are all predicted in windows of L that slide by L/16",
    title="sliding windows of L",
)
FRESH = Quantity(
    "fresh_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="the same bytes are all predicted in windows of L side by side",
    title="non-overlapping windows of L",
)
GAIN = Quantity(
    "context_gain",
    unit="bits per byte",
    better="higher",
    zero="context beyond L neither helps nor harms; sliding minus full",
    title="gain from context beyond L",
)
EFFECTIVE = Quantity(
    "effective_length",
    unit="bytes",
    better="higher",
    zero="never; L is the least",
    title="effective length",
)
USED = Quantity(
    "context_used",
    unit="bytes",
    better="neither",
    zero=f"never; the least context within {MARGIN} bits of sliding windows of L",
    title="context used",
)
BEYOND = Quantity(
    "beyond_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every byte beyond the training length is predicted",
    x="test length, in bytes",
    title="bits per byte of the bytes beyond the training length",
)
TRUNCATED = Quantity(
    "truncated_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every byte is predicted in windows of x bytes that slide by half of that",
    x="context, in bytes",
    title="bits per byte against truncated context",
)
CONTEXT_QUANTITIES = (
    FULL, SLIDING, FRESH, GAIN, EFFECTIVE, USED, BEYOND, TRUNCATED,
)  # fmt: skip
CONTEXT_VIEWS: tuple[View, ...] = (
    *map(Headline, (GAIN, EFFECTIVE, USED, FULL, SLIDING, FRESH)),
    *map(Curve, (BEYOND, TRUNCATED)),
)


@dataclass
class Scores:
    """Bits of every test byte, as one network reads them.

    Attributes:
        length: the training length L.
        full: `(sequence, x)` by test length x; None where positions are not defined.
        sliding: `(window, 15 L)`, the bytes beyond L in sliding windows of L.
        truncated: the same in windows of fewer bytes, by their length.
    """

    length: int
    full: dict[int, Tensor | None] = field(default_factory=dict)
    sliding: Tensor | None = None
    truncated: dict[int, Tensor] = field(default_factory=dict)

    def rows(self, notes: dict[int, str]) -> list[Row]:
        """Return the rows of all quantities of context."""
        if self.sliding is None:
            return []
        longest = max(self.full)
        fresh, full = self.full[self.length], self.beyond(longest)
        assert fresh is not None
        sliding, note = _mean(self.sliding), notes.get(longest, "")
        at_once = fresh.reshape(len(self.sliding), -1)[:, self.length :]
        rows = [
            Row(FRESH.name, _mean(at_once)),
            Row(SLIDING.name, sliding),
            Row(FULL.name, None if full is None else _mean(full), note=note),
            Row(GAIN.name, None if full is None else sliding - _mean(full), note=note),
            Row(EFFECTIVE.name, self.effective()),
            Row(USED.name, self.used()),
        ]
        for length in sorted(self.full)[1:]:
            bits = self.beyond(length)
            value = None if bits is None else _mean(bits)
            rows.append(Row(BEYOND.name, value, length, note=notes.get(length, "")))
        for context, bits in sorted(self.truncated.items()):
            rows.append(Row(TRUNCATED.name, _mean(bits), context))
        return rows

    def by_window(self, windows: int) -> list[list[float]]:
        """Return the mean of every test window of the longest length.

        Returns:
            `[test length][window]`, empty where a length has no scores.
        """
        return [
            [] if bits is None else bits.double().reshape(windows, -1).mean(1).tolist()
            for _, bits in sorted(self.full.items())
        ]

    def beyond(self, length: int) -> Tensor | None:
        """Return the bits of bytes beyond L in test windows of `length`."""
        bits = self.full[length]
        return None if bits is None else bits[:, self.length :]

    def effective(self) -> int:
        """Return the largest test length up to which length costs no more than MARGIN.

        The cost is that of the bytes beyond L, against sliding windows of L.
        """
        assert self.sliding is not None
        reached = self.length
        for length in sorted(self.full)[1:]:
            read = self.beyond(length)
            if read is None or _mean(read) > _mean(self._same(length)) + MARGIN:
                break
            reached = length
        return reached

    def used(self) -> int:
        """Return the least context whose bits are within MARGIN of those at L."""
        assert self.sliding is not None
        most = _mean(self.sliding) + MARGIN
        enough = [c for c, bits in self.truncated.items() if _mean(bits) <= most]
        return min(enough, default=self.length)

    def _same(self, length: int) -> Tensor:
        """Return from sliding windows the bytes beyond L in test windows of `length`.

        The first of every `length` bytes of a window are left out.
        """
        assert self.sliding is not None
        first = self.sliding.new_zeros(len(self.sliding), self.length)
        placed = torch.cat([first, self.sliding], dim=1)
        return placed.reshape(-1, length)[:, self.length :]


def _mean(bits: Tensor) -> float:
    return float(bits.double().mean())
