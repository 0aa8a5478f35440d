"""Stick-breaking against the pieces of a stick, broken off one by one."""

import math
from itertools import product

import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    check_float32_holds_over_a_long_text,
    close,
    dot,
    normal,
    pair_by_pair,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention
from posenc_compare.schemes.stick_breaking import StickBreaking

HEADS, WIDTH, LENGTH = 2, 6, 8
RUN = torch.arange(LENGTH)


def make(own: bool = False, heads: int = HEADS, width: int = WIDTH) -> StickBreaking:
    sizes = {"model_dim": heads * width, "heads": heads}
    return build(StickBreaking, {"own": own}, **sizes)


class TestStickBreaking(LogitTests):
    name = "stick_breaking"
    causal = True
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    atol = 1e-14
    cases = [{"own": False}, {"own": True}]
    changes = [{"own": True}]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        def logit(b: int, h: int, i: int, j: int) -> float:
            return dot(t.q[b, h, i].tolist(), t.k[b, h, j].tolist()) / math.sqrt(WIDTH)

        return pair_by_pair(t.q, logit)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """Break the stick from the nearest key on, and read values by the pieces."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            left = 1.0
            for j in range(i if t.option("own") else i - 1, -1, -1):
                share = 1 / (1 + math.exp(-logits[b, h, i, j].item()))
                out[b, h, i] += left * share * t.v[b, h, j]
                left *= 1 - share
        return out


def test_gradients_are_finite_and_right_where_nothing_is_seen() -> None:
    given = tuple(x.requires_grad_() for x in vectors(1, 1, 4, 2))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme=make(heads=1, width=2), positions=RUN[:4])

    assert torch.autograd.gradcheck(run, given)


def test_far_keys_that_take_much_leave_near_ones_exact() -> None:
    k = normal(1, 1, 4096, 8).float() / 2 - 1.5
    k[:, :, :2048] += 6  # which alone sum to thousands
    check_float32_holds_over_a_long_text(make(heads=1, width=8), k)


def test_a_sure_key_hides_those_behind_it() -> None:
    q, k, v = vectors(1, 1, LENGTH, WIDTH)
    k = k.clone()
    k[:, :, 4] = 1e3 * q[:, :, 6]
    read = attention(q, k, v, scheme=make(heads=1), positions=RUN)[0, 0, 6]
    z = float(q[0, 0, 6] @ k[0, 0, 5]) / math.sqrt(WIDTH)
    share = 1 / (1 + math.exp(-z))
    close(read, share * v[0, 0, 5] + (1 - share) * v[0, 0, 4], 1e-14)
