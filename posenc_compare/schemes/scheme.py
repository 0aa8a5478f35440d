"""The attention hook: what a positional scheme declares, does and is given.

A scheme is a class with one method per place, called a hook. Every hook returns
its input unchanged, or nothing to add, so the class with no hook overridden is
attention without positional encoding (NoPE), and the attention code needs no
branch per scheme. `docs/hooks.md` explains each hook, and `docs/schemes.md` lists the
hooks of every published scheme.

Beside the class stands what a scheme declares (`Facts`, `Published`) and what its hooks
are given: the sizes (`Geometry`), and one attention call (`Call`).
"""

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from posenc_compare.errors import (
    ConfigError,
    PluginError,
    ShapeError,
    UndefinedPositionError,
    UnfitError,
)
from posenc_compare.registry import SCHEMES
from posenc_compare.validate import check_choice

T = TypeVar("T")
Table = dict[tuple[Hashable, ...], Any]
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
        if self.head_dim == 0 and self.model_dim < self.heads:
            raise ConfigError(
                f"geometry: model_dim must be at least heads, got {self.model_dim} and "
                f"{self.heads}; heads=1 or a head_dim would work"
            )
        if self.head_dim == 0:
            object.__setattr__(self, "head_dim", self.model_dim // self.heads)
        self._check("head_dim", "layers")
        if self.layer not in range(self.layers):
            raise ConfigError(
                f"geometry: layer must be at least 0 and below layers, got "
                f"{self.layer!r} and {self.layers!r}"
            )

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
    """What one attention call knows; passed to the hooks that need all of it.

    Attributes:
        q: `(batch, heads, query, head_dim)` queries before the hook `query`.
        k: `(batch, heads, key, head_dim)` keys before the hook `key`.
        q_positions: `(batch or 1, query)` int64, or float64 if they are real; schemes
            of several axes get a last axis more.
        k_positions: `(batch or 1, key)`, likewise.
        q_placed: `(batch or 1, query)` bool, False where a query has no position, and
            its id is that of another. None: all have one.
        k_placed: `(batch or 1, key)`, likewise; None if and only if `q_placed` is.
        state: `(batch, key, ...)` what `token_state` returned for every key, or
            None. The queries are the last `query` of the keys.
        causal: whether a query sees no key after its own index.
        segments: `(batch, key)` int64; a query sees its own segment only. None: all
            are one segment.
        window: a query sees itself and the `window - 1` keys before it, and without
            `causal` as many after it. None: there is no such limit.
        prefix: how many first keys all queries see, one number or `(batch,)` int64.
        drawn: what the hook `draw` returned for this forward pass, or None.
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
    q_placed: Tensor | None = None
    k_placed: Tensor | None = None

    def once(
        self, owner: object, what: str, positions: Tensor, make: Callable[[], T]
    ) -> T:
        """Return `make()`, computed once for all layers of a forward pass.

        The call of some of the queries keeps nothing: its positions are its own.

        Args:
            owner: the scheme that asks.
            what: it computes.
            positions: `q_positions` or `k_positions`, which it depends on.
            make: computes it.
        """
        if self.first >= 0:
            return make()
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
            for x in (self.query_segments, self.blind, self.q_placed)
        ]
        seen = self.k.shape[2] if ahead else self.past + stop
        state, segments = (
            None if x is None else x[:, :seen] for x in (self.state, self.segments)
        )
        k_placed = None if self.k_placed is None else self.k_placed[:, :seen]
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
            q_placed=own[2],
            k_placed=k_placed,
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
        """Return `may_look` for all pairs: bool `(batch or 1, 1, query, key)`.

        Layers share it, unless it is of some of the queries or of single sequences.
        """
        if self.first >= 0 or not self.alike:
            return self._keep()
        about = ("keep", self.sizes, self.window, self.q.device)
        return once(self.shared, about, self._keep)

    def _keep(self) -> Tensor:
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


def once(table: Table, about: tuple[Hashable, ...], make: Callable[[], T]) -> T:
    """Return `make()`, computed once for all that it is about.

    Schemes and tensors are the same if they are one object.
    """
    if about not in table:
        table[about] = make()
    return table[about]


def gather_bias(rows: Tensor, place: Tensor) -> WholeBias:
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


def position_ids(who: str, got: object, scheme: "Scheme") -> Tensor:
    """Return position ids as int64, or real ones as float64.

    Args:
        who: gives them, for messages.
        got: `(seq,)` or `(batch, seq)`; schemes of several axes have a last axis more.
        scheme: that reads them.

    Raises:
        ShapeError: if they are no tensor of whole numbers, and the scheme serves no
            real ones, or they have half precision.
    """
    if not isinstance(got, Tensor) or not got.is_floating_point():
        return whole_numbers(who, got)
    if not scheme.facts.real:
        wanted = f"whole numbers for {scheme.name}"
        cure = "rope and rope_2d take real ones"
    elif got.dtype in (torch.float32, torch.float64):
        return got.double()
    else:
        wanted, cure = "whole numbers, float32 or float64", "float32 would work"
    raise ShapeError(f"{who} must be a tensor of {wanted}, got {got.dtype}; {cure}")


def whole_numbers(who: str, got: object) -> Tensor:
    """Return a tensor of whole numbers as int64."""
    if not isinstance(got, Tensor):
        found = type(got).__name__
    elif got.is_floating_point() or got.is_complex() or got.dtype == torch.bool:
        found = str(got.dtype)
    else:
        return got.long()
    raise ShapeError(f"{who} must be a tensor of whole numbers, got {found}")


@dataclass(frozen=True)
class Facts:
    """What a scheme declares about itself; `posenc-compare check` tests it.

    Attributes:
        per_layer: True if every layer owns an instance; False if all share one.
        mixed: True if layers may have different schemes or windows.
        axes: number of coordinates of a position, set by `@register`.
        causal_only: True if the scheme is undefined for keys in the future.
        relative: True if logits depend on differences of positions alone. None lets
            `@register` derive it: True for every family but absolute.
        by_order: True if it counts tokens and never reads position ids.
        real: True if position ids may be real numbers. Set by `@register`; True for
            every scheme that reads no ids.
        own_text: True if keys of another text have no meaning. Set by `@register`.
        mixes_heads: True if a head's logits depend on those of other heads.
        widens: how many times as many channels the heads of queries and keys have
            behind the hooks `query` and `key`.
        hides: True if it hides keys that the mask shows.
        window: how many tokens its layer lets a query see, itself included, unless the
            mask has a narrower window. None: no limit.
        known_faults: declared deviations: conformance checks that the scheme fails on
            purpose, each with the reason.
    """

    per_layer: bool = False
    mixed: bool = False
    axes: int = 1
    causal_only: bool = False
    relative: bool | None = None
    by_order: bool = False
    real: bool = False
    own_text: bool = False
    mixes_heads: bool = False
    widens: int = 1
    hides: bool = False
    window: int | None = None
    known_faults: Mapping[str, str] = field(default_factory=dict, hash=False)


ON_CALL = ("query", "key", "offset_bias")  # hooks that may ask for the call
HOOKS = (
    "positions",
    "draw",
    "embed",
    "query",
    "key",
    "scale",
    "token_state",
    "offset_bias",
    "pair_bias",
    "scores",
    "weights",
    "values",
)
"""The hooks of a scheme, in the order of a pass."""


class Scheme(nn.Module):
    """One way to tell attention where each token stands.

    Attributes:
        name: registry name, set by `@register`.
        family: none, absolute, rotary, bias or contextual, set by `@register`.
        source: the paper, set by `@register`.
        built_label: the name with the options that were given, set by `create`.
        facts: what the scheme declares about itself. A class states it; an instance
            whose options change it replaces it by `dataclasses.replace`.
        published: the options whose default is a multiple of the training length, each
            with the paper's number. A built scheme has it under the option's name.
    """

    name: ClassVar[str] = "scheme"
    family: ClassVar[str] = "none"
    source: ClassVar[str] = ""
    facts: Facts = Facts()
    published: ClassVar[Mapping[str, Published]] = {}
    asks_call: ClassVar[frozenset[str]] = frozenset()
    built_label: str = ""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry

    def __init_subclass__(cls) -> None:
        """Refuse loose facts and other arguments, and check the ids of two hooks."""
        super().__init_subclass__()
        for fact in fields(Facts):
            if fact.name in vars(cls):
                raise PluginError(
                    f"{cls.__name__}: {fact.name} must be in the facts of the class, "
                    f"got an attribute; facts = Facts({fact.name}=...) would work"
                )
        cls.asks_call = frozenset(
            hook for hook in ON_CALL if "call" in _parameters(getattr(cls, hook))
        )
        for hook in HOOKS:
            if getattr(cls, hook) is not getattr(Scheme, hook):
                _check_arguments(cls, hook)
        # Users call these hooks of a scheme themselves, outside attention. So the ids
        # are checked around what a subclass writes.
        for hook, checked in (("positions", _on_ids), ("embed", _on_tokens)):
            if hook in vars(cls):
                setattr(cls, hook, checked(vars(cls)[hook]))

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse an attribute that would hide a hook."""
        if name in HOOKS:
            raise PluginError(
                f"{type(self).__name__}: an attribute must not have the name of a "
                f"hook, got {name!r}; {name}_ would work"
            )
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Return what `print` shows in the brackets of the scheme."""
        return self.built_label

    @classmethod
    def defaults_at(cls, length: int, lengths: Lengths = "scaled") -> dict[str, int]:
        """Return the defaults of the options in `published` at a training length.

        Args:
            length: training length, in positions.
            lengths: the policy of `Geometry.positions`.
        """
        built = cls(Geometry(length=length, lengths=lengths))
        return {option: getattr(built, option) for option in cls.published}

    def acts_at(self, hook: str, /) -> bool:
        """Return whether this scheme overrides the hook of that name."""
        return getattr(type(self), hook) is not getattr(Scheme, hook)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Replace the position ids, once per sequence.

        Args:
            positions: `(batch, seq)` int64, or `(seq,)` for all sequences alike;
                float64 if they are real.
            generator: of random ids; on the CPU.

        Returns:
            The ids. Of int64, it may return float64: these go to `embed`, and the
            layers go on with the ids that were given.
        """
        return positions

    def draw(
        self, positions: Tensor, generator: torch.Generator | None
    ) -> Tensor | None:
        """Return random numbers for a pass, or the size of an image, or None.

        All layers find it in `call.drawn`.

        Args:
            positions: the ids of the layers, as `positions` left them.
            generator: on the CPU; None: nothing is to be drawn.
        """
        return None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Change token vectors `(batch, seq, model_dim)` before the first layer."""
        return x

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        """Change queries `(batch, heads, query, head_dim)`.

        This hook, `key` and `offset_bias` are given the call too where they have one
        more parameter, `call: Call | None = None`. It is None outside attention.
        """
        return q

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        """Change keys `(batch, heads, key, head_dim)`."""
        return k

    @property
    def keys_alone(self) -> bool:
        """Return whether `key` changes each key by its own position alone.

        Then a session that decodes keeps keys as `key` made them, and calls it for the
        new ones only.
        """
        return False

    def scale(self, head_dim: int) -> float:
        """Return the factor that multiplies every product of query and key."""
        return head_dim**-0.5

    def query_init_gain(self, head_dim: int) -> float:
        """Return the initial gain of the query projection, 1 by default.

        Not a hook. It is used only when training from scratch.
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
            offsets: `(offset,)` int64, or float64 if positions are real; position
                of the key minus position of the query, negative in the past.

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

    def weights(self, logits: Tensor, call: Call) -> Tensor | None:
        """Return what takes the place of the softmax of the logits, or None.

        Args:
            logits: `(batch, heads, query, key)`, -inf where a query may not look.
            call: the attention call.
        """
        return None

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        """Return what to add to the output `(batch, heads, query, head_dim)`.

        Args:
            weights: `(batch, heads, query, key)`, as `weights` or the softmax has
                them.
            call: the attention call.
        """
        return None

    def schemes_for_length(self, length: int) -> dict[str, "Scheme"]:
        """Return schemes that may replace this one at another length, by name.

        Not a hook. A test beyond the training length tries each of them with the
        trained weights. They have no parameters of their own.

        Args:
            length: positions of the text to be read; `geometry.length` were trained.
        """
        return {}


def _parameters(hook: object) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a hook, or nothing if it states none.

    Those of a function inside count only if the one around it takes any.
    """
    try:
        own = inspect.signature(hook, follow_wrapped=False) if callable(hook) else None
    except ValueError:  # of a function in C
        return {}
    kinds = [one.kind for one in own.parameters.values()] if own else []
    if callable(hook) and inspect.Parameter.VAR_POSITIONAL in kinds:
        own = inspect.signature(hook)
    return own.parameters if own else {}


def _check_arguments(scheme: type[Scheme], hook: str) -> None:
    """Refuse a hook that is not callable, or cannot take the arguments of a hook."""
    wanted, own = inspect.signature(getattr(Scheme, hook)), getattr(scheme, hook)
    found, fits = repr(own), callable(own)
    if hook in scheme.asks_call:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        call = inspect.Parameter("call", kind, default=None)
        wanted = wanted.replace(parameters=[*wanted.parameters.values(), call])
    if inspect.isfunction(inspect.getattr_static(scheme, hook)):
        signature = inspect.signature(own, follow_wrapped=False)
        found = _plain(signature)
        try:
            signature.bind(*wanted.parameters)
        except TypeError:
            fits = False
    if not fits:
        raise PluginError(
            f"{scheme.__name__}: {hook} must take {_plain(wanted)}, got {found:.60}; "
            f"`def {hook}{_plain(wanted)}:` would work"
        )


def _plain(signature: inspect.Signature) -> str:
    """Return a signature without types."""
    none = inspect.Parameter.empty
    names = [one.replace(annotation=none) for one in signature.parameters.values()]
    return str(inspect.Signature(names))


def _on_ids(hook: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the hook `positions` such that it sees int64, or real ids as float64."""

    @functools.wraps(hook)
    def positions(
        self: Scheme, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        ids = position_ids(f"{self.name}: positions", positions, self)
        return hook(self, ids, generator)

    return positions


def _on_tokens(hook: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the hook `embed` such that it sees int64, or the real numbers of CAPE."""

    @functools.wraps(hook)
    def embed(self: Scheme, x: Tensor, positions: Tensor) -> Tensor:
        real = isinstance(positions, Tensor) and positions.is_floating_point()
        if not real:
            positions = whole_numbers(f"{self.name}: positions", positions)
        try:
            return hook(self, x, positions)
        except ConfigError as error:  # of shared code, which knows no scheme
            raise error.of(self.name) from error

    return embed


# Hooks whose results cannot be left out for single tokens.
ON_EVERY_TOKEN = ("token_state", "scores", "weights", "values")


def why_all_placed(scheme: Scheme) -> str:
    """Return why every token needs a position, or nothing.

    A token without one is left out at the hooks `embed`, `query` and `key`, and of the
    bias. That has a meaning if a scheme changes attention at no other hook, and each
    token by its position alone.
    """
    acts = [hook for hook in ON_EVERY_TOKEN if scheme.acts_at(hook)]
    if acts:
        return f"it acts at {' and '.join(acts)}"
    for part in (part for part in scheme.modules() if isinstance(part, Scheme)):
        turns = part.acts_at("query") or part.acts_at("key")
        if part.facts.by_order or (part.family == "contextual" and turns):
            return "it counts tokens, or changes queries by more than their position"
    if scheme.facts.mixes_heads or scheme.facts.widens != 1:
        return "it changes heads together, or their width"
    return ""


S = TypeVar("S", bound=type[Scheme])


def register(
    name: str,
    *,
    family: str,
    source: str = "",
    axes: int = 1,
    real: bool = False,
    own_text: bool = False,
    identities: str = "",
    oracles: str = "",
    checked: str = "",
) -> Callable[[S], S]:
    """File a scheme class under a name and return it unchanged.

    Args:
        name: what users type; lower case.
        family: none, absolute, rotary, bias or contextual.
        source: authors, year, arXiv id.
        axes: how many coordinates a position has.
        real: whether position ids may be real numbers.
        own_text: whether keys of another text have no meaning.
        identities: properties that tests check, for docs/schemes.md.
        oracles: packages that agree, each with the largest relative difference.
        checked: what the code was written from, and what is unverified.

    Raises:
        ConfigError: if the family is unknown, or the name is taken or not valid.

    Example:
        >>> from posenc_compare import Scheme, create, register
        >>> @register("falling", family="bias", source="own example")
        ... class Falling(Scheme):
        ...     def offset_bias(self, offsets):
        ...         return -offsets.abs().expand(self.geometry.heads, -1)
        >>> create("falling", heads=2).offset_bias(torch.tensor([-3, 0]))
        tensor([[-3,  0],
                [-3,  0]])
    """

    def file(scheme: S) -> S:
        if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
            raise ConfigError(
                f"scheme {name!r}: must be a class derived from Scheme, got {scheme!r}"
            )
        facts: dict[str, object] = {"family": family, "source": source}
        audit = {"identities": identities, "oracles": oracles, "checked": checked}
        facts |= {name: text for name, text in audit.items() if text}
        if axes != 1:
            facts["axes"] = axes
        SCHEMES.add(name, scheme, scheme, facts)
        scheme.name, scheme.family, scheme.source = name, family, source
        relative = scheme.facts.relative
        if relative is None:
            relative = family != "absolute"
        reads_no_ids = scheme.facts.by_order or family == "none"
        declared = {"axes": axes, "relative": relative, "own_text": own_text}
        scheme.facts = replace(scheme.facts, **declared, real=real or reads_no_ids)
        return scheme

    return file


def check_positions(scheme: str, positions: Tensor, limit: int) -> None:
    """Raise `UndefinedPositionError` unless all positions are in `0 ... limit - 1`.

    In a graph of torch.compile, which reads no numbers, that is a RuntimeError.
    """
    inside = (positions >= 0) & (positions < limit)
    if assert_in_graph(inside, f"{scheme}: positions must be from 0 to {limit - 1}"):
        return
    if positions.numel():
        low, high = torch.stack(positions.aminmax()).tolist()
        if low < 0 or high >= limit:
            raise UndefinedPositionError(scheme, limit, low if low < 0 else high)


def assert_in_graph(right: Tensor, message: str) -> bool:
    """Assert in a graph of torch.compile, which reads no numbers; return whether."""
    if torch.compiler.is_compiling():
        torch._assert_async(right.all(), message)  # pyright: ignore[reportPrivateImportUsage]
        return True
    return False


def check_axes(scheme: Scheme, axes: int = 1) -> None:
    """Raise `UnfitError` unless the scheme's positions have so many axes."""
    if scheme.facts.axes != axes:
        raise UnfitError(
            f"{scheme.name}: needs positions of {scheme.facts.axes} axes, got {axes}"
        )
