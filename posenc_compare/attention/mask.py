"""Which keys a query may look at. Masks go by index, never by position id."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.call import whole_numbers


@dataclass(frozen=True, eq=False)
class Mask:
    """Which keys a query may look at, in all layers of a forward pass.

    A query sees the keys that `causal` and `window` leave it and those of the prefix,
    as far as they are of its own segment.

    Attributes:
        causal: hide the keys after a query's own index.
        window: a query sees itself and the `window - 1` keys before it, and without
            `causal` as many after it. One number for all layers, or a sequence: layer
            i has `window[i % len(window)]`. None: no limit.
        prefix: how many first keys all queries see; one number, or `(batch,)`.
        segments: `(batch, key)` whole numbers; a query sees its own segment only.
            Packed documents get a number each, and so does padding.

    Raises:
        ConfigError: if a window is below 1, or a prefix below 0.
        ShapeError: if segments, or the prefixes of a batch, are no whole numbers.

    Example:
        >>> Mask(window=(128, 128, None)).window_of(5) is None
        True
    """

    causal: bool = True
    window: int | Sequence[int | None] | None = None
    prefix: int | Tensor = 0
    segments: Tensor | None = None

    def __post_init__(self) -> None:
        for window in self._windows:
            if window is not None and not _whole(window, 1):
                raise ConfigError(
                    f"mask: window must be at least 1, or None, got {window!r}"
                )
        if not self._windows:
            raise ConfigError("mask: window must name at least one layer's, got none")
        if isinstance(self.prefix, Tensor):
            prefix = whole_numbers("mask: prefix", self.prefix)
            object.__setattr__(self, "prefix", prefix)
        elif not _whole(self.prefix, 0):
            raise ConfigError(f"mask: prefix must be at least 0, got {self.prefix!r}")
        if self.segments is not None:
            segments = whole_numbers("mask: segments", self.segments)
            object.__setattr__(self, "segments", segments)

    def window_of(self, layer: int) -> int | None:
        """Return the window of a layer, counted from 0."""
        return self._windows[layer % len(self._windows)]

    @property
    def _windows(self) -> Sequence[int | None]:
        return self.window if isinstance(self.window, Sequence) else (self.window,)


def check_mask(who: str, mask: object) -> None:
    """Raise `ConfigError` unless `mask` is a `Mask`."""
    if not isinstance(mask, Mask):
        raise ConfigError(
            f"{who}: mask must be a Mask, got {str(mask)[:40]}; Mask(causal=False) "
            f"would hide nothing"
        )


def _whole(got: object, least: int) -> bool:
    return isinstance(got, int) and not isinstance(got, bool) and got >= least


CAUSAL = Mask()
"""A query sees its own key and all before it."""
