"""Shaw's vectors against the paper's sums, one pair of tokens at a time."""

import math
from itertools import product

import torch
from schemes.reference import Inputs, LogitTests, combine
from schemes.tools import pair_by_pair
from torch import Tensor

HEADS, WIDTH = 2, 6
PLACES = [0, 2, 3, 9, 4, 4, 1]


def entry(table: Tensor | None, head: int, offset: int, reach: int) -> list[float]:
    if table is None:
        return [0.0] * WIDTH
    rows = table[head] if table.dim() == 3 else table
    return rows[min(max(offset, -reach), reach) + reach].tolist()


class TestShaw(LogitTests):
    name = "shaw"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    places = [PLACES, [0, 1, 2, 3, 4, 5, 50]]
    atol = 1e-13
    cases = combine(reach=(1, 3), values=(False, True), per_head=(False, True))
    gradients = [{"reach": 2}, {"reach": 2, "per_head": True}]
    identities = [({}, {"on_keys": 0, "on_values": 0}, "nope")]
    changes = [{"reach": 2}, {"values": False}, {"per_head": True}]
    errors = [
        ({"reach": reach}, f"reach must be at least 1, got {reach}")
        for reach in (0, -3)
    ]

    def vector(self, t: Inputs, table: Tensor, *pair: int) -> Tensor:
        b, h, i, j = pair
        offset = int(t.positions[b, j] - t.positions[b, i])
        row = entry(table, h, offset, t.option("reach"))
        return torch.tensor(row, dtype=torch.float64)

    def logits(self, t: Inputs) -> Tensor:
        """`q (k + a) / sqrt(d)`."""

        def logit(b: int, h: int, i: int, j: int) -> float:
            key = t.k[b, h, j] + self.vector(t, t.scheme.on_keys, b, h, i, j)
            return float(t.q[b, h, i] @ key) / math.sqrt(WIDTH)

        return pair_by_pair(t.q, logit)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """`sum of p (v + b)`."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            powers = [math.exp(logit) for logit in logits[b, h, i].tolist()]
            for j, power in enumerate(powers):
                value = t.v[b, h, j] + self.vector(t, t.scheme.on_values, b, h, i, j)
                out[b, h, i] += power / sum(powers) * value
        return out
