"""What the doors of a scheme are given: sizes, and one attention call."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.validate import check_choice

T = TypeVar("T")
Table = dict[tuple[Hashable, ...], tuple[tuple[object, ...], Any]]
"""What a forward pass computes once, by what it depends on; see `once`."""

PairBias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class WholeBias:
    """A pair bias with a quicker way to that of all pairs at once.

    Attributes:
        one: the pair bias.
        whole: returns `(batch or 1, heads, query, key)`, the same numbers.
    """

    one: PairBias
    whole: Callable[[], Tensor]

    def __call__(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return the pair bias at these indices."""
        return self.one(b, h, i, j)


Lengths = Literal["scaled", "published"]
"""Whether defaults follow the training length, or are those of the paper."""


@dataclass(frozen=True)
class Published:
    """A number of positions that a paper states for its training length.

    Attributes:
        positions: the number.
        trained_at: the training length, in positions.
    """

    positions: int
    trained_at: int


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
        lengths: scaled or published, the policy for defaults that are numbers of
            positions; see `positions`.
    """

    model_dim: int = 512
    heads: int = 8
    head_dim: int = 0
    length: int = 512
    layer: int = 0
    layers: int = 1
    lengths: Lengths = "scaled"

    def __post_init__(self) -> None:
        self._check("model_dim", "heads", "length")
        if self.head_dim == 0:
            object.__setattr__(self, "head_dim", self.model_dim // self.heads)
        self._check("head_dim")

    def _check(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(
                    f"geometry: {name} must be a whole number of at least 1, "
                    f"got {value!r}"
                )
        check_choice("lengths", self.lengths, get_args(Lengths))

    def positions(self, published: Published) -> int:
        """Return a published number of positions as the policy `lengths` has it.

        Published, it is the number of the paper. Scaled, it is the same multiple of
        `length` as it was of the paper's training length, rounded, and at least 1.

        Example:
            >>> Geometry(length=64).positions(Published(128, trained_at=512))
            16
        """
        if self.lengths == "published":
            return published.positions
        multiple = published.positions / published.trained_at
        return max(1, round(multiple * self.length))


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
        window: a query sees itself and the `window - 1` keys before it, and without
            `causal` as many after it. None: there is no such limit.
        prefix: how many first keys all queries see, one number or `(batch,)` int64.
        drawn: what the door `draw` returned for this forward pass, or None.
        shared: what all layers of a forward pass compute once.
        first: which key is the first query; -1: the queries are the last keys.
        query_segments: `(batch, query)` int64, where keys are another text. None:
            queries have the segments of their own keys.
        blind: `(batch, query)` bool, where a query sees no key, so has an output of 0.
            None: all see one.
        crosses: why a scheme that looks for a query's own key is refused, where keys
            are another text; empty: they are one text.
    """

    q: Tensor
    k: Tensor
    q_positions: Tensor
    k_positions: Tensor
    state: Tensor | None = None
    causal: bool = True
    segments: Tensor | None = None
    window: int | None = None
    prefix: int | Tensor = 0
    drawn: Tensor | None = None
    shared: Table = field(default_factory=dict, repr=False, compare=False)
    first: int = -1
    query_segments: Tensor | None = None
    blind: Tensor | None = None
    crosses: str = ""

    def once(
        self, owner: object, what: str, positions: Tensor, make: Callable[[], T]
    ) -> T:
        """Return `make()`, computed once for all layers of a forward pass.

        Args:
            owner: the scheme that asks.
            what: it computes.
            positions: `q_positions` or `k_positions`, which it depends on.
            make: computes it.
        """
        return once(self.shared, (owner, what, positions), make)

    @property
    def past(self) -> int:
        """Return how many keys come before the first query.

        Raises:
            ConfigError: if keys are another text.
        """
        if self.crosses:
            raise ConfigError(self.crosses)
        return self.k.shape[2] - self.q.shape[2] if self.first < 0 else self.first

    def part(self, start: int, stop: int) -> "Call":
        """Return the call of some of the queries, with the keys that they may see.

        Args:
            start: the first query.
            stop: one behind the last.
        """
        ahead = not self.causal or self.has_prefix
        own = [
            None if x is None else x[:, start:stop]
            for x in (self.query_segments, self.blind)
        ]
        seen = self.k.shape[2] if ahead else self.past + stop
        state, segments = (
            None if x is None else x[:, :seen] for x in (self.state, self.segments)
        )
        return replace(
            self,
            q=self.q[:, :, start:stop],
            k=self.k[:, :, :seen],
            q_positions=self.q_positions[:, start:stop],
            k_positions=self.k_positions[:, :seen],
            state=state,
            segments=segments,
            first=-1 if self.crosses else self.past + start,
            query_segments=own[0],
            blind=own[1],
        )

    def may_look(self, batch: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return where a query may look; index tensors broadcast, as in a bias."""
        keep = (key >= 0) & (query >= 0)  # all true, in the shape of the pair
        if self.causal:
            keep = keep & (key <= query + self.past)
        if self.window is not None:
            keep = keep & ((query + self.past - key).abs() < self.window)
        if isinstance(self.prefix, Tensor):
            keep = keep | (key < self.prefix[batch])
        elif self.has_prefix:
            keep = keep | (key < self.prefix)
        if self.segments is not None:
            if self.query_segments is not None:
                own = self.query_segments[batch, query]
            else:
                own = self.segments[batch, query + self.past]
            keep = keep & (own == self.segments[batch, key])
        return keep

    def keep(self) -> Tensor:
        """Return `may_look` for all pairs: bool `(batch or 1, 1, query, key)`."""
        batch = 1 if self.alike else self.q.shape[0]
        b, _, i, j = index_grid(batch, 1, *self.sizes, self.q.device)
        return self.may_look(b, i, j).expand(batch, 1, *self.sizes)

    @property
    def has_prefix(self) -> bool:
        """Return whether there are keys that all queries see."""
        return isinstance(self.prefix, Tensor) or self.prefix > 0

    @property
    def alike(self) -> bool:
        """Return whether all sequences have the same mask."""
        return self.segments is None and not isinstance(self.prefix, Tensor)

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the number of queries and of keys."""
        return self.q.shape[2], self.k.shape[2]


def once(table: Table, about: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return `make()`, computed once for all that it is about.

    Schemes and tensors are the same if they are one object; they stay in the table, so
    that no other object gets their id.
    """
    key = tuple(id(x) if isinstance(x, nn.Module | Tensor) else x for x in about)
    if key not in table:
        table[key] = (about, make())
    return table[key][1]


def picked(rows: Tensor, place: Tensor) -> WholeBias:
    """Return the pair bias that picks one number of each query's row.

    Args:
        rows: `(batch, heads, query, row)`.
        place: which number, `(batch or 1, query, key)` int64.
    """
    batch, heads = rows.shape[:2]
    place = place.expand(batch, -1, -1)
    return WholeBias(
        lambda b, h, i, j: rows[b, h, i, place[b, i, j]],
        lambda: rows.gather(-1, place[:, None].expand(-1, heads, -1, -1)),
    )


def all_pairs(pair: PairBias, call: Call) -> Tensor:
    """Return a pair bias for all pairs of a call, as it broadcasts."""
    if isinstance(pair, WholeBias):
        return pair.whole()
    return pair(
        *index_grid(  # pyright counts no items of a torch.Size
            *call.q.shape[:2],  # pyright: ignore[reportCallIssue]
            *call.sizes,
            call.q.device,  # pyright: ignore[reportCallIssue]
        )
    )


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


def whole_numbers(who: str, got: object) -> Tensor:
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
