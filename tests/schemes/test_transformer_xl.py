"""Transformer-XL's four terms, one pair of tokens at a time."""

import math
import warnings

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.transformer_xl import TransformerXl

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
PLACES = [3, 4, 6, 10, 11, 12, 200]


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(**options: int | float) -> TransformerXl:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    scheme = create("transformer_xl", options=options, **sizes).double()
    assert isinstance(scheme, TransformerXl)
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 + number))
    return scheme.requires_grad_(False)


def vectors() -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (normal(BATCH, HEADS, LENGTH, WIDTH, seed=seed) for seed in range(3))
    return q, k, v


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def sinusoid(distance: int, base: float) -> list[float]:
    half = DIM // 2
    angles = [distance / math.pow(base, 2 * m / DIM) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def slow(scheme: TransformerXl, clamp: int, base: float) -> Tensor:
    """The terms (a) to (d) of the paper, for all pairs."""
    q, k, _ = vectors()
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
    q, k, v = vectors()
    scheme, positions = make(clamp=clamp, base=base), torch.tensor(PLACES)
    expected = slow(scheme, clamp, base)
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    ahead = torch.ones(LENGTH, LENGTH).triu(1).bool()
    masked = expected.masked_fill(ahead, -math.inf)
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    torch.testing.assert_close(got, masked, rtol=0, atol=1e-12)
    paths: list[Path] = ["dense", "flex", "plain"]
    for path in paths:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="flex_attention called without")
            read = attention(q, k, v, scheme=scheme, positions=positions, path=path)
        torch.testing.assert_close(read, masked.softmax(-1) @ v, rtol=0, atol=1e-12)


def test_nothing_trained_is_no_encoding() -> None:
    q, k, _ = vectors()
    scheme, positions = make(), torch.tensor(PLACES)
    for parameter in scheme.parameters():
        parameter.zero_()
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    nope = attention_logits(q, k, scheme=create("nope"), positions=positions)
    torch.testing.assert_close(got, nope, rtol=0, atol=1e-15)


@pytest.mark.parametrize("silent", ["u", "v", "project.weight"])
def test_every_parameter_has_a_part(silent: str) -> None:
    q, k, _ = vectors()
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
    q, k, _ = vectors()

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
    scheme, places = make(), [15962, 15966, 15968]
    zero = torch.zeros(1, HEADS, 3, WIDTH, dtype=torch.bfloat16)
    positions = torch.tensor(places)
    low = attention_logits(
        zero, zero, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    wide = attention_logits(
        zero.double(),
        zero.double(),
        scheme=scheme,
        positions=positions,
        mask=Mask(causal=False),
    )
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), wide, rtol=0, atol=1e-5)
    assert (wide[0, 0, 2, 0] - wide[0, 0, 2, 1]).abs() > 1e-3


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
