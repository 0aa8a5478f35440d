"""RoPE++ against real and imaginary parts of complex products."""

import cmath
import math

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    build,
    channels_of_pair,
    close,
    on_paths,
    pair_by_pair,
    vectors,
)
from torch import Tensor

from posenc_compare.schemes.rope_pp import RopePp

WIDTH = 8


class TestRopePp(RotaryTests):
    name = "rope_pp"
    sizes = {"head_dim": WIDTH, "heads": 2}
    cases = [
        Case({"layout": layout}, heads=heads)
        for layout in ("adjacent", "half")
        for heads in (1, 2, 4, 5)
    ]
    changes = [{"base": 9_000.0}, {"layout": "half"}]

    def logits(self, t: Inputs) -> Tensor:
        places, heads = t.positions.tolist(), t.q.shape[1]
        real = (heads + 1) // 2

        def logit(b: int, h: int, i: int, j: int) -> float:
            read, distance = h % real, places[b][i] - places[b][j]
            z = product(t.q[b, read, i], t.k[b, read, j], distance, t.option("layout"))
            return z.real if h < real else z.imag

        return pair_by_pair(t.q, logit)


def make(heads: int, layout: str = "adjacent") -> RopePp:
    return build(RopePp, {"layout": layout}, model_dim=heads * WIDTH, heads=heads)


def product(q: Tensor, k: Tensor, distance: int, layout: str) -> complex:
    total = 0j
    for pair in range(WIDTH // 2):
        two = channels_of_pair(pair, WIDTH, layout)
        one, other = complex(*q[two].tolist()), complex(*k[two].tolist())
        turn = cmath.exp(1j * distance * 10_000 ** (-2 * pair / WIDTH))
        total += one * other.conjugate() * turn
    return total / math.sqrt(WIDTH)


def test_keys_that_serve_groups_are_those_of_their_queries() -> None:
    q, k, v = vectors(1, 4, 6, WIDTH)
    few = k[:, ::2], v[:, ::2]
    many = (x.repeat_interleave(2, dim=1) for x in few)
    call = {"scheme": make(4), "positions": torch.arange(6)}
    got, expected = (on_paths(q, *kv, **call) for kv in (few, many))
    for read, wanted in zip(got, expected, strict=True):
        close(read, wanted, 1e-13)
