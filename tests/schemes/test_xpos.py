"""xPos against complex numbers and powers, one pair at a time."""

import cmath
from typing import Any

import pytest
import torch
from schemes.tools import (
    channels_of_pair,
    check_causal_mask_is_needed,
    close,
    decoded,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 5, 40, 300, 301, 900]


def make(head_dim: int = 16, name: str = "xpos", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def logits(scheme: Scheme, places: list[int]) -> Tensor:
    q, k = normal(1, 2, len(places), 16), normal(1, 2, len(places), 16, seed=1)
    return attention_logits(q, k, scheme=scheme, positions=torch.tensor(places))


CASES = [
    {"scale_base": 512.0},
    {"layout": "half", "base": 100.0, "scale_base": 100.0},
    {"gamma": 0.1, "scale_base": 300.0, "centre": 17},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_equals_the_slow_reference(options: dict[str, Any]) -> None:
    q, k, _ = vectors(1, 2, 7, 16)
    got = logits(make(**options), PLACES)
    rule = {"base": 1e4, "gamma": 0.4, **options}

    def logit(b: int, h: int, i: int, j: int) -> float:
        distance, factors = PLACES[i] - PLACES[j], []
        for m in range(8):
            turn = cmath.exp(1j * distance * rule["base"] ** (-2 * m / 16))
            zeta = (2 * m / 16 + rule["gamma"]) / (1 + rule["gamma"])
            factors.append(turn * zeta ** (distance / rule["scale_base"]))
        layout = options.get("layout", "adjacent")
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit, causal=True), 1e-11)


@pytest.mark.parametrize("pair", range(8))
@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_each_pair_is_that_of_rope_faded(pair: int, layout: str) -> None:
    q, k = torch.zeros(2, 1, 2, 7, 16, dtype=torch.float64)
    two = channels_of_pair(pair, 16, layout)
    q[..., two], k[..., two] = normal(1, 2, 7, 2), normal(1, 2, 7, 2, seed=1)
    places = torch.tensor(PLACES)
    faded, plain = (
        attention_logits(q, k, scheme=scheme, positions=places)
        for scheme in (
            make(layout=layout, scale_base=512.0),
            make(name="rope", layout=layout),
        )
    )
    seen = plain.isfinite()
    zeta = (2 * pair / 16 + 0.4) / 1.4
    fade = torch.tensor(
        [[zeta ** ((p - r) / 512) for r in PLACES] for p in PLACES],
        dtype=torch.float64,
    )
    expected = (plain * fade)[seen]
    torch.testing.assert_close(faded[seen], expected, rtol=1e-12, atol=1e-13)


def test_the_centre_cancels_and_is_half_the_length() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([256, 300, 0])
    assert torch.equal(make().query(x, positions), make(centre=256).query(x, positions))
    middle, first = logits(make(), PLACES), logits(make(centre=0), PLACES)
    close(middle, first, 1e-11)
    rope = make(name="rope")
    torch.testing.assert_close(
        make().key(x, positions)[:, :, 0],
        rope.key(x, positions)[:, :, 0],
        rtol=1e-15,
        atol=0,
    )


def test_queries_lose_what_keys_gain() -> None:
    x, positions = normal(1, 2, 2, 16), torch.tensor([0, 2000])
    size = x.unflatten(-1, (8, 2)).norm(dim=-1)
    q, k = (
        door(x, positions).unflatten(-1, (8, 2)).norm(dim=-1) / size
        for door in (make().query, make().key)
    )
    torch.testing.assert_close(q * k, torch.ones_like(q), rtol=1e-12, atol=0)
    assert (q[:, :, 1] < 1).all()
    assert (k[:, :, 1] > 1).all()
    fades = q[0, 0, 1].tolist()
    assert fades == sorted(fades)  # fast pairs sooner than slow ones


def test_decoding_in_pieces_equals_the_whole() -> None:
    q, k, v = vectors(1, 2, 7, 16)
    places = torch.tensor(PLACES)
    whole = attention(q, k, v, scheme=make(), positions=places)
    close(decoded(q, k, v, [3, 1, 3], scheme=make(), positions=places), whole)


@pytest.mark.parametrize("shift", [1, 64, 4096])
def test_logits_do_not_change_under_a_shift(shift: int) -> None:
    moved = logits(make(), [place + shift for place in PLACES])
    close(moved, logits(make(), PLACES), 1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"base": 9_000.0},
        {"layout": "half"},
        {"gamma": 0.5},
        {"scale_base": 500.0},
        {"centre": 0},
    ],
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    positions = torch.tensor([15962, 15966, 15968])  # the first two collide
    x = normal(1, 2, 1, 16).bfloat16().expand(1, 2, 3, 16)
    got, wide = make().key(x, positions), make().key(x.double(), positions)
    assert got.dtype == torch.bfloat16
    assert got[0, 0].unique(dim=0).shape[0] == 3
    size = wide.unflatten(-1, (8, 2)).norm(dim=-1, keepdim=True)
    bound = 2.0**-8 * wide.abs() + 1e-6 * size.expand(1, 2, 3, 8, 2).flatten(-2)
    assert ((got.double() - wide).abs() <= bound).all()


@pytest.mark.parametrize(
    ("dtype", "reach"),
    # log(largest / 256) * 512 / log(1.4 / 0.4)
    [(torch.float16, 2266), (torch.float32, 33_994), (torch.bfloat16, 33_992)],
)
def test_positions_out_of_range_are_refused(dtype: torch.dtype, reach: int) -> None:
    x = normal(1, 2, 1, 16).to(dtype)
    scheme = make(centre=0, scale_base=512.0)
    assert scheme.key(x, torch.tensor([reach])).isfinite().all()
    assert scheme.query(x, torch.tensor([-reach])).isfinite().all()
    with pytest.raises(
        UndefinedPositionError,
        match=f"xpos: positions must be from -{reach} to {reach}, got {reach + 1}; "
        f"centre={reach + 1} would work",
    ):
        scheme.query(x, torch.tensor([reach + 1]))
    far = make(centre=10**6, scale_base=512.0)
    low = 10**6 - reach
    with pytest.raises(
        UndefinedPositionError,
        match=f"xpos: positions must be from {low} to {10**6 + reach}, got 0$",
    ):
        far.query(x.expand(1, 2, 2, 16), torch.tensor([0, 2 * reach + 2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_overflows_in_the_future_is_never_seen(dtype: torch.dtype) -> None:
    q, k, v = (normal(2, 2, 128, 16, seed=seed).to(dtype) for seed in range(3))
    q.requires_grad_()
    scheme = make(scale_base=1.0, centre=64)
    places, segments = torch.arange(128), torch.zeros(2, 128, dtype=torch.long)
    wide = [x.detach().double() for x in (q, k, v)]
    expected = attention(
        *wide, scheme=scheme, positions=places, mask=Mask(segments=segments)
    )
    got = attention(
        q, k, v, scheme=scheme, positions=places, mask=Mask(segments=segments)
    )
    close(got.double(), expected, 16 * torch.finfo(dtype).eps)
    got.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


def test_a_causal_mask_is_required() -> None:
    check_causal_mask_is_needed(make(), 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"gamma": 0.0},
            r"xpos: gamma and scale_base must be above 0, got 0\.0 and 256",
        ),
        (
            {"scale_base": -1.0},
            r"xpos: gamma and scale_base must be above 0, got 0\.4 and -1\.0",
        ),
        ({"centre": -2}, "xpos: centre must be at least -1, got -2"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="xpos: head_dim must be even, got 7"):
        make(7)
