"""A scheme around another one.

A wrapper passes every hook, fact and question on to the scheme inside it. Its
subclasses override what they change: the position ids, one hook, or which scheme is
inside.
"""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from posenc_compare.schemes.contract import call_hook
from posenc_compare.schemes.scheme import Call, Facts, Geometry, PairBias, Scheme


class Wrapper(Scheme):
    """The scheme inside, unchanged.

    A registered wrapper serves real positions if it and the scheme inside declare it.
    """

    facts = Facts(real=True)

    def __init__(self, geometry: Geometry, inner: Scheme) -> None:
        super().__init__(geometry)
        self.inner = inner
        both = inner.facts.real and type(self).facts.real
        self.facts = replace(inner.facts, real=both)

    def acts_at(self, hook: str, /) -> bool:
        own = getattr(type(self), hook) is not getattr(Wrapper, hook)
        return own or self.inner.acts_at(hook)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        return self.inner.positions(positions, generator)

    def draw(
        self, positions: Tensor, generator: torch.Generator | None
    ) -> Tensor | None:
        return self.inner.draw(positions, generator)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.inner.embed(x, positions)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return call_hook(self.inner, "query", q, positions, call=call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return call_hook(self.inner, "key", k, positions, call=call)

    def scale(self, head_dim: int) -> float:
        return self.inner.scale(head_dim)

    def query_init_gain(self, head_dim: int) -> float:
        return self.inner.query_init_gain(head_dim)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor | None:
        return self.inner.token_state(x, past)

    def offset_bias(self, offsets: Tensor, call: Call | None = None) -> Tensor | None:
        return call_hook(self.inner, "offset_bias", offsets, call=call)

    def pair_bias(self, call: Call) -> PairBias | None:
        return self.inner.pair_bias(call)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return self.inner.scores(logits, call)

    def weights(self, logits: Tensor, call: Call) -> Tensor | None:
        return self.inner.weights(logits, call)

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        return self.inner.values(weights, call)

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        own = type(self)
        if own.positions is not Wrapper.positions or own.draw is not Wrapper.draw:
            return {}  # trained on other ids than the geometry's length says
        found: dict[str, Scheme] = {}
        for name, inner in self.inner.schemes_for_length(length).items():
            outer = deepcopy(self)
            outer.inner = inner
            found[name] = outer
        return found
