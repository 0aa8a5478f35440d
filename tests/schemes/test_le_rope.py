"""le_rope against complex numbers, one pair at a time."""

import cmath
import math

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    CLOSE_POSITIONS,
    check_rotation_keeps_close_positions_apart,
    close,
    normal,
)

from posenc_compare.attention import Session
from posenc_compare.train.decoder import Decoder
from posenc_compare.variants import Variant


class TestLeRope(RotaryTests):
    name = "le_rope"
    noise, atol = 0.3, 1e-11
    cases = [
        Case({"base": base, "layout": layout}, head_dim=head_dim)
        for head_dim in (2, 6, 8)
        for base, layout in ((1e4, "adjacent"), (100.0, "half"))
    ]
    gradients = [{}]
    starts_as = [({}, "rope"), ({"base": 50.0}, "rope:base=50")]
    changes = [{"base": 9_000.0}, {"layout": "half"}]
    errors = [(Case(head_dim=7), "head_dim must be even, got 7; 8 would work")]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        found, width = [], t.q.shape[-1]
        for m, log in enumerate(t.scheme.log_factor.tolist()):
            speed = t.option("base") ** (-2 * m / width) * math.exp(log)
            found.append(cmath.exp(1j * (query - key) * speed))
        return found

    def test_bfloat16_keeps_close_positions_apart(self) -> None:
        scheme = self.build(Case()).requires_grad_(False)
        check_rotation_keeps_close_positions_apart(scheme.query, CLOSE_POSITIONS)

    def test_all_layers_share_the_factors(self) -> None:
        scheme = self.make()
        decoder = Decoder(Variant("le_rope"), 3, scheme.geometry, seed=0)
        named = [name for name, _ in decoder.named_parameters() if "log_factor" in name]
        assert len(named) == 1
        q, k, v = normal(3, 1, 2, 5, 8)
        session = Session(scheme, torch.arange(5))
        for layer in range(2):
            out = session.attend(layer, q, k, v)
            (gradient,) = torch.autograd.grad(out.sum(), scheme.log_factor)
            assert gradient.abs().max() > 0
        close(session.attend(0, q, k, v), session.attend(1, q, k, v), 0)
