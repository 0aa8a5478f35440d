"""Position ids of queries and keys, and which of them have a position."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError, UnfitError
from posenc_compare.schemes.contract import ask_draw, ask_positions
from posenc_compare.schemes.scheme import (
    Scheme,
    assert_in_graph,
    position_ids,
    why_all_placed,
)
from posenc_compare.transfer import to_device

SEEDS = 4  # of the draws that are compared; one alone may not show a difference


@dataclass(frozen=True, eq=False)
class Ids:
    """Checked ids of the queries, or of the keys.

    Attributes:
        positions: `(batch or 1, seq)` int64 or float64; several axes have a last axis
            more. A token without a position has the id of one that has.
        placed: `(batch or 1, seq)` bool, False for a token without a position. None:
            all have one.
    """

    positions: Tensor
    placed: Tensor | None = None

    def on(self, device: torch.device) -> "Ids":
        """Return them on a device."""
        placed = None if self.placed is None else to_device(self.placed, device)
        return Ids(to_device(self.positions, device), placed)

    def are_last_of(self, keys: "Ids") -> Tensor:
        """Return whether they are the ids of the last keys, as a scalar tensor."""
        before = keys.positions.shape[1] - self.positions.shape[1]
        device = self.positions.device
        alike = self.positions == keys.positions[:, before:].to(device)
        if self.placed is None or keys.placed is None:
            return alike.all()
        own, others = self.placed.to(device), keys.placed[:, before:].to(device)
        missing = ~(own | others)
        alike = alike | (missing if alike.dim() == 2 else missing[..., None])
        return alike.all() & (own == others).all()


def checked_ids(
    positions: Tensor,
    batch: int,
    length: int,
    scheme: Scheme,
    who: str,
    of: str,
) -> Tensor:
    """Return ids as `position_ids` does, `(batch or 1, length)`.

    With several axes, ids have one more dimension, the last. `of` names what each id
    belongs to: a query or a key.
    """
    positions = position_ids(f"attention: {who}", positions, scheme)
    axes = scheme.facts.axes
    last = () if axes == 1 else (axes,)
    ids = positions[None] if positions.dim() == 1 + len(last) else positions
    if ids.shape not in {(rows, length, *last) for rows in (1, batch)}:
        shapes = " or ".join(str((*rows, length, *last)) for rows in ((), (batch,)))
        raise ShapeError(
            f"attention: {who} must be {shapes}, one for each {of}, "
            f"got {tuple(positions.shape)}"
        )
    return ids


def checked_placed(placed: Tensor, batch: int, length: int, who: str) -> Tensor:
    """Return which tokens have a position, `(batch or 1, length)` bool."""
    if not isinstance(placed, Tensor):
        found = type(placed).__name__
    elif placed.dtype != torch.bool:
        found = str(placed.dtype)
    else:
        rows = placed[None] if placed.dim() == 1 else placed
        if rows.shape in {(1, length), (batch, length)}:
            return rows
        found = str(tuple(placed.shape))
    raise ShapeError(
        f"{who} must be bool, ({length},) or ({batch}, {length}), got "
        f"{found}; torch.arange({length}) >= 1 would leave out the first token"
    )


def fill_positions(positions: Tensor, placed: Tensor, axes: int) -> Tensor:
    """Return ids in which each token without a position has the id of one that has.

    So hooks compute with ids that they know. What they make of them is left out.

    Args:
        positions: `(..., seq)`; several axes have a last axis more.
        placed: `(..., seq)` bool.
        axes: of a position.
    """
    axis, there = -1, placed.to(positions.device)
    if axes > 1:
        axis, there = -2, there[..., None]
    ids, there = torch.broadcast_tensors(positions, there)
    if not ids.numel():
        return ids
    known = ids.gather(axis, there.long().argmax(dim=axis, keepdim=True))
    known = known.where(there.any(dim=axis, keepdim=True), 0)
    return ids.where(there, known)


def check_placed(scheme: Scheme) -> None:
    """Raise `UnfitError` if every token needs a position under a scheme."""
    if why := why_all_placed(scheme):
        raise UnfitError(
            f"{scheme.name}: needs a position for every token, since {why}, got "
            f"placed; rope and rope_2d serve tokens without one"
        )


def check_apart(
    scheme: Scheme, ids: Tensor, placed: Tensor, draws: bool = False
) -> None:
    """Raise `ConfigError` if tokens without a position move those with one.

    Args:
        scheme: that places tokens.
        ids: `fill_positions`, with the first id that a sequence has.
        placed: `(..., seq)` bool.
        draws: whether the scheme is given a generator.
    """
    there = placed.to(ids.device)
    if _others_move(
        scheme, fill_positions(ids, there, scheme.facts.axes), there, draws
    ):
        raise ConfigError(
            f"{scheme.name}: needs a position for every token, since it places each "
            f"by all ids, got placed; rope and rope_2d serve tokens without one"
        )


def check_contiguous(schemes: Iterable[Scheme], segments: Tensor) -> None:
    """Raise `ConfigError` if a token state would sum tokens of another segment."""
    states = [one for one in schemes if one.acts_at("token_state")]
    if not states or not segments.numel() or torch.compiler.is_compiling():
        return
    parts = (segments[:, 1:] != segments[:, :-1]).sum(dim=1) + 1
    known = [len(row.unique()) for row in segments]
    if parts.tolist() != known:
        raise ConfigError(
            f"{states[0].name}: needs contiguous segments, since it keeps a token "
            f"state, got a segment with other tokens in between; padding on one side "
            f"would work"
        )


def check_segments(
    scheme: Scheme,
    ids: Tensor,
    segments: Tensor,
    placed: Tensor | None,
    draws: bool = False,
) -> None:
    """Raise `ConfigError` if tokens of one segment move those of another.

    Args:
        scheme: that places tokens, or draws from their ids.
        ids: `(seq,)` or `(batch, seq)`; several axes have a last axis more.
        segments: `(batch, seq)`.
        placed: `(batch or 1, seq)` bool; the places of others do not matter.
        draws: whether the scheme is given a generator.
    """
    if not (scheme.acts_at("positions") or scheme.acts_at("draw")):
        return
    if torch.compiler.is_compiling():  # a graph cannot depend on their numbers
        return
    segments = segments.to(ids.device)
    last = () if scheme.facts.axes == 1 else (scheme.facts.axes,)
    batch = ids.shape[:-1] if last else ids.shape
    if len(batch) == 2 and 1 not in (len(ids), len(segments)):
        if len(ids) != len(segments):
            raise ShapeError(
                f"session: segments must be {tuple(batch)}, as the positions, got "
                f"{tuple(segments.shape)}"
            )
    batch = torch.broadcast_shapes(batch, segments.shape)
    rows, segments = ids.expand(*batch, *last), segments.expand(batch)
    for number in segments.unique().tolist():
        there = segments == number
        if placed is not None:
            there = there & placed.to(ids.device)
        held = there.any(dim=-1)
        own = fill_positions(rows[held], there[held], scheme.facts.axes)
        if draws and (own == own[:, :1]).all():  # padding has no order
            continue
        if _others_move(scheme, rows[held], there[held], draws):
            raise ConfigError(
                f"{scheme.name}: needs one text or image in each row, since it places "
                f"tokens by all ids, got segments; a row for each would work, with "
                f"placed, False at padding"
            )


def _others_move(scheme: Scheme, ids: Tensor, there: Tensor, draws: bool) -> bool:
    """Return whether tokens move, or draws change, with the ids of the others.

    Args:
        scheme: that places tokens.
        ids: `(..., seq)`; several axes have a last axis more.
        there: `(..., seq)` bool, the tokens in question.
        draws: whether the scheme is given a generator.
    """
    axes = scheme.facts.axes
    axis = -1 if axes == 1 else -2
    kept = there if axes == 1 else there[..., None]
    flipped = fill_positions(ids.flip(axis), there.flip(-1), axes).flip(axis)
    cases = [fill_positions(ids, there, axes), flipped]
    seeds = range(SEEDS) if draws else [None]
    for others, seed in itertools.product(cases, seeds):
        own, drawn = _placed_by(scheme, ids, seed)
        moved, again = _placed_by(scheme, others, seed)
        if (kept & (moved != own)).any():
            return True
        if drawn is None or again is None:
            if drawn is not again:
                return True
        elif not torch.equal(drawn, again):
            return True
    return False


def _placed_by(
    scheme: Scheme, ids: Tensor, seed: int | None
) -> tuple[Tensor, Tensor | None]:
    """Return where a scheme places ids, and what it draws, as a session does."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    places = ask_positions(scheme, ids, generator)
    real = places.is_floating_point()
    kept = places if real == ids.is_floating_point() else ids
    return places, ask_draw(scheme, kept, generator)


def check_finite(positions: Tensor) -> None:
    """Raise `ShapeError` unless all positions are finite."""
    if not positions.is_floating_point():
        return
    finite = positions.isfinite()
    if assert_in_graph(finite, "attention: positions are not finite"):
        return
    if not finite.all():
        wrong = positions[~finite][0].item()
        raise ShapeError(
            f"attention: positions must be finite, got {wrong}; placed, False at these "
            f"tokens, would give them no position"
        )


def check_one_kind(positions: Tensor, key_positions: Tensor | None) -> None:
    """Raise `ShapeError` unless queries and keys both have whole ids, or real ones."""
    both = positions, key_positions
    kinds = [x.is_floating_point() for x in both if isinstance(x, Tensor)]
    if len(set(kinds)) == 2:
        raise ShapeError(
            "attention: positions and key_positions must both be whole numbers or both "
            "real, got one of each; positions.double() and key_positions.double() "
            "would work"
        )
