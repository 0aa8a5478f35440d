"""Which keys a query may look at. Masks go by index, never by position id."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import whole_numbers


@dataclass(frozen=True, eq=False)
class Mask:
    """Which keys a query may look at, in all layers of a forward pass.

    A query sees the keys that `causal` and `window` allow, and those of the prefix, if
    they are in its own segment. Keys of another text, as in cross-attention,
    have no place among the queries: their mask is `Mask(causal=False)`, with or without
    segments. A query that sees no key has an output of 0.

    Attributes:
        causal: hide the keys after a query's own index.
        window: a query sees itself and the `window - 1` keys before it, and without
            `causal` as many after it. One number for all layers, or a sequence: layer
            i has `window[i % len(window)]`. None: no limit.
        prefix: how many first keys all queries see; one number, or `(batch,)`.
        segments: `(batch, key)` whole numbers; a query sees its own segment only.
            Packed documents get a number each, and so does padding.
        query_segments: `(batch, query)` whole numbers, where keys are another text.
            None: queries have the segments of their own keys. Of another text they see
            all keys but those numbered 0, the padding, if the others are one segment.

    Raises:
        ConfigError: if a window is below 1, or a prefix below 0, or segments of queries
            come without those of keys.
        ShapeError: if segments, or prefixes of a batch, are not whole numbers.

    Example:
        >>> Mask(window=(128, 128, None)).window_of(5) is None
        True
    """

    causal: bool = True
    window: int | Sequence[int | None] | None = None
    prefix: int | Tensor = 0
    segments: Tensor | None = None
    query_segments: Tensor | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            must, cure = "causal must be True or False", "bool(...) of it would work"
            check_mask("mask", self.causal, must, cure)
        for window in self._windows:
            if window is not None and not _whole(window, 1):
                raise ConfigError(
                    f"mask: window must be a whole number from 1, or None, got "
                    f"{window!r}"
                )
        if not self._windows:
            raise ConfigError(
                "mask: window must have an entry for a layer, got none; None would work"
            )
        if isinstance(self.prefix, Tensor):
            prefix = whole_numbers("mask: prefix", self.prefix)
            object.__setattr__(self, "prefix", prefix)
        elif not _whole(self.prefix, 0):
            raise ConfigError(f"mask: prefix must be at least 0, got {self.prefix!r}")
        for name in ("segments", "query_segments"):
            if getattr(self, name) is not None:
                numbers = whole_numbers(f"mask: {name}", getattr(self, name))
                object.__setattr__(self, name, numbers)
        if self.query_segments is not None and self.segments is None:
            raise ConfigError(
                "mask: query_segments must come with segments of the keys, got none; "
                "segments=torch.ones(batch, keys).long() would work"
            )

    def window_of(self, layer: int) -> int | None:
        """Return the window of a layer, counted from 0."""
        return self._windows[layer % len(self._windows)]

    @property
    def within_one_text(self) -> str:
        """Return the limits that go by index within one text, or nothing."""
        limits = ["causal=True"] if self.causal else []
        if any(window is not None for window in self._windows):
            limits.append(f"window={self.window}")
        if isinstance(self.prefix, Tensor) or self.prefix:
            limits.append(f"prefix={self.prefix}")
        return " and ".join(limits)

    @property
    def _windows(self) -> Sequence[int | None]:
        return self.window if isinstance(self.window, Sequence) else (self.window,)


def check_mask(
    who: str,
    mask: object,
    must: str = "mask must be a Mask",
    cure: str = "Mask(causal=False) would hide nothing",
) -> None:
    """Raise `ConfigError` unless `mask` is a `Mask`."""
    if isinstance(mask, Mask):
        return
    found = str(mask)[:40]
    if isinstance(mask, Tensor) and mask.dim():
        found = f"{tuple(mask.shape)} of {mask.dtype}"
        square = mask.dim() == 2 and mask.shape[0] == mask.shape[1]
        if square and not mask.bool().triu(1).any():
            cure = "Mask() hides later tokens"
        elif mask.dim() == 2 and not mask.is_floating_point():
            long = "mask.long()" if mask.dtype == torch.bool else "mask"
            cure = f"Mask(segments={long}) would set padding, False or 0, apart"
        else:
            cure = "Mask(causal=..., window=..., prefix=..., segments=...) would work"
    raise ConfigError(f"{who}: {must}, got {found}; {cure}")


def _whole(got: object, least: int) -> bool:
    return isinstance(got, int) and not isinstance(got, bool) and got >= least


CAUSAL = Mask()
"""A query sees its own key and all before it."""
