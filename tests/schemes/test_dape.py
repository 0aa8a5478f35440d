"""DAPE against its network written out, one pair of tokens at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    check_bias_keeps_close_positions_apart,
    check_gradients,
    close,
    drawn,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Call, Facts, Geometry, Scheme, Variant, create
from posenc_compare.schemes.call import PairBias
from posenc_compare.schemes.dape import ROWS, Dape

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 7
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
PLACES = [0, 1, 3, 9, 4, 5, 30]


def make(**options: Any) -> Dape:
    return drawn(build(Dape, options, model_dim=HEADS * WIDTH, heads=HEADS))


def slow(scheme: Dape, bias: list[Tensor], scale: float) -> Tensor:
    """A + B + f(A, B), f a layer, LeakyReLU with slope 0.01, and a layer."""
    q, k, _ = vectors(*SHAPE)
    first, second = scheme.hidden, scheme.out
    logits = torch.zeros(BATCH, HEADS, LENGTH, LENGTH).double()
    for b in range(BATCH):
        for i in range(LENGTH):
            for j in range(LENGTH):
                a = [float(q[b, h, i] @ k[b, h, j]) * scale for h in range(HEADS)]
                c = [float(bias[h][i, j]) for h in range(HEADS)]
                units = []
                for row, start in zip(first.weight.tolist(), first.bias, strict=True):
                    z = float(start)
                    z += sum(u * x for u, x in zip(row, a + c, strict=True))
                    units.append(z if z > 0 else 0.01 * z)
                for h in range(HEADS):
                    row, start = second.weight[h].tolist(), float(second.bias[h])
                    added = sum(u * x for u, x in zip(row, units, strict=True)) + start
                    logits[b, h, i, j] = a[h] + c[h] + added
    return logits


def slow_alibi() -> list[Tensor]:
    places = torch.tensor(PLACES)
    distance = (places[:, None] - places).abs()
    return [-slope * distance for slope in (1 / 16, 1 / 256, 1 / 4)]


def test_equals_the_slow_reference_over_alibi() -> None:
    q, k, v = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    expected = slow(scheme, slow_alibi(), WIDTH**-0.5)
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    close(got, expected)
    out = attention(
        q, k, v, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    close(out, expected.softmax(-1) @ v)


def test_equals_the_slow_reference_over_t5() -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(base="t5_bias", width=5), torch.tensor(PLACES)
    table = scheme.base.get_parameter("table")
    edges = torch.tensor([*range(17), 19, 21, 24, 27, 31])  # t5_bias's buckets
    distance = (positions[:, None] - positions).clamp(min=0)
    bucket = (edges <= distance[..., None]).sum(-1) - 1
    expected = slow(scheme, [table[bucket, h] for h in range(HEADS)], 1.0)
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    seen = got.isfinite()
    close(got[seen], expected[seen])
    assert scheme.query_init_gain(WIDTH) == WIDTH**-0.5


class Pairs(Scheme):
    """A base with a bias of the offset and one of both positions."""

    facts = Facts(causal_only=True)

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return offsets.double().expand(HEADS, -1) / 7

    def pair_bias(self, call: Call) -> PairBias:
        return lambda b, h, i, j: (
            (h + 1)
            * (call.q_positions[0, i] + 2 * call.k_positions[0, j]).double()
            / 10
        )


def test_a_base_with_a_pair_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variant, "build", lambda self, geometry: Pairs(geometry))
    geometry = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
    scheme = Dape(geometry, base=Variant("nope")).double().requires_grad_(False)
    places = torch.tensor(PLACES).double()
    q, k, _ = vectors(*SHAPE)
    offsets, pairs = places - places[:, None], (places[:, None] + 2 * places) / 10
    bias = [offsets / 7 + (h + 1) * pairs for h in range(HEADS)]
    expected = slow(scheme, bias, WIDTH**-0.5)
    got = attention_logits(q, k, scheme=scheme, positions=places.long())
    seen = got.isfinite()
    close(got[seen], expected[seen])
    with pytest.raises(ConfigError, match="dape: needs a causal mask"):
        attention_logits(
            q, k, scheme=scheme, positions=places.long(), mask=Mask(causal=False)
        )


@pytest.mark.parametrize("base", ["alibi", "t5_bias"])
def test_a_silent_network_leaves_the_base(base: str) -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(base=base), torch.tensor(PLACES)
    scheme.out.weight.zero_()
    scheme.out.bias.zero_()
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    alone = attention_logits(
        q, k, scheme=scheme.base, positions=positions, mask=Mask(causal=False)
    )
    close(got, alone, 1e-14)


def test_many_queries_go_through_the_network_in_parts() -> None:
    length = 2 * ROWS + 3
    q, k = (normal(1, HEADS, length, WIDTH, seed=seed) for seed in (1, 2))
    scheme, positions = make(), torch.arange(length)
    whole = attention_logits(q, k, scheme=scheme, positions=positions)
    for start in (0, 300, length - 5):
        part = attention_logits(
            q[:, :, start : start + 5],
            k[:, :, start : start + 5],
            scheme=scheme,
            positions=positions[start : start + 5],
        )
        rows = whole[:, :, start : start + 5, start : start + 5]
        close(part, rows)


def test_gradient_reaches_network_and_base() -> None:
    q, k, v = (x[:1, :, :4] for x in vectors(*SHAPE))
    scheme = make(base="t5_bias", width=4).requires_grad_()
    check_gradients(scheme, q, k, v, torch.arange(4))


def test_heads_are_mixed() -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    before = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    q[:, 0] += 1
    after = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    assert (after - before)[:, 1:].abs().max() > 0.1


def test_each_option_changes_the_output() -> None:
    q, k, _ = vectors(*SHAPE)

    def logits(**options: Any) -> Tensor:
        positions = torch.tensor(PLACES)
        return attention_logits(
            q, k, scheme=make(**options), positions=positions, mask=Mask(causal=False)
        )

    for options in ({"base": "t5_bias"}, {"width": 7}):
        assert (logits() - logits(**options)).abs().max() > 1e-2


def test_sizes() -> None:
    scheme = create("dape", model_dim=64, heads=4)
    assert {n: tuple(p.shape) for n, p in scheme.named_parameters()} == {
        "hidden.weight": (32, 8),
        "hidden.bias": (32,),
        "out.weight": (4, 32),
        "out.bias": (4,),
    }


def test_bfloat16_keeps_close_positions_apart() -> None:
    one = torch.ones(1, HEADS, 3, WIDTH, dtype=torch.bfloat16)
    check_bias_keeps_close_positions_apart(make(), one, atol=1e-4)


@pytest.mark.parametrize("base", ["rope", "nope", "learned", "dape", "cope", "fox"])
def test_base_must_be_a_bias(base: str) -> None:
    with pytest.raises(
        ConfigError,
        match=f"dape: base must be a scheme that adds a bias and nothing else, "
        f"got '{base}'",
    ):
        make(base=base)


def test_unknown_base() -> None:
    with pytest.raises(
        ConfigError, match="unknown scheme 'alibie'; did you mean alibi"
    ):
        make(base="alibie")


def test_width_out_of_range() -> None:
    with pytest.raises(ConfigError, match="dape: width must be at least 1, got 0"):
        make(width=0)


def test_heads_come_before_biases() -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    scheme.hidden.weight[:, :HEADS] = 0  # deaf to the logits
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    content = q @ k.mT / math.sqrt(WIDTH)
    other = attention_logits(
        2 * q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    close(other - got, content)


def test_facts_are_those_of_the_base() -> None:
    fire = make(base="fire")
    assert fire.facts.causal_only
    assert not fire.facts.relative
    kerple = make(base="kerple_log")
    assert kerple.facts.relative
    assert kerple.facts.known_faults.keys() == {"C15"}
    assert not make().facts.known_faults
