"""The attention hook: the places where a positional scheme can act.

A scheme is a class with one method per place, called a door. Every door returns
its input unchanged, or nothing to add, so the class with no door overridden is
attention without positional encoding (NoPE), and the attention code needs no
branch per scheme. `docs/hooks.md` shows which published scheme uses which door.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from posenc_compare.errors import (
    ConfigError,
    DoorError,
    ShapeError,
    UndefinedPositionError,
)
from posenc_compare.registry import SCHEMES

DOORS = (
    "positions",
    "embed",
    "query",
    "key",
    "scale",
    "token_state",
    "offset_bias",
    "pair_bias",
    "scores",
    "values",
)

AXES = {
    "embed": "(batch, seq, model_dim)",
    "query": "(batch, heads, query, head_dim)",
    "key": "(batch, heads, key, head_dim)",
    "offset_bias": "(heads, offset)",
    "pair_bias": "(batch, heads, query, key)",
    "scores": "(batch, heads, query, key)",
    "values": "(batch, heads, query, head_dim)",
}

PairBias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Geometry:
    """The sizes a scheme may need before it sees data.

    Attributes:
        model_dim: channels of a token vector.
        heads: attention heads.
        head_dim: channels of one head; 0 means `model_dim // heads`.
        length: positions that a scheme of fixed size must cover, normally the
            training length.
        layer: which layer this is, from 0, for schemes with an instance per layer.
        layers: how many there are.
    """

    model_dim: int = 512
    heads: int = 8
    head_dim: int = 0
    length: int = 512
    layer: int = 0
    layers: int = 1

    def __post_init__(self) -> None:
        if self.head_dim == 0 and self.heads > 0:
            object.__setattr__(self, "head_dim", self.model_dim // self.heads)
        for name in ("model_dim", "heads", "head_dim", "length"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(
                    f"geometry: {name} must be a whole number of at least 1, "
                    f"got {value!r}"
                )


@dataclass(frozen=True)
class Call:
    """What one attention call knows; passed to the doors that need all of it.

    Attributes:
        q: `(batch, heads, query, head_dim)` queries before the door `query`.
        k: `(batch, heads, key, head_dim)` keys before the door `key`.
        q_positions: `(batch or 1, query)` int64; schemes of several axes get a
            last axis more.
        k_positions: `(batch or 1, key)` int64.
        state: `(batch, key, ...)` what `token_state` returned for every key, or
            None. The queries are the last `query` of the keys.
        causal: whether a query sees no key after its own index.
        segments: `(batch, key)` int64; a query sees its own segment only. None: all
            are one segment.
    """

    q: Tensor
    k: Tensor
    q_positions: Tensor
    k_positions: Tensor
    state: Tensor | None = None
    causal: bool = True
    segments: Tensor | None = None

    @property
    def past(self) -> int:
        """Return how many keys come before the first query."""
        return self.k.shape[2] - self.q.shape[2]

    def may_look(self, batch: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return where a query may look; index tensors broadcast, as in a bias."""
        keep = (key >= 0) & (query >= 0)  # all true, in the shape of the pair
        if self.causal:
            keep = keep & (key <= query + self.past)
        if self.segments is not None:
            own = self.segments[batch, query + self.past]
            keep = keep & (own == self.segments[batch, key])
        return keep

    def keep(self) -> Tensor:
        """Return `may_look` for all pairs: bool `(batch or 1, 1, query, key)`."""
        batch = 1 if self.segments is None else self.q.shape[0]
        b, _, i, j = index_grid(batch, 1, *self.sizes, self.q.device)
        return self.may_look(b, i, j).expand(batch, 1, *self.sizes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the number of queries and of keys."""
        return self.q.shape[2], self.k.shape[2]


def index_grid(
    batch: int, heads: int, queries: int, keys: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return index tensors that broadcast to `(batch, heads, queries, keys)`."""
    return (
        torch.arange(batch, device=device)[:, None, None, None],
        torch.arange(heads, device=device)[:, None, None],
        torch.arange(queries, device=device)[:, None],
        torch.arange(keys, device=device),
    )


class Scheme(nn.Module):
    """One way to tell attention where each token stands.

    Attributes:
        name: registry name, set by `@register`.
        family: none, absolute, rotary, bias or contextual, set by `@register`.
        source: the paper, set by `@register`.
        axes: how many coordinates a position has, set by `@register`.
        per_layer: True if every layer owns an instance; False if all share one.
        causal_only: True if the scheme has no meaning for keys in the future.
        relative: whether logits depend on differences of positions alone; `@register`
            takes it to be so of all but absolute schemes, unless the class says.
        by_order: True if it counts tokens and never looks at position ids.
        terms: products, of queries, keys and positions, among which the paper shares
            out the scale of a logit.
        mixes_heads: True if a head's logits depend on those of other heads.
        known_faults: reasons, by code, of conformance checks that it fails.
    """

    name: ClassVar[str] = "scheme"
    family: ClassVar[str] = "none"
    source: ClassVar[str] = ""
    axes: int = 1
    per_layer: bool = False
    causal_only: bool = False
    relative: bool = True
    by_order: bool = False
    terms: int = 1
    mixes_heads: bool = False
    known_faults: ClassVar[dict[str, str]] = {}

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry

    def __init_subclass__(cls) -> None:
        """Check the ids of the two doors that are called without attention."""
        super().__init_subclass__()
        for door, checked in (("positions", _on_ids), ("embed", _on_tokens)):
            if door in vars(cls):
                setattr(cls, door, checked(vars(cls)[door]))

    def acts_at(self, door: str) -> bool:
        """Return whether this scheme overrides the door of that name."""
        return getattr(type(self), door) is not getattr(Scheme, door)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Replace the position ids, once per sequence.

        Args:
            positions: `(batch, seq)` int64, or `(seq,)` for all sequences alike.
            generator: of random ids; on the CPU.
        """
        return positions

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Change token vectors `(batch, seq, model_dim)` before the first layer."""
        return x

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        """Change queries `(batch, heads, query, head_dim)`."""
        return q

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        """Change keys `(batch, heads, key, head_dim)`."""
        return k

    def scale(self, head_dim: int) -> float:
        """Return the factor that multiplies every product of query and key."""
        return head_dim**-0.5

    def query_start(self, head_dim: int) -> float:
        """Return how large the paper starts the query projection, 1 being usual.

        Not a door: a network that trains from scratch heeds it.
        """
        return 1.0

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor | None:
        """Return what each key carries beside its vector, `(batch, key, ...)`.

        Args:
            x: `(batch, seq, model_dim)` input of the attention layer.
            past: the state of earlier keys while decoding; the result begins
                with it.
        """
        return None

    def offset_bias(self, offsets: Tensor) -> Tensor | None:
        """Return what to add to the logits, as a function of the offset alone.

        Args:
            offsets: `(offset,)` int64, position of the key minus position of the
                query; negative in the past.

        Returns:
            `(heads, offset)` float32 or wider, or None to add nothing.
        """
        return None

    def pair_bias(self, call: Call) -> PairBias | None:
        """Return what to add to the logits, as a pointwise function.

        The function takes index tensors `batch, head, query, key` that broadcast,
        and uses gathers and pointwise operations only: what needs a product
        (`q @ table.T`) is computed here, before. It serves both as the dense bias
        and as the score function of the fused kernel.
        """
        return None

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        """Change whole rows of logits `(batch, heads, query, key)`."""
        return logits

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        """Return what to add to the output `(batch, heads, query, head_dim)`.

        Args:
            weights: `(batch, heads, query, key)` after the softmax.
            call: the attention call.
        """
        return None

    def check_call(self, call: Call) -> None:
        """Raise if a call is wrong in a way that no door can see.

        Not a door: attention asks before it opens any.
        """

    def at_length(self, length: int) -> dict[str, "Scheme"]:
        """Return other schemes that may read a trained network at another length.

        Not a door: a test beyond the training length tries each, by its name, with
        the weights as they are. They have no parameters of their own.

        Args:
            length: positions of the text to be read; `geometry.length` were trained.
        """
        return {}

    def angles(self, positions: Tensor) -> Tensor | None:
        """Return the rotation angles `(seq, pair)` in radians, if there are any.

        Not a door: it lets measures and plots see a rotation as angles.
        """
        return None


def _on_ids(door: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the door `positions` such that it sees int64."""

    @functools.wraps(door)
    def positions(
        self: Scheme, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        ids = whole_numbers(f"{self.name}: positions", positions)
        return door(self, ids, generator)

    return positions


def _on_tokens(door: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the door `embed` such that it sees int64, or the real numbers of CAPE."""

    @functools.wraps(door)
    def embed(self: Scheme, x: Tensor, positions: Tensor) -> Tensor:
        real = isinstance(positions, Tensor) and positions.is_floating_point()
        if not real:
            positions = whole_numbers(f"{self.name}: positions", positions)
        return door(self, x, positions)

    return embed


def readers_at(schemes: Sequence[Scheme], length: int) -> dict[str, list[Scheme]]:
    """Return what `at_length` offers for each of several schemes, by name.

    A scheme that offers nothing of a name stays itself under it.
    """
    found = [scheme.at_length(length) for scheme in schemes]
    names = dict.fromkeys(name for readers in found for name in readers)
    pairs = list(zip(schemes, found, strict=True))
    return {name: [of.get(name, own) for own, of in pairs] for name in names}


def ask(scheme: Scheme, door: str, x: Tensor, positions: Tensor) -> Tensor:
    """Return what `embed`, `query` or `key` makes of `x`, in the dtype of `x`.

    Raises:
        DoorError: as `check_returned`, or if `x` loses its gradient, or what is
            returned has one that leads to no parameter.
    """
    got = getattr(scheme, door)(x, positions)
    check_returned(scheme, door, got, x.shape, x)
    fault = ""
    if x.requires_grad and not got.requires_grad and torch.is_grad_enabled():
        fault = "with the gradient of its input, got one without"
    elif got.requires_grad and not x.requires_grad:
        if not any(parameter.requires_grad for parameter in scheme.parameters()):
            fault = "without a gradient of its own, got one that is no parameter's"
    if fault:
        raise DoorError(f"{scheme.name}: {door} must return a tensor {fault}")
    return got.to(x.dtype)


def check_returned(
    scheme: Scheme, door: str, got: Any, shape: Sequence[int], like: Tensor
) -> None:
    """Refuse what would broadcast, or be rounded, where nobody sees it.

    Args:
        scheme: whose door it is.
        door: what was called.
        got: what it returned.
        shape: it must have, with the axes of `AXES`.
        like: tensor on the right device; if it is of floating point, the least
            exact dtype.

    Raises:
        DoorError: if `got` is not a dense tensor of real numbers that fits.
    """
    least = like.dtype if like.is_floating_point() else None
    if not isinstance(got, Tensor):
        found = type(got).__name__
    elif got.shape != torch.Size(shape):
        found = str(tuple(got.shape))
    elif got.device != like.device:
        found = f"it on {got.device} and not on {like.device}"
    elif got.layout != torch.strided:
        found = f"{got.layout} and not {torch.strided}"
    elif not got.is_floating_point():
        found = f"{got.dtype} and not floating point"
    elif least and torch.promote_types(got.dtype, least) != got.dtype:
        found = f"{got.dtype} and not {least} or wider"
    else:
        return
    raise DoorError(
        f"{scheme.name}: {door} must return {AXES[door]} {tuple(shape)}, got {found}"
    )


def whole_numbers(who: str, got: Any) -> Tensor:
    """Return a tensor of whole numbers as int64.

    Raises:
        ShapeError: if it is none.
    """
    if not isinstance(got, Tensor):
        found = type(got).__name__
    elif got.is_floating_point() or got.is_complex() or got.dtype == torch.bool:
        found = str(got.dtype)
    else:
        return got.long()
    raise ShapeError(f"{who} must be a tensor of whole numbers, got {found}")


def check_positions(scheme: str, positions: Tensor, limit: int) -> None:
    """Raise `UndefinedPositionError` unless all positions are in `0 ... limit - 1`."""
    if positions.numel():
        low, high = (int(end) for end in positions.aminmax())
        if low < 0 or high >= limit:
            raise UndefinedPositionError(scheme, limit, low if low < 0 else high)


def check_axes(scheme: Scheme, axes: int = 1) -> None:
    """Raise `ConfigError` unless the scheme's positions have so many axes."""
    if scheme.axes != axes:
        raise ConfigError(
            f"{scheme.name}: needs positions of {scheme.axes} axes, got {axes}"
        )


S = TypeVar("S", bound=type[Scheme])


def register(
    name: str, *, family: str, source: str = "", axes: int = 1
) -> Callable[[S], S]:
    """File a scheme class under a name and return it unchanged.

    Args:
        name: what users type; lower case.
        family: none, absolute, rotary, bias or contextual.
        source: authors, year, arXiv id.
        axes: how many coordinates a position has.

    Raises:
        ConfigError: if the family is unknown, or the name is taken or not valid.
    """

    def file(scheme: S) -> S:
        if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
            raise ConfigError(
                f"scheme {name!r}: must be a class derived from Scheme, got {scheme!r}"
            )
        summary = (scheme.__doc__ or "").partition("\n")[0]
        facts: dict[str, Any] = {"family": family, "source": source}
        if axes != 1:
            facts["axes"] = axes
        SCHEMES.add(name, scheme, scheme.__module__, summary, facts)
        scheme.name, scheme.family, scheme.source = name, family, source
        scheme.axes = axes
        if "relative" not in vars(scheme):
            scheme.relative = family != "absolute"
        return scheme

    return file
