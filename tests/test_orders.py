"""What tables say of the order of schemes, and how sure they are of a mean."""

import html
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.records import curve, labelled, record, row, windowed

from posenc_compare.run.compute import round_array
from posenc_compare.show.format import Cell, Table, as_markdown
from posenc_compare.show.frame import Numbers, cell_table
from posenc_compare.show.latex import as_latex
from posenc_compare.show.report import report_html
from posenc_compare.show.results import Tables
from posenc_compare.show.tables import display_tables
from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.intervals import half_width

RNG = np.random.default_rng(0)


def table(records: list[dict[str, Any]]) -> Table:
    (found,) = display_tables(Numbers(labelled(records, arrays=False)))
    return found


def trained(
    label: str, means: list[float], seeds: int = 6, **changes: Any
) -> list[dict[str, Any]]:
    """Return records of one scheme whose seeds spread by 0.01 around the means."""
    return [
        {
            **curve(label, [mean + 0.01 * RNG.normal() for mean in means], seed=seed),
            **changes,
        }
        for seed in range(seeds)
    ]


def labels(found: Table) -> list[object]:
    return [first for first, *_ in found.rows]


def test_few_seeds_rank_nothing() -> None:
    records = [
        one
        for label, family in (("z", "none"), ("b", "bias"), ("a", "bias"))
        for one in trained(label, [9.0 if label == "z" else 1.0], 3, family=family)
    ]
    found = table(records)
    assert labels(found) == ["z", "a", "b"]
    assert found.lines == ("no order: 3 seeds, 6 are needed",)
    assert table(trained("a", [1.0], 3)).lines == ()


def test_rounding_has_no_spread() -> None:
    values = {"zero": [0.0] * 3, "noise": [2e-16, 1.9e-16, 2.2e-16]}
    values |= {"one": [1.0, 1.0 + 3e-15, 1.0], "real": [1e-6, 2e-6, 3e-6]}
    records = [
        record(label, seed=seed, value=value)
        for label, some in values.items()
        for seed, value in enumerate(some)
    ]
    assert dict(table(records).body) == {
        "zero": "0.000",
        "noise": "0 (rounding)",
        "one": "1.000",
        "real": "2.0e-06 ± 2.5e-06",
    }
    assert table(records[3:4]).body == [["noise", "0 (rounding)"]]


def intervals(records: list[dict[str, Any]]) -> list[float]:
    (cells,) = [row[1:] for row in table(records).rows]
    return [cell.interval or 0.0 for cell in cells if not isinstance(cell, str)]


@pytest.mark.parametrize(("kept", "near"), [(list, 1e-6), (round_array, 1e-3)])
def test_an_interval_covers_the_documents_too(
    kept: Callable[[Any], Any], near: float
) -> None:
    scores = 3 + RNG.normal(size=(3, 2, 8)) + 3 * RNG.normal(size=8)
    owners = [0, 0, 1, 1, 2, 2, 3, 4]
    records = windowed("rope", scores, owners)
    for one in records:
        one["arrays"]["document_bits"] = kept(one["arrays"]["document_bits"])
    assert intervals(records) == pytest.approx(
        [crossed_half_width(scores[:, i], owners) for i in range(2)], rel=near
    )
    shown = table(records)
    assert "over 3 seeds and 5 documents;" in shown.title
    csv = cell_table([shown])  # which has both half widths
    plain = [half_width(scores[:, i].mean(1)) for i in range(2)]
    assert [*csv["half_width"]] == pytest.approx(plain, rel=near)
    assert [*csv["over_documents"]] == pytest.approx(intervals(records))


def test_intervals_of_a_column_are_of_one_kind() -> None:
    scores = RNG.normal(2.0, 0.5, (6, 2, 8))
    whole = windowed("rope", scores, [*range(8)])
    bare = [{**one, "arrays": {}} for one in windowed("b", scores, [0] * 8)]
    found = {str(name): cells for name, *cells in table([*whole, *bare]).rows}
    assert found["rope"] == found["b"]
    assert intervals(whole) != [cell.interval for cell in found["b"]]  # type: ignore[union-attr]


def test_simple_models_beside_documents_have_an_interval_over_seeds() -> None:
    scores = RNG.normal(size=(3, 1, 4)) + 3 * RNG.normal(size=4)
    records = windowed("rope", scores, [0, 1, 2, 3])
    assert "4 documents;" in table(records).title
    for seed, one in enumerate(records):
        floor = {**one["quantities"]["gain"], "headline": {"floor_of": "gain"}}
        one["quantities"]["floor"] = {**floor, "name": "floor"}
        one["rows"].append(row(9.0 + seed, quantity="floor", case="2-gram", x=8))
    found = table(records)
    assert "4 documents, of n-gram models over seeds;" in found.title
    (cell,) = [cells for first, cells in found.rows if first == "2-gram"]
    assert isinstance(cell, Cell)
    assert cell.half_width == pytest.approx(half_width([9.0, 10.0, 11.0]))


def test_networks_as_trained_have_the_interval_of_the_scalings() -> None:
    scores = RNG.normal(size=(3, 1, 4)) + 3 * RNG.normal(size=4)
    records = windowed("rope", scores, [0, 1, 2, 3])
    for one in records:
        read = {**one["quantities"]["gain"], "headline": {"cases_of": "gain"}}
        one["quantities"]["read"] = {**read, "name": "read"}
        one["rows"].append(row(3.5, quantity="read", case="pi", x=8))
    tables = display_tables(Numbers(labelled(records, arrays=False)))
    (cell,) = [cells for first, cells in tables[1].rows if first == "rope, as trained"]
    assert isinstance(cell, Cell)
    assert cell.half_width == pytest.approx(half_width(scores[:, 0].mean(1)))


@pytest.mark.parametrize(
    ("owners", "last"), [([0] * 4, [0] * 4), ([0, 1, 2, 3], [0, 0, 1, 1])]
)
def test_one_document_or_others_by_seed_keep_the_interval_over_seeds(
    owners: list[int], last: list[int]
) -> None:
    scores = RNG.normal(size=(3, 1, 4)) + 3 * RNG.normal(size=4)
    records = windowed("rope", scores, owners)
    records[-1]["arrays"]["window_documents"] = last
    plain = [half_width(scores[:, 0].mean(1))]
    assert intervals(records) == pytest.approx(plain)
    assert "documents" not in table(records).title


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"document_bits": [[1.0, 2.0]]},
        {"document_bits": [[1.0, 2.0, 3.0, None]]},
        {"document_bits": [3.0]},
        {"document_bits": 1.0},
        {"window_documents": []},
        {"window_documents": [[0], [1], [2], [3]]},
    ],
)
def test_arrays_that_do_not_fit_are_passed_over(damage: dict[str, Any]) -> None:
    scores = RNG.normal(size=(3, 1, 4)) + 3 * RNG.normal(size=4)
    records = windowed("rope", scores, [0, 1, 2, 3])
    plain = half_width(scores[:, 0].mean(1))
    assert (intervals(records)[0] == pytest.approx(plain)) is False
    records[1]["arrays"] = {**records[1]["arrays"], **damage} if damage else {}
    assert intervals(records) == pytest.approx([plain])


def test_windows_belong_to_the_curve_whose_numbers_they_make() -> None:
    scores = 5 + RNG.normal(size=(3, 2, 8)) + 3 * RNG.normal(size=8)
    owners = [0, 0, 1, 1, 2, 2, 3, 4]
    records = windowed("rope", scores, owners)
    for one in records:
        facts = one["quantities"]["gain"]
        one["quantities"]["beyond"] = {**facts, "name": "beyond", "title": "beyond"}
        values = [r["value"] + 0.1 for r in one["rows"]]
        one["rows"] += [
            row(value, quantity="beyond", x=x)
            for x, value in zip((8, 16), values, strict=True)
        ]
    titles = [t.title for t in display_tables(Numbers(labelled(records)))]
    assert ["documents" in title for title in titles] == [False, True]
    assert titles[0].startswith("beyond")


def test_lines_are_in_every_format() -> None:
    made = trained("a<b", [1.0]) + trained("c_d", [2.0])
    found = [table(made)]
    (line,) = found[0].lines
    assert line.startswith("8: a<b < c_d")
    assert "\n\n8: a&lt;b &lt; c_d (n = 6" in as_markdown(found)
    latex = r"8: a\ensuremath{<}b \ensuremath{<} c\_d (n = 6"
    assert latex in as_latex(found)
    assert f"\n\n{line}" in repr(Tables(found))
    page = report_html(labelled(made), "title")
    assert f'<p class="note">{html.escape(line)}</p>' in page
