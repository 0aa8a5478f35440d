"""Attention reach against geometric sums, uniform attention and slow counting."""

import math
import statistics
from typing import Any

import pytest
import torch
from schemes.tools import sinusoid
from support.schemes import SEQUENCE
from torch import Tensor

from posenc_compare.measures.attention_reach import (
    EQUAL,
    attention_reach,
    last_weights,
)
from posenc_compare.measures.far_keys import DISTANCES, far_keys
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.schemes.alibi import Alibi
from posenc_compare.train.progress import Progress
from posenc_compare.variants import labelled


class NoContent(Probe):
    """Queries are zero, so that all content is equal."""

    def normal(self, purpose: str, *shape: int) -> Tensor:
        drawn = super().normal(purpose, *shape)
        return 0 * drawn if purpose == "query" else drawn


def rows_of(name: str, probe: Probe, **options: Any) -> dict:
    rows = attention_reach(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case, row.x): row for row in rows}


def test_without_content_nope_has_all_keys() -> None:
    rows = rows_of("nope", NoContent(tokens=32))
    for n in (32, 64, 128, 256, 512):
        assert rows["effective_keys", "", n].value == pytest.approx(n, rel=1e-12)
    for share in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        for case, lengths in (("L", 1), ("16 L", 16)):
            if share < lengths:
                found = rows["attention_beyond", case, share].value
                assert found == pytest.approx(1 - share / lengths, rel=1e-12)
            else:
                assert ("attention_beyond", case, share) not in rows


def test_a_row_of_uniform_attention_stands_beside_every_scheme() -> None:
    for name in ("alibi", "learned"):  # which has no number beyond L
        rows = rows_of(name, Probe(tokens=32))
        equal = {
            place: row.value for place, row in rows.items() if "uniform" in str(place)
        }
        assert equal == {
            **{("uniform_effective_keys", EQUAL, 32 << i): 32 << i for i in range(5)},
            **{
                ("uniform_attention_beyond", EQUAL, 2.0**i): 1 - 2.0**i / 16
                for i in range(-4, 4)
            },
        }


def test_a_sink_leaves_the_number_of_keys_as_it_is() -> None:
    """A sink takes weight from all keys alike, so their shares stay the same."""
    inner = Variant("nope")
    plain, sink = rows_of("nope", Probe()), rows_of("sink", Probe(), scheme=inner)
    for n in (64, 1024):
        found, wanted = (r["effective_keys", "", n].value for r in (sink, plain))
        assert found == pytest.approx(wanted, rel=1e-9)


def test_reach_is_that_of_a_softmax_after_a_layernorm() -> None:
    probe = Probe(positions=8, tokens=4, width=8, heads=2)
    to_query, to_key = (probe.normal(part, 8, 8) / 8**0.5 for part in ("query", "key"))
    rows = rows_of("sinusoidal", probe)
    for n, case in ((4, "L"), (8, ""), (64, "16 L")):
        x = probe.normal("tokens", 8, n, 8)
        x = x + torch.tensor([sinusoid(p, 8) for p in range(n)], dtype=x.dtype)
        x = (x - x.mean(2, keepdim=True)) / (
            x.var(2, False, keepdim=True) + 1e-5
        ) ** 0.5
        keys, beyond = [], {1 / 4: [], 1 / 2: [], 1: [], 8: []}
        for b in range(8):
            for own in (slice(0, 4), slice(4, 8)):
                q = (x[b, -1] @ to_query)[own].tolist()
                sizes = []
                for j in range(n):
                    k = (x[b, j] @ to_key)[own].tolist()
                    dot = sum(one * other for one, other in zip(q, k, strict=True))
                    sizes.append(math.exp(dot / 2))
                weights = [size / sum(sizes) for size in sizes]
                keys.append(math.exp(-sum(w * math.log(w) for w in weights)))
                for share, found in beyond.items():
                    found.append(
                        sum(w for j, w in enumerate(weights) if n - 1 - j >= share * 4)
                    )
        found = rows["effective_keys", "", n].value
        assert found == pytest.approx(statistics.mean(keys), rel=1e-9)
        for share, slow in beyond.items():
            if case and share * 4 < n:
                found = rows["attention_beyond", case, share].value
                assert found == pytest.approx(statistics.mean(slow), rel=1e-9)
    # 1/16 and 1/8 of 4 tokens are no whole distance.
    assert {x for q, case, x in rows if case == "L"} == {1 / 4, 1 / 2}


@pytest.mark.parametrize("name", SEQUENCE)
def test_feeding_the_last_token_alone_changes_nothing(name: str) -> None:
    probe = Probe(positions=12, tokens=12, width=32)
    scheme = probe.build(Variant(name))
    session = probe.session(scheme, probe.arange(12), causal=True)
    x = session.embed(probe.normal("tokens", 8, 12, 32))
    x = torch.nn.functional.layer_norm(x, (32,))
    q, k = probe.queries_of(scheme, x), probe.heads_of(x, "key")
    logits = session.logits(0, q, k, x=x)
    weights = scheme.weights(logits, session.call(0, q, k, x=x))
    weights = logits.softmax(-1) if weights is None else weights
    torch.testing.assert_close(last_weights(scheme, probe, 12), weights[:, :, -1])


def test_a_text_of_one_token_has_one_key() -> None:
    rows = rows_of("rope", Probe(tokens=1))
    assert rows["effective_keys", "", 1].value == 1


# --- what a distance does to the ranking of keys ------------------------------------

PROBE = Probe(positions=64)


def shares(label: str, probe: Probe = PROBE) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"locality": [], "inconsistency": []}
    rows = far_keys(labelled(label), probe, Progress()).rows
    for row in rows:
        assert row.value is not None, row
        found[row.quantity].append(row.value)
    assert [row.x for row in rows[::2]] == [*DISTANCES]
    return found


def notes(variant: Variant, probe: Probe = PROBE) -> list[str]:
    return [row.note for row in far_keys(variant, probe, Progress()).rows[::2]]


@pytest.mark.parametrize("name", ["alibi", "kerple_log", "grape_a"])
def test_a_falling_bias_lowers_every_key_and_keeps_their_ranking(name: str) -> None:
    assert shares(name) == {"locality": [1.0] * 4, "inconsistency": [0.0] * 4}


def test_without_positions_far_keys_are_as_near_ones() -> None:
    assert shares("nope") == {"locality": [0.5] * 4, "inconsistency": [0.0] * 4}


def test_one_rotation_reverses_pairs_as_often_as_its_angle_says() -> None:
    # For a key difference of any direction, q and q turned by a have products of
    # unlike sign with probability a / pi.
    found = shares("rope", Probe(positions=64, width=128, heads=64))["inconsistency"]
    for distance, share in zip(DISTANCES, found, strict=True):
        turn = (distance - 1) % math.tau
        assert share == pytest.approx(min(turn, math.tau - turn) / math.pi, abs=0.04)


def test_a_rotation_as_slow_as_the_distance_is_long_is_consistent() -> None:
    found = shares("rope:base=1e30", Probe(positions=64, width=128, heads=1))
    assert found["inconsistency"][0] < shares("rope")["inconsistency"][0] / 3


def test_hidden_keys_have_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(self: Alibi, offsets: Tensor) -> Tensor:
        bias = torch.zeros(4, len(offsets), dtype=torch.float64)
        return bias.masked_fill(offsets.abs() > 1000, -torch.inf)

    monkeypatch.setattr(Alibi, "offset_bias", hidden)
    assert notes(Variant("alibi")) == ["", *["hides far keys"] * 3]


def test_rounding_is_no_locality_and_no_inconsistency() -> None:
    # A LayerNorm leaves nothing of the code of integers.
    assert shares("integer")["locality"] == [0.5] * 4
    narrow = shares("kerple_power", Probe(positions=64, dtype="float32"))
    assert narrow == {"locality": [1.0] * 4, "inconsistency": [0.0] * 4}
