"""rope_latent against its formula, with the key of the first head."""

import cmath
import math
from typing import Any

import torch
from schemes.reference import Case, Inputs, RotaryTests, rotation_by_complex
from schemes.tools import close, normal
from torch import Tensor

from posenc_compare.schemes import create


class TestRopeLatent(RotaryTests):
    name = "rope_latent"
    # How many channels are rotated, by head size and fraction.
    rotated = {(12, 1 / 3): 4, (10, 0.5): 4, (6, 0.1): 2, (2, 1.0): 2}
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in rotated
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ] + [Case({}, heads=3)]
    unchanged = {"scaling", "factor", "original", "alpha", "beta", "factors"}
    unchanged |= {"truncate", "attention"}
    changes = [
        ({"fraction": 0.5}, {"base": 9_000.0}),
        ({"fraction": 0.5}, {"layout": "half"}),
        {"fraction": 0.5},
    ]
    errors = [
        *(
            ({"fraction": share}, rf"fraction must be in \(0, 1\], got {share}")
            for share in (0.0, -0.1, 1.1)
        ),
        ({"scaling": "yarn"}, "scaling=yarn must have a factor, got none"),
    ]

    def logits(self, t: Inputs) -> Tensor:
        width, base = t.q.shape[-1], t.option("base")
        turned = self.rotated.get((width, t.option("fraction")), 2)
        first, places = width - turned, t.positions.tolist()
        found = torch.zeros(*t.q.shape[:3], t.k.shape[2], dtype=torch.float64)
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, found.shape)):
            q, k, shared = t.q[b, h, i], t.k[b, h, j], t.k[b, 0, j]
            offset = places[b][i] - places[b][j]
            factors = [
                cmath.exp(1j * offset * base ** (-2 * m / turned))
                for m in range(turned // 2)
            ]
            parts = (q[first:], shared[first:], factors, t.option("layout"))
            rotated = rotation_by_complex(*parts) * math.sqrt(turned)
            still = sum(float(q[c] * k[c]) for c in range(first))
            found[b, h, i, j] = (still + rotated) / math.sqrt(width)
        return found


def make(**options: Any) -> Any:
    return create("rope_latent", options=options, model_dim=24, heads=2, length=64)


def test_the_first_channels_stay_and_the_last_are_those_of_a_smaller_head() -> None:
    x, positions = normal(1, 2, 3, 12), torch.tensor([1, 10, 100])
    small = create("rope", options={"layout": "half"}, model_dim=8, heads=2)
    query = make(layout="half").query(x, positions)
    assert torch.equal(query[..., :8], x[..., :8])
    close(query[..., 8:], small.query(x[..., 8:].contiguous(), positions), 1e-15)


def test_scalings_are_those_of_rope_with_another_attention_factor() -> None:
    scaled = {"scaling": "yarn", "factor": 8.0, "original": 16}
    ours = make(fraction=1.0, attention=1.0, **scaled)
    rope: Any = create("rope", options=scaled, model_dim=24, heads=2)
    places = torch.arange(50)
    assert torch.equal(ours.angles(places), rope.angles(places))
    assert (ours.attention_factor, make(**scaled).attention_factor) == (
        1.0,
        rope.attention_factor,
    )
    rules = make().schemes_for_length(128)
    assert "yarn" in rules
    assert rules["pi"].rotated_dims == make().rotated_dims
