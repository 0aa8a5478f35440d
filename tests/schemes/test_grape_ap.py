"""GRAPE-AP against the sum over the path, one pair of tokens at a time."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    check_causal_mask_is_needed,
    check_gradients,
    close,
    decoded,
    dot,
    drawn,
    normal,
    on_paths,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes.fox import Fox
from posenc_compare.schemes.grape_ap import GrapeAp
from posenc_compare.schemes.shared.slopes import slopes

BATCH, HEADS, DIM, LENGTH, PATH = 2, 3, 12, 7, 4
PLACES = [3, 4, 5, 9, 10, 30, 31]


def make(**options: object) -> GrapeAp:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": 6}
    return drawn(build(GrapeAp, {"width": PATH, **options}, **sizes))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, 6), normal(BATCH, LENGTH, DIM, seed=3)


def turned(vector: list[float], angle: int) -> list[float]:
    """Turn channel c and c + 2 of four, every pair by the same angle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    first = [vector[c] * cosine - vector[c + 2] * sine for c in range(2)]
    return first + [vector[c] * sine + vector[c + 2] * cosine for c in range(2)]


def slow(scheme: GrapeAp, both: bool) -> Tensor:
    """Logits `q k / sqrt(d)` and the shares of all tokens after the key."""
    q, k, _, x = inputs()
    logits = torch.full((BATCH, HEADS, LENGTH, LENGTH), -math.inf).double()
    weight = scheme.path.weight.tolist()
    for b in range(BATCH):
        made = [[dot(row, token.tolist()) for row in weight] for token in x[b]]
        for h in range(HEADS):
            p = [vector[PATH * h : PATH * (h + 1)] for vector in made]
            slope = slopes(HEADS)[h]
            for i in range(LENGTH):
                asked, taken = turned(p[i], PLACES[i]) if both else p[i], 0.0
                for j in range(i, -1, -1):
                    content = dot(q[b, h, i].tolist(), k[b, h, j].tolist())
                    logits[b, h, i, j] = content / math.sqrt(6) + slope * taken
                    size = math.sqrt(dot(p[j], p[j]) / PATH)
                    unit = turned([c / size for c in p[j]], PLACES[j])
                    taken -= math.log1p(math.exp(-dot(asked, unit) / PATH))
    return logits


@pytest.mark.parametrize("both", [False, True])
def test_equals_the_slow_reference(both: bool) -> None:
    q, k, v, x = inputs()
    scheme, positions = make(turned="both" if both else "tokens"), torch.tensor(PLACES)
    state = scheme.token_state(x)
    expected = slow(scheme, both)
    got = attention_logits(q, k, scheme=scheme, positions=positions, state=state)
    close(got, expected, 1e-12)
    for read in on_paths(q, k, v, scheme=scheme, positions=positions, state=state):
        close(read, expected.softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize("steps", [[6, 1], [1] * 7, [3, 4]], ids=str)
def test_state_goes_on_from_the_past(steps: list[int]) -> None:
    q, k, v, x = inputs()
    positions = torch.tensor(PLACES)
    got = decoded(q, k, v, steps, scheme=make(), positions=positions, x=x)
    close(got, slow(make(), both=False).softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize(("both", "moved"), [(False, True), (True, False)])
def test_the_released_form_is_not_relative(both: bool, moved: bool) -> None:
    q, k, _, x = inputs()
    scheme = make(turned="both" if both else "tokens")
    state = scheme.token_state(x)
    here, there = (
        attention_logits(
            q, k, scheme=scheme, positions=torch.tensor(PLACES) + shift, state=state
        )
        for shift in (0, 11)
    )
    change = (here - there)[here.isfinite()].abs().max().item()
    assert (change > 0.1) == moved
    assert moved or change < 1e-12
    assert scheme.facts.relative == both


def test_no_weights_are_fox_with_gates_of_one_half() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.path.weight.zero_()
    fox = build(Fox, model_dim=DIM, heads=HEADS, head_dim=6)
    for parameter in fox.parameters():
        parameter.data.zero_()
    positions = torch.tensor(PLACES)
    got, gated = (
        attention_logits(
            q, k, scheme=one, positions=positions, state=one.token_state(x)
        )
        for one in (scheme, fox)
    )
    distance = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).double()
    seen = got.isfinite()
    slope = torch.tensor(slopes(HEADS), dtype=torch.float64)[:, None, None]
    content, taken = q @ k.mT / math.sqrt(6), distance * math.log(2)
    close(got[seen], (content - slope * taken)[seen], 1e-12)
    close(gated[seen], (content - taken)[seen], 1e-12)


def test_starts_as_released() -> None:
    scheme = build(GrapeAp, model_dim=1024, heads=16)
    assert scheme.path.weight.shape == (128, 1024)
    assert scheme.path.weight.std().item() == pytest.approx(0.5 / 32, rel=0.02)


def test_gradient() -> None:
    q, k, v, x = (part[:1] for part in inputs())
    check_gradients(make().requires_grad_(), q, k, v, torch.tensor(PLACES), x)


def test_needs_its_state_and_a_causal_mask() -> None:
    q, k, *_ = inputs()
    with pytest.raises(ConfigError, match="grape_ap: needs the state that token_state"):
        attention_logits(q, k, scheme=make(), positions=torch.tensor(PLACES))
    check_causal_mask_is_needed(make(), 6)


@pytest.mark.parametrize("width", [0, 3])
def test_width_out_of_range(width: int) -> None:
    message = f"grape_ap: width must be even and at least 2, got {width}"
    with pytest.raises(ConfigError, match=message):
        make(width=width)
