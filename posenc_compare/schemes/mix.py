"""Two schemes in one network, by layers or by heads.

By layers, every so-many-th layer has the first scheme and the others the second. By
heads, the first heads of every layer have the first scheme and the rest the second.
Layers with the second scheme may see a window of the text alone.

Formula: layer l has the first scheme if `l mod every = 0`, and the second elsewhere;
by heads, head h of H has the first scheme if `h < share * H`.
Source: by layers, NoPE among RoPE layers, which have a sliding window: Yang et al.
2025, arXiv:2501.18795. The window is that of Beltagy et al. 2020, arXiv:2004.05150. The
rule that layer `every`, 2 * `every`, ..., counted from 1, has no positions is that of
SmolLM3's configuration (no_rope_layer_interval 4). By heads: no primary source was
found.
Convention: a network with fewer layers than `every` has the second scheme only. Each
of the two is built for its own number of heads. A scheme that acts before the first
layer (`positions`, `draw`, `embed`) serves all layers and heads, and is refused; so
are, by heads, two that scale products differently, or two token states. An inner
scheme whose table all layers share has one per layer when layers mix.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.contract import opened, schemes_for_length
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    check_axes,
    register,
)
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


class Heads(Scheme):
    """One scheme for the first heads of a layer, another for the rest.

    Args:
        geometry: of the layer; those of the two schemes say how many heads each has.
        first: of the first heads.
        second: of the rest.
    """

    def __init__(self, geometry: Geometry, first: Scheme, second: Scheme) -> None:
        super().__init__(geometry)
        self.first, self.second = first, second
        self.counts = [first.geometry.heads, second.geometry.heads]
        names = f"{first.name} and {second.name}"
        width = geometry.head_dim
        if len({(s.scale(width), s.query_init_gain(width)) for s in self._both}) > 1:
            raise ConfigError(
                f"mix: schemes of one layer must scale products alike, got {names}"
            )
        if all(scheme.acts_at("token_state") for scheme in self._both):
            raise ConfigError(
                f"mix: one scheme of a layer may have a token state, got {names}"
            )
        one, other = first.facts, second.facts
        if one.window != other.window:
            raise ConfigError(
                f"mix: schemes of one layer must have one window, got {names}"
            )
        self.facts = Facts(
            per_layer=one.per_layer or other.per_layer,
            causal_only=one.causal_only or other.causal_only,
            relative=one.relative and other.relative,
            by_order=one.by_order and other.by_order,
            mixes_heads=one.mixes_heads or other.mixes_heads,
            widens=max(one.widens, other.widens),
            hides=one.hides or other.hides,
            window=one.window,
        )

    def acts_at(self, door: str) -> bool:
        return any(scheme.acts_at(door) for scheme in self._both)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned("query", q, positions, call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned("key", k, positions, call)

    def scale(self, head_dim: int) -> float:
        return self.first.scale(head_dim)

    def query_init_gain(self, head_dim: int) -> float:
        return self.first.query_init_gain(head_dim)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor | None:
        owner = self.first if self.first.acts_at("token_state") else self.second
        return owner.token_state(x, past)

    def offset_bias(self, offsets: Tensor, call: Call | None = None) -> Tensor | None:
        found = [
            opened(scheme, "offset_bias", offsets, call=own)
            for scheme, own in self._calls(call)
        ]
        some = next((part for part in found if part is not None), None)
        if some is None:
            return None
        pairs = zip(found, self.counts, strict=True)
        zeros = some.new_zeros(self.geometry.heads, len(offsets))
        return torch.cat([zeros[:n] if part is None else part for part, n in pairs])

    def pair_bias(self, call: Call) -> PairBias | None:
        one, other = (scheme.pair_bias(own) for scheme, own in self._own(call))
        if one is None and other is None:
            return None
        split, rest = self.counts

        def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            low, high = h.clamp(max=split - 1), (h - split).clamp(0, rest - 1)
            return torch.where(
                h < split,
                0.0 if one is None else one(b, low, i, j),
                0.0 if other is None else other(b, high, i, j),
            )

        return bias

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        parts = zip(self._split(logits), self._own(call), strict=True)
        return torch.cat([s.scores(part, own) for (s, part), (_, own) in parts], dim=1)

    def weights(self, logits: Tensor, call: Call) -> Tensor | None:
        if not self.acts_at("weights"):
            return None
        parts = zip(self._split(logits), self._own(call), strict=True)
        found = [(part, s.weights(part, own)) for (s, part), (_, own) in parts]
        usual = [part.softmax(dim=-1) if own is None else own for part, own in found]
        return torch.cat(usual, dim=1)

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        parts = zip(self._split(weights), self._own(call), strict=True)
        found = [s.values(part, own) for (s, part), (_, own) in parts]
        if found[0] is None and found[1] is None:
            return None
        zeros = [
            torch.zeros_like(q, dtype=weights.dtype) for _, q in self._split(call.q)
        ]
        both = zip(found, zeros, strict=True)
        return torch.cat([zero if part is None else part for part, zero in both], dim=1)

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        found: dict[str, Scheme] = {}
        for name, both in schemes_for_length(self._both, length).items():
            found[name] = other = deepcopy(self)
            other.first, other.second = both
        return found

    @property
    def _both(self) -> tuple[Scheme, Scheme]:
        return self.first, self.second

    def _split(self, x: Tensor) -> Iterator[tuple[Scheme, Tensor]]:
        return zip(self._both, x.split(self.counts, dim=1), strict=True)

    def _turned(
        self, door: str, x: Tensor, positions: Tensor, call: Call | None
    ) -> Tensor:
        parts = zip(self._split(x), self._calls(call), strict=True)
        turned = [
            opened(scheme, door, part, positions, call=own)
            for (scheme, part), (_, own) in parts
        ]
        width = max(part.shape[-1] for part in turned)  # zeros leave products alone
        return torch.cat([F.pad(p, (0, width - p.shape[-1])) for p in turned], dim=1)

    def _calls(self, call: Call | None) -> Iterable[tuple[Scheme, Call | None]]:
        """Return each scheme with the call of its heads, if there is a call."""
        return [(s, None) for s in self._both] if call is None else self._own(call)

    def _own(self, call: Call) -> Iterator[tuple[Scheme, Call]]:
        for (scheme, q), (_, k) in zip(
            self._split(call.q), self._split(call.k), strict=True
        ):
            yield scheme, replace(call, q=q, k=k)


@register("mix", family="rotary", source="Yang et al. 2025, arXiv:2501.18795")
class Mix(Wrapper):
    """Give some layers, or some heads, another scheme.

    Args:
        geometry: `layer` and `heads` decide who gets what.
        first: the scheme of the chosen few.
        second: the scheme of the others.
        by: what is divided.
        every: by layers, of how many layers one has the first scheme.
        share: by heads, the share of heads that have the first scheme, rounded.
        window: by layers, how many tokens a query sees under the second scheme, itself
            included; 0: all.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        first: Variant = Variant("nope"),
        second: Variant = Variant("rope"),
        by: Literal["layers", "heads"] = "layers",
        every: int = 4,
        share: float = 0.5,
        window: int = 0,
    ) -> None:
        if every < 1:
            raise ConfigError(f"mix: every must be at least 1, got {every}")
        if window < 0 or (window and by == "heads"):
            wanted = "0 by heads, which share a mask" if window > 0 else "at least 0"
            raise ConfigError(f"mix: window must be {wanted}, got {window}")
        near = by == "layers" and (geometry.layer + 1) % every > 0
        if by == "layers":
            inner = _built(second if near else first, geometry)
        else:
            count = round(geometry.heads * share)
            if not 0 < count < geometry.heads:
                raise ConfigError(
                    f"mix: share must leave heads of {geometry.heads} to both schemes, "
                    f"got {share}"
                )
            rest = geometry.heads - count
            inner = Heads(
                geometry,
                _built(first, replace(geometry, heads=count)),
                _built(second, replace(geometry, heads=rest)),
            )
        super().__init__(geometry, inner)
        per_layer = by == "layers" or inner.facts.per_layer
        self.facts = replace(self.facts, per_layer=per_layer)
        if near and window:
            narrower = min(window, self.facts.window or window)
            self.facts = replace(self.facts, window=narrower)


def _built(variant: Variant, geometry: Geometry) -> Scheme:
    scheme = variant.build(geometry)
    check_axes(scheme)
    if any(scheme.acts_at(door) for door in ("positions", "draw", "embed")):
        raise ConfigError(
            f"mix: a scheme must act inside the layers, got {variant.label}, which "
            f"acts before the first"
        )
    return scheme
