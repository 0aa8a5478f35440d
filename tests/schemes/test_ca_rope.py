"""CARoPE against angles summed token by token."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    check_gradients,
    check_position_ids_are_not_used,
    close,
    decoded,
    dot,
    drawn,
    normal,
    on_paths,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import ConfigError
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


def slow(scheme: CaRope) -> Tensor:
    """Logits of pairs turned by what the tokens after the key say."""
    q, k, _, x = inputs()

    def logit(b: int, h: int, i: int, j: int) -> float:
        tokens = x[b, min(i, j) + 1 : max(i, j) + 1]
        sign = 1 if i >= j else -1
        turns = [
            sign * math.fsum(said(scheme, h, token) ** pair for token in tokens)
            for pair in range(WIDTH // 2)
        ]
        factors = [cmath.exp(1j * turn) for turn in turns]
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, scheme.layout)

    return pair_by_pair(q, logit)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("start", ["rope", "half"])
def test_equals_the_slow_reference(layout: str, start: str) -> None:
    q, k, v, x = inputs()
    scheme, mask = make(layout=layout, start=start), Mask(causal=False)
    call = {"scheme": scheme, "positions": RUN, "state": scheme.token_state(x)}
    expected = slow(scheme)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-12)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize("steps", [[7, 1], [1] * 8, [3, 5], [0, 2, 0, 6]], ids=str)
def test_state_goes_on_from_the_past(steps: list[int]) -> None:
    q, k, v, x = inputs()
    scheme = make()
    got = decoded(q, k, v, steps, scheme=scheme, positions=RUN, x=x)
    seen = slow(scheme).masked_fill((RUN[:, None] < RUN), -math.inf)
    close(got, seen.softmax(-1) @ v, 1e-12)


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


def test_without_c_all_tokens_start_alike() -> None:
    *_, x = inputs()
    scheme = build(CaRope, {"start": "half"}, **SIZES).requires_grad_(False)
    assert scheme.say.bias is None
    state = scheme.token_state(x)
    close(state, torch.full_like(state, 1 / (1 + math.log(2))))


def test_the_first_pair_turns_one_radian_a_token() -> None:
    *_, x = inputs()
    scheme = make()
    angles = scheme.angles(scheme.token_state(x))
    close(angles[..., 0], (RUN + 1).double().expand(BATCH, HEADS, -1))


def test_position_ids_are_not_used() -> None:
    q, k, _, x = inputs()
    check_position_ids_are_not_used(make(), q, k, x)


@pytest.mark.parametrize("start", ["rope", "half"])
def test_gradient(start: str) -> None:
    q, k, v, x = (part[:1, ..., :4, :] for part in inputs())
    check_gradients(make(start=start).requires_grad_(), q, k, v, RUN[:4], x)


def test_a_token_that_says_nothing_has_a_finite_gradient() -> None:
    state = torch.zeros(1, LENGTH, HEADS, dtype=torch.float64, requires_grad=True)
    angles = make().angles(state)
    assert (angles[..., 1:] == 0).all()
    angles.sum().backward()
    assert state.grad is not None
    assert state.grad.isfinite().all()


def test_one_instance_reads_the_state_of_each_layer() -> None:
    q, k, v, x = inputs()
    scheme, other = make(), normal(BATCH, LENGTH, DIM, seed=9)
    session = Session(scheme, positions=RUN)
    for layer, tokens in enumerate((x, other)):
        got = session.attend(layer, q, k, v, x=tokens)
        state = scheme.token_state(tokens)
        close(got, attention(q, k, v, scheme=scheme, positions=RUN, state=state))


def test_angles_far_into_a_text_are_not_rounded_away() -> None:
    scheme = build(CaRope, **SIZES).requires_grad_(False)
    angles = scheme.angles(scheme.token_state(torch.zeros(1, 65_536, DIM)))
    steps = angles[0, 0].diff(dim=0)
    close(steps, steps[:1].expand_as(steps), 1e-9)


@pytest.mark.parametrize("base", [1.0, 0.5, -3.0])
def test_bases_out_of_range(base: float) -> None:
    with pytest.raises(ConfigError, match="ca_rope: base must be greater than 1"):
        make(base=base)


def test_needs_its_state() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="ca_rope: needs the state that"):
        attention_logits(q, k, scheme=make(), positions=RUN)
    with pytest.raises(ConfigError, match="ca_rope: needs the state that"):
        make().query(q, RUN)
