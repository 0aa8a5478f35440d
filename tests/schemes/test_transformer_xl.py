"""Transformer-XL's four terms, one pair of tokens at a time."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    check_bias_keeps_close_positions_apart,
    close,
    dot,
    drawn,
    on_paths,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.transformer_xl import TransformerXl

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
PLACES = [3, 4, 6, 10, 11, 12, 200]


def make(**options: int | float) -> TransformerXl:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    return drawn(build(TransformerXl, options, **sizes))


def sinusoid(distance: int, base: float) -> list[float]:
    half = DIM // 2
    angles = [distance / math.pow(base, 2 * m / DIM) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def slow(scheme: TransformerXl, clamp: int, base: float) -> Tensor:
    """The terms (a) to (d) of the paper, for all pairs."""
    q, k, _ = vectors(*SHAPE)
    weight = scheme.project.weight.view(HEADS, WIDTH, DIM).tolist()
    logits = torch.zeros(BATCH, HEADS, LENGTH, LENGTH).double()
    for h in range(HEADS):
        u, v = scheme.u[h, 0].tolist(), scheme.v[h, 0].tolist()
        for i in range(LENGTH):
            for j in range(LENGTH):
                distance = PLACES[i] - PLACES[j]
                if clamp:
                    distance = max(-clamp, min(clamp, distance))
                wave = sinusoid(distance, base)
                place = [dot(row, wave) for row in weight[h]]
                for b in range(BATCH):
                    query, key = q[b, h, i].tolist(), k[b, h, j].tolist()
                    terms = (
                        dot(query, key),
                        dot(query, place),
                        dot(u, key),
                        dot(v, place),
                    )
                    logits[b, h, i, j] = sum(terms) / math.sqrt(WIDTH)
    return logits


@pytest.mark.parametrize("clamp", [0, 1, 5])
@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_equals_the_slow_reference(clamp: int, base: float) -> None:
    q, k, v = vectors(*SHAPE)
    scheme, positions = make(clamp=clamp, base=base), torch.tensor(PLACES)
    expected = slow(scheme, clamp, base)
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    close(got, expected)
    ahead = torch.ones(LENGTH, LENGTH).triu(1).bool()
    masked = expected.masked_fill(ahead, -math.inf)
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    close(got, masked)
    for read in on_paths(q, k, v, scheme=scheme, positions=positions):
        close(read, masked.softmax(-1) @ v)


def test_nothing_trained_is_no_encoding() -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    for parameter in scheme.parameters():
        parameter.zero_()
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    nope = attention_logits(q, k, scheme=create("nope"), positions=positions)
    close(got, nope, 1e-15)


@pytest.mark.parametrize("silent", ["u", "v", "project.weight"])
def test_every_parameter_has_a_part(silent: str) -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    before = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    scheme.get_parameter(silent).zero_()
    after = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    assert (after - before).abs().max() > 0.1


def test_each_option_changes_the_logits() -> None:
    q, k, _ = vectors(*SHAPE)

    def logits(**options: int | float) -> Tensor:
        positions = torch.tensor(PLACES)
        return attention_logits(
            q, k, scheme=make(**options), positions=positions, mask=Mask(causal=False)
        )

    for options in ({"clamp": 5}, {"base": 500.0}):
        assert (logits() - logits(**options)).abs().max() > 1e-2
    assert torch.equal(logits(clamp=197), logits())  # no distance is larger


def test_initial_spread() -> None:
    scheme = create("transformer_xl", model_dim=256, heads=64)
    shapes = {n: tuple(p.shape) for n, p in scheme.named_parameters()}
    assert shapes == {"u": (64, 1, 4), "v": (64, 1, 4), "project.weight": (256, 256)}
    # 65 536 draws: the spread is known to 0.3 %; 256 draws: to 4.4 %.
    for name, rel in (("project.weight", 0.02), ("u", 0.25), ("v", 0.25)):
        assert scheme.get_parameter(name).std().item() == pytest.approx(0.02, rel=rel)


def test_bfloat16_keeps_close_positions_apart() -> None:
    zero = torch.zeros(1, HEADS, 3, WIDTH, dtype=torch.bfloat16)
    check_bias_keeps_close_positions_apart(make(), zero, atol=1e-5)


def test_odd_width() -> None:
    with pytest.raises(
        ConfigError, match="transformer_xl: model_dim must be even, got 9"
    ):
        create("transformer_xl", model_dim=9, heads=3)


def test_negative_clamp() -> None:
    with pytest.raises(
        ConfigError, match="transformer_xl: clamp must be 0 or more, got -1"
    ):
        make(clamp=-1)
