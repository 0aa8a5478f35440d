"""FoX against products of gates, one pair of tokens at a time."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Call, create
from posenc_compare.schemes.call import index_grid
from posenc_compare.schemes.fox import Fox

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 8, 10
RUN = torch.arange(LENGTH)


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(**options: float) -> Fox:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    scheme = create("fox", options=options, **sizes).double()
    assert isinstance(scheme, Fox)
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 + number))
    return scheme.requires_grad_(False)


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = (normal(BATCH, HEADS, LENGTH, WIDTH, seed=seed) for seed in range(3))
    return q, k, v, normal(BATCH, LENGTH, DIM, seed=3)


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def slow(scheme: Fox) -> Tensor:
    """Logits `q k / sqrt(d) + log` of the product of the gates of j + 1 ... i."""
    q, k, _, x = inputs()
    weight, bias = scheme.gate.weight.tolist(), scheme.gate.bias.tolist()
    logits = torch.full((BATCH, HEADS, LENGTH, LENGTH), -math.inf).double()
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                kept = 1.0
                for j in range(i, -1, -1):
                    content = dot(q[b, h, i].tolist(), k[b, h, j].tolist())
                    logits[b, h, i, j] = content / math.sqrt(WIDTH) + math.log(kept)
                    z = dot(weight[h], x[b, j].tolist()) + bias[h]
                    kept *= 1 / (1 + math.exp(-z))
    return logits


def test_equals_the_slow_reference() -> None:
    q, k, v, x = inputs()
    scheme = make()
    state = scheme.token_state(x)
    expected = slow(scheme)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-13)
    paths: list[Path] = ["dense", "flex", "plain"]
    for path in paths:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="flex_attention called without")
            read = attention(
                q, k, v, scheme=scheme, positions=RUN, state=state, path=path
            )
        torch.testing.assert_close(read, expected.softmax(-1) @ v, rtol=0, atol=1e-13)


@pytest.mark.parametrize("steps", [[7, 1], [1] * 8, [3, 5], [0, 2, 0, 6]], ids=str)
def test_state_goes_on_from_the_past(steps: list[int]) -> None:
    q, k, v, x = inputs()
    scheme, start, state = make(), 0, None
    whole = slow(scheme).softmax(-1) @ v
    for step in steps:
        stop = start + step
        state = scheme.token_state(x[:, start:stop], state)
        if not step:
            continue
        got = attention(
            q[:, :, start:stop],
            k[:, :, :stop],
            v[:, :, :stop],
            scheme=scheme,
            positions=RUN[start:stop],
            key_positions=RUN[:stop],
            state=state,
        )
        torch.testing.assert_close(got, whole[:, :, start:stop], rtol=0, atol=1e-13)
        start = stop


def test_a_late_query_still_sees_itself_undiminished() -> None:
    # A constant in a row is lost in the softmax, so the bias itself is looked at.
    q, k, _, x = inputs()
    scheme = make()
    state = scheme.token_state(x)
    call = Call(q[:, :, 5:], k, RUN[None, 5:], RUN[None], state)
    added = scheme.pair_bias(call)(*index_grid(BATCH, HEADS, 3, LENGTH, q.device))
    expected = slow(scheme)[:, :, 5:] - q[:, :, 5:] @ k.mT / math.sqrt(WIDTH)
    seen = expected.isfinite()
    torch.testing.assert_close(added[seen], expected[seen], rtol=0, atol=1e-13)


def test_open_gates_are_no_encoding() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.gate.bias.fill_(100.0)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    nope = attention_logits(q, k, scheme=create("nope"), positions=RUN)
    torch.testing.assert_close(got, nope, rtol=0, atol=1e-14)


def test_gates_without_weights_are_a_slope_for_each_head() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.gate.weight.zero_()
    slopes = torch.tensor([0.25, 0.0625]).double()
    scheme.gate.bias.copy_(-torch.expm1(slopes).log())  # sigmoid is exp(-slope)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    distance = RUN[:, None] - RUN
    alibi = q @ k.mT / math.sqrt(WIDTH) - slopes[:, None, None] * distance
    seen = got.isfinite()
    torch.testing.assert_close(got[seen], alibi[seen], rtol=0, atol=1e-13)


def test_cable_is_the_same_with_the_sign_of_the_layer_turned() -> None:
    *_, x = inputs()
    scheme = make()
    turned = F.linear(x, -scheme.gate.weight, -scheme.gate.bias)
    cable = -F.softplus(turned).cumsum(dim=1)
    torch.testing.assert_close(scheme.token_state(x), cable, rtol=0, atol=1e-12)


def test_initial_values() -> None:
    scheme = create("fox", model_dim=256, heads=64)
    weight, bias = (
        scheme.get_parameter("gate.weight"),
        scheme.get_parameter("gate.bias"),
    )
    assert weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert not bias.any()
    scheme = create("fox", options={"bias": 5.0, "std": 0.1}, model_dim=256, heads=64)
    weight, bias = (
        scheme.get_parameter("gate.weight"),
        scheme.get_parameter("gate.bias"),
    )
    assert weight.std().item() == pytest.approx(0.1, rel=0.03)
    assert (bias == 5.0).all()


def test_sums_are_exact_far_into_a_text() -> None:
    # In float32 a sum of 14 000 is known to 0.001 only.
    scheme = create("fox", options={"std": 0.0}, model_dim=4, heads=1)
    state = scheme.token_state(torch.zeros(1, 20_000, 4, dtype=torch.bfloat16))
    assert state is not None
    steps = state[0, :, 0].diff()
    expected = torch.full_like(steps, -math.log(2))
    torch.testing.assert_close(steps, expected, rtol=0, atol=1e-7)


def test_position_ids_are_not_used() -> None:
    q, k, _, x = inputs()
    scheme = make()
    here, there = (
        attention_logits(
            q, k, scheme=scheme, positions=ids, state=scheme.token_state(x)
        )
        for ids in (RUN, 3 * RUN + 15962)
    )
    assert torch.equal(here, there)


def test_gradient() -> None:
    q, k, v, x = (part[:1] for part in inputs())
    scheme = make().requires_grad_()

    def run(*_: Tensor) -> Tensor:
        state = scheme.token_state(x)
        return attention(q, k, v, scheme=scheme, positions=RUN, state=state)

    assert torch.autograd.gradcheck(run, tuple(scheme.parameters()))


def test_needs_its_state() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="fox: needs the state that token_state"):
        attention_logits(q, k, scheme=make(), positions=RUN)


def test_needs_a_causal_mask() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="fox: needs a causal mask"):
        attention_logits(q, k, scheme=make(), positions=RUN, mask=Mask(causal=False))


def test_options_out_of_range() -> None:
    with pytest.raises(ConfigError, match=r"fox: std must be 0 or more, got -0\.1"):
        make(std=-0.1)
