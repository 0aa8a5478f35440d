"""The test harness: a scheme with its options, and one attention layer that uses it."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc_compare.attention import CAUSAL, Mask, Session, attention
from posenc_compare.check.global_state import preserve_state
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme
from posenc_compare.variants import Variant

HEADS, DIM = 2, 8
WIDTH = HEADS * DIM
HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Subject:
    """A scheme under check.

    Attributes:
        variant: the scheme with its options.
        plugin: file or module of the scheme, for checks in a fresh process; "" for
            built-in schemes.
    """

    variant: Variant
    plugin: str = ""

    @property
    def scheme(self) -> type[Scheme]:
        """Return the class of the scheme."""
        return SCHEMES.get(self.variant.name)

    @functools.cached_property
    def declared(self) -> Facts:
        """Return the facts of a built scheme, since options may change them.

        If the scheme cannot be built, return those of its class.
        """
        with preserve_state():
            scheme = self.scheme
            try:
                return self.build(noise=0).facts
            except Exception:
                return scheme.facts

    def build(self, length: int = 256, *, noise: float = 0.5, **sizes: Any) -> Scheme:
        """Return a scheme in float64 with normal noise on its parameters."""
        given = {"model_dim": WIDTH, "heads": HEADS, "length": length, **sizes}
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            scheme = self.variant.build(Geometry(**given)).double().eval()
        with torch.no_grad():
            for number, parameter in enumerate(scheme.parameters()):
                parameter += noise * normal(*parameter.shape, seed=100 + number)
        return scheme

    def limit(self, layer: "Layer", length: int, dtype: torch.dtype) -> int:
        """Return the number of defined positions of a layer built for `length`.

        It is `length`, or less if the scheme raises `UndefinedPositionError`.
        """
        last = self.positions(1, start=length - 1, length=length)
        x = tokens(1, width=layer.scheme.geometry.model_dim).to(dtype)
        try:
            layer(x, last)
        except UndefinedPositionError as error:
            return error.limit
        return length

    def positions(self, count: int, *, start: int = 0, length: int = 256) -> Tensor:
        """Return `count` positions; several axes count along the rows of a square."""
        return self.places(torch.arange(start, start + count), length)

    def places(self, steps: Tensor, length: int = 256) -> Tensor:
        """Return the positions of these steps from the start, as in `positions`."""
        axes = self.declared.axes
        if axes == 1:
            return steps
        side = math.isqrt(length - 1) + 1
        return torch.stack([steps // side, *[steps % side] * (axes - 1)], -1)

    def rows(self, count: int, batch: int = 3) -> tuple[Tensor, Tensor]:
        """Return positions and segments that differ between the rows of a batch.

        There are at most three rows. The second skips every other position, and the
        third starts later. A scheme built for 600 positions defines all of them.
        """
        steps = torch.arange(count)
        positions = [self.places(s, 600) for s in (steps, 2 * steps, steps + 100)]
        segments = [steps >= count * (row + 1) // 4 for row in range(3)]
        return torch.stack(positions[:batch]), torch.stack(segments[:batch]).long()


@dataclass(frozen=True)
class Layer:
    """One attention layer with a scheme and fixed weights: embed, project, attend."""

    scheme: Scheme

    def heads(self, x: Tensor, role: int) -> Tensor:
        """Project `(batch, seq, width)` to `(batch, heads, seq, head_dim)`."""
        heads = self.scheme.geometry.heads
        projected = x @ _weight(x.shape[-1], role, x.dtype)
        return projected.unflatten(-1, (heads, -1)).transpose(1, 2)

    def __call__(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Mask = CAUSAL,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return `(batch, heads, seq, head_dim)`."""
        session = Session(self.scheme, positions, mask=mask, generator=generator)
        x = session.embed(x)
        q, k, v = (self.heads(x, role) for role in range(3))
        return session.attend(0, q, k, v, x=x)

    def logits(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return logits `(batch, heads, seq, seq)`."""
        session = Session(self.scheme, positions)
        x = session.embed(x)
        return session.logits(0, self.heads(x, 0), self.heads(x, 1), x=x)

    def last(self, x: Tensor, positions: Tensor, start: int, mask: Mask) -> Tensor:
        """Return the output of the queries from `start`, which are given all keys."""
        session = Session(self.scheme, positions, mask=mask)
        x, ids = session.embed(x), session.ids
        q, k, v = (self.heads(x, role) for role in range(3))
        axis = -1 if self.scheme.facts.axes == 1 else -2
        return attention(
            q[:, :, start:],
            k,
            v,
            scheme=self.scheme,
            positions=ids.narrow(axis, start, ids.shape[axis] - start),
            key_positions=ids,
            mask=mask,
            state=self.scheme.token_state(x),
        )

    def decode(
        self, x: Tensor, positions: Tensor, steps: list[int], mask: Mask = CAUSAL
    ) -> Tensor:
        """Feed the tokens in pieces, to a session that keeps keys, values and state."""
        session = Session(self.scheme, positions, mask=mask, fed=0, cache=True)
        outs = []
        for step in steps:
            session.extend(step)
            piece = session.embed(x[:, session.start : session.end])
            q, k, v = (self.heads(piece, role) for role in range(3))
            outs.append(session.attend(0, q, k, v, x=piece))
        return torch.cat(outs, 2)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Return standard normal numbers in float64; they depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


fixed = functools.lru_cache(maxsize=64)(normal)  # small tensors that nobody changes


@functools.lru_cache(maxsize=64)
def _weight(width: int, role: int, dtype: torch.dtype) -> Tensor:
    """Return the fixed weights that make queries (0), keys (1) or values (2)."""
    return (normal(width, width, seed=10 + role) / width**0.5).to(dtype)


def tokens(count: int, *, batch: int = 2, seed: int = 0, width: int = WIDTH) -> Tensor:
    """Return token vectors `(batch, count, width)`; a prefix has the same vectors."""
    drawn = fixed(batch, 128, width, seed=seed)
    return drawn.repeat(1, math.ceil(count / 128) or 1, 1)[:, :count].clone()


def rounded_buffers(scheme: Scheme) -> str:
    """Return which buffers a scheme holds in half precision, in brackets, or ""."""
    names = [name for name, held in scheme.named_buffers() if held.dtype in HALVES]
    found = ", ".join(names)
    return f" (rounded buffers: {found}; compute them in the hook)" if names else ""
