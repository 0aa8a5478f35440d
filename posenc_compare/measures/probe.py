"""The fixed input on which schemes are measured without training.

Every scheme sees the same tokens, vectors and projections, drawn from the seed. They
stand in a sequence, or in the cells of a grid, row by row.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.attention import Mask, Session
from posenc_compare.errors import NonFiniteError
from posenc_compare.schemes import Call, Geometry, Scheme, Variant, check_axes
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.seeds import stream_seed

HIDDEN = -(2.0**90)  # below it, a scheme hides keys


class ProbeSession(Session):
    """A forward pass over a probe."""

    def logits(self, *given: Any, **named: Any) -> Tensor:
        """Return the logits of `Session.logits`, finite but for -inf of hidden keys.

        Raises:
            NonFiniteError: if a logit is NaN or inf. In half precision, where an
                overflow is a finding, these are returned.
        """
        found = super().logits(*given, **named)
        if self.scheme(given[0]).facts.hides:
            found = found.masked_fill(found < HIDDEN, -torch.inf)
        if is_single_or_double(given[1]) and not (found < torch.inf).all():
            raise NonFiniteError("logits must be finite where no mask hides a key")
        return found


def is_single_or_double(x: Tensor) -> bool:
    """Return whether a tensor is in float32 or float64."""
    return x.dtype in (torch.float32, torch.float64)


@dataclass(frozen=True)
class Probe(ProbeSetting):
    """The tensors of a `ProbeSetting`, drawn when asked for."""

    @property
    def geometry(self) -> Geometry:
        """Return the sizes that schemes are built for."""
        return Geometry(
            model_dim=self.width,
            heads=self.heads,
            length=self.positions,
            lengths=self.lengths,
        )

    @property
    def torch_dtype(self) -> torch.dtype:
        """Return the dtype of everything computed."""
        return getattr(torch, self.dtype)

    def build(
        self, variant: Variant, length: int = 0, *, trains: bool = False
    ) -> Scheme:
        """Return the variant's scheme, for another length than `positions` if given.

        It is in evaluation mode, and no parameter has a gradient, unless it `trains`.
        """
        geometry = replace(self.geometry, length=length or self.positions)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed("scheme", self.seed))
            scheme = variant.build(geometry)
        check_axes(scheme, len(self.sides))
        scheme = scheme.to(self.device, self.torch_dtype)
        return scheme if trains else scheme.eval().requires_grad_(False)

    def generator(self, purpose: str) -> torch.Generator:
        """Return a new generator for one purpose, the same for every scheme."""
        return torch.Generator().manual_seed(stream_seed(purpose, self.seed))

    def session(
        self,
        scheme: Scheme,
        positions: Tensor,
        causal: bool | None = None,
        fed: int | None = None,
    ) -> Session:
        """Return a forward pass over tokens at these positions, or the first `fed`.

        Later keys are hidden in a sequence, or if the scheme must; `causal` overrules.
        """
        hidden = not self.grid or scheme.facts.causal_only
        mask = Mask(causal=hidden if causal is None else causal)
        generator = self.generator("ids")
        # A list of one lets a scheme that differs by layer act alike in all layers.
        return ProbeSession(
            [scheme], positions, mask=mask, generator=generator, fed=fed
        )

    def queries_of(self, scheme: Scheme, x: Tensor, purpose: str = "query") -> Tensor:
        """Return `heads_of`, as large as the scheme's paper starts queries."""
        return self.heads_of(x, purpose) * scheme.query_init_gain(
            self.geometry.head_dim
        )

    def normal(self, purpose: str, *shape: int) -> Tensor:
        """Return standard normal numbers, the same for every scheme."""
        drawn = torch.randn(
            *shape, generator=self.generator(purpose), dtype=torch.float64
        )
        return drawn.to(self.device, self.torch_dtype)

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros in the probe's dtype and on its device."""
        return torch.zeros(*shape, dtype=self.torch_dtype, device=self.device)

    def zero_logits(self, scheme: Scheme, positions: Tensor) -> Tensor:
        """Return the logits of zero queries and keys, `(head, query, key)`.

        Args:
            scheme: whose bias it is.
            positions: `(seq,)` of the tokens, or `(seq, axis)`.
        """
        geometry, count = self.geometry, len(positions)
        zeros = self.zeros(1, geometry.heads, count, geometry.head_dim)
        x = self.zeros(1, count, geometry.model_dim)
        session = self.session(scheme, positions, causal=scheme.facts.causal_only)
        return session.logits(0, zeros, zeros, x=x)[0]

    def call_of_ones(self, session: Session) -> Call:
        """Return what hooks see of queries and keys of ones, and tokens of zeros."""
        geometry, count = self.geometry, session.length
        ones = self.zeros(1, geometry.heads, count, geometry.head_dim) + 1
        return session.call(0, ones, ones, x=self.zeros(1, count, geometry.model_dim))

    def heads_of(self, x: Tensor, purpose: str) -> Tensor:
        """Project `(batch, seq, width)` and split it into heads.

        Returns:
            `(batch, heads, seq, head_dim)`; entries of the projection have variance
            `1 / width`, so that unit tokens give unit queries, keys and values.
        """
        projection = self.normal(purpose, self.width, self.width) * self.width**-0.5
        return rearrange(
            x @ projection, "b seq (head d) -> b head seq d", head=self.heads
        )

    def arange(self, count: int) -> Tensor:
        """Return the first positions on the probe's device: `0 ... count - 1`.

        On a grid they are `(count, axis)`, row by row.
        """
        return self.raster(self.sides)[:count] if self.grid else self.raster((count,))

    def raster(self, sides: tuple[int, ...]) -> Tensor:
        """Return all ids of a grid `(cell, axis)` by rows; of one axis `(cell,)`."""
        ranges = [torch.arange(side, device=self.device) for side in sides]
        return torch.cartesian_prod(*ranges)

    def movable(self, far: int) -> Tensor:
        """Return the indices of positions that may move by `far` along every axis."""
        free = (self.arange(self.positions) + far).reshape(self.positions, -1)
        sides = torch.tensor(self.sides, device=self.device)
        return (free < sides).all(dim=-1).nonzero()[:, 0]

    @property
    def stride(self) -> int:
        """Return how many indices lie between a position and the next on all axes."""
        return sum(math.prod(self.sides[i:]) for i in range(1, len(self.sides) + 1))

    def apart(self, count: int) -> Tensor:
        """Return how far each key lies from each query, `(query, key)` float64.

        In a sequence, positions into the past; on a grid, the Euclidean distance.
        """
        ids = self.arange(count).double().reshape(count, -1)
        difference = ids[:, None] - ids
        return difference.norm(dim=-1) if self.grid else difference[..., 0]
