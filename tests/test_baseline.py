"""Differences from a baseline: paired by seed, with wins and adjusted p values."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from support.records import curve, fact, labelled, row, stored
from support.shown import refusal

from posenc_compare.cli.console import show_tables
from posenc_compare.errors import ConfigError
from posenc_compare.settings.canonical import spec_key
from posenc_compare.show.differences import baseline_tables
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.latex import as_latex
from posenc_compare.show.results import load

LOSSES = {"rope": 2.0, "alibi": 1.5, "nope": 2.01}
NOISE = np.random.default_rng(1).normal(0, 0.05, (3, 2, 8))


def made(seeds: int = 6, task: str = "language") -> list[dict[str, Any]]:
    found = []
    for (label, loss), noise in zip(LOSSES.items(), NOISE, strict=True):
        for seed in range(seeds):
            points = [float(loss + place + noise[place, seed]) for place in (0, 1)]
            one = curve(label, points, seed=seed, task=task)
            reach = {**fact(["", None], better="higher"), "name": "reach"}
            kind = {**fact(["", None], better="neither"), "name": "kind"}
            one["quantities"] |= {"reach": reach, "kind": kind}
            one["rows"] += [
                row(float(seed), quantity=name) for name in ("reach", "kind")
            ]
            found.append(one)
    return found


def tables(records: list[dict[str, Any]], baseline: str = "rope") -> list[Table]:
    return baseline_tables(labelled(records), baseline)


def test_curves_come_first_and_latex_has_the_differences() -> None:
    curve, headline = tables(made())
    assert curve.head == ["scheme", "8", "16"]
    assert headline.title.startswith("reach")
    text = as_latex([curve])
    mean, width, _, p = re.split(" ± |, ", curve.body[0][2])
    assert p == "p 0.031 *"
    (line,) = [line for line in text.split("\n") if line.startswith("alibi & ")]
    assert line.endswith(
        rf"& {mean.replace('-', '$-$')} $\pm$ {width} {{*}} & 0.031 \\"
    )
    assert "seeds that are better" not in text
    assert (
        "difference from rope ($\\pm$ half width of its 95\\% interval over "
        "paired seeds)}"
    ) in text
    records = made()
    records[0]["rows"][1] |= {"value": None, "note": "lost"}
    assert as_latex(tables(records)[:1]).count("n = 5") == 2  # of both at 16
    assert "difference from rope (without intervals)" in as_latex(tables(made(1)))


def test_outcomes_of_one_seed_are_left_out_beside_others() -> None:
    records = made()
    for one in records:
        if one["spec"]["setting"]["seed"]:
            one["rows"] = [row for row in one["rows"] if row["quantity"] != "reach"]
    (only,) = tables(records)
    assert only.head == ["scheme", "8", "16"]
    assert len(tables(made(1))) == 2


def test_seeds_that_one_lacks_are_not_compared_and_reasons_stay() -> None:
    records = [
        one
        for one in made(7)
        if (one["label"], one["spec"]["setting"]["seed"]) != ("rope", 6)
    ]
    for one in records:
        if one["label"] == "nope":
            for point in one["rows"][:2]:
                point |= {"value": None, "note": "not defined"}
    failed = {"status": "failed", "error": "boom", "rows": []}
    records.append({**curve("shaw", [1.0, 1.0]), **failed})
    curves, _ = tables(records)
    assert curves.body[2][:2] == ["shaw", "failed: boom"]
    assert "6/6" in curves.body[0][1]
    assert curves.body[1][1] == "not defined"
    curves, _ = tables(records, "nope")
    assert curves.body[0][1] == "nope has no number"
    later = [one for one in made(8) if one["spec"]["setting"]["seed"] == 7]
    others = [one for one in records if one["label"] != "alibi"]
    curves, _ = tables([*others, *(one for one in later if one["label"] == "alibi")])
    assert curves.body[0][1] == "no common seed"


def test_a_baseline_is_shown_beside_the_schemes_that_are_chosen(
    posenc: Command, tmp_path: Path
) -> None:
    folder = stored(tmp_path / "run", made())
    words = ["table", folder, "--schemes", "alibi", "--baseline", "rope"]
    done = posenc(*words)
    assert (done.returncode, "difference from rope" in done.stdout) == (0, True)
    shown = posenc(*words, "--format", "md", "--out", tmp_path / "out").stdout
    assert "difference from rope" in shown
    assert (tmp_path / "out" / "table.md").read_text() == shown
    numbers = posenc(*words, "--format", "csv").stdout
    assert (tmp_path / "out" / "table.csv").read_text() == numbers
    paper = ["table", folder, "--baseline", "rope", "--size", "column"]
    same = load(folder).table(baseline="rope", size="column")
    with pytest.raises(ConfigError, match="size must be column or page"):
        load(folder).table(size="huge")
    assert same.latex() == posenc(*paper, "--format", "tex").stdout


@pytest.mark.parametrize(
    ("unit", "shift", "alike"),
    [("bits per byte", 0.005, True), ("bits per byte", 0.019, False), ("%", 0, False)],
)
def test_scores_are_alike_if_the_interval_is_small_and_of_bits(
    unit: str, shift: float, alike: bool
) -> None:
    records = []
    for seed in range(6):
        for label, more in (("rope", 0.0), ("alibi", shift + 0.001 * (seed % 2))):
            one = curve(label, [2.0 + more, 3.0 + more], seed=seed)
            one["quantities"]["gain"]["unit"] = unit
            records.append(one)
    (found,) = tables(records)
    cell = found.rows[0][1]
    assert isinstance(cell, Cell)
    assert bool(cell.alike) is alike
    assert ("alike" in found.body[0][1]) is alike
    assert ("alike: the interval" in found.lines[-1]) is alike


def test_differences_of_tested_lengths_have_a_range() -> None:
    records = []
    for label, reach in (("rope", 128.0), ("alibi", 256.0)):
        for seed in range(6):
            one = curve(label, [1.0], seed=seed)
            name, own = "effective_length", fact(["", None], better="higher")
            own["unit"] = "bytes"
            one["quantities"] = {name: {**own, "name": name}}
            one["rows"] = [row(reach * (1 + seed % 2), quantity=name)]
            records.append(one)
    (found,) = tables(records)
    assert found.body[0][1].startswith("192 (128 to 256), 6/6, p 0.031")
    assert found.note.startswith("with its range over seeds; ")


def test_csv_and_json_hold_every_number_of_the_differences(
    posenc: Command, tmp_path: Path
) -> None:
    folder = stored(tmp_path / "run", made(7))
    words = ["table", folder, "--baseline", "rope", "--format"]
    rows = json.loads(posenc(*words, "json").stdout)
    assert [*rows[0]] == posenc(*words, "csv").stdout.splitlines()[0].split(",")
    first = {(row["table"], row["row"], row["column"]): row for row in rows}
    name = tables(made(7))[0].name
    one = first[name, "alibi", "8"]
    less = NOISE[1, 0, :7] - NOISE[0, 0, :7] - 0.5
    assert one["value"] == pytest.approx(less.mean())
    assert one["half_width"] == pytest.approx(2.4469 * less.std(ddof=1) / 7**0.5, 1e-4)
    assert (one["seeds"], one["better_seeds"], one["p"]) == (7, 7, 1 / 64)
    assert first[name, "nope", "16"]["p"] > 0.05


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--baseline alibbi", "got 'alibbi'; did you mean"),
        ("--baseline rope --schemes rope", "another trained scheme must be shown, and"),
    ],
)
def test_a_baseline_that_cannot_be_shown_is_one_line(
    posenc: Command, tmp_path: Path, words: str, said: str
) -> None:
    folder = stored(tmp_path / "run", made())
    assert said in refusal(posenc("table", folder, *words.split()))


def test_a_baseline_without_a_number_is_refused_with_its_reason() -> None:
    records = made()
    for one in records:
        if one["label"] == "rope":
            one |= {"status": "failed", "error": "no memory", "rows": []}
    with pytest.raises(ConfigError, match=r"has none \(no memory\)"):
        tables(records)


def test_a_scheme_of_another_text_is_not_compared() -> None:
    records = made()[:-2]  # of nope, which is no scheme of too few seeds
    for one in records:
        if one["label"] == "nope":
            one["spec"]["setting"]["corpus_sha256"] = "2"
            one["key"] = spec_key(one["spec"])
    (curves, _) = tables(records, "rope [corpus=1]")
    (line,) = curves.lines
    assert line.startswith("lower is better; * p ≤ 0.05: step-down max-T test")
    cells = {str(first): rest for first, *rest in curves.body}
    assert cells["nope [corpus=2]"] == ["of another text"] * 2
    assert "p 0.0" in cells["alibi [corpus=1]"][0]


def test_a_difference_that_is_rounding_is_none() -> None:
    records = made()
    for one in made():
        if one["label"] == "rope":
            one["label"] = "twin"
            one["key"] = one["key"][::-1]
            for point in one["rows"]:
                point["value"] *= 1 + 1e-15
            records.append(one)
    curves, _ = tables(records)
    cells: dict[str, Any] = {str(name): cell for name, cell, _ in curves.rows}
    assert (cells["twin"].mean, cells["twin"].p) == (0, 1)


@pytest.mark.parametrize(("columns", "has_p"), [(80, False), (100, True)])
def test_p_is_left_out_where_a_terminal_has_no_room(
    columns: int,
    has_p: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    number, gap = Cell(3.4, n=6), Cell(-1.0, 0.25, 6, p=0.031)
    head = ["", "scheme", "at 32", "difference", "at 512", "difference"]
    rows = [["7", "transformer_xl", number, gap, number, gap]]
    show_tables([Table("t", head, rows, note="mean; p")], "table")
    shown = capsys.readouterr().out
    assert ("t (mean; p)" in shown) is has_p
    (row,) = [line for line in shown.split("\n") if "_xl" in line]
    assert row.count("p 0.031") == 2 * has_p
    assert row.count("*") == 2  # on one line
