"""RePo against rotations by positions computed token by token."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    check_gradients,
    check_position_ids_are_not_used,
    close,
    decoded,
    dot,
    drawn,
    normal,
    on_paths,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.repo import Repo

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> Repo:
    return drawn(build(Repo, {"base": 100.0, "hidden": 3, **options}, **SIZES))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, WIDTH), normal(BATCH, LENGTH, DIM, seed=3)


def slow(scheme: Repo) -> Tensor:
    q, k, _, x = inputs()

    def places(token: Tensor) -> list[float]:
        units = []
        both = zip(scheme.gate.weight, scheme.content.weight, strict=True)
        for gate, content in both:
            opened = dot(gate.tolist(), token.tolist())
            silu = opened / (1 + math.exp(-opened))
            units.append(silu * dot(content.tolist(), token.tolist()))
        return [dot(row.tolist(), units) for row in scheme.place.weight]

    found = [[places(token) for token in x[b]] for b in range(BATCH)]

    def logit(b: int, h: int, i: int, j: int) -> float:
        away = found[b][i][h] - found[b][j][h]
        factors = [cmath.exp(1j * away * 100.0 ** (-pair / 3)) for pair in range(3)]
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, "half")

    return pair_by_pair(q, logit)


def test_equals_the_slow_reference() -> None:
    q, k, v, x = inputs()
    scheme, mask = make(), Mask(causal=False)
    call = {"scheme": scheme, "positions": RUN, "state": scheme.token_state(x)}
    expected = slow(scheme)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-12)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize("steps", [[6, 1], [1] * 7, [3, 4], [0, 2, 0, 5]], ids=str)
def test_state_goes_on_from_the_past(steps: list[int]) -> None:
    q, k, v, x = inputs()
    got = decoded(q, k, v, steps, scheme=make(), positions=RUN, x=x)
    seen = slow(make()).masked_fill(RUN[:, None] < RUN, -math.inf)
    close(got, seen.softmax(-1) @ v, 1e-12)


def test_tokens_that_choose_their_place_are_ropes() -> None:
    q, k, _, x = inputs()
    scheme = make()
    for layer in (scheme.gate, scheme.content, scheme.place):
        layer.weight.zero_()
    # The first channel opens the gate by silu(1), the second holds the place.
    scheme.gate.weight[0, 0] = scheme.content.weight[0, 1] = 1
    scheme.place.weight[:, 0] = 1 + math.exp(-1)
    x = torch.zeros_like(x)
    x[..., 0], x[..., 1] = 1, RUN.double()
    got = attention_logits(
        q, k, scheme=scheme, positions=RUN, state=scheme.token_state(x)
    )
    rope = create("rope", options={"base": 100.0, "layout": "half"}, **SIZES)
    close(got, attention_logits(q, k, scheme=rope, positions=RUN), 1e-12)


def test_equal_tokens_are_not_told_apart() -> None:
    *_, x = inputs()
    places = make().token_state(x[:, :1].expand(-1, LENGTH, -1))
    close(places, places[:, :1].expand_as(places), 0)


def test_hidden_units() -> None:
    scheme = create("repo", model_dim=64, heads=4)
    assert sum(p.numel() for p in scheme.parameters()) == (2 * 64 + 4) * 8


def test_position_ids_are_not_used() -> None:
    q, k, _, x = inputs()
    check_position_ids_are_not_used(make(), q, k, x)


def test_gradient() -> None:
    q, k, v, x = (part[:1, ..., :4, :] for part in inputs())
    check_gradients(make().requires_grad_(), q, k, v, RUN[:4], x)


def test_needs_its_state_and_sizes() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="repo: needs the state that token_state"):
        attention_logits(q, k, scheme=make(), positions=RUN)
    with pytest.raises(ConfigError, match="repo: hidden must be at least 1, got -1"):
        make(hidden=-1)
    with pytest.raises(ConfigError, match=r"repo: base must be greater than 0, got 0"):
        make(base=0.0)
