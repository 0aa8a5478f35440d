"""The attention hook: the places where a positional scheme can act.

A scheme is a class with one method per place, called a door. Every door returns
its input unchanged, or nothing to add, so the class with no door overridden is
attention without positional encoding (NoPE), and the attention code needs no
branch per scheme. `docs/hooks.md` shows which published scheme uses which door.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.call import (
    Call,
    Geometry,
    Lengths,
    PairBias,
    Published,
    whole_numbers,
)
from posenc_compare.schemes.facts import Facts

ON_CALL = ("query", "key", "offset_bias")  # doors that may ask for the call
DOORS = (
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
"""The doors of a scheme, in the order of a pass."""


class Scheme(nn.Module):
    """One way to tell attention where each token stands.

    Attributes:
        name: registry name, set by `@register`.
        family: none, absolute, rotary, bias or contextual, set by `@register`.
        source: the paper, set by `@register`.
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

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry

    def __init_subclass__(cls) -> None:
        """Refuse loose facts, find who asks for the call, and check ids of other doors.

        Raises:
            PluginError: if a fact is an attribute of the class.
        """
        super().__init_subclass__()
        for fact in fields(Facts):
            if fact.name in vars(cls):
                raise PluginError(
                    f"{cls.__name__}: {fact.name} must be in the facts of the class, "
                    f"got an attribute; facts = Facts({fact.name}=...) would work"
                )
        cls.asks_call = frozenset(
            door
            for door in ON_CALL
            if "call" in inspect.signature(getattr(cls, door)).parameters
        )
        for door, checked in (("positions", _on_ids), ("embed", _on_tokens)):
            if door in vars(cls):
                setattr(cls, door, checked(vars(cls)[door]))

    @classmethod
    def defaults_at(cls, length: int, lengths: Lengths = "scaled") -> dict[str, int]:
        """Return the defaults of the options in `published` at a training length.

        Args:
            length: training length, in positions.
            lengths: the policy of `Geometry.positions`.
        """
        built = cls(Geometry(length=length, lengths=lengths))
        return {option: getattr(built, option) for option in cls.published}

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

        Returns:
            The ids, or float64: real positions go to `embed`, and the layers go on
            with the ids that were given.
        """
        return positions

    def draw(
        self, positions: Tensor, generator: torch.Generator | None
    ) -> Tensor | None:
        """Return what else is drawn for a pass; all layers find it in `call.drawn`.

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

        This door, `key` and `offset_bias` are given the call too where they have one
        more parameter, `call: Call | None = None`. It is None outside attention.
        """
        return q

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        """Change keys `(batch, heads, key, head_dim)`."""
        return k

    def scale(self, head_dim: int) -> float:
        """Return the factor that multiplies every product of query and key."""
        return head_dim**-0.5

    def query_init_gain(self, head_dim: int) -> float:
        """Return the initial gain of the query projection, 1 by default.

        Not a door. It is used only when training from scratch.
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

        Not a door. A test beyond the training length tries each of them with the
        trained weights. They have no parameters of their own.

        Args:
            length: positions of the text to be read; `geometry.length` were trained.
        """
        return {}


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
        try:
            return door(self, x, positions)
        except ConfigError as error:  # of shared code, which knows no scheme
            raise error.of(self.name) from error

    return embed


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
        if axes != 1:
            facts["axes"] = axes
        SCHEMES.add(name, scheme, scheme, facts)
        scheme.name, scheme.family, scheme.source = name, family, source
        relative = scheme.facts.relative
        if relative is None:
            relative = family != "absolute"
        scheme.facts = replace(scheme.facts, axes=axes, relative=relative)
        return scheme

    return file
