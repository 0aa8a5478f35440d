"""CoPE against the paper's sums, one key at a time."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    check_position_ids_are_not_used,
    close,
    dot,
    drawn,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.cope import Cope

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 9
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
RUN = torch.arange(LENGTH)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [4, 4, 4, 4, 4, 4, 9, 9, 9]])


def make(**options: int | bool) -> Cope:
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 16}
    return drawn(build(Cope, options, **sizes))


def slow(scheme: Cope, scaled: bool, packed: bool) -> Tensor:
    q, k, _ = vectors(*SHAPE)
    table = scheme.table.tolist()
    logits = torch.full((BATCH, HEADS, LENGTH, LENGTH), -math.inf).double()
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                query = q[b, h, i].tolist()
                place = 0.0
                for j in range(i, -1, -1):
                    if packed and SEGMENTS[b, i] != SEGMENTS[b, j]:
                        break
                    content = dot(query, k[b, h, j].tolist()) / math.sqrt(WIDTH)
                    place += 1 / (1 + math.exp(-content))
                    clamped = min(place, len(table) - 1)
                    below = min(math.floor(clamped), len(table) - 1)
                    above = min(below + 1, len(table) - 1)
                    share = clamped - below
                    low, high = dot(query, table[below]), dot(query, table[above])
                    between = (1 - share) * low + share * high
                    factor = 1 / math.sqrt(WIDTH) if scaled else 1.0
                    logits[b, h, i, j] = content + between * factor
    return logits


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 4, 0])
def test_equals_the_slow_reference(limit: int, scaled: bool, packed: bool) -> None:
    q, k, v = vectors(*SHAPE)
    scheme = make(limit=limit, scaled=scaled)
    expected = slow(scheme, scaled, packed)
    if not packed:
        got = attention_logits(q, k, scheme=scheme, positions=RUN)
        close(got, expected)
    segments = SEGMENTS if packed else None
    got = attention(q, k, v, scheme=scheme, positions=RUN, mask=Mask(segments=segments))
    close(got, expected.softmax(-1) @ v)


def test_open_gates_look_up_the_distance_plus_one() -> None:
    q, k, _ = vectors(*SHAPE)
    q = q.abs()
    scheme = make(limit=5)
    got = attention_logits(q, 0 * k + 1e4, scheme=scheme, positions=RUN)
    content = q @ (0 * k + 1e4).mT / math.sqrt(WIDTH)
    assert content.min() > 40  # every gate is 1 to 53 bits
    place = (RUN[:, None] - RUN + 1).clamp(0, 4)  # stops at the last vector
    added = (q @ scheme.table.T).gather(-1, place.expand_as(content))
    seen = got.isfinite()
    assert torch.equal(seen, torch.ones_like(got).tril().bool())
    torch.testing.assert_close(got[seen], (content + added)[seen], rtol=1e-12, atol=0)


def test_closed_gates_look_up_the_first_vector() -> None:
    q, k, _ = vectors(*SHAPE)
    q, far = q.abs(), 0 * k - 1e4
    scheme = make()
    got = attention_logits(q, far, scheme=scheme, positions=RUN)
    added = got - q @ far.mT / math.sqrt(WIDTH)
    first = (q @ scheme.table[0])[..., None].expand_as(added)
    seen = got.isfinite()
    close(added[seen], first[seen], 1e-10)


def test_starts_as_no_encoding_and_learns() -> None:
    q, k, v = vectors(*SHAPE)
    scheme = create("cope", model_dim=HEADS * WIDTH, heads=HEADS, length=16).double()
    assert scheme.get_parameter("table").shape == (17, WIDTH)
    got = attention(q, k, v, scheme=scheme, positions=RUN)
    nope = attention(q, k, v, scheme=create("nope"), positions=RUN)
    close(got, nope, 1e-14)
    got.square().sum().backward()
    gradient = scheme.get_parameter("table").grad
    assert gradient is not None
    assert gradient.abs().max() > 1e-3


def test_gradient_flows_through_the_gates() -> None:
    q, k, v = (x[:1, :, :4].requires_grad_() for x in vectors(*SHAPE))
    scheme = make(limit=3).requires_grad_()

    def run(*_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=RUN[:4])

    assert torch.autograd.gradcheck(run, (q, k, v, scheme.table))


def test_each_option_changes_the_output() -> None:
    q, k, v = vectors(*SHAPE)

    def read(**options: int | bool) -> Tensor:
        return attention(q, k, v, scheme=make(**options), positions=RUN)

    for options in ({"limit": 3}, {"scaled": True}):
        assert (read() - read(**options)).abs().max() > 1e-3


def test_position_ids_are_not_used() -> None:
    q, k, _ = vectors(*SHAPE)
    check_position_ids_are_not_used(make(), q, k)


def test_bfloat16_counts_in_float32() -> None:
    length = 600  # more than the 256 whole numbers that bfloat16 holds
    one = torch.ones(1, HEADS, length, WIDTH, dtype=torch.bfloat16)
    scheme = create(
        "cope", model_dim=HEADS * WIDTH, heads=HEADS, length=length
    ).requires_grad_(False)
    scheme.get_parameter("table").copy_(torch.arange(length + 1.0)[:, None] / WIDTH)
    got = attention_logits(one, 40 * one, scheme=scheme, positions=torch.arange(length))
    content = 40 * WIDTH / math.sqrt(WIDTH)
    counted = got[0, 0, -1] - content
    expected = torch.arange(length, 0, -1).float()
    torch.testing.assert_close(counted, expected, rtol=1e-5, atol=1e-3)


def test_needs_a_causal_mask() -> None:
    q, k, _ = vectors(*SHAPE)
    with pytest.raises(ConfigError, match="cope: needs a causal mask"):
        attention_logits(q, k, scheme=make(), positions=RUN, mask=Mask(causal=False))


def test_limit_out_of_range() -> None:
    with pytest.raises(ConfigError, match="cope: limit must be at least 1, got -2"):
        make(limit=-2)
