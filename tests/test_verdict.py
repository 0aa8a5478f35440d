"""What a report says at its top: who is best, and why not to believe it."""

import pytest
from support.records import curve, read, record

from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.analysis.show.tables import display_tables
from posenc_compare.analysis.show.verdict import Verdict, verdict, warnings_of
from posenc_compare.stats.pairs import FEWEST


def cell(mean: float, *, best: bool = False) -> Cell:
    return Cell(mean, n=1, best=best)


def table(rows: dict[str, list[Cell]], *, families: tuple[str, ...] = ()) -> Table:
    body: list[list[str | Cell]] = [[name, *cells] for name, cells in rows.items()]
    return Table(
        "bits by length (6 seeds)",
        ["scheme", "64", "128 ↓"],
        body,
        lines=(
            "not shown to be better than the 5-gram at 64: a",
            "not shown to be better than the 5-gram at 128 ↓: b",
        ),
        families=families or ("bias",) * len(rows),
    )


def test_the_best_of_the_last_column_that_has_any() -> None:
    cells = {
        "a": [cell(1.0, best=True), cell(2.0, best=True)],
        "b": [cell(1.5), cell(2.1, best=True)],
        "c": [cell(3.0), cell(3.0)],
        "lost": [Cell(note="failed"), Cell(note="failed")],
        "5-gram": [cell(1.2), cell(2.2)],
    }
    found = verdict(table(cells, families=("bias", "none", "bias", "bias", "")))
    below = ["not shown to be better than the 5-gram at 128 ↓: b"]
    assert found == Verdict("128 ↓", [("a", "2.000"), ("b", "2.100")], 3, below)
    cells["a"][1] = cells["b"][1] = cell(2.0)
    found = verdict(table(cells))
    assert found is not None
    assert (found.column, found.best) == ("64", [("a", "1.000")])
    assert verdict(table({"a": [cell(1.0), cell(2.0)]})) is None


@pytest.mark.parametrize("seeds", [FEWEST - 1, FEWEST])
def test_tables_of_records_have_a_verdict_from_so_many_seeds_on(seeds: int) -> None:
    made = [
        read(curve(label, [1.0 + 0.001 * seed, bits + 0.001 * seed], seed=seed))
        for label, bits in (("good", 1.0), ("bad", 2.0))
        for seed in range(seeds)
    ]
    (first, *_) = display_tables(made)
    assert first.families == ("rotary", "rotary")
    assert first.measures == {"extrapolation"}
    found = verdict(first)
    if seeds < FEWEST:
        assert found is None
    else:
        assert found is not None
        assert ([name for name, _ in found.best], found.count) == (["good"], 2)


def test_every_reason_to_claim_less_is_said() -> None:
    quick = PRESETS["quick"].training.steps
    assert "Nothing here was trained" in " ".join(warnings_of([read(record())]))

    def said(seeds: int, steps: int, **more: str) -> str:
        made = [curve("a", [1.0], seed=s, steps=steps, **more) for s in range(seeds)]
        return " ".join(warnings_of(map(read, [*made, record()])))

    assert said(FEWEST, quick + 1) == ""
    assert said(1, quick + 1).startswith("1 seed cannot put schemes in an order: 6 ")
    assert said(FEWEST, quick).startswith(f"At most {quick} training steps, as in the")
    lost = said(FEWEST, quick + 1, status="lost")
    assert lost == "6 of 7 cells failed or were lost, and are in no mean."
