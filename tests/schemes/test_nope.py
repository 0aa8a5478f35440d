"""NoPE against attention written out in loops, and what a set cannot tell."""

import math

import pytest
import torch
from schemes.tools import close, normal, seeded, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import DOORS, create
from posenc_compare.schemes.shared.rotation import rotation_angles


def slow_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """One query at a time, one product at a time."""
    out = torch.zeros_like(q)
    batch, heads, queries, width = q.shape
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = range(i + 1) if causal else range(k.shape[2])
                logits = [
                    sum(
                        float(q[b, h, i, c]) * float(k[b, h, j, c])
                        for c in range(width)
                    )
                    / math.sqrt(width)
                    for j in seen
                ]
                powers = [math.exp(logit) for logit in logits]
                for c in range(width):
                    out[b, h, i, c] = sum(
                        power / sum(powers) * float(v[b, h, j, c])
                        for j, power in zip(seen, powers, strict=True)
                    )
    return out


@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_slow_reference(causal: bool) -> None:
    q, k, v = vectors(2, 2, 5, 6)
    scheme = create("nope", model_dim=12, heads=2)
    got = attention(
        q, k, v, scheme=scheme, positions=torch.arange(5), mask=Mask(causal=causal)
    )
    expected = slow_attention(q, k, v, causal)
    close(got, expected)


def test_overrides_no_door_and_has_no_parameters() -> None:
    scheme = create("nope")
    assert [door for door in DOORS if scheme.acts_at(door)] == []
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


def test_causal_order_of_the_past_is_not_seen_but_its_extent_is() -> None:
    q, k, v = vectors(1, 1, 6, 4)
    scheme = create("nope", model_dim=4, heads=1)
    positions = torch.arange(6)
    order = torch.tensor([3, 0, 4, 1, 2, 5])
    whole = attention(q, k, v, scheme=scheme, positions=positions)
    mixed = attention(
        q, k[:, :, order], v[:, :, order], scheme=scheme, positions=positions
    )
    close(mixed[:, :, 5], whole[:, :, 5])
    assert (mixed[:, :, 0] - whole[:, :, 0]).abs().max() > 0.1


def test_positions_are_not_used() -> None:
    q, k, v = (normal(1, 2, 4, 8, seed=seed).bfloat16() for seed in range(3))
    scheme = create("nope", model_dim=16, heads=2)
    here = attention(q, k, v, scheme=scheme, positions=torch.arange(4))
    far = torch.tensor([15962, 15968, 3, -7])
    there = attention(q, k, v, scheme=scheme, positions=far)
    assert torch.equal(here, there)


def test_takes_no_option() -> None:
    with pytest.raises(ConfigError, match="nope: no option 'base'; it takes none"):
        create("nope", options={"base": 1.0})
