"""PaTH against products of matrices written out, one pair of tokens at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    check_causal_mask_is_needed,
    check_gradients,
    check_position_ids_are_not_used,
    close,
    decoded,
    drawn,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Call, create
from posenc_compare.schemes.path import Path

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 9, 10
RUN = torch.arange(LENGTH)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [4, 4, 4, 4, 4, 4, 9, 9, 9]])


def make(**options: Any) -> Path:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    return drawn(build(Path, options, **sizes))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    return q, k, v, normal(BATCH, LENGTH, DIM, seed=3)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def slow_direction(scheme: Path, x: Tensor, t: int, first: int) -> list[list[float]]:
    """w of token t in every head; the convolution sees no token before `first`."""
    made = []
    for channel in range(HEADS * WIDTH):
        row = scheme.up.weight[channel] @ scheme.down.weight
        if scheme.taps is None:
            made.append(float(row @ x[t]))
            continue
        total = 0.0
        for back in range(3):
            if t - back >= first:
                total += float(scheme.taps.weight[channel, back] * (row @ x[t - back]))
        made.append(total * sigmoid(total))
    heads = [made[h * WIDTH : (h + 1) * WIDTH] for h in range(HEADS)]
    return [[c / math.hypot(*head) for c in head] for head in heads]


def slow(scheme: Path, packed: bool = False) -> Tensor:
    """Logits `q_i H_i ... H_{j+1} k_j / sqrt(d)`, with a gate if there is one."""
    q, k, _, xs = inputs()
    logits = torch.full((BATCH, HEADS, LENGTH, LENGTH), -math.inf).double()
    for b in range(BATCH):
        segment = SEGMENTS[b].tolist() if packed else [0] * LENGTH
        x = xs[b]
        w = [
            slow_direction(scheme, x, t, segment.index(s))
            for t, s in enumerate(segment)
        ]
        for h in range(HEADS):
            matrices, gates = [], []
            for t in range(LENGTH):
                z = scheme.strength.weight[h] @ x[t] + scheme.strength.bias[h]
                direction = torch.tensor(w[t][h], dtype=torch.float64)
                outer = direction[:, None] * direction
                matrices.append(
                    torch.eye(WIDTH).double() - 2 * sigmoid(float(z)) * outer
                )
                if scheme.gate is not None:
                    z = scheme.gate.weight[h] @ x[t] + scheme.gate.bias[h]
                    gates.append(math.log(sigmoid(float(z))))
            for i in range(LENGTH):
                product, kept = torch.eye(WIDTH).double(), 0.0
                for j in range(i, segment.index(segment[i]) - 1, -1):
                    total = float(q[b, h, i] @ product @ k[b, h, j]) + kept
                    logits[b, h, i, j] = total / math.sqrt(WIDTH)
                    product = product @ matrices[j]
                    kept += gates[j] if gates else 0.0
    return logits


OPTIONS = [
    {},
    {"convolve": False},
    {"forget": True},
    {"rank": 2},
    {"convolve": False, "forget": True, "rank": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_the_product_of_matrices(options: dict[str, Any]) -> None:
    q, k, v, x = inputs()
    scheme = make(**options)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    close(got, slow(scheme))
    read = attention(
        q, k, v, scheme=scheme, positions=RUN, state=state, mask=Mask(segments=SEGMENTS)
    )
    packed = slow(scheme, packed=True).softmax(-1) @ v
    close(read, packed)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
@pytest.mark.parametrize("steps", [[8, 1], [1] * 9, [3, 6]], ids=str)
def test_state_goes_on_from_the_past(options: dict[str, Any], steps: list[int]) -> None:
    q, k, v, x = inputs()
    scheme = make(**options)
    got = decoded(q, k, v, steps, scheme=scheme, positions=RUN, x=x)
    close(got, slow(scheme).softmax(-1) @ v)


def test_logits_of_late_queries() -> None:
    # A constant in a row is lost in the softmax, so the logits are looked at.
    q, k, _, x = inputs()
    scheme = make(forget=True)
    call = Call(q[:, :, 5:], k, RUN[None, 5:], RUN[None], scheme.token_state(x))
    content = q[:, :, 5:] @ k.mT / math.sqrt(WIDTH)
    expected = slow(scheme)[:, :, 5:]
    seen = expected.isfinite()
    got = scheme.scores(content, call)[seen]
    close(got, expected[seen])


def test_decoding_one_token_changes_every_earlier_key() -> None:
    # As the released code decodes: k_j <- H_t k_j for each new token t.
    q, k, _, x = inputs()
    scheme = make()
    state = scheme.token_state(x)
    cached = k.clone()
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    for t in range(LENGTH):
        for b in range(BATCH):
            w = slow_direction(scheme, x[b], t, 0)
            for h in range(HEADS):
                z = scheme.strength.weight[h] @ x[b, t] + scheme.strength.bias[h]
                beta, direction = (
                    2 * sigmoid(float(z)),
                    torch.tensor(w[h], dtype=torch.float64),
                )
                for j in range(t):
                    along = float(cached[b, h, j] @ direction)
                    cached[b, h, j] -= beta * along * direction
        row = torch.einsum("bhd,bhjd->bhj", q[:, :, t], cached[:, :, : t + 1])
        expected = row / math.sqrt(WIDTH)
        close(got[:, :, t, : t + 1], expected)


def test_no_strength_is_no_encoding() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.strength.bias.fill_(-1000.0)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    nope = attention_logits(q, k, scheme=create("nope"), positions=RUN)
    close(got, nope, 1e-14)


def test_no_strength_but_a_gate_is_fox_with_smaller_logarithms() -> None:
    q, k, _, x = inputs()
    scheme = make(forget=True)
    scheme.strength.bias.fill_(-1000.0)
    assert scheme.gate is not None
    fox = create("fox", model_dim=DIM, heads=HEADS, head_dim=WIDTH).double()
    fox.load_state_dict(
        {f"gate.{name}": value for name, value in scheme.gate.state_dict().items()}
    )
    zero = 0 * q
    got, whole = (
        attention_logits(zero, k, scheme=s, positions=RUN, state=s.token_state(x))
        for s in (scheme, fox)
    )
    smaller = whole.detach() / math.sqrt(WIDTH)
    close(got, smaller, 1e-13)


def test_full_strength_keeps_the_length_of_keys() -> None:
    *_, x = inputs()
    scheme = make()
    scheme.strength.bias.fill_(1000.0)  # beta is 2: reflections
    state = scheme.token_state(x)
    axes = torch.eye(WIDTH).double().expand(BATCH, HEADS, WIDTH, WIDTH)
    k = normal(BATCH, HEADS, LENGTH, WIDTH, seed=5)
    lengths = torch.zeros(BATCH, HEADS, LENGTH).double()
    for axis in range(WIDTH):  # each query reads one channel of all keys
        q = axes[:, :, axis : axis + 1].expand(-1, -1, LENGTH, -1)
        got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
        lengths += (got[:, :, -1] * math.sqrt(WIDTH)).square()
    torch.testing.assert_close(lengths.sqrt(), k.norm(dim=-1), rtol=1e-12, atol=0)


def test_each_option_changes_the_output() -> None:
    q, k, v, x = inputs()

    def read(**options: Any) -> Tensor:
        scheme = make(**options)
        state = scheme.token_state(x)
        return attention(q, k, v, scheme=scheme, positions=RUN, state=state)

    for options in OPTIONS[1:4]:
        assert (read() - read(**options)).abs().max() > 1e-3


def test_sizes() -> None:
    scheme = create("path", options={"forget": True}, model_dim=64, heads=4)
    assert {n: tuple(p.shape) for n, p in scheme.named_parameters()} == {
        "down.weight": (32, 64),
        "up.weight": (64, 32),
        "taps.weight": (64, 3),
        "strength.weight": (4, 64),
        "strength.bias": (4,),
        "gate.weight": (4, 64),
        "gate.bias": (4,),
    }
    assert len(list(create("path", options={"convolve": False}).parameters())) == 4


def test_a_long_text_stays_finite_in_float32() -> None:
    scheme = create("path", model_dim=DIM, heads=HEADS, head_dim=WIDTH)
    x = normal(1, 700, DIM).float().requires_grad_()
    q, k = (normal(1, HEADS, 700, WIDTH, seed=seed).float() for seed in (1, 2))
    state = scheme.token_state(x)
    got = attention(q, k, k, scheme=scheme, positions=torch.arange(700), state=state)
    got.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    double = scheme.double()
    exact = attention(
        q.double(),
        k.double(),
        k.double(),
        scheme=double,
        positions=torch.arange(700),
        state=double.token_state(x.double()),
    )
    close(got.double(), exact, 1e-4)


def test_gradient() -> None:
    q, k, v, x = (part[:1] for part in inputs())
    scheme = make(rank=2, forget=True).requires_grad_()
    check_gradients(scheme, q, k, v, RUN, x)


def test_position_ids_are_not_used() -> None:
    q, k, _, x = inputs()
    check_position_ids_are_not_used(make(), q, k, x)


def test_needs_its_state() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="path: needs the state that token_state"):
        attention_logits(q, k, scheme=make(), positions=RUN)


def test_needs_a_causal_mask() -> None:
    check_causal_mask_is_needed(make(), WIDTH)


def test_rank_out_of_range() -> None:
    with pytest.raises(ConfigError, match="path: rank must be at least 1, got 0"):
        make(rank=0)
