"""NoPE against attention written out in loops, and what a set cannot tell."""

import math
from itertools import product

import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import close, content_plus, seeded, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention
from posenc_compare.schemes import HOOKS, create
from posenc_compare.schemes.shared.rotation import rotation_angles


class TestNope(LogitTests):
    name = "nope"
    errors = [({"base": 1.0}, "no option 'base'; it takes none")]

    def logits(self, t: Inputs) -> Tensor:
        return content_plus(t.q, t.k, lambda *_: 0.0)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """One query at a time."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            powers = [math.exp(logit) for logit in logits[b, h, i].tolist()]
            for power, value in zip(powers, t.v[b, h], strict=True):
                out[b, h, i] += power / math.fsum(powers) * value
        return out


def test_overrides_no_hook_and_has_no_parameters() -> None:
    scheme = create("nope")
    assert [hook for hook in HOOKS if scheme.acts_at(hook)] == []
    assert list(scheme.state_dict()) == []
    assert rotation_angles(scheme, torch.arange(3)) is None


def test_without_mask_permuting_tokens_permutes_outputs() -> None:
    q, k, v = vectors(1, 2, 9, 4)
    scheme = create("nope", model_dim=8, heads=2)
    positions = torch.arange(9)
    order = torch.randperm(9, generator=seeded(4))
    whole = attention(
        q, k, v, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    mixed = attention(
        *(t[:, :, order] for t in (q, k, v)),
        scheme=scheme,
        positions=positions,
        mask=Mask(causal=False),
    )
    close(mixed, whole[:, :, order])
