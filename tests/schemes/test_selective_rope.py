"""Selective RoPE against angles summed token by token."""

import cmath
import math
from itertools import product
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
from posenc_compare.schemes.selective_rope import SelectiveRope

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 8, 10
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> SelectiveRope:
    return drawn(build(SelectiveRope, {"base": 100.0, "rank": 3, **options}, **SIZES))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, WIDTH), normal(BATCH, LENGTH, DIM, seed=3)


def said_by(scheme: SelectiveRope, token: Tensor) -> tuple[list[float], list[float]]:
    """Return what a token says before the convolution, and its gates."""
    parts = [part.tolist() for part in token.split(DIM // HEADS)]
    unit = [c / math.sqrt(dot(part, part) + 1e-6) for part in parts for c in part]
    thin = [dot(row, unit) for row in scheme.down.weight.tolist()]
    gates = [1.0] * HEADS
    if scheme.gate is not None:
        weights, biases = scheme.gate.weight.tolist(), scheme.gate.bias.tolist()
        logits = [dot(w, unit) + c for w, c in zip(weights, biases, strict=True)]
        gates = [1 / (1 + math.exp(-z)) for z in logits]
    return [dot(row, thin) for row in scheme.up.weight.tolist()], gates


def slow(scheme: SelectiveRope, document: list[int] | None = None) -> Tensor:
    """Logits of pairs turned by what the tokens after the key say."""
    q, k, _, x = inputs()
    taps, document = scheme.taps.weight.tolist(), document or [0] * LENGTH
    turns = torch.zeros(BATCH, LENGTH, HEADS, 3).double()
    for b in range(BATCH):
        said = [said_by(scheme, token) for token in x[b]]
        for t, h, pair in product(range(LENGTH), range(HEADS), range(3)):
            channel, seen = 3 * h + pair, range(max(0, t - 3), t + 1)
            turns[b, t, h, pair] = said[t][1][h] * math.fsum(
                taps[channel][t - u] * said[u][0][channel]
                for u in seen
                if document[u] == document[t]
            )

    def logit(b: int, h: int, i: int, j: int) -> float:
        between = turns[b, min(i, j) + 1 : max(i, j) + 1, h].sum(dim=0).tolist()
        signed = [turn if i >= j else -turn for turn in between]
        found = [turn * 100.0 ** (-pair / 3) for pair, turn in enumerate(signed)]
        factors = [cmath.exp(1j * turn) for turn in found]
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, "half")

    return pair_by_pair(q, logit)


@pytest.mark.parametrize("gate", [False, True])
def test_equals_the_slow_reference(gate: bool) -> None:
    q, k, v, x = inputs()
    scheme, mask = make(gate=gate), Mask(causal=False)
    call = {"scheme": scheme, "positions": RUN, "state": scheme.token_state(x)}
    expected = slow(scheme)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-12)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-12)


def test_documents_do_not_mix() -> None:
    q, k, v, x = inputs()
    document = [0, 0, 0, 1, 1, 1, 1, 1]
    scheme = make()
    mask = Mask(segments=torch.tensor([document] * BATCH))
    got = attention(
        q, k, v, scheme=scheme, positions=RUN, mask=mask, state=scheme.token_state(x)
    )
    same = torch.tensor(document)[:, None] == torch.tensor(document)
    expected = slow(scheme, document).masked_fill(~same.tril(), -math.inf)
    close(got, expected.softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize("steps", [[7, 1], [1] * 8, [3, 5], [0, 2, 0, 6]], ids=str)
def test_state_goes_on_from_the_past(steps: list[int]) -> None:
    q, k, v, x = inputs()
    scheme = make(gate=True)
    got = decoded(q, k, v, steps, scheme=scheme, positions=RUN, x=x)
    seen = slow(scheme).masked_fill((RUN[:, None] < RUN), -math.inf)
    close(got, seen.softmax(-1) @ v, 1e-12)


def test_the_same_angle_from_every_token_is_rope() -> None:
    q, k, _, x = inputs()
    scheme = make()
    for layer in (scheme.down, scheme.up, scheme.taps):
        layer.weight.zero_()
    # Tokens whose first half is one channel say 1, through one unit and one tap.
    scheme.down.weight[0, 0] = math.sqrt(1 + 1e-6)
    scheme.up.weight[:, 0] = 1
    scheme.taps.weight[:, 0] = 1
    x = torch.zeros_like(x)
    x[..., 0] = 1
    got = attention_logits(
        q, k, scheme=scheme, positions=RUN, state=scheme.token_state(x)
    )
    options = {"base": 100.0, "layout": "half"}
    rope = create("rope", options=options, **SIZES)
    close(got, attention_logits(q, k, scheme=rope, positions=RUN), 1e-12)


def test_no_taps_are_no_encoding() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.taps.weight.zero_()
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    close(got, attention_logits(q, k, scheme=create("nope"), positions=RUN))


def test_position_ids_are_not_used() -> None:
    q, k, _, x = inputs()
    check_position_ids_are_not_used(make(), q, k, x)


@pytest.mark.parametrize("gate", [False, True])
def test_gradient(gate: bool) -> None:
    q, k, v, x = (part[:1, ..., :4, :] for part in inputs())
    check_gradients(make(gate=gate).requires_grad_(), q, k, v, RUN[:4], x)


def test_sizes_and_options_out_of_range() -> None:
    with pytest.raises(ConfigError, match="rank must be at least 1, got 0"):
        make(rank=0)
    with pytest.raises(ConfigError, match="base must be greater than 0, got -1"):
        make(base=-1.0)
    with pytest.raises(ConfigError, match="heads must divide model_dim, got 3 and 10"):
        create("selective_rope", model_dim=10, heads=3, head_dim=4)


def test_needs_its_state() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="selective_rope: needs the state that"):
        attention_logits(q, k, scheme=make(), positions=RUN)
    with pytest.raises(ConfigError, match="selective_rope: needs the call, got none"):
        make().query(q, RUN)


def test_one_instance_reads_the_state_of_each_layer() -> None:
    q, k, v, x = inputs()
    scheme, other = make(), normal(BATCH, LENGTH, DIM, seed=9)
    session = Session(scheme, positions=RUN)
    for layer, tokens in enumerate((x, other)):
        got = session.attend(layer, q, k, v, x=tokens)
        state = scheme.token_state(tokens)
        close(got, attention(q, k, v, scheme=scheme, positions=RUN, state=state))
