"""xPos against complex numbers and powers, one pair at a time."""

import cmath
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, RotaryTests
from schemes.tools import (
    close,
    normal,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 5, 40, 300, 301, 900]


def make(head_dim: int = 16, name: str = "xpos", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def logits(scheme: Scheme, places: list[int]) -> Tensor:
    q, k = normal(1, 2, len(places), 16), normal(1, 2, len(places), 16, seed=1)
    return attention_logits(q, k, scheme=scheme, positions=torch.tensor(places))


class TestXpos(RotaryTests):
    name = "xpos"
    causal = True
    published = {"scale_base": (512, 1024, (32, 64, 256))}
    sizes = {"model_dim": 32, "heads": 2}
    places = [PLACES, [3, 4, 5, 9, 50, 51, 52]]
    atol = 1e-11
    cases = [
        {"scale_base": 512.0},
        {"layout": "half", "base": 100.0, "scale_base": 100.0},
        {"gamma": 0.1, "scale_base": 300.0, "centre": 17},
    ]
    changes = [
        {"base": 9_000.0},
        {"layout": "half"},
        {"gamma": 0.5},
        {"scale_base": 500.0},
        {"centre": 0},
    ]
    errors = [
        ({"gamma": 0.0}, r"gamma and scale_base must be above 0, got 0\.0 and 256"),
        (
            {"scale_base": -1.0},
            r"gamma and scale_base must be above 0, got 0\.4 and -1\.0",
        ),
        ({"centre": -2}, "centre must be at least -1, got -2"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        return scheme.query(normal(1, 2, 3, 16), torch.tensor([5, 50, 400]))

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        distance, gamma, found = query - key, t.option("gamma"), []
        for m in range(8):
            turn = cmath.exp(1j * distance * t.option("base") ** (-2 * m / 16))
            zeta = (2 * m / 16 + gamma) / (1 + gamma)
            found.append(turn * zeta ** (distance / t.option("scale_base")))
        return found


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
