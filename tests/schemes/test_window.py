"""A window around a scheme against the scheme inside, masked pair by pair."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import build, close, decoded, drawn, normal, on_paths, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.window import Window
from posenc_compare.variants import labelled

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 8
IDS = torch.tensor([0, 1, 2, 3, 5, 6, 9, 10])
SIZES: dict[str, Any] = {"model_dim": HEADS * WIDTH, "heads": HEADS}


def make(**options: object) -> Window:
    return build(Window, {"window": 3, **options}, **SIZES)


def masked(logits: Tensor, window: int) -> Tensor:
    """Write minus infinity at every pair that is too far apart, one by one."""
    out = logits.clone()
    for i, here in enumerate(IDS.tolist()):
        for j, there in enumerate(IDS.tolist()):
            if abs(here - there) >= window:
                out[:, :, i, j] = -math.inf
    return out


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("inside", ["nope", "rope", "alibi", "deberta"])
def test_equals_the_slow_reference(inside: str, causal: bool, window: int) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme, mask = make(scheme=inside, window=window), Mask(causal=causal)
    call = {"positions": IDS, "mask": mask}
    logits = attention_logits(q, k, scheme=scheme.inner, **call)
    expected = masked(logits, window)
    close(attention_logits(q, k, scheme=scheme, **call), expected, 1e-13)
    paths = ("dense", "plain", "auto")
    for read in on_paths(q, k, v, paths=paths, scheme=scheme, **call):
        close(read, expected.softmax(-1) @ v, 1e-12)


@pytest.mark.parametrize("inside", ["dape", "cope", "rerope", "path"])
def test_schemes_that_read_whole_rows_are_masked_behind_them(inside: str) -> None:
    # dape multiplies biases, and 0 times infinity is no number.
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = make(scheme=inside)
    call: dict[str, Any] = {"positions": IDS}
    if scheme.acts_at("token_state"):
        call["state"] = scheme.token_state(normal(BATCH, LENGTH, HEADS * WIDTH, seed=3))
    logits = attention_logits(q, k, scheme=scheme.inner, **call)
    close(attention_logits(q, k, scheme=scheme, **call), masked(logits, 3), 1e-13)


def test_a_window_of_the_text_is_the_scheme_inside() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    rope = create("rope", **SIZES)
    got, wanted = (
        attention(q, k, v, scheme=s, positions=IDS) for s in (make(window=11), rope)
    )
    close(got, wanted, 1e-14)


def test_it_is_the_window_of_a_mask_where_ids_step_by_one() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    run = torch.arange(LENGTH)
    got = attention(q, k, v, scheme=make(), positions=run)
    rope = create("rope", **SIZES)
    wanted = attention(q, k, v, scheme=rope, positions=run, mask=Mask(window=3))
    close(got, wanted, 1e-14)


def test_decoding() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    got = decoded(q, k, v, [3, 1, 4], scheme=make(), positions=IDS)
    close(got, attention(q, k, v, scheme=make(), positions=IDS), 1e-14)


def test_what_is_far_has_no_gradient_and_the_rest_its_own() -> None:
    q, k, v = vectors(1, HEADS, LENGTH, WIDTH)
    scheme = drawn(make(scheme="t5_bias")).requires_grad_()

    def run(*_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=IDS)

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
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    local, whole = (
        attention_logits(q, k, scheme=scheme, positions=IDS) for scheme in layers
    )
    close(local, attention_logits(q, k, scheme=make(), positions=IDS), 1e-14)
    nope = attention_logits(q, k, scheme=create("nope"), positions=IDS)
    close(whole, nope, 1e-14)


def test_options_out_of_range() -> None:
    with pytest.raises(ConfigError, match="window must be at least 1, got -1"):
        make(window=-1)
    with pytest.raises(ConfigError, match="positions of 2 axes, got 1"):
        make(scheme="alibi_2d")
