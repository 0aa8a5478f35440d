"""A forward pass of a model: what the model and its schemes say to each other.

    session = Session(schemes, positions, mask=Mask(window=(128, None)))
    x = session.embed(tokens)
    for layer in range(layers):
        out = session.attend(layer, q, k, v, x=seen)

While decoding, positions are those of the whole planned text, `extend` brings the next
tokens in, and the queries of a pass are the last of its keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.attention.backends import BACKENDS, Path, choose, order, plain
from posenc_compare.attention.mask import CAUSAL, Mask, check_mask
from posenc_compare.attention.plan import Plan
from posenc_compare.attention.request import Request
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.call import Call, whole_numbers
from posenc_compare.schemes.contract import ask, ask_draw, ask_positions, ask_state
from posenc_compare.schemes.scheme import Scheme
from posenc_compare.transfer import sent

Choice = Path | Literal["auto"]


@dataclass(frozen=True)
class Explanation:
    """Which path a call takes, and why it takes none of the others.

    Attributes:
        path: that is taken.
        others: why not, in a sentence, for each other path; the fastest path first.
    """

    path: Path
    others: dict[Path, str]


class Session:
    """One forward pass through the layers of a model, and the passes that extend it.

    The first scheme also acts before the first layer: it places the tokens, draws what
    it draws, and embeds.

    Args:
        schemes: one for all layers, or several; layer i has `schemes[i % len]`.
        positions: `(seq,)` or `(batch, seq)` whole numbers, of all tokens that will be
            fed; schemes of several axes have a last axis more. They may lie on the
            CPU, whatever the model is on.
        mask: which keys a query may look at; segments are those of all tokens. None:
            `CAUSAL`, which torch.compile cannot take as a default.
        generator: of what schemes draw; on the CPU. None: they draw nothing.
        batch: place so many sequences, each on its own, where the scheme places
            tokens; 0: all sequences alike, as `positions` are given.
        fed: how many tokens the first pass has; None means all.
        cache: keep keys and values, so that later passes are given the new ones only.

    Raises:
        ShapeError: if positions are no whole numbers, or too few, or segments are not
            those of all tokens.
        ConfigError: if there is no scheme, or the mask cannot be kept in passes.
        UndefinedPositionError: if the scheme places no tokens there.
    """

    def __init__(
        self,
        schemes: Scheme | Iterable[Scheme],
        positions: Tensor,
        *,
        mask: Mask | None = None,
        generator: torch.Generator | None = None,
        batch: int = 0,
        fed: int | None = None,
        cache: bool = False,
    ) -> None:
        alone = isinstance(schemes, Scheme)
        self.schemes = [schemes] if alone else list(schemes)
        if not self.schemes or not all(isinstance(s, Scheme) for s in self.schemes):
            raise ConfigError(
                f"session: schemes must be one scheme or several, got {schemes!r:.40}"
            )
        self.mask = CAUSAL if mask is None else mask
        check_mask("session", self.mask)
        self.cache = cache
        first, given = self.schemes[0], whole_numbers("session: positions", positions)
        self._axis = -1 if first.facts.axes == 1 else -2
        each = batch and given.dim() == -self._axis and first.acts_at("positions")
        ids = given.expand(batch, *given.shape) if each else given
        self.places = ask_positions(first, ids, generator)
        self.ids = given if self.places.is_floating_point() else self.places
        self.drawn = ask_draw(first, self.ids, generator)
        self.length = ids.shape[self._axis]
        segments = self.mask.segments
        if segments is not None and segments.shape[-1:] != (self.length,):
            raise ShapeError(
                f"session: segments must be (batch, {self.length}), one for each "
                f"token, got {tuple(segments.shape)}"
            )
        self._past: dict[tuple[int, str], Tensor] = {}
        self._kept: dict[tuple[int, str], Tensor] = {}
        self.start = self.end = 0
        self.extend(self.length if fed is None else fed)

    def extend(self, count: int = 1) -> None:
        """Begin the next pass, of `count` more tokens.

        Raises:
            ShapeError: if positions of fewer tokens were given.
            ConfigError: if the mask shows tokens that are still to come.
        """
        if not 0 <= count <= self.length - self.end:
            raise ShapeError(
                f"session: extend must have at most the {self.length - self.end} "
                f"tokens left of {self.length}, got {count}"
            )
        if 0 < count < self.length - self.end:
            self._check_future(self.end + count)
        self.start, self.end = self.end, self.end + count
        self._past.update(self._kept)
        mask, keys = self.mask, None
        if mask.segments is not None and self.end < self.length:
            mask = replace(mask, segments=mask.segments[:, : self.end])
        if self.start:
            keys = self._cut(self.ids, 0)
        self.plan = Plan(self._cut(self.ids, self.start), keys, mask, self.drawn)

    def _check_future(self, end: int) -> None:
        """Refuse a pass to `end` whose queries would see tokens that come later."""
        prefix = min(int(torch.as_tensor(self.mask.prefix).max()), self.length)
        if not self.mask.causal:
            fault = "mask must be causal in a pass that more tokens follow, got False"
        elif end < prefix:
            fault = f"the first pass must have all {prefix} tokens of the prefix"
            fault += f", got {end}"
        else:
            return
        raise ConfigError(f"session: {fault}; fed=None would work")

    def embed(self, tokens: Tensor) -> Tensor:
        """Return token vectors `(batch, seq, model_dim)` as the first layer sees them.

        Args:
            tokens: vectors of the tokens of this pass, `(batch, seq, model_dim)`.
        """
        places = sent(self._cut(self.places, self.start), tokens.device)
        with torch.autocast(tokens.device.type, enabled=False):
            return ask(self.schemes[0], "embed", tokens, places)

    def attend(
        self,
        layer: int,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        x: Tensor | None = None,
        path: Choice = "auto",
    ) -> Tensor:
        """Return the output of one layer, `(batch, heads, query, head_dim)`.

        Args:
            layer: which, from 0.
            q: `(batch, heads, query, head_dim)` queries of this pass, as projected.
            k: `(batch, key_heads, key, head_dim)` keys as projected: those of this
                pass if the session keeps the others, or else of all passes.
            v: `(batch, key_heads, key, value_dim)` values, likewise.
            x: `(batch, query, model_dim)` input of the layer; a scheme without a token
                state needs none.
            path: force a path; `auto` takes the fastest that serves.

        Raises:
            ShapeError: if sizes or positions do not fit together.
            ConfigError: if the scheme needs another mask or a token state, or the
                path cannot serve it.
        """
        k, v = (self._all(layer, *part) for part in (("k", k), ("v", v)))
        state, scheme = self._state(layer, x), self.scheme(layer)
        return attend(self.plan, scheme, layer, q, k, v, state, path)

    def logits(
        self, layer: int, q: Tensor, k: Tensor, *, x: Tensor | None = None
    ) -> Tensor:
        """Return what `attend` would take the softmax of, -inf where nothing is seen.

        Returns:
            `(batch, heads, query, key)`, float32 or wider.
        """
        return logits(self.plan, self.call(layer, q, k, x=x), self.scheme(layer))

    def call(
        self, layer: int, q: Tensor, k: Tensor, *, x: Tensor | None = None
    ) -> Call:
        """Return what the doors of a layer see."""
        k, state = self._all(layer, "k", k), self._state(layer, x)
        return self.plan.call(self.scheme(layer), layer, q, k, state)

    def scheme(self, layer: int) -> Scheme:
        """Return the scheme of a layer."""
        return self.schemes[layer % len(self.schemes)]

    def _cut(self, ids: Tensor, start: int) -> Tensor:
        """Return the ids of the tokens from `start` to the end of this pass."""
        if self.end - start == self.length:
            return ids
        return ids.narrow(self._axis, start, self.end - start)

    def _state(self, layer: int, x: Tensor | None) -> Tensor | None:
        scheme = self.scheme(layer)
        if x is None:
            if scheme.acts_at("token_state"):
                raise ConfigError(
                    f"{scheme.name}: has a token state, so x must be the input of "
                    f"layer {layer}, got none"
                )
            return None
        state = ask_state(scheme, x, self._past.get((layer, "state")), self.end)
        if state is not None and self.end < self.length:
            self._kept[layer, "state"] = state
        return state

    def _all(self, layer: int, name: str, new: Tensor) -> Tensor:
        """Return keys or values of all passes so far."""
        if not self.cache:
            return new
        past = self._past.get((layer, name))
        whole = new if past is None else torch.cat([past, new], dim=2)
        if self.end < self.length:
            self._kept[layer, name] = whole
        return whole


def attend(
    plan: Plan,
    scheme: Scheme,
    layer: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None,
    path: Choice,
) -> Tensor:
    """Return the output of one layer; `Session.attend` says what comes in."""
    with torch.autocast(q.device.type, enabled=False):
        request = _request(plan, scheme, layer, q, k, v, state)
        return choose(request, path).run(request)


def explained(
    plan: Plan,
    scheme: Scheme,
    layer: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None,
) -> Explanation:
    """Return which path one layer would take, and why no other."""
    with torch.autocast(q.device.type, enabled=False):
        request = _request(plan, scheme, layer, q, k, v, state)
    why: dict[Path, str] = {n: BACKENDS[n].serves(request) for n in order(request)}
    taken: Path = next(name for name in why if not why[name])
    del why[taken]
    first = f"{taken} comes first"
    return Explanation(taken, {name: reason or first for name, reason in why.items()})


def logits(plan: Plan, call: Call, scheme: Scheme) -> Tensor:
    """Return the logits of one layer."""
    with torch.autocast(call.q.device.type, enabled=False):
        return plain.logits(Request.of(scheme, plan, call, call.k))


def _request(
    plan: Plan,
    scheme: Scheme,
    layer: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None,
) -> Request:
    call = plan.call(scheme, layer, q, k, state)
    if v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            f"attention: v must have the batch, heads and keys of k, "
            f"{tuple(k.shape[:3])}, got {tuple(v.shape[:3])}"
        )
    return Request.of(scheme, plan, call, v)
