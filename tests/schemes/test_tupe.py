"""tupe against loops over positions, heads and channels."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import dot, normal

from posenc_compare.attention import attention
from posenc_compare.errors import UndefinedPositionError

SCALE = 1 / math.sqrt(2 * 4)


class TestTupe(BiasTests):
    name = "tupe"
    sizes = {"model_dim": 6, "heads": 2, "head_dim": 4, "length": 4200}
    noise = 1.0
    scale = SCALE
    places = [[0, 1, 2, 40, 7, 30], [3, 4, 5, 9, 103, 11]]
    cases = [
        {},
        {"relative": "t5_bias:bidirectional=true;max_distance=128"},
        {"relative": "alibi"},
    ]
    gradients = [{"relative": "t5_bias"}]
    changes = [{"length": 4201}, {"relative": "t5_bias"}]
    errors = [
        ({"length": -1}, "length must be at least 1, got -1"),
        *(
            (
                {"relative": relative},
                "relative must be a scheme that adds a bias of the offset and nothing "
                f"else, got '{relative}'",
            )
            for relative in ("rope", "learned", "fire", "tupe")
        ),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        one = self.projected(t, "to_queries", h, query)
        other = self.projected(t, "to_keys", h, key)
        return dot(one, other) * SCALE + self.added(t, h, key - query)

    def projected(self, t: Inputs, name: str, h: int, position: int) -> list[float]:
        """Return the layer's channels of a head, from the normed vector."""
        row = t.scheme.table[position].tolist()
        mean = math.fsum(row) / len(row)
        spread = math.fsum((x - mean) ** 2 for x in row) / len(row)
        norm = t.scheme.norm
        channels = zip(row, norm.weight.tolist(), norm.bias.tolist(), strict=True)
        normed = [
            (x - mean) / math.sqrt(spread + 1e-5) * weight + bias
            for x, weight, bias in channels
        ]
        layer, width = getattr(t.scheme, name), t.q.shape[-1]
        rows = range(h * width, (h + 1) * width)
        return [
            dot(layer.weight[row].tolist(), normed) + layer.bias[row].item()
            for row in rows
        ]

    def added(self, t: Inputs, h: int, offset: int) -> float:
        """Return ALiBi, or T5's number: 8 exact distances a side, then few."""
        relative = t.option("relative")
        if relative == "alibi":
            return -abs(offset) * (1 / 16, 1 / 256)[h]
        if relative == "nope":
            return 0.0
        edges = [*range(9), 12, 16, 23, 32, 46, 64, 91]
        bucket = sum(edge <= abs(offset) for edge in edges) - 1
        bucket += len(edges) * (offset > 0)
        return t.scheme.offsets.table[bucket, h].item()

    def test_positions_off_the_table_are_an_error(self) -> None:
        x = normal(1, 2, 2, 4)
        for positions, got in (([0, 4200], 4200), ([-1, 3], -1)):
            ids = torch.tensor(positions)
            message = f"tupe: positions must be from 0 to 4199, got {got}"
            with pytest.raises(UndefinedPositionError, match=message):
                attention(x, x, x, scheme=self.make(), positions=ids)

    def test_the_start(self) -> None:
        scheme = self.make(model_dim=200, length=300)
        for weight in (scheme.table, scheme.to_queries.weight, scheme.to_keys.weight):
            assert weight.std().item() == pytest.approx(0.02, rel=0.1)
        for layer in (scheme.to_queries, scheme.to_keys):
            assert not layer.bias.any()
