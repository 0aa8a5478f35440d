"""Logits that a model caps, as Gemma 2 does: `cap * tanh(logits / cap)`."""

from torch import Tensor

from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.scheme import Call
from posenc_compare.schemes.wrapper import Wrapper

AFTER = ("offset_bias", "pair_bias", "scores", "weights")  # would be capped too


class Capped(Wrapper):
    """A scheme whose logits are capped before the mask."""

    def __init__(self, inner: Scheme, cap: float) -> None:
        super().__init__(inner.geometry, inner)
        adds = [hook for hook in AFTER if inner.acts_at(hook)]
        if adds:
            raise UnsupportedModelError(
                f"{inner.name}: acts at {adds[0]}, and this model caps its logits at "
                f"{cap:g}, with all that is added; a scheme that rotates would work"
            )
        self.cap = cap

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return (logits / self.cap).tanh() * self.cap
