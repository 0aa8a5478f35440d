"""What is true of a whole forward pass, computed once and shared by its layers."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import torch
from torch import Tensor

from posenc_compare.attention.ids import (
    Ids,
    check_finite,
    check_one_kind,
    check_placed,
    checked_ids,
    checked_placed,
    fill_positions,
)
from posenc_compare.attention.mask import Mask, check_mask
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import (
    Call,
    Scheme,
    Table,
    assert_in_graph,
    once,
    position_ids,
)
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.source.files import OURS
from posenc_compare.transfer import to_device

T = TypeVar("T")

ON_HEADS = (
    "query",
    "key",
    "offset_bias",
    "pair_bias",
    "scores",
    "weights",
    "values",
)


class Plan:
    """Where the queries and keys of one forward pass stand, and what follows from it.

    Ids on the CPU are read there, and moved to the device of the queries once.

    Args:
        positions: `(query,)` or `(batch, query)`, whole or real numbers; schemes of
            several axes have a last axis more.
        key_positions: the same for keys; None if queries and keys are the same.
        mask: of all layers; its segments are those of the keys.
        drawn: what the hook `draw` returned.
        crosses: whether keys are another text, whatever the ids.
        placed: `(query,)` or `(batch, query)` bool, False where a query has no
            position; its id is not read. None: all have one.
        key_placed: the same for keys, beside key_positions.
    """

    def __init__(
        self,
        positions: Tensor,
        key_positions: Tensor | None,
        mask: Mask,
        drawn: Tensor | None = None,
        crosses: bool = False,
        placed: Tensor | None = None,
        key_placed: Tensor | None = None,
    ) -> None:
        check_mask("attention", mask)
        check_not_traced("attention")
        for ids in (positions, key_positions):
            if isinstance(ids, Tensor):
                check_not_meta("positions", ids)
                if placed is None and key_placed is None:
                    check_finite(ids)
        check_one_kind(positions, key_positions)
        self.positions = positions
        self.key_positions = key_positions
        self.mask = mask
        self.drawn = drawn
        self.crosses = crosses
        self.placed = placed
        self.key_placed = placed if key_positions is None else key_placed
        self.shared: Table = {}

    def once(self, make: Callable[[], T], *about: Hashable) -> T:
        """Return `make()`, computed once in the pass for each value of `about`."""
        return once(self.shared, about, make)

    def call(
        self, scheme: Scheme, layer: int, q: Tensor, k: Tensor, state: Tensor | None
    ) -> Call:
        """Check what came for one layer, and put it into one record."""
        if not isinstance(scheme, Scheme):
            raise ConfigError(
                f"attention: scheme must be what `create` returns, got {scheme!r:.60}; "
                f"create('alibi', heads=8, head_dim=64) would work"
            )
        if q.dim() != 4:
            raise ShapeError(
                f"attention: q must be (batch, heads, query, head_dim), "
                f"got {tuple(q.shape)}"
            )
        batch, heads, queries, head_dim = q.shape
        fits = k.dim() == 4 and k.shape[0] == batch and k.shape[3] == head_dim
        if not fits or heads % max(1, k.shape[1]) or not k.shape[2]:
            raise ShapeError(
                f"attention: k must be ({batch}, {heads}, key, {head_dim}) with at "
                f"least one key, or fewer heads that divide {heads}, "
                f"got {tuple(k.shape)}"
            )
        if k.shape[1] != heads and not serves_groups(scheme):
            k = repeat_heads(k, heads)
        keys, mask = k.shape[2], self.mask
        _check_order(q, self.positions, scheme)
        sizes = (heads, head_dim)
        self.once(lambda: check_sizes(scheme, *sizes), scheme, *sizes)
        for name, one, count in (
            ("segments", "key", keys),
            ("query_segments", "query", queries),
        ):
            segments: Tensor | None = getattr(mask, name)
            if segments is not None and segments.shape != (batch, count):
                raise ShapeError(
                    f"attention: {name} must be ({batch}, {count}), one for each "
                    f"{one}, got {tuple(segments.shape)}"
                )
        if state is not None and state.shape[:2] != (batch, keys):
            raise ShapeError(
                f"attention: state must be ({batch}, {keys}, ...), one for each key, "
                f"got {tuple(state.shape)}"
            )
        if queries == 0:
            raise ShapeError("attention: q must hold at least one query, got none")
        if self._leaves_out:
            self.once(lambda: check_placed(scheme), scheme, "placed")
        facts, device = scheme.facts, q.device
        q_ids, k_ids, why = self.once(
            lambda: self._read_ids(batch, queries, keys, scheme, device),
            *("ids", batch, queries, keys, facts.axes, facts.real, device),
        )
        query_segments, blind = None, None
        if why:
            check_crosses(scheme, mask, why)
            query_segments, blind = self.once(
                lambda: self._query_segments(queries, q.device),
                *("query segments", q.device),
            )
        if scheme.facts.causal_only and not mask.causal:
            raise ConfigError(f"{scheme.name}: needs a causal mask, got causal=False")
        both = (mask.window_of(layer), scheme.facts.window)
        windows = [window for window in both if window is not None and window < keys]
        prefix = self._prefix(scheme, batch, q.device)
        return Call(
            q,
            k,
            q_ids.positions,
            k_ids.positions,
            state,
            mask.causal,
            self._on(q.device, "segments", mask.segments),
            min(windows) if windows else None,
            prefix,
            self._on(q.device, "drawn", self.drawn),
            self.shared,
            query_segments=query_segments,
            blind=blind,
            crosses=why and _one_text(scheme, why),
            q_placed=q_ids.placed,
            k_placed=k_ids.placed,
        )

    def read_offsets(self) -> None:
        """Read from whole ids, as numbers, what a bias of the offset needs."""
        if not self.positions.is_floating_point() and not self._leaves_out:
            _ = self.offsets, self.in_step

    @property
    def offsets(self) -> tuple[int, int]:
        """Return the smallest and the largest offset of a key from a query."""
        return self.once(lambda: _reach(*self._ids), "offsets")

    @property
    def in_step(self) -> bool:
        """Return whether all offsets are offsets of indices, plus one constant."""
        return self.once(lambda: _in_step(*self._ids), "in step")

    @property
    def _leaves_out(self) -> bool:
        """Return whether some tokens may have no position."""
        return self.placed is not None or self.key_placed is not None

    @property
    def _ids(self) -> tuple[Tensor, Tensor]:
        """Return ids of queries and keys, of one axis, on the device they came on."""
        keys = self.positions if self.key_positions is None else self.key_positions
        return torch.atleast_2d(self.positions.long(), keys.long())

    def _on(
        self, device: torch.device, name: str, given: Tensor | None
    ) -> Tensor | None:
        """Return a tensor on the device, moved once."""
        if given is None:
            return None
        return self.once(lambda: to_device(given, device), name, device)

    def _prefix(self, scheme: Scheme, batch: int, device: torch.device) -> int | Tensor:
        prefix = self.mask.prefix
        if isinstance(prefix, int) and not prefix:
            return 0
        if scheme.facts.causal_only:
            raise ConfigError(
                f"{scheme.name}: needs a causal mask, got a prefix that looks ahead"
            )
        if isinstance(prefix, int):
            return prefix
        if prefix.shape != (batch,):
            raise ShapeError(
                f"attention: prefix must be one number or ({batch},), one for each "
                f"sequence, got {tuple(prefix.shape)}"
            )
        return self.once(lambda: to_device(prefix, device), "prefix", device)

    def _read_ids(
        self, batch: int, queries: int, keys: int, scheme: Scheme, device: torch.device
    ) -> tuple[Ids, Ids, str]:
        """Return ids of queries and keys, and why keys are another text, or nothing.

        Ids are checked, and on the device.
        """
        who = "positions"
        own = checked_ids(self.positions, batch, queries, scheme, who, "query")
        own = self._left_out(own, self.placed, batch, scheme, "placed")
        here = own.on(device)
        if self.key_positions is not None:
            others, who = self.key_positions, "key_positions"
        elif keys == queries:
            return here, here, self._why_another(own, own, scheme)
        else:
            others, who = self.positions, "positions without key_positions"
        others = checked_ids(others, batch, keys, scheme, who, "key")
        others = self._left_out(others, self.key_placed, batch, scheme, "key_placed")
        return here, others.on(device), self._why_another(own, others, scheme)

    def _left_out(
        self, ids: Tensor, placed: Tensor | None, batch: int, scheme: Scheme, who: str
    ) -> Ids:
        """Return ids with which of them are positions."""
        if not self._leaves_out:
            return Ids(ids)
        length = ids.shape[1]
        if placed is None:
            placed = torch.ones(1, length, dtype=torch.bool, device=ids.device)
        placed = checked_placed(placed, batch, length, f"attention: {who}")
        ids = fill_positions(ids, placed, scheme.facts.axes)
        check_finite(ids)
        return Ids(ids, placed)

    def _why_another(self, own: Ids, others: Ids, scheme: Scheme) -> str:
        """Return why keys are another text than queries, or nothing if they are not."""
        if self.crosses:
            return "the session has key_positions"
        if self.mask.query_segments is not None:
            return "the mask has query_segments"
        if own.positions.shape[1] > others.positions.shape[1]:
            return "there are more queries than keys"
        if own is others:
            return ""
        another = (
            "positions are not those of the last keys (of a cache with empty slots, "
            "pass the filled ones alone)"
        )
        alike = own.are_last_of(others)
        refused = self.mask.within_one_text or needs_own_text(scheme)
        if refused and assert_in_graph(alike, f"attention: {another}"):
            return ""
        if self.mask.segments is None and torch.compiler.is_compiling():
            return ""  # a graph reads no ids, unless the output depends on the answer
        return "" if alike else another

    def _query_segments(
        self, queries: int, device: torch.device
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return `(batch, query)` segments of queries, and where one sees no key.

        A query that sees no key is given the segment of the first one, so that all
        logits and gradients are finite; its output is made 0 in the end.
        """
        segments, own = self.mask.segments, self.mask.query_segments
        if segments is None:
            return None, None
        if own is None:
            own = _one_segment(segments).expand(-1, queries)
        segments, own = to_device(segments, device), to_device(own.contiguous(), device)
        known = segments.sort(dim=1).values
        place = torch.searchsorted(known, own).clamp(max=known.shape[1] - 1)
        blind = known.gather(1, place) != own
        return segments[:, :1].where(blind, own), blind


def _one_text(scheme: Scheme, why: str) -> str:
    return (
        f"{scheme.name}: needs keys of the queries' own text, got those of another, "
        f"since {why}; rope would work"
    )


def needs_own_text(scheme: Scheme) -> bool:
    """Return whether keys of another text have no meaning under a scheme."""
    facts = scheme.facts
    alone = facts.causal_only or facts.own_text or bool(facts.window)
    return alone or scheme.acts_at("token_state")


def check_crosses(scheme: Scheme, mask: Mask, why: str) -> None:
    """Refuse a scheme or a mask that has no meaning where keys are another text."""
    if needs_own_text(scheme):
        raise ConfigError(_one_text(scheme, why))
    if mask.within_one_text:
        raise ConfigError(
            f"attention: mask must have segments only where keys are another text, "
            f"got {mask.within_one_text}, and {why}; Mask(causal=False) would work"
        )


def _one_segment(segments: Tensor) -> Tensor:
    """Return the one number besides 0 of each sequence, `(batch, 1)`."""
    real = segments != 0
    number = segments.gather(1, real.long().argmax(dim=1, keepdim=True))
    one = (~real | (segments == number)).all()
    if assert_in_graph(one, "attention: segments of another text have several numbers"):
        return number.where(number != 0, 1)
    found = "" if real.any() or not len(real) else "0 alone"
    if not one:
        found = "several"
    if found:
        raise ConfigError(
            f"attention: segments must have one number besides 0, the padding, where "
            f"keys are another text, got {found}; query_segments would work"
        )
    return number.where(number != 0, 1)


def check_not_traced(who: str) -> None:
    """Raise `ConfigError` while torch.jit.trace runs."""
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        raise ConfigError(
            f"{who}: torch.jit.trace must not record it, since a trace keeps the sizes "
            f"and ids of its example; torch.compile would work"
        )


def check_not_meta(name: str, x: Tensor) -> None:
    """Raise `ShapeError` if a tensor is on the meta device, where it has no numbers."""
    if x.device.type == "meta":
        raise ShapeError(
            f"attention: {name} must hold numbers, got a tensor on the meta device; "
            f"one on the CPU would work"
        )


def _check_order(q: Tensor, positions: Tensor, scheme: Scheme) -> None:
    """Refuse queries of the right sizes in another order, before sizes are compared."""
    ids = position_ids("attention: positions", positions, scheme)
    last = 0 if scheme.facts.axes == 1 else 1
    if ids.dim() - last not in (1, 2):
        return  # which is refused where they are read
    count = ids.shape[ids.dim() - last - 1]
    if q.shape[2] != count == q.shape[1] != scheme.geometry.heads:
        raise ShapeError(
            f"attention: q must be (batch, heads, query, head_dim), got "
            f"{tuple(q.shape)} with {count} positions; q.transpose(1, 2), and k and "
            f"v likewise, would work"
        )


def check_sizes(scheme: Scheme, heads: int, head_dim: int) -> None:
    """Refuse other heads than a scheme was built for, where they matter to it.

    What it does could broadcast over them, or serve the first few. A rotation that is
    known to be the same for all heads serves any number, and a bias that never looks at
    queries and keys the same for every `head_dim`.
    """
    hooks = hooks_on_heads(scheme)
    if not hooks:
        return
    alike = turns_alike(scheme)
    looks = hooks - {"offset_bias", "pair_bias"} or scheme.family == "contextual"
    for size, got, free in (
        ("heads", heads, alike),
        ("head_dim", head_dim, not looks),
    ):
        built = getattr(scheme.geometry, size)
        if got != built and not free:
            raise ShapeError(
                f"{scheme.name}: q must have the {size} that the scheme was built for, "
                f"{built}, got {got}; one built with {size}={got} would work"
            )


def hooks_on_heads(scheme: Scheme) -> set[str]:
    """Return the hooks at which a scheme acts on heads."""
    return {hook for hook in ON_HEADS if scheme.acts_at(hook)}


def turns_alike(scheme: Scheme) -> bool:
    """Return whether a scheme only rotates heads, all by the same angles.

    That is known of rotations without angles for each head, also inside another scheme,
    whose hooks are this package's; others could read the number of a head.
    """
    parts = [part for part in scheme.modules() if isinstance(part, Scheme)]
    turns = all(_known_to_turn(part) for part in parts if hooks_on_heads(part))
    turns = turns and hooks_on_heads(scheme) <= {"query", "key"}
    turns = turns and next(scheme.parameters(), None) is None
    return turns and not scheme.acts_at("token_state")


def _known_to_turn(part: Scheme) -> bool:
    kind = type(part)
    ours = all(d.__module__.startswith(f"{OURS}.") for d in (kind.query, kind.key))
    alike = isinstance(part, Rotation) and not part.per_head
    return ours and (alike or isinstance(part, Wrapper))


def serves_groups(scheme: Scheme) -> bool:
    """Return whether a scheme may see fewer heads of keys than of queries.

    One that asks for the call might read the keys there, head by head.
    """
    hooks = hooks_on_heads(scheme)
    blind = hooks <= {"query", "offset_bias"} and not hooks & scheme.asks_call
    return blind or turns_alike(scheme)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Return `(batch, heads, key, ...)`, each head as often as queries share it."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _reach(queries: Tensor, keys: Tensor) -> tuple[int, int]:
    q_low, q_high = queries.aminmax(dim=1)
    k_low, k_high = keys.aminmax(dim=1)
    return int((k_low - q_high).min()), int((k_high - q_low).max())


def _in_step(queries: Tensor, keys: Tensor) -> bool:
    runs = all(bool((ids.diff(dim=1) == 1).all()) for ids in (queries, keys))
    start = keys[:, :1] - queries[:, :1]
    return runs and bool((start == start[0]).all())
