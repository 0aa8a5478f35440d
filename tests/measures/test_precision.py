"""Precision against rounding worked out by hand, and against derived bounds."""

import math

import numpy as np
import pytest
import torch
from support.schemes import SEQUENCE

from posenc_compare.measures.measure import Row
from posenc_compare.measures.precision import STARTS, precision
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.train.progress import Progress

BITS = {"float32": 24, "float16": 11, "bfloat16": 8}  # of a significand
PROBE = Probe(width=32, heads=4, tokens=32, positions=64)


def rows_of(
    name: str, probe: Probe = PROBE, **options: str | float | Variant
) -> dict[tuple[str, str, float], Row]:
    found = precision(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case, row.x or 0): row for row in found}


def value(rows: dict[tuple[str, str, float], Row], *at: str | float) -> float:
    found = rows[at].value  # type: ignore[index]
    assert found is not None, rows[at].note  # type: ignore[index]
    return found


def ids_in(dtype: str, start: int) -> np.ndarray:
    """Return the ids of a text as a dtype rounds them: to even, where two are near."""
    ids = np.arange(start, start + PROBE.tokens, dtype=np.float64)
    steps = 2.0 ** np.maximum(0, np.floor(np.log2(ids + (ids == 0))) + 1 - BITS[dtype])
    return np.round(ids / steps) * steps


def apart(ids: np.ndarray) -> np.ndarray:
    return ids[:, None] - ids


@pytest.mark.parametrize("start", STARTS)
def test_alibi_is_wrong_by_the_distances_that_rounded_ids_have(start: int) -> None:
    rows = rows_of("alibi")
    causal = apart(np.arange(PROBE.tokens)) >= 0
    right = apart(np.arange(PROBE.tokens))
    for dtype in ("bfloat16", "float16"):
        row = rows["logit_error", f"{dtype} ids", start]
        if dtype == "float16" and start + PROBE.tokens > 65_520:
            assert (row.value, row.note) == (None, "float16 holds no such position")
            continue
        # A key whose rounded id is behind its query's has no bias to speak of here.
        wrong = apart(ids_in(dtype, start))
        gap = np.abs(wrong - right)[causal & (wrong >= 0)].max()
        assert row.value == pytest.approx(max(slopes(4)) * gap, abs=1e-4)


@pytest.mark.parametrize("start", STARTS)
def test_phases_of_rope_are_those_of_rounded_ids(start: int) -> None:
    rows = rows_of("rope")
    theta = 10_000.0 ** (-np.arange(4) / 4)
    ids = np.arange(start, start + PROBE.tokens, dtype=np.float64)
    off = (ids_in("bfloat16", start) - ids)[:, None] * theta
    off = np.angle(np.exp(1j * (off - off[0])))
    found = value(rows, "phase_error", "bfloat16 ids", start)
    # Both channels of a pair are rounded to 8 bits, and so are those of the first.
    rounding = 2 * math.sqrt(2) * 2.0**-8
    worst = np.abs(off).max()
    near = min(abs(found - worst), 2 * math.pi - found - worst)
    assert near <= rounding


def test_phases_stand_to_that_of_the_first_token_and_err_on_either_side() -> None:
    rows, below = rows_of("rope"), 0
    theta = 10_000.0 ** (-np.arange(4) / 4)
    for start in STARTS:
        ids = np.arange(start, start + PROBE.tokens, dtype=np.float64)
        right = (1 + 1j) * np.exp(1j * ids[:, None] * theta)  # a pair of ones
        parts = [torch.tensor(part).bfloat16() for part in (right.real, right.imag)]
        made = parts[0].double().numpy() + 1j * parts[1].double().numpy()
        off = np.angle(made * made[0].conj() * (right * right[0].conj()).conj())
        found = value(rows, "phase_error", "bfloat16", start)
        assert found == pytest.approx(np.abs(off).max(), rel=1e-3)
        below += off.max() < 0.99 * -off.min()
    assert 0 < below < len(STARTS)


@pytest.mark.parametrize("name", SEQUENCE)
def test_no_scheme_grows_wrong_with_the_position(name: str) -> None:
    rows = rows_of(name)
    cases = {"float32": 24, "bfloat16": 8, "float16": 11}
    for case, bits in cases.items():
        for quantity in ("phase_error", "code_error"):
            near = rows.get((quantity, case, 0))
            for start in STARTS[1:]:
                far = rows.get((quantity, case, start))
                if not near or not far or near.value is None or far.value is None:
                    continue
                # A phase is off by the rounding of two pairs; a code by that of its
                # size, which grows for two schemes, or of a sum of products.
                size = {
                    "integer": start / PROBE.positions + 1,
                    "sinusoidal_concat": PROBE.width,
                    "time2vec": 4 * (start / PROBE.positions + 1),
                }.get(name, 4)
                limit = 2 * math.sqrt(2) if quantity == "phase_error" else size
                assert far.value <= limit * 2.0**-bits + 1e-9, (quantity, case, start)


def test_parameters_are_rounded_on_both_sides() -> None:
    rows = rows_of("shaw")
    # The table of shaw is random: rounded on one side only it is off by 2 ** -9.
    assert value(rows, "logit_error", "bfloat16", 0) < 1e-4


def test_autocast_rounds_queries_and_keys_alone() -> None:
    rows = rows_of("rope")
    assert value(rows, "logit_error", "autocast", 256) > 1e-3
    assert value(rows, "phase_error", "autocast", 256) == value(
        rows, "phase_error", "float32", 256
    )


def test_a_rotation_inside_another_scheme_has_its_phases() -> None:
    inside, alone = rows_of("log_length", scheme=Variant("rope")), rows_of("rope")
    at = "phase_error", "bfloat16 ids", 256
    assert value(inside, *at) == value(alone, *at) > 0


def test_the_channels_that_are_rotated_have_phases() -> None:
    last, first = rows_of("rope_latent", fraction=0.5), rows_of("rope", fraction=0.5)
    for case in ("bfloat16", "bfloat16 ids"):
        at = "phase_error", case, 256
        assert value(last, *at) == pytest.approx(value(first, *at), rel=0.5) != 0


def test_logits_of_a_code_that_is_added_are_off_as_the_code_is() -> None:
    """Ids that bfloat16 does not hold are wrong for sinusoids as for a rotation."""
    rows = rows_of("sinusoidal")
    assert value(rows, "logit_error", "bfloat16 ids", 65_536) > 0.5
    far = value(rows, "logit_error", "bfloat16", 65_536)
    assert 2.0**-9 < far < 2 * value(rows, "logit_error", "bfloat16", 0) + 2.0**-6
