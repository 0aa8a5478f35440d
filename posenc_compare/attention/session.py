"""A forward pass of a model: what the model and its schemes say to each other.

    session = Session(schemes, positions, mask=Mask(window=(128, None)))
    x = session.embed(tokens)
    for layer in range(layers):
        out = session.attend(layer, q, k, v, x=x)

While decoding, positions are those of the whole planned text, `extend` brings the next
tokens in, and the queries of a pass are the last of its keys.

A session with `key_positions` attends to the keys of another text, as a decoder does to
those of its encoder. Both texts have sessions of their own, which place the tokens:

    crossed = Session(
        schemes, own.ids, key_positions=encoder.ids, mask=Mask(causal=False)
    )
"""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from posenc_compare.attention.cache import Cache
from posenc_compare.attention.ids import (
    check_apart,
    check_contiguous,
    check_placed,
    check_segments,
    checked_placed,
    fill_positions,
)
from posenc_compare.attention.layer import Choice, Step, logits, weights
from posenc_compare.attention.mask import CAUSAL, Mask, check_mask
from posenc_compare.attention.plan import Plan, check_crosses, check_not_traced
from posenc_compare.attention.request import Join
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.contract import ask, ask_draw, ask_positions, ask_state
from posenc_compare.schemes.scheme import Call, Scheme, position_ids
from posenc_compare.transfer import to_device

BEFORE = ("positions", "draw", "embed")  # hooks that act before the first layer


class Session:
    """One forward pass through the layers of a model, and the passes that extend it.

    The first scheme also acts before the first layer: it places the tokens, draws what
    it draws, and embeds.

    Args:
        schemes: one for all layers, or several; layer i has `schemes[i % len]`.
        positions: `(seq,)` or `(batch, seq)` whole numbers, or real ones for schemes
            whose facts say so, of all tokens that will be fed; several axes add a last
            axis of coordinates. They may lie on the CPU, whatever the model is on.
        key_positions: `(key,)` or `(batch, key)`, likewise, of another text, whose
            keys all passes see. Take both from `ids` of the texts' own sessions: this
            session places and embeds no tokens. None: keys are of the same text.
        mask: which keys a query may look at; segments are those of all keys, and
            query_segments those of all tokens. None: `CAUSAL`, which torch.compile
            cannot take as a default.
        generator: CPU generator of the schemes' random numbers. None: they draw none.
        batch: number of sequences that the hook `positions` places independently; 0:
            all sequences share one row of ids, if `positions` has one.
        fed: how many tokens the first pass has; None means all.
        cache: keep keys and values, so that later passes are given the new ones only,
            and none of another text. Without gradients, they are kept in memory for up
            to twice as many tokens, and a pass copies the new ones alone.
        placed: `(seq,)` or `(batch, seq)` bool, False for a token without a position,
            such as a class or register token: its id is not read, the hooks `embed`,
            `query` and `key` leave it as it is, and no bias is added to its logits.
            None: all tokens have one.
        key_placed: the same for key_positions.

    Raises:
        ShapeError: if positions are neither whole numbers nor real ones that all
            schemes accept, or too few, or segments are not those of all tokens.
        ConfigError: if there is no scheme, or the mask shows tokens of later passes, or
            scheme or mask have no meaning where keys are another text, or a scheme
            needs a position for every token.
        UndefinedPositionError: if the scheme does not define a position.
    """

    def __init__(
        self,
        schemes: Scheme | Iterable[Scheme],
        positions: Tensor,
        *,
        key_positions: Tensor | None = None,
        mask: Mask | None = None,
        generator: torch.Generator | None = None,
        batch: int = 0,
        fed: int | None = None,
        cache: bool = False,
        placed: Tensor | None = None,
        key_placed: Tensor | None = None,
    ) -> None:
        self._alone = isinstance(schemes, Scheme)
        self.schemes = [schemes] if isinstance(schemes, Scheme) else list(schemes)
        if not self.schemes or not all(isinstance(s, Scheme) for s in self.schemes):
            raise ConfigError(
                f"session: schemes must be one scheme or several, got {schemes!r:.40}"
            )
        _check_layers(self.schemes)
        self.mask = CAUSAL if mask is None else mask
        check_mask("session", self.mask)
        check_not_traced("session")
        self.cache = cache
        first = self.schemes[0]
        self._axis = -1 if first.facts.axes == 1 else -2
        given, self.placed = self._read("positions", positions, placed)
        each = batch and given.dim() == -self._axis and first.acts_at("positions")
        ids = given.expand(batch, *given.shape) if each else given
        self.length = ids.shape[self._axis]
        self.crosses = key_positions is not None
        if key_positions is None:
            self.places = ask_positions(first, ids, generator)
            if self.placed is not None:
                check_apart(first, ids, self.placed, generator is not None)
            real = self.places.is_floating_point()
            self.ids = self.places if real == given.is_floating_point() else given
            self._keys, self._key_placed, drawn_for = self.ids, self.placed, self.ids
        else:
            for scheme in self.schemes:
                check_crosses(scheme, self.mask, "the session has key_positions")
            read = self._read("key_positions", key_positions, key_placed)
            self._keys, self._key_placed = read
            self.places = self.ids = given
            drawn_for = self._both_texts()
        self.drawn = ask_draw(first, drawn_for, generator)
        for name, one, count in (
            ("segments", "key" if self.crosses else "token", self._count(self._keys)),
            ("query_segments", "token", self.length),
        ):
            segments: Tensor | None = getattr(self.mask, name)
            if segments is not None and segments.shape[-1:] != (count,):
                raise ShapeError(
                    f"session: {name} must be (batch, {count}), one for each {one}, "
                    f"got {tuple(segments.shape)}"
                )
        self._past: dict[tuple[int, str], Tensor] = {}
        self._kept: dict[tuple[int, str], Tensor] = {}
        self._cache = Cache(self.length)
        self.start = self.end = 0
        self.extend(self.length if fed is None else fed)
        if self.mask.segments is not None and not self.crosses:
            seeded = generator is not None
            check_segments(first, given, self.mask.segments, self.placed, seeded)
            check_contiguous(self.schemes, self.mask.segments)

    def extend(self, count: int = 1) -> None:
        """Begin the next pass, of `count` more tokens.

        Raises:
            ShapeError: if positions of fewer tokens were given.
            ConfigError: if the mask shows tokens that are still to come.
        """
        if isinstance(count, Tensor):
            raise ShapeError("session: extend must have a number of tokens, got ids")
        if not 0 <= count <= self.length - self.end:
            raise ShapeError(
                f"session: extend must have at most the {self.length - self.end} "
                f"tokens left of {self.length}, got {count}"
            )
        if 0 < count < self.length - self.end and not self.crosses:
            self._check_future(self.end + count)
        self.start, self.end = self.end, self.end + count
        self._past.update(self._kept)
        self._attended: set[int] = set()
        self._embedded = False
        mask, keys, key_placed = self.mask, None, None
        if self.crosses:
            keys, key_placed = self._keys, self._key_placed
        elif self.start:
            keys, key_placed = self._cut(self.ids, 0), self._cut_placed(0)
        if mask.segments is not None and not self.crosses and self.end < self.length:
            mask = replace(mask, segments=mask.segments[:, : self.end])
        if mask.query_segments is not None:
            own = mask.query_segments[:, self.start : self.end]
            mask = replace(mask, query_segments=own)
        ids = self._cut(self.ids, self.start)
        self.plan = Plan(
            ids,
            keys,
            mask,
            self.drawn,
            self.crosses,
            placed=self._cut_placed(self.start),
            key_placed=key_placed,
        )
        biased = any(scheme.acts_at("offset_bias") for scheme in self.schemes)
        if biased and count and not torch.compiler.is_compiling():
            self.plan.read_offsets()  # here, since a graph could not read them

    def send(self, device: torch.device) -> None:
        """Move what the pass reads to a device; a CUDA graph reads nothing else."""
        self.places = to_device(self.places, device)
        self.plan.positions = to_device(self.plan.positions, device)
        if self.plan.placed is not None and self.plan.key_positions is None:
            self.plan.placed = self.plan.key_placed = to_device(
                self.plan.placed, device
            )
        if self.plan.drawn is not None:
            self.plan.drawn = to_device(self.plan.drawn, device)

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

        Raises:
            ConfigError: if keys are another text.
        """
        if self.crosses:
            raise ConfigError(
                "session: embed must be called on the session of one text, got one "
                "with key_positions; Session(schemes, positions) would work"
            )
        self._embedded = True
        places = to_device(self._cut(self.places, self.start), tokens.device)
        with torch.autocast(tokens.device.type, enabled=False):
            embedded = ask(self.schemes[0], "embed", tokens, places)
        placed = self._cut_placed(self.start)
        if placed is None:
            return embedded
        return embedded.where(to_device(placed, tokens.device)[..., None], tokens)

    def attend(
        self,
        layer: int,
        q: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        *,
        x: Tensor | None = None,
        path: Choice = "auto",
    ) -> Tensor:
        """Return the output of one layer, `(batch, heads, query, value_dim)`.

        Args:
            layer: which, from 0.
            q: `(batch, heads, query, head_dim)` queries of this pass, as projected.
            k: `(batch, key_heads, key, head_dim)` keys as projected: those of this
                pass if the session keeps the others, or else of all passes. None: those
                of another text that the session keeps.
            v: `(batch, key_heads, key, value_dim)` values, likewise.
            x: `(batch, query, model_dim)` input of the layer; a scheme without a token
                state needs none.
            path: force a path; `auto` takes the fastest that serves.

        Raises:
            ShapeError: if sizes or positions do not fit together.
            ConfigError: if the scheme needs another mask or a token state, or the
                path cannot serve it.
        """
        scheme = self.scheme(layer)
        keeps = self.cache and not self.crosses and self.end < self.length
        if keeps and layer in self._attended:
            raise ConfigError(
                f"session: layer {layer} must attend once in a pass, got a second "
                f"call; extend(count) before new tokens, or the number of another "
                f"layer, would work"
            )
        first = self.schemes[0]
        unseen = self.crosses or torch.compiler.is_compiling()  # a graph cannot warn
        if not self._embedded and not unseen and first.acts_at("embed"):
            warnings.warn(
                f"{first.name}: adds positions to the tokens, but session.embed was "
                f"not called in this pass",
                stacklevel=2,
            )
        k, v = (self._all(layer, *part, self._cache) for part in (("k", k), ("v", v)))
        state = self._state(layer, x, attends=True)
        step = Step(self.plan, scheme, layer, q, k, v, state, self._join(layer, k))
        request, out = step.attended(path)
        self._attended.add(layer)
        if self.cache and (self.crosses or self.end < self.length):
            held = self._past if self.crosses else self._kept
            held[layer, "k"], held[layer, "v"] = k, v
            alone = scheme.keys_alone and self.placed is None and k.dtype == v.dtype
            fixed = not any(True for _ in scheme.parameters())  # which may change
            if alone and fixed and keeps and not request.k.requires_grad:
                held[layer, "changed k"] = request.k
        return out

    def logits(
        self, layer: int, q: Tensor, k: Tensor | None, *, x: Tensor | None = None
    ) -> Tensor:
        """Return what `attend` would take the softmax of, -inf where nothing is seen.

        Some schemes, such as `stick_breaking`, replace the softmax; see `weights`.

        Returns:
            `(batch, heads, query, key)`, float32 or wider.
        """
        return logits(self.plan, self.call(layer, q, k, x=x), self.scheme(layer))

    def weights(
        self, layer: int, q: Tensor, k: Tensor | None, *, x: Tensor | None = None
    ) -> Tensor:
        """Return the weights that `attend` would give to the values.

        Returns:
            `(batch, heads, query, key)`, float32 or wider; 0 where nothing is seen.
            They need not sum to 1, as beside a sink.
        """
        return weights(self.plan, self.call(layer, q, k, x=x), self.scheme(layer))

    def call(
        self, layer: int, q: Tensor, k: Tensor | None, *, x: Tensor | None = None
    ) -> Call:
        """Return what the hooks of a layer see."""
        k, state = self._all(layer, "k", k), self._state(layer, x)
        return self.plan.call(self.scheme(layer), layer, q, k, state)

    def scheme(self, layer: int) -> Scheme:
        """Return the scheme of a layer."""
        if not isinstance(layer, int) or layer < 0:
            raise ConfigError(
                f"session: layer must be a whole number from 0, got {layer!r:.80}"
            )
        scheme = self.schemes[layer % len(self.schemes)]
        few = self._alone or len(self.schemes) > 1
        if scheme.facts.mixed and few and layer >= len(self.schemes):
            raise ConfigError(
                f"{scheme.name}: differs by layer, so each layer must have its own, "
                f"got {len(self.schemes)} for layer {layer}; a list of create(..., "
                f"layer=i, layers=n) for i in range(n) would work"
            )
        return scheme

    def _read(
        self, name: str, given: object, placed: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return ids that all schemes can read, and which of them are positions."""
        read = [position_ids(f"session: {name}", given, s) for s in self.schemes]
        ids, axes = read[0], self.schemes[0].facts.axes
        if axes > 1 and (ids.dim() not in (2, 3) or ids.shape[-1] != axes):
            raise ShapeError(
                f"session: {name} must be (seq, {axes}) or (batch, seq, {axes}) for "
                f"{self.schemes[0].name}, got {tuple(ids.shape)}"
            )
        if placed is None:
            return ids, None
        for scheme in self.schemes:
            check_placed(scheme)
        who = "session: placed" if name == "positions" else "session: key_placed"
        batch = len(placed) if isinstance(placed, Tensor) and placed.dim() > 1 else 1
        rows = checked_placed(placed, batch, self._count(ids), who)
        return fill_positions(ids, placed, axes), rows

    def _count(self, ids: Tensor) -> int:
        return ids.shape[self._axis]

    def _both_texts(self) -> Tensor:
        """Return the ids of queries and keys, one behind the other."""
        ids = [self.ids, self._keys.to(self.ids.device)]
        rows = torch.broadcast_shapes(*(x.shape[: self._axis] for x in ids))
        parts = [x.expand(*rows, *x.shape[self._axis :]) for x in ids]
        return torch.cat(parts, dim=self._axis)

    def _cut(self, ids: Tensor, start: int) -> Tensor:
        """Return the ids of the tokens from `start` to the end of this pass."""
        if self.end - start == self.length:
            return ids
        return ids.narrow(self._axis, start, self.end - start)

    def _cut_placed(self, start: int) -> Tensor | None:
        """Return which tokens from `start` to the end of this pass have a position."""
        return None if self.placed is None else self.placed[:, start : self.end]

    def _join(self, layer: int, k: Tensor) -> Join | None:
        """Return what joins keys after the hook `key` to those of earlier passes.

        Those of fewer tokens or another dtype do not serve, and keys that train are
        given their gradients.
        """
        name = layer, "changed k"
        before = self._past.get(name)
        if before is None or before.shape[2] != self.start or before.dtype != k.dtype:
            return None
        learns = self._past[layer, "k"].requires_grad and torch.is_grad_enabled()
        return None if learns else partial(self._cache.join, name, before)

    def _state(
        self, layer: int, x: Tensor | None, attends: bool = False
    ) -> Tensor | None:
        """Return the state of all tokens so far; that of `attend` is what is kept."""
        scheme = self.scheme(layer)
        if x is None:
            if scheme.acts_at("token_state"):
                raise ConfigError(
                    f"{scheme.name}: has a token state, so x must be the input of "
                    f"layer {layer}, got none"
                )
            return None
        state = ask_state(scheme, x, self._past.get((layer, "state")), self.end)
        keeps = attends or layer not in self._attended
        if state is not None and self.end < self.length and keeps:
            self._kept[layer, "state"] = state
        return state

    def _all(
        self, layer: int, name: str, new: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """Return keys or values of all passes so far, or those of another text.

        A cache is given where they are kept.
        """
        past = self._past.get((layer, name))
        given = past if new is None and self.crosses else new
        if given is None:
            raise ConfigError(
                f"session: {name} of layer {layer} must be given, got none; a session "
                f"with key_positions and cache=True keeps that of an earlier pass"
            )
        if self.crosses or not self.cache or past is None:
            return given
        if given.dim() != 4 or past[:, :, :0].shape != given[:, :, :0].shape:
            batch, heads, _, width = past.shape
            raise ShapeError(
                f"session: {name} of layer {layer} must be ({batch}, {heads}, key, "
                f"{width}) as in earlier passes, got {tuple(given.shape)}"
            )
        if cache is None:
            return torch.cat([past, given], dim=2)
        return cache.join((layer, name), past, given)


def _begins(scheme: Scheme) -> list[str]:
    """Return the hooks before the first layer at which a scheme acts."""
    return [name for name in BEFORE if scheme.acts_at(name)]


def _check_layers(schemes: list[Scheme]) -> None:
    """Refuse layers out of order, and a later scheme that acts before all layers."""
    built = [one.geometry.layer for one in schemes if one.facts.mixed]
    if built != sorted({*built}):
        raise ConfigError(
            f"session: schemes that differ by layer must be in the order of the layers "
            f"they were built for, got those of layers {', '.join(map(str, built))}; "
            f"create(..., layer=i, layers=n) for i in range(n) would work"
        )
    parts = [
        [p for p in scheme.modules() if isinstance(p, Scheme) and _begins(p)]
        for scheme in schemes
    ]
    for scheme, own in zip(schemes, parts, strict=True):
        early = _begins(scheme)
        if early and [*map(type, own)] != [*map(type, parts[0])]:
            raise ConfigError(
                f"session: only the first scheme may act before the layers, got "
                f"{scheme.name}, a later one with {early[0]}; the same kind of scheme "
                f"first would work"
            )
