"""FoPE against sums of cosines and sines, one pair at a time."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    build,
    channels_of_pair,
    close,
    dot,
    normal,
    pair_by_pair,
)
from torch import Tensor

from posenc_compare.schemes.fope import Fope, identity
from posenc_compare.schemes.hope import Hope
from posenc_compare.schemes.rope import Rope

PLACES = [0, 1, 5, 40, 300, 901]


def make(head_dim: int = 16, trained: int = 512, **options: Any) -> Fope:
    sizes = {"model_dim": 2 * head_dim, "heads": 2, "length": trained}
    return build(Fope, options, **sizes)


def trained(**options: Any) -> Fope:
    scheme = make(**options)
    with torch.no_grad():
        scheme.sines.add_(0.5 * normal(*scheme.sines.shape, seed=5))
        scheme.cosines.add_(0.5 * normal(*scheme.cosines.shape, seed=6))
    return scheme


class TestFope(RotaryTests):
    name = "fope"
    sizes = {"model_dim": 32, "heads": 2, "length": 512}
    noise, atol = 0.5, 1e-11
    cases = [
        Case({"floor": floor, "pad": pad, **options}, length=length)
        for pad, floor in product(("paper", "official"), (True, False))
        for length, options in (
            (512, {}),
            (100_000, {}),  # more frequencies than outputs
            (20, {"layout": "adjacent", "base": 100.0}),
        )
    ]
    gradients = [{"learned": True}]
    changes = [
        {"base": 9_000.0},
        {"layout": "adjacent"},
        {"gain": 0.4},
        {"floor": False},
        {"pad": "official"},
    ]
    unchanged = {"learned"}
    errors = [
        *(
            (
                Case(length=length, head_dim=head_dim),
                "length must be at least 7 and head_dim 4 to leave one pair above the "
                f"floor, got {length} and {head_dim}",
            )
            for head_dim, length in ((16, 6), (2, 512))
        ),
        ({"gain": -0.1}, r"gain must be 0 or more, got -0\.1"),
    ]

    def turned(self, t: Inputs, x: Tensor, head: int, place: int) -> list[float]:
        """Return the channels of a query or key by sums of cosines and sines."""
        row, width, scheme = x.tolist(), len(x), t.scheme
        speeds = [t.option("base") ** (-2 * m / width) for m in range(width // 2)]
        outputs = width // 2
        if t.option("floor"):
            least = 2 * math.pi / scheme.geometry.length
            speeds = [speed for speed in speeds if speed >= least]
            outputs = min(len(speeds), width // 4)
        out = [0.0] * width
        for m in range(width // 2):
            c, s = 1.0, 1.0 if t.option("pad") == "official" else 0.0
            if m < outputs:
                cosines, sines = scheme.cosines[head, :, m], scheme.sines[head, :, m]
                c = dot((math.cos(place * w) for w in speeds), cosines.tolist())
                s = dot((math.sin(place * w) for w in speeds), sines.tolist())
            one, other = channels_of_pair(m, width, t.option("layout"))
            out[one] = row[one] * c - row[other] * s
            out[other] = row[other] * c + row[one] * s
        return out

    def logits(self, t: Inputs) -> Tensor:
        places = t.positions.tolist()

        def logit(b: int, h: int, i: int, j: int) -> float:
            query = self.turned(t, t.q[b, h, i], h, places[b][i])
            key = self.turned(t, t.k[b, h, j], h, places[b][j])
            return dot(query, key) / math.sqrt(16)

        return pair_by_pair(t.q, logit)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_identities_without_a_floor_are_rope(layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    scheme = make(layout=layout, gain=0.0, floor=False)
    assert torch.equal(scheme.sines, torch.eye(8).double().expand(2, 8, 8))
    rope = build(Rope, {"layout": layout}, model_dim=32, heads=2)
    close(scheme.query(x, positions), rope.query(x, positions), 1e-14)


def test_identities_with_a_floor_are_hope() -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    options = {"layout": "half"}  # keeps 4 pairs of 8
    hope = build(Hope, options, model_dim=32, heads=2, length=512)
    close(make(gain=0.0).key(x, positions), hope.key(x, positions), 1e-14)


def test_shapes_at_the_published_setting() -> None:
    # head_dim 64, length 512: 16 of 32 frequencies make a full turn, 16 are read.
    assert make(64).cosines.shape == (2, 16, 16)
    # At length 2**20 all do; a quarter of the channels is still the most.
    assert make(64, trained=2**20).sines.shape == (2, 32, 16)
    assert make(64, trained=2**20, floor=False).sines.shape == (2, 32, 32)


def test_a_step_of_the_identity_is_rounded_up() -> None:
    assert identity(3, 3).tolist() == torch.eye(3).tolist()
    read = identity(5, 3).T.tolist()  # every second input, the third beyond none
    assert read == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert identity(4, 3).T.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_noise_is_as_large_as_the_released_code_draws_it() -> None:
    scheme = make(256, trained=2**30, gain=0.6)
    heads, inputs, outputs = scheme.sines.shape
    noise = torch.stack([scheme.sines, scheme.cosines]) - identity(inputs, outputs)
    # xavier_normal_ takes a table of three axes for a convolution.
    std = 0.6 * math.sqrt(2 / (outputs * (inputs + heads)))
    assert noise.std().item() == pytest.approx(std, rel=0.02)
    assert (noise[0] - noise[1]).abs().max() > std  # drawn apart
