"""Attention to parts of the keys, merged: every scheme, path and mask."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import ids_for, serving
from support.attention import make as build
from torch import Tensor

from posenc_compare.attention import (
    CAUSAL,
    Mask,
    attention,
    attention_logits,
    attention_with_lse,
    merge,
    request,
)
from posenc_compare.check.fresh_process import built_in
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Scheme

BATCH, HEADS, WIDTH, KEYS, QUERIES = 2, 2, 16, 48, 6
BOTH = Mask(causal=False)
PARTS = [slice(0, 20), slice(20, 42), slice(42, 48)]  # the last has the queries' own
OWN_KEYS = "needs keys of the queries' own text"
# What a scheme does that needs all keys at once, as its refusal says.
ALONE = {
    "erpe": "weights other than the softmax",
    "sink": "weights other than the softmax",
    "stick_breaking": "weights other than the softmax",
    "log_length": "queries or keys changed by the other keys",
    "cope": "logits changed by the other keys",
    **dict.fromkeys(("ca_rope", "fox", "grape_ap", "inkling"), "a token state"),
    **dict.fromkeys(("path", "repo", "selective_rope", "wall"), "a token state"),
}
NARROW = ("rope", "alibi", "t5_bias", "fire", "shaw")  # in float32, too
FLEX = ("nope", "alibi", "fire")  # without a bias, with one, and with one of pairs


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "QUERIES", 4)


def make(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> Scheme:
    return build(name, heads=HEADS, width=WIDTH, length=196, **options).to(dtype)


def arguments(scheme: Scheme, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Return the last queries of a text, and all of its keys."""
    k, v = normal(2, BATCH, HEADS, KEYS, WIDTH).to(dtype)
    ids = ids_for(scheme, KEYS, columns=8)
    q = normal(BATCH, HEADS, QUERIES, WIDTH, seed=1).to(dtype)
    q = q * scheme.query_init_gain(WIDTH)
    given = {"scheme": scheme, "positions": ids[-QUERIES:], "key_positions": ids}
    return {"q": q, "k": k, "v": v, **given}


def cut(given: dict[str, Any], part: slice) -> dict[str, Any]:
    """Return the same queries with a part of the keys."""
    heads = {name: given[name][:, :, part] for name in ("k", "v")}
    return {**given, **heads, "key_positions": given["key_positions"][part]}


def masks(name: str) -> list[tuple[Mask, list[Mask]]]:
    """Return masks of all keys, with those of each part."""
    segments = torch.ones(BATCH, KEYS).long()
    segments[0, 15:] = 0  # so that a sequence sees no key of the other parts
    padded = [Mask(False, segments=segments[:, p].contiguous()) for p in PARTS]
    own = torch.ones(BATCH, QUERIES).long()
    own[1, 2] = 9  # a query that sees no key at all
    crossed = [
        Mask(False, segments=mask.segments, query_segments=own) for mask in padded
    ]
    return [
        (CAUSAL, [BOTH, BOTH, CAUSAL]),
        (BOTH, [BOTH, BOTH, BOTH]),
        (Mask(False, segments=segments, query_segments=own), crossed),
    ]


def expected_lse(given: dict[str, Any], mask: Mask) -> Tensor:
    given = {name: item for name, item in given.items() if name != "v"}
    return attention_logits(**given, mask=mask).exp().sum(dim=-1).log()


def paths(given: dict[str, Any], mask: Mask) -> list[Any]:
    """Return the paths that serve; flex, slow here, for few schemes, masks, dtypes."""
    often = given["scheme"].name in FLEX and given["q"].dtype == torch.float64
    often &= mask.segments is None
    able = serving(**given, mask=mask)
    return [name for name in able if name != "flex" or often]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch")
@pytest.mark.parametrize("name", sorted(set(built_in()) - set(ALONE)))
def test_merged_parts_are_attention_to_all_keys(name: str) -> None:
    wide, narrow = (torch.float64, 1e-12), (torch.float32, 1e-6)
    for dtype, least in (wide, narrow) if name in NARROW else (wide,):
        scheme = make(name, dtype).requires_grad_(False)
        given = arguments(scheme, dtype)
        for mask, each in masks(name):
            if scheme.facts.causal_only and not mask.causal:
                continue
            if scheme.facts.own_text and mask.query_segments is not None:
                continue
            if own_text := scheme.facts.causal_only or scheme.facts.own_text:
                with pytest.raises(ConfigError, match=f"^{name}: {OWN_KEYS}"):
                    attention_with_lse(**cut(given, PARTS[0]), mask=BOTH)
            whole = attention(**given, mask=mask)
            lse = expected_lse(given, mask)
            # A weight is as exact as the log-sum-exp, whose last bit grows with it.
            largest = lse[lse.isfinite()].abs().max().item()
            atol = max(least, 2 * torch.finfo(dtype).eps * largest)
            for path in paths(given, mask):
                got = attention_with_lse(**given, mask=mask, path=path)
                torch.testing.assert_close(got[0], whole, rtol=0, atol=atol)
                torch.testing.assert_close(got[1], lse, rtol=0, atol=atol)
            if own_text:
                continue
            able = [
                set(paths(cut(given, part), own))
                for part, own in zip(PARTS, each, strict=True)
            ]
            for path in set.intersection(*able):
                parts = [
                    attention_with_lse(**cut(given, part), mask=own, path=path)
                    for part, own in zip(PARTS, each, strict=True)
                ]
                out, total = merge(parts)
                torch.testing.assert_close(out, whole, rtol=0, atol=atol, msg=path)
                torch.testing.assert_close(total, lse, rtol=0, atol=atol)
                again = merge([merge(parts[1:]), parts[0]])
                torch.testing.assert_close(again[0], whole, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        *((name, {}, why) for name, why in ALONE.items()),
        ("mix", {"first": "log_length", "every": 1}, ALONE["log_length"]),
    ],
)
def test_schemes_that_need_all_keys_at_once_are_refused(
    name: str, options: dict[str, Any], why: str
) -> None:
    scheme = make(name, **options)
    given = arguments(scheme)
    if scheme.acts_at("token_state"):
        x = torch.zeros(BATCH, KEYS, HEADS * WIDTH).double()
        given["state"] = scheme.token_state(x)
    message = f"^{name}: must have a softmax .*, got {why}; rope would work"
    with pytest.raises(ConfigError, match=message):
        attention_with_lse(**given)
    part = cut(given, PARTS[0])  # the same reason, though keys end before the queries
    if (state := part.get("state")) is not None:
        part["state"] = state[:, PARTS[0]]
    with pytest.raises(ConfigError, match=message):
        attention_with_lse(**part, mask=BOTH)


def gradients(given: dict[str, Any], out: Tensor, lse: Tensor) -> list[Tensor]:
    seen = lse.masked_fill(lse == -math.inf, 0)
    leaves = [given["q"], given["k"], given["v"], *given["scheme"].parameters()]
    return list(torch.autograd.grad((out.sin() + seen.cos()[..., None]).sum(), leaves))


@pytest.mark.parametrize("name", ["rope", "alibi", "t5_bias", "shaw", "deberta"])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_gradients_go_through_the_merge(name: str, kind: int) -> None:
    scheme = make(name)
    given = arguments(scheme)
    for part in "qkv":
        given[part].requires_grad_(True)
    mask, each = masks(name)[kind]
    expected = gradients(given, *attention_with_lse(**given, mask=mask))
    for path in paths({**given, **{x: given[x].detach() for x in "qkv"}}, mask):
        if path == "flex":
            continue  # which cannot train on a CPU
        got = gradients(given, *attention_with_lse(**given, mask=mask, path=path))
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)
    parts = [
        attention_with_lse(**cut(given, part), mask=own)
        for part, own in zip(PARTS, each, strict=True)
    ]
    got = gradients(given, *merge(parts))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)


def test_the_log_sum_exp_has_the_derivative_of_its_definition() -> None:
    scheme = make("rope")
    given = arguments(scheme)
    leaves = [given["q"].requires_grad_(), given["k"].requires_grad_()]
    lses = attention_with_lse(**given)[1], expected_lse(given, CAUSAL)
    got, expected = (torch.autograd.grad(x.sin().sum(), leaves) for x in lses)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_half_precision_keeps_the_log_sum_exp_wide() -> None:
    given = arguments(make("alibi", torch.float32), torch.bfloat16)
    out, lse = attention_with_lse(**given)
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    assert merge([(out, lse)])[0].dtype == torch.bfloat16
    assert torch.equal(merge([(out, lse)])[0], out)


def test_malformed_parts_have_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^merge: parts must be at least one, got 0"):
        merge([])
    out, lse = torch.zeros(2, 4, 6, 8), torch.zeros(2, 4, 6)
    short = out[:, :, :5], lse[:, :, :5]
    for parts, got in (
        ([out], "got Tensor"),
        ([(out,)], r"got \(2, 4, 6, 8\)"),
        ([(lse, out)], r"got \(2, 4, 6\) and \(2, 4, 6, 8\)"),
        ([(out, lse), short], r"got \(2, 4, 5, 8\) and \(2, 4, 5\)"),
    ):
        with pytest.raises(ShapeError, match=f"^merge: each part must be .* {got}; "):
            merge(parts)  # pyright: ignore[reportArgumentType]
