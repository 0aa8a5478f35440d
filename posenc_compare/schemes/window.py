"""A sliding window around any scheme.

A wrapper lets a query see only the tokens near it, so that one layer can look nearby
and another at the whole text: the mask of a call is the same for all layers.

Formula: the weights of keys `window` or more tokens away are 0, and the softmax is over
the others.
Source: Yang et al. 2025, arXiv:2501.18795, for windows with RoPE among layers without
positions, `mix:first=nope;second=window`; the window itself is that of Beltagy et al.
2020, arXiv:2004.05150. Among layers of another base, as in Gemma 3, it is
`mix:every=6;first=(rope:base=1000000);second=window`.
Default: a quarter of the training length is our choice.
Convention: the scheme inside sees the call of `Mask(window=...)`, or of the mask's own
window if that is narrower. The mask costs less where all layers have the same window.
Logits beyond the window stay as they are.
"""

from dataclasses import replace

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.call import Call, Geometry, PairBias
from posenc_compare.schemes.contract import check_axes
from posenc_compare.schemes.scheme import register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

SHARE = 4  # windows in the training length


@register("window", family="rotary", source="Yang et al. 2025, arXiv:2501.18795")
class Window(Wrapper):
    """Let the queries of any scheme see no further than a window.

    Args:
        geometry: `length` is that of training.
        scheme: the scheme inside.
        window: tokens that a query sees, itself included; 0 means a quarter of the
            training length, and at least 1.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("rope"),
        window: int = 0,
    ) -> None:
        if window < 0:
            raise ConfigError(f"window: window must be at least 1, got {window}")
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.window = window or max(1, geometry.length // SHARE)
        self.facts = replace(self.facts, hides=True)

    def acts_at(self, door: str) -> bool:
        return door == "weights" or self.inner.acts_at(door)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().query(q, positions, call and self._near(call))

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().key(k, positions, call and self._near(call))

    def offset_bias(self, offsets: Tensor, call: Call | None = None) -> Tensor | None:
        return super().offset_bias(offsets, call and self._near(call))

    def pair_bias(self, call: Call) -> PairBias | None:
        return super().pair_bias(self._near(call))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return super().scores(logits, self._near(call))

    def weights(self, logits: Tensor, call: Call) -> Tensor:
        near = self._near(call)
        logits = logits.masked_fill(~near.keep(), -torch.inf)
        found = super().weights(logits, near)
        return logits.softmax(dim=-1) if found is None else found

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        return super().values(weights, self._near(call))

    def _near(self, call: Call) -> Call:
        """Return the call with the narrower window of the two."""
        if call.crosses:
            raise ConfigError(call.crosses)
        return replace(call, window=min(self.window, call.window or self.window))
