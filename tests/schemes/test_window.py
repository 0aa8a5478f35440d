"""A window around a scheme against the scheme inside, masked pair by pair."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import build, close, decoded, drawn, normal, vectors
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.window import Window
from posenc_compare.variants import Variant, labelled

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 8
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": HEADS * WIDTH, "heads": HEADS}


def make(**options: object) -> Window:
    return build(Window, {"window": 3, **options}, **SIZES)


def masked(logits: Tensor, window: int) -> Tensor:
    """Write minus infinity at every pair that is too far apart, one by one."""
    out = logits.clone()
    for i in range(LENGTH):
        for j in range(LENGTH):
            if abs(i - j) >= window:
                out[:, :, i, j] = -math.inf
    return out


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("inside", ["nope", "rope", "alibi", "deberta", "dape"])
def test_equals_the_slow_reference(inside: str, causal: bool, window: int) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme, mask = make(scheme=inside, window=window), Mask(causal=causal)
    call: dict[str, Any] = {"positions": 3 * RUN, "mask": mask}
    logits = attention_logits(q, k, scheme=scheme.inner, **call)
    got = attention(q, k, v, scheme=scheme, **call)
    close(got, masked(logits, window).softmax(-1) @ v, 1e-13)
    assert torch.equal(attention_logits(q, k, scheme=scheme, **call), logits)


def test_a_window_of_the_text_is_the_scheme_inside() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    rope = create("rope", **SIZES)
    got, wanted = (
        attention(q, k, v, scheme=s, positions=RUN) for s in (make(window=8), rope)
    )
    close(got, wanted, 1e-14)


@pytest.mark.parametrize("inside", ["rope", "cope", "stick_breaking", "sink", "shaw"])
@pytest.mark.parametrize("prefix", [0, 2])
def test_it_is_the_window_of_a_mask(inside: str, prefix: int) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = make(scheme=inside)
    prefix *= not scheme.facts.causal_only
    got, narrower, wanted = (
        attention(
            q,
            k,
            v,
            scheme=one,
            positions=RUN,
            mask=Mask(window=window, prefix=prefix),
        )
        for one, window in ((scheme, None), (scheme, 5), (scheme.inner, 3))
    )
    close(got, wanted, 1e-14)
    close(narrower, wanted, 1e-14)


def test_a_narrower_mask_counts() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme, mask = make(window=5), Mask(window=2)
    got, wanted = (
        attention(q, k, v, scheme=one, positions=RUN, mask=mask)
        for one in (scheme, scheme.inner)
    )
    close(got, wanted, 1e-14)


def test_decoding() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    got = decoded(q, k, v, [3, 1, 4], scheme=make(), positions=RUN)
    close(got, attention(q, k, v, scheme=make(), positions=RUN), 1e-14)


def test_gradient() -> None:
    q, k, v = vectors(1, HEADS, LENGTH, WIDTH)
    scheme = drawn(make(scheme="t5_bias")).requires_grad_()

    def run(*_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=RUN)

    assert torch.autograd.gradcheck(run, tuple(scheme.parameters()))


@pytest.mark.parametrize(("length", "window"), [(1, 1), (3, 1), (128, 32), (512, 128)])
def test_the_window_is_a_quarter_of_the_training_length(
    length: int, window: int
) -> None:
    assert create("window", length=length, **SIZES).window == window


def test_layers_of_windows_stand_among_others() -> None:
    # As in RNoPE-SWA: NoPE over the whole text, and RoPE in a window elsewhere.
    window = labelled("window:window=3")
    layers = [
        create("mix", options={"second": window, "every": 2}, layer=layer, **SIZES)
        for layer in (0, 1)
    ]
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    local, whole, wanted, nope = (
        attention(q, k, v, scheme=scheme, positions=RUN)
        for scheme in (*layers, make(), create("nope"))
    )
    close(local, wanted, 1e-14)
    close(whole, nope, 1e-14)


def test_options_out_of_range() -> None:
    with pytest.raises(ConfigError, match="window must be at least 1, got -1"):
        make(window=-1)
    with pytest.raises(ConfigError, match="positions of 2 axes, got 1"):
        make(scheme="alibi_2d")


@pytest.mark.parametrize("name", SCHEMES.entries())
def test_any_scheme_inside_is_that_scheme_under_the_mask(name: str) -> None:
    """What a scheme counts, sums or sees is what the window leaves, in parts too."""
    length = 40
    sizes: dict[str, Any] = {"model_dim": 48, "heads": 3, "length": 40}
    plain: Scheme = drawn(build(SCHEMES.get(name), **sizes))
    options: dict[str, Any] = {"scheme": Variant(name), "window": 4}
    if plain.facts.axes > 1:
        with pytest.raises(ConfigError, match="window: needs positions of"):
            build(Window, options, **sizes)
        return
    inside = drawn(build(Window, options, **sizes))
    q, k, v = vectors(1, 3, length, 16)
    x, places = normal(1, length, 48, seed=3), torch.arange(length)
    session = Session(plain, places, mask=Mask(window=4))
    expected = session.attend(0, q, k, v, x=x)
    session = Session(inside, places, fed=30, cache=True)
    parts = [(0, 30), *((i, i + 1) for i in range(30, length))]
    got = []
    for start, stop in parts:
        if start:
            session.extend()
        part = (y[:, :, start:stop] for y in (q, k, v))
        got.append(session.attend(0, *part, x=x[:, start:stop]))
    close(torch.cat(got, dim=2), expected)
