"""A short convolution over the tokens of a document."""

import torch.nn.functional as F
from torch import Tensor


def over_past(x: Tensor, taps: Tensor, segments: Tensor | None) -> Tensor:
    """Mix every token with those before it, each channel by itself.

    Args:
        x: `(batch, seq, channel)`.
        taps: `(channel, tap)`; the first tap is the token's own.
        segments: `(batch, seq)`; only tokens of the same number mix. None: all do.

    Returns:
        `(batch, seq, channel)` in the dtype of `x`.
    """
    length = x.shape[1]
    own, *earlier = taps.to(x.dtype).T
    mixed = x * own
    for back, tap in enumerate(earlier, start=1):
        moved = min(back, length)
        seen = F.pad(x, (0, 0, moved, -moved)) * tap
        if segments is not None:
            same = F.pad(segments, (moved, -moved)) == segments
            seen = seen * same[..., None]
        mixed = mixed + seen
    return mixed
