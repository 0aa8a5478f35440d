"""CoPE against the paper's sums, one key at a time."""

import math

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.cope import Cope

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 9
RUN = torch.arange(LENGTH)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [4, 4, 4, 4, 4, 4, 9, 9, 9]])


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(**options: int | bool) -> Cope:
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 16}
    scheme = create("cope", options=options, **sizes).double()
    assert isinstance(scheme, Cope)
    with torch.no_grad():
        scheme.table.copy_(normal(*scheme.table.shape, seed=100))
    return scheme.requires_grad_(False)


def vectors() -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (normal(BATCH, HEADS, LENGTH, WIDTH, seed=seed) for seed in range(3))
    return q, k, v


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def slow(scheme: Cope, scaled: bool, packed: bool) -> Tensor:
    q, k, _ = vectors()
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
    q, k, v = vectors()
    scheme = make(limit=limit, scaled=scaled)
    expected = slow(scheme, scaled, packed)
    if not packed:
        got = attention_logits(q, k, scheme=scheme, positions=RUN)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    segments = SEGMENTS if packed else None
    got = attention(q, k, v, scheme=scheme, positions=RUN, mask=Mask(segments=segments))
    torch.testing.assert_close(got, expected.softmax(-1) @ v, rtol=0, atol=1e-12)


def test_open_gates_look_up_the_distance_plus_one() -> None:
    q, k, _ = vectors()
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
    q, k, _ = vectors()
    q, far = q.abs(), 0 * k - 1e4
    scheme = make()
    got = attention_logits(q, far, scheme=scheme, positions=RUN)
    added = got - q @ far.mT / math.sqrt(WIDTH)
    first = (q @ scheme.table[0])[..., None].expand_as(added)
    seen = got.isfinite()
    torch.testing.assert_close(added[seen], first[seen], rtol=0, atol=1e-10)


def test_starts_as_no_encoding_and_learns() -> None:
    q, k, v = vectors()
    scheme = create("cope", model_dim=HEADS * WIDTH, heads=HEADS, length=16).double()
    assert scheme.get_parameter("table").shape == (17, WIDTH)
    got = attention(q, k, v, scheme=scheme, positions=RUN)
    nope = attention(q, k, v, scheme=create("nope"), positions=RUN)
    torch.testing.assert_close(got, nope, rtol=0, atol=1e-14)
    got.square().sum().backward()
    gradient = scheme.get_parameter("table").grad
    assert gradient is not None
    assert gradient.abs().max() > 1e-3


def test_gradient_flows_through_the_gates() -> None:
    q, k, v = (x[:1, :, :4].requires_grad_() for x in vectors())
    scheme = make(limit=3).requires_grad_()

    def run(*_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=RUN[:4])

    assert torch.autograd.gradcheck(run, (q, k, v, scheme.table))


def test_each_option_changes_the_output() -> None:
    q, k, v = vectors()

    def read(**options: int | bool) -> Tensor:
        return attention(q, k, v, scheme=make(**options), positions=RUN)

    for options in ({"limit": 3}, {"scaled": True}):
        assert (read() - read(**options)).abs().max() > 1e-3


def test_position_ids_are_not_used() -> None:
    q, k, _ = vectors()
    here = attention_logits(q, k, scheme=make(), positions=RUN)
    there = attention_logits(q, k, scheme=make(), positions=3 * RUN + 15962)
    assert torch.equal(here, there)


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
    q, k, _ = vectors()
    with pytest.raises(ConfigError, match="cope: needs a causal mask"):
        attention_logits(q, k, scheme=make(), positions=RUN, mask=Mask(causal=False))


def test_limit_out_of_range() -> None:
    with pytest.raises(ConfigError, match="cope: limit must be at least 1, got -2"):
        make(limit=-2)
