"""RoPE++ against real and imaginary parts of complex products."""

import cmath
import math

import pytest
import torch
from schemes.tools import (
    build,
    channels_of_pair,
    check_rotation_keeps_close_positions_apart,
    close,
    normal,
    on_paths,
    pair_by_pair,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.rope_pp import RopePp

WIDTH = 8
PLACES = [0, 1, 2, 100, 500, -4]


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


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("heads", [1, 2, 4, 5])
def test_equals_the_slow_reference(heads: int, layout: str) -> None:
    q, k, v = vectors(2, heads, 6, WIDTH)
    real = (heads + 1) // 2

    def logit(b: int, h: int, i: int, j: int) -> float:
        read = h % real
        z = product(q[b, read, i], k[b, read, j], PLACES[i] - PLACES[j], layout)
        return z.real if h < real else z.imag

    call = {"scheme": make(heads, layout), "positions": torch.tensor(PLACES)}
    expected, mask = pair_by_pair(q, logit), Mask(causal=False)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-12)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-12)


def test_keys_that_serve_groups_are_those_of_their_queries() -> None:
    q, k, v = vectors(1, 4, 6, WIDTH)
    few = k[:, ::2], v[:, ::2]
    many = (x.repeat_interleave(2, dim=1) for x in few)
    call = {"scheme": make(4), "positions": torch.arange(6)}
    got, expected = (on_paths(q, *kv, **call) for kv in (few, many))
    for read, wanted in zip(got, expected, strict=True):
        close(read, wanted, 1e-13)


def test_with_queries_of_its_own_a_head_would_be_ropes() -> None:
    # A quarter turn of the query is a matrix: nothing that a projection cannot hold.
    q, k, _ = vectors(1, 1, 6, WIDTH)
    turned = torch.view_as_complex(q.unflatten(-1, (-1, 2))) * -1j
    rope = create("rope", model_dim=WIDTH, heads=1)
    positions = torch.tensor(PLACES)
    mask = Mask(causal=False)
    got = attention_logits(
        torch.view_as_real(turned).flatten(-2),
        k,
        scheme=rope,
        positions=positions,
        mask=mask,
    )
    other = normal(1, 1, 6, WIDTH, seed=9)
    pair = torch.cat([q, other], dim=1), torch.cat([k, other], dim=1)
    both = attention_logits(*pair, scheme=make(2), positions=positions, mask=mask)
    close(got[:, 0], both[:, 1], 1e-12)


def test_close_positions_stay_apart_in_bfloat16() -> None:
    scheme = create("rope_pp", model_dim=32, heads=2)
    check_rotation_keeps_close_positions_apart(scheme.query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="rope_pp: head_dim must be even, got 7"):
        create("rope_pp", model_dim=14, heads=2)
