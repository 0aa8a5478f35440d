"""Relative position representations (Shaw et al.).

Every offset, clipped to a reach, has one trained vector that is added to the key and
another that is added to the value.

Formula: logits `q_i (k_j + a_(j-i)) / sqrt(d)`, output `sum_j w_ij (v_j + b_(j-i))`.
Source: Shaw et al. 2018, arXiv:1803.02155, equations 3 and 4 (values, keys) and
section 3.2 (clipping); a reach of 16 is that of the paper's base model, section 4.1.
Direction: rows go by key minus query, from -reach to reach, past before future.
Heads: section 3.3 of the paper and the released code (tensor2tensor) share the
vectors between heads, while section 4.1 gives the base model its own for each head;
`per_head` chooses. The paper names no initial values: these are Glorot's.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    gather_bias,
    register,
)


@register(
    "shaw",
    family="contextual",
    source="Shaw et al. 2018, arXiv:1803.02155",
    identities="equals `nope` with zero tables",
    oracles="transformers 1e-7 (keys)",
    checked="paper",
)
class Shaw(Scheme):
    """Add a trained vector per clipped offset to keys and values.

    `2 * (2 * reach + 1) * head_dim` parameters.

    Args:
        geometry: `head_dim` is the width of a vector.
        reach: offset in tokens from which all share a vector, on either side.
        values: add to the values too, not to the keys alone.
        per_head: vectors of its own for every head.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        reach: int = 16,
        values: bool = True,
        per_head: bool = False,
    ) -> None:
        super().__init__(geometry)
        if reach < 1:
            raise ConfigError(f"shaw: reach must be at least 1, got {reach}")
        self.reach = reach
        rows = 2 * reach + 1
        shape = (geometry.heads, rows) if per_head else (rows,)
        bound = (6 / (rows + geometry.head_dim)) ** 0.5
        self.on_keys, self.on_values = (
            nn.Parameter((2 * torch.rand(*shape, geometry.head_dim) - 1) * bound)
            if used
            else None
            for used in (True, values)
        )

    def acts_at(self, door: str) -> bool:
        return super().acts_at(door) and (
            door != "values" or self.on_values is not None
        )

    def row(self, call: Call) -> Tensor:
        """Return the row of every pair, `(batch or 1, query, key)`, for all layers."""

        def made() -> Tensor:
            offsets = call.k_positions[:, None, :] - call.q_positions[:, :, None]
            return offsets.clamp(-self.reach, self.reach) + self.reach

        return call.once(Shaw, f"rows of {self.reach}", call.q_positions, made)

    def pair_bias(self, call: Call) -> PairBias:
        wide = torch.promote_types(call.q.dtype, torch.float32)
        assert self.on_keys is not None
        products = call.q.to(wide) @ self.on_keys.to(wide).mT  # (..., query, row)
        products = products * self.scale(call.q.shape[-1])
        return gather_bias(products, self.row(call))

    def values(self, weights: Tensor, call: Call) -> Tensor | None:
        if self.on_values is None:
            return None
        row = self.row(call)[:, None].expand_as(weights)
        sums = weights.new_zeros(*weights.shape[:3], 2 * self.reach + 1)
        return sums.scatter_add(-1, row, weights) @ self.on_values.to(weights.dtype)
