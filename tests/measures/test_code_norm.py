"""Code norm against the norms that theory gives."""

from typing import Any

import pytest

from posenc_compare.measures.code_norm import code_norm
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress


def rows_of(name: str, probe: Probe | None = None, **options: Any) -> dict:
    probe = probe or Probe(positions=300)
    rows = code_norm(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.x): row for row in rows}


def test_sinusoids_have_one_norm_everywhere() -> None:
    rows = rows_of("sinusoidal")
    for position in (0, 1, 8, 64, 299):
        assert rows["code_norm", position].value == pytest.approx(64**0.5)
    for width in (64, 128, 256, 512):
        found = rows["code_norm_at_width", width].value
        assert found == pytest.approx((width / 2) ** 0.5)


def test_integers_grow_with_the_position() -> None:
    rows = rows_of("integer", normalised=False)
    for position in (0, 1, 8, 64, 299):
        found = rows["code_norm", position].value
        assert found == pytest.approx(position * 128**0.5)


def test_norm_at_a_width_is_the_root_mean_square_over_positions() -> None:
    rows = rows_of("binary")
    for width in (64, 128, 256, 512):
        ones = sum(p.bit_count() for p in range(300)) * (width // 9)
        found = rows["code_norm_at_width", width].value
        assert found == pytest.approx((ones / 300) ** 0.5)


def test_the_last_position_is_shown_once() -> None:
    rows = rows_of("sinusoidal", Probe(positions=9))
    assert [x for quantity, x in rows if quantity == "code_norm"] == [0, 1, 8]
    rows = rows_of("sinusoidal", Probe(positions=2))
    assert [x for quantity, x in rows if quantity == "code_norm"] == [0, 1]


def test_a_width_that_a_scheme_does_not_come_in_costs_one_row() -> None:
    rows = rows_of("sinusoidal", Probe(positions=16, width=96, heads=48))
    reasons = {x: row.note for (_, x), row in rows.items() if row.value is None}
    assert reasons.keys() == {64, 128, 256, 512}
    assert all("heads" in reason for reason in reasons.values())
    assert rows["code_norm", 15].value == pytest.approx(48**0.5)
