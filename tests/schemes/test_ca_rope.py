"""CARoPE against angles summed token by token."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, LogitTests, combine
from schemes.tools import (
    build,
    close,
    dot,
    drawn,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.ca_rope import CaRope

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 8, 10
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> CaRope:
    return drawn(build(CaRope, options, **SIZES))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, WIDTH), normal(BATCH, LENGTH, DIM, seed=3)


def said(scheme: CaRope, head: int, token: Tensor) -> float:
    """Return f of one token for one head."""
    z = dot(scheme.say.weight[head].tolist(), token.tolist())
    if scheme.say.bias is not None:
        z += float(scheme.say.bias[head])
    return 1 / (1 + math.log1p(math.exp(z)))


class TestCaRope(LogitTests):
    name = "ca_rope"
    sizes = SIZES
    cases = combine(layout=("adjacent", "half"), start=("rope", "half"))
    gradients = combine(start=("rope", "half"))
    changes = [{"base": 100.0}, {"layout": "half"}, {"start": "half"}]
    errors = [
        ({"base": base}, "base must be greater than 1") for base in (1.0, 0.5, -3.0)
    ]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """Logits of pairs turned by what the tokens after the key say."""

        def logit(b: int, h: int, i: int, j: int) -> float:
            tokens = t.x[b, min(i, j) + 1 : max(i, j) + 1]
            sign = 1 if i >= j else -1
            turns = [
                sign * math.fsum(said(t.scheme, h, token) ** pair for token in tokens)
                for pair in range(WIDTH // 2)
            ]
            factors = [cmath.exp(1j * turn) for turn in turns]
            both = t.q[b, h, i], t.k[b, h, j]
            return rotation_by_complex(*both, factors, t.option("layout"))

        return pair_by_pair(t.q, logit)


@pytest.mark.parametrize("base", [100.0, 10_000.0, 1e9])
def test_training_starts_at_rope(base: float) -> None:
    q, k, _, x = inputs()
    scheme = build(CaRope, {"base": base}, **SIZES).requires_grad_(False)
    rope = create("rope", options={"base": base}, **SIZES)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    wanted = attention_logits(q, k, scheme=rope, positions=RUN)
    # The parameter was made in float32: f, near 1 / 1000 at the least, is as exact.
    close(got, wanted, 1e-6)


def test_a_token_that_says_nothing_has_a_finite_gradient() -> None:
    state = torch.zeros(1, LENGTH, HEADS, dtype=torch.float64, requires_grad=True)
    angles = make().angles(state)
    assert (angles[..., 1:] == 0).all()
    angles.sum().backward()
    assert state.grad is not None
    assert state.grad.isfinite().all()


def test_angles_far_into_a_text_are_not_rounded_away() -> None:
    scheme = build(CaRope, **SIZES).requires_grad_(False)
    angles = scheme.angles(scheme.token_state(torch.zeros(1, 65_536, DIM)))
    steps = angles[0, 0].diff(dim=0)
    close(steps, steps[:1].expand_as(steps), 1e-9)


def test_the_first_pair_turns_one_radian_a_token() -> None:
    *_, x = inputs()
    scheme = make()
    angles = scheme.angles(scheme.token_state(x))
    close(angles[..., 0], (RUN + 1).double().expand(BATCH, HEADS, -1))
