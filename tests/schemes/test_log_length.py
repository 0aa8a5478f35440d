"""Logits that grow with the logarithm of the length, one query at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, SchemeTests
from schemes.tools import build, check_gradients, close, decoded, drawn, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create, log_length
from posenc_compare.schemes.log_length import LogLength

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 8
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 4}


def make(**options: object) -> LogLength:
    return drawn(build(LogLength, options, **SIZES))


def inside(name: str) -> Scheme:
    return create(name, **SIZES).double()


def seen_by(mask: Mask, i: int, b: int) -> int:
    """Count the keys of a query, one by one."""
    count = 0
    for j in range(LENGTH):
        keep = j <= i if mask.causal else True
        if isinstance(mask.window, int):
            keep = keep and abs(i - j) < mask.window
        if isinstance(mask.prefix, int):
            keep = keep or j < mask.prefix
        if mask.segments is not None:
            keep = keep and bool(mask.segments[b, i] == mask.segments[b, j])
        count += keep
    return count


MASKS = {
    "causal": Mask(),
    "both sides": Mask(causal=False),
    "window": Mask(window=3),
    "prefix": Mask(prefix=4),
    "documents": Mask(segments=torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0] * 7 + [1]])),
}


@pytest.mark.parametrize("name", ["rope", "nope"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_ssmax_counts_the_keys_that_a_query_sees(mask: Mask, name: str) -> None:
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = make(scheme=name)
    assert scheme.steepness is not None
    plain = attention_logits(q, k, scheme=inside(name), positions=RUN, mask=mask)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, mask=mask)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                factor = float(scheme.steepness[h]) * math.log(seen_by(mask, i, b))
                keep = plain[b, h, i].isfinite()
                close(got[b, h, i, keep], plain[b, h, i, keep] * factor, 1e-13)


@pytest.mark.parametrize(
    ("rule", "options"), [("log", {}), ("llama4", {}), ("llama4", {"floor": 3})]
)
def test_rules_of_the_position(rule: str, options: dict[str, int]) -> None:
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = make(rule=rule, **options)
    for start in (0, 3, 20_000):
        positions = RUN + start
        plain, got = (
            attention_logits(q, k, scheme=one, positions=positions)
            for one in (inside("rope"), scheme)
        )
        for i, position in enumerate(positions.tolist()):
            if rule == "log":
                factor = max(1.0, math.log(position + 1) / math.log(4))
            else:
                steps = (position + 1) // options.get("floor", 8192)
                factor = 1 + 0.1 * math.log(1 + steps)
            close(got[:, :, i, : i + 1], plain[:, :, i, : i + 1] * factor, 1e-12)


def test_the_way_to_compute_is_that_of_the_scheme_inside() -> None:
    assert not make().acts_at("scores")
    assert not make().acts_at("pair_bias")
    assert make(scheme="rerope").acts_at("scores")
    assert make(scheme="shaw").acts_at("pair_bias")


def test_counts_by_blocks_of_rows_are_the_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme, found = make(), []
    for rows in (512, 3):
        monkeypatch.setattr(log_length, "ROWS", rows)
        for mask in MASKS.values():
            found.append(
                attention_logits(q, k, scheme=scheme, positions=RUN, mask=mask)
            )
    for whole, by_blocks in zip(found[: len(MASKS)], found[len(MASKS) :], strict=True):
        close(by_blocks, whole, 0)


def test_log_changes_nothing_within_the_training_length() -> None:
    q, k, v = vectors(BATCH, HEADS, 4, WIDTH)
    got, plain = (
        attention(q, k, v, scheme=one, positions=RUN[:4])
        for one in (make(rule="log"), inside("rope"))
    )
    assert torch.equal(got, plain)


@pytest.mark.parametrize("rule", ["ssmax", "log", "llama4"])
def test_decoding(rule: str) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = make(rule=rule, floor=3)
    got = decoded(q, k, v, [3, 1, 4], scheme=scheme, positions=RUN)
    close(got, attention(q, k, v, scheme=scheme, positions=RUN), 1e-13)


def test_ssmax_alone_is_relative_and_trained() -> None:
    found = {rule: make(rule=rule) for rule in ("ssmax", "log", "llama4")}
    assert [one.facts.relative for one in found.values()] == [True, False, False]
    assert [len(list(one.parameters())) for one in found.values()] == [1, 0, 0]
    start = create("log_length", **SIZES).get_parameter("steepness")
    assert torch.equal(start, torch.full((HEADS,), 0.43))
    started = create("log_length", options={"start": 0.5}, **SIZES)
    assert torch.equal(started.get_parameter("steepness"), torch.full((HEADS,), 0.5))
    assert [one.facts.per_layer for one in found.values()] == [True, False, False]


def test_ssmax_alone_counts_tokens_where_the_scheme_inside_does() -> None:
    found = [make(rule=rule, scheme="fox") for rule in ("ssmax", "log", "llama4")]
    assert [one.facts.by_order for one in found] == [True, False, False]


class TestLogLength(SchemeTests):
    name = "log_length"
    sizes = SIZES
    changes = [
        {"rule": "log"},
        {"start": 0.9},
        {"scheme": "alibi"},
        ({"rule": "llama4"}, {"floor": 3}),
    ]
    errors = [
        ({"scheme": "alibi_2d"}, ".*positions of 2 axes, got 1"),
        (Case({"rule": "log"}, length=1), "log needs a length of at least 2, got 1"),
        ({"floor": 0}, "floor must be at least 1, got 0"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
        return attention(q, k, v, scheme=scheme, positions=RUN)


def test_gradient() -> None:
    q, k, v = vectors(1, HEADS, 5, WIDTH)
    check_gradients(make().requires_grad_(), q, k, v, RUN[:5])


def test_ssmax_needs_the_call() -> None:
    with pytest.raises(ConfigError, match="ssmax needs the call, got none"):
        make().query(torch.ones(1, HEADS, 2, WIDTH), RUN[:2])


def test_ids_before_zero_have_the_least_factor() -> None:
    q = torch.ones(1, HEADS, 2, WIDTH).double()

    def query(scheme: Scheme) -> Tensor:
        return scheme.query(q, torch.tensor([-9, -1]))

    for rule in ("log", "llama4"):
        close(query(make(rule=rule, scheme="nope")), q, 0)
