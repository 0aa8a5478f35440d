"""Convolutions of the decoder against their formulas, written place by place."""

import math
from typing import Any, TypeVar, get_args

import pytest
import torch
from schemes.tools import normal

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.setting import Convolution
from posenc_compare.tasks.task import Batch
from posenc_compare.train.convolution import TAPS, Canon, CanonA, KVShift, Peg, Still
from posenc_compare.train.decoder import Decoder

T = TypeVar("T", bound=Still)

WIDTH, HEADS, SEQ = 8, 2, 9
GEOMETRY = Geometry(model_dim=WIDTH, heads=HEADS, length=16)
CAUSAL = [name for name in get_args(Convolution) if name != "peg"]


def slow(x: torch.Tensor, taps: torch.Tensor) -> list[list[float]]:
    """Return x plus the weighted sum of its last four values, channel by channel."""
    x, taps = x.detach(), taps.detach()
    return [
        [
            float(x[t, c])
            + math.fsum(
                float(taps[c, -1 - back]) * float(x[t - back, c])
                for back in range(min(TAPS, t + 1))
            )
            for c in range(x.shape[1])
        ]
        for t in range(len(x))
    ]


def made(kind: type[T]) -> T:
    convolution = kind(WIDTH, HEADS).double()
    convolution.start(torch.Generator().manual_seed(1))
    return convolution


def close(got: torch.Tensor, expected: list[list[float]]) -> None:
    """Compare sums of a few products, each rounded."""
    wanted = torch.tensor(expected, dtype=torch.float64)
    bound = 16 * torch.finfo(torch.float64).eps * wanted.abs().max().item()
    torch.testing.assert_close(got.detach(), wanted, rtol=0, atol=bound)


def test_canon_adds_a_sum_of_four_tokens_at_four_places() -> None:
    canon, x, wide = made(Canon), normal(1, SEQ, WIDTH), normal(1, SEQ, 4 * WIDTH)
    close(canon.attended(x)[0], slow(x[0], canon.a))
    close(canon.read(x)[0], slow(x[0], canon.c))
    close(canon.hidden(wide)[0], slow(wide[0], canon.d))
    parts = normal(3, 1, SEQ, WIDTH, seed=2)
    for got, part, taps in zip(
        canon.projected(parts[0], parts[1], parts[2], x), parts, canon.b, strict=True
    ):
        close(got[0], slow(part[0], taps))


def test_canon_a_acts_before_attention_alone() -> None:
    canon, x = made(CanonA), normal(1, SEQ, WIDTH)
    close(canon.attended(x)[0], slow(x[0], canon.a))
    assert canon.read(x) is x
    assert canon.hidden(x) is x
    assert [*canon.state_dict()] == ["a"]


@pytest.mark.parametrize("length", [1, 2, SEQ])
def test_a_shifted_key_is_in_part_that_of_the_token_before(length: int) -> None:
    shift, x = made(KVShift), normal(1, length, WIDTH)
    q, k, v = normal(3, 1, length, WIDTH, seed=2)
    got = shift.projected(q, k, v, x)
    assert got[0] is q
    for number, part in enumerate((k, v)):
        rows = []
        for t in range(length):
            row = []
            for c in range(WIDTH):
                head = number * HEADS + c // (WIDTH // HEADS)
                score = math.fsum((shift.shares[head].detach() * x[0, t]).tolist())
                share = 1 / (1 + math.exp(-score))
                before = float(part[0, t - 1, c]) if t else 0.0
                row.append((1 - share) * float(part[0, t, c]) + share * before)
            rows.append(row)
        close(got[number + 1][0], rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_shares_of_half_precision_are_exact_but_for_the_score(
    dtype: torch.dtype,
) -> None:
    shift = made(KVShift).to(dtype)
    x, k, v = normal(3, 1, SEQ, WIDTH, seed=3).to(dtype)
    got = shift.projected(k, k, v, x)
    scores = torch.nn.functional.linear(x, shift.shares)  # rounded to the dtype
    shares = scores.detach().double().sigmoid()
    for number, part in enumerate((k, v)):
        share = shares[..., number * HEADS : (number + 1) * HEADS]
        share = share.repeat_interleave(WIDTH // HEADS, dim=-1)
        before = torch.cat([torch.zeros_like(part[:, :1]), part[:, :-1]], dim=1)
        wanted = (1 - share) * part.double() + share * before.double()
        assert torch.equal(got[number + 1], wanted.to(dtype))


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("sides", [(3, 4), (1, 5), (2, 1)])
def test_peg_adds_a_sum_of_neighbours_to_every_cell(
    sides: tuple[int, int], class_token: bool
) -> None:
    peg, (rows, columns) = made(Peg).requires_grad_(False), sides
    torch.nn.init.normal_(peg.bias, generator=torch.Generator().manual_seed(2))
    x = normal(2, rows * columns + class_token, WIDTH)
    got = peg.behind(x, sides, int(class_token))
    for image, out in zip(x, got, strict=True):
        cells = image[class_token:].detach().unflatten(0, sides)
        wanted = [
            [
                float(cells[r, c, d])
                + float(peg.bias[d])
                + math.fsum(
                    float(peg.taps[d, 0, 1 + down, 1 + right])
                    * float(cells[r + down, c + right, d])
                    for down in (-1, 0, 1)
                    for right in (-1, 0, 1)
                    if 0 <= r + down < rows and 0 <= c + right < columns
                )
                for d in range(WIDTH)
            ]
            for r in range(rows)
            for c in range(columns)
        ]
        close(out[class_token:], wanted)
        assert out[:class_token].equal(image[:class_token])


def test_peg_refuses_tokens_that_are_no_grid() -> None:
    for sides, place in (((2, 3), "on one of 2 x 3"), ((0, 0), "without a grid")):
        with pytest.raises(ConfigError, match=f"row by row, got 9 tokens {place};"):
            made(Peg).behind(normal(1, SEQ, WIDTH), sides)
    tokens, rows = (
        torch.zeros(1, 6).long(),
        torch.arange(6).div(3, rounding_mode="floor"),
    )
    cells = torch.stack([rows, torch.arange(6) % 3], dim=1)
    assert Batch(tokens, tokens, positions=cells).sides == (2, 3)
    for other in (cells.flip(0), cells + 1, cells[[0, 0, 2, 3, 4, 5]]):
        assert Batch(tokens, tokens, positions=other).sides == (0, 0)


@pytest.mark.parametrize("network", ["encoder", "classifier"])
def test_peg_acts_once_behind_the_first_layer(network: Any) -> None:
    """Without positions the network hears of places, and sees the whole grid."""
    model = Decoder(
        Variant("nope"), 2, GEOMETRY, seed=0, convolution="peg", network=network
    ).eval()
    own = [name for name in model.state_dict() if "convolution" in name]
    assert own == [f"layers.0.convolution.{part}" for part in ("taps", "bias")]
    tokens = torch.randint(256, (1, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole, tall, swapped = (
            model(t, torch.arange(12), sides=sides)
            for t, sides in (
                (tokens, (3, 4)),
                (tokens, (4, 3)),
                (tokens.flip(1), (3, 4)),
            )
        )
        part = model(tokens, torch.arange(12), first=5, sides=(3, 4))
    torch.testing.assert_close(part, whole[:, 5:])
    for other in (tall, swapped):
        assert not torch.allclose(other, whole, atol=1e-4)


@pytest.mark.parametrize("name", CAUSAL)
def test_no_token_sees_the_future_and_neighbours_tell_places(name: Convolution) -> None:
    """NoPE's first layer hears of order where keys are mixed with those before."""
    model = Decoder(Variant("nope"), 1, GEOMETRY, seed=0, convolution=name).eval()
    tokens = torch.randint(256, (1, SEQ), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[0, 5] += 1
    with torch.no_grad():
        logits, changed = (model(t % 256, torch.arange(SEQ)) for t in (tokens, other))
        swapped = model(tokens[:, [1, 0, *range(2, SEQ)]], torch.arange(SEQ))
    assert torch.equal(logits[:, :5], changed[:, :5])
    bound = 64 * torch.finfo(torch.float32).eps * logits.abs().max()
    heard = (swapped[:, -1] - logits[:, -1]).abs().max() > bound
    assert heard == (name != "none")


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("first", [0, 1, 5, 8])
def test_the_last_places_are_those_of_all(name: Convolution, first: int) -> None:
    model = Decoder(Variant("rope"), 2, GEOMETRY, seed=0, convolution=name)
    model = model.double().eval()
    tokens = torch.randint(256, (2, SEQ), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = model(tokens, torch.arange(SEQ))
        part = model(tokens, torch.arange(SEQ), first=first)
    torch.testing.assert_close(part, whole[:, first:], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", get_args(Convolution))
def test_a_convolution_leaves_the_other_weights_as_they_are(name: Convolution) -> None:
    def weights(convolution: Convolution) -> dict[str, torch.Tensor]:
        model = Decoder(Variant("fire"), 2, GEOMETRY, seed=3, convolution=convolution)
        return model.state_dict()

    plain, mixed = weights("none"), weights(name)
    assert all(torch.equal(mixed[part], value) for part, value in plain.items())
    own = {part: value for part, value in mixed.items() if part not in plain}
    assert bool(own) == (name != "none")
    for part, value in own.items():
        assert (value.std() > 0) != part.endswith("bias")
        if name.startswith("canon"):
            assert value.abs().max() <= 0.5
    if own and name != "peg":  # which the first layer alone has
        first, second = (f"layers.{i}.convolution" for i in (0, 1))
        part = next(iter(own)).removeprefix(f"{first}.")
        assert not torch.equal(own[f"{first}.{part}"], own[f"{second}.{part}"])
