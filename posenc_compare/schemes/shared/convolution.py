"""A short convolution over the tokens of a document."""

import torch
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
    length, mixed = x.shape[1], torch.zeros_like(x)
    for back, tap in enumerate(taps.to(x.dtype).T):
        seen = F.pad(x, (0, 0, back, 0))[:, :length] * tap
        if segments is not None:
            same = F.pad(segments, (back, 0))[:, :length] == segments
            seen = seen * same[..., None]
        mixed = mixed + seen
    return mixed
