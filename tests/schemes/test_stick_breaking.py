"""Stick-breaking against the pieces of a stick, broken off one by one."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    check_causal_mask_is_needed,
    check_float32_holds_over_a_long_text,
    check_position_ids_are_not_used,
    close,
    decoded,
    dot,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention
from posenc_compare.schemes.stick_breaking import StickBreaking

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 8
RUN = torch.arange(LENGTH)


def make(own: bool = False, heads: int = HEADS, width: int = WIDTH) -> StickBreaking:
    sizes = {"model_dim": heads * width, "heads": heads}
    return build(StickBreaking, {"own": own}, **sizes)


def slow(own: bool, segments: Tensor | None = None) -> Tensor:
    """Break the stick from the nearest key on, and read the values by the pieces."""
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    out = torch.zeros_like(v)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                left = 1.0
                for j in range(i if own else i - 1, -1, -1):
                    if segments is not None and segments[b, i] != segments[b, j]:
                        continue
                    z = dot(q[b, h, i].tolist(), k[b, h, j].tolist()) / math.sqrt(WIDTH)
                    share = 1 / (1 + math.exp(-z))
                    out[b, h, i] += left * share * v[b, h, j]
                    left *= 1 - share
    return out


@pytest.mark.parametrize("own", [False, True])
def test_equals_the_slow_reference(own: bool) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    close(attention(q, k, v, scheme=make(own), positions=RUN), slow(own), 1e-14)


@pytest.mark.parametrize("own", [False, True])
def test_documents_have_sticks_of_their_own(own: bool) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0] * 7 + [1]])
    mask = Mask(segments=segments)
    got = attention(q, k, v, scheme=make(own), positions=RUN, mask=mask)
    close(got, slow(own, segments), 1e-14)


@pytest.mark.parametrize("steps", [[7, 1], [1] * 8, [3, 5]], ids=str)
def test_decoding(steps: list[int]) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    close(decoded(q, k, v, steps, scheme=make(), positions=RUN), slow(own=False), 1e-14)


def test_the_first_token_sees_nothing_unless_it_sees_itself() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    first, own = (
        attention(q, k, v, scheme=make(own), positions=RUN)[:, :, 0]
        for own in (False, True)
    )
    assert not first.any()
    assert own.any()


def test_a_sure_key_hides_those_behind_it() -> None:
    q, k, v = vectors(1, 1, LENGTH, WIDTH)
    k = k.clone()
    k[:, :, 4] = 1e3 * q[:, :, 6]
    read = attention(q, k, v, scheme=make(heads=1), positions=RUN)[0, 0, 6]
    z = float(q[0, 0, 6] @ k[0, 0, 5]) / math.sqrt(WIDTH)
    share = 1 / (1 + math.exp(-z))
    close(read, share * v[0, 0, 5] + (1 - share) * v[0, 0, 4], 1e-14)


def test_gradients_are_finite_and_right_where_nothing_is_seen() -> None:
    given = tuple(x.requires_grad_() for x in vectors(1, 1, 4, 2))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme=make(heads=1, width=2), positions=RUN[:4])

    assert torch.autograd.gradcheck(run, given)


def test_far_keys_that_take_much_leave_near_ones_exact() -> None:
    k = normal(1, 1, 4096, 8).float() / 2 - 1.5
    k[:, :, :2048] += 6  # which alone sum to thousands
    check_float32_holds_over_a_long_text(make(heads=1, width=8), k)


def test_position_ids_are_not_used_and_the_future_is_refused() -> None:
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    check_position_ids_are_not_used(make(), q, k)
    check_causal_mask_is_needed(make(), WIDTH)
