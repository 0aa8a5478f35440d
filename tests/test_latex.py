"""Tables in LaTeX: read by a small parser, and set by TeX where there is one."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.records import curve, record

from posenc_compare.analysis.records.load import sound, tell_apart
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.analysis.show.latex import as_latex, latex_table
from posenc_compare.analysis.show.tables import display_tables

SPAN = re.compile(r"\\multicolumn\{(\d)\}\{c\}")
TEX = shutil.which("pdflatex")


@dataclass
class Tabular:
    """What a tabular says: the kind of its columns, and texts with their spans."""

    kinds: str
    rows: list[list[tuple[int, str]]]


def parse(text: str) -> list[Tabular]:
    """Return the tabulars of a text; every row must fill all its columns."""
    found = []
    for kinds, inside in re.findall(
        r"\\begin\{tabular\}\{((?:[lr]|@\{\})+)\}\n(.*?)\\end\{tabular\}",
        text,
        re.DOTALL,
    ):
        rows = []
        for line in inside.splitlines():
            if not line.endswith(r" \\"):
                assert line in (r"\toprule", r"\midrule", r"\bottomrule")
                continue
            cells = re.split(r"(?<!\\) & ", line.removesuffix(r" \\"))
            spans = [SPAN.match(cell) for cell in cells]
            rows.append(
                [
                    (int(span[1]), cell[span.end() + 1 : -1]) if span else (1, cell)
                    for cell, span in zip(cells, spans, strict=True)
                ]
            )
        bare = kinds.replace("@{}", "")
        assert {sum(span for span, _ in row) for row in rows} == {len(bare)}
        found.append(Tabular(kinds, rows))
    return found


def one(cells: list[str | Cell], seeds: int = 1) -> Tabular:
    rows: list[list[str | Cell]] = [["a", cell] for cell in cells]
    (found,) = parse(as_latex([Table("bits", ["scheme", "x"], rows, seeds)]))
    return found


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        (Cell(1.5, n=1), ["$1$", "$.500$"]),
        (Cell(-1.0, 0.25, 1), ["$-1$", "$.000$", r"${}\pm 0.250$"]),
        (Cell(1.2e-14, n=1), ["$1$", r"$.2 \times 10^{-14}$"]),
        (Cell(123456.0, n=1), ["$1$", r"$.2 \times 10^{5}$"]),
        (Cell(4321.0, n=1), ["$4321$", ""]),
        (Cell(2.0, 2.4e-4, 1), ["$2$", "$.000$", r"${}\pm 2.4 \times 10^{-4}$"]),
    ],
)
def test_a_number_has_a_column_on_each_side_of_its_point(
    cell: Cell, parts: list[str]
) -> None:
    found = one([cell])
    assert found.kinds == "l" + "r@{}l@{}l"[: 4 * len(parts) - 3]
    assert [text for _, text in found.rows[1]] == ["a", *parts]
    assert found.rows[0] == [(1, "scheme"), (len(parts), "x")]


def test_points_of_a_column_stand_below_each_other() -> None:
    found = one([Cell(12.34, n=1), Cell(1.234, 0.1, 1), Cell(-0.5, n=1, best=True)])
    wholes = [row[1][1] for row in found.rows[1:]]
    assert wholes == ["$12$", "$1$", r"{\boldmath $-0$}"]
    assert found.rows[3][2] == (1, r"{\boldmath $.500$}")
    assert [row[3][1] for row in found.rows[1:]] == ["", r"${}\pm 0.100$", ""]


def test_words_become_notes_with_a_letter_for_each() -> None:
    ended = Cell(note="not defined beyond 64")
    rows: list[list[str | Cell]] = [
        ["a", ended, Cell(1.0, n=3)],
        ["b", Cell(2.0, n=2), ended],
        ["c", Cell(), Cell(1e-16, n=3, rounding=True)],
    ]
    text = as_latex([Table("bits", ["scheme", "x", "y"], rows, 3, ("a < b",))])
    (found,) = parse(text)
    assert [row[1:] for row in found.rows[1:]] == [
        [(2, r"---\textsuperscript{a}"), (1, "$1$"), (1, "$.000$")],
        [(1, "$2$"), (1, r"$.000$\textsuperscript{b}"), (2, r"---\textsuperscript{a}")],
        [(2, "---"), (1, "$0$"), (1, r"\textsuperscript{c}")],
    ]
    _, _, beneath = text.partition(r"\parbox")
    assert [line.removesuffix(r"\par") for line in beneath.splitlines()[1:-2]] == [
        r"\textsuperscript{a} not defined beyond 64",
        r"\textsuperscript{b} n = 2",
        r"\textsuperscript{c} 0 but for rounding",
        r"a \ensuremath{<} b",
    ]


def test_labels_are_of_titles_and_of_one_table_each() -> None:
    text = as_latex([Table(f"Bits by x ({i})", ["scheme"], [["a"]]) for i in range(2)])
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:bits-by-x", "tab:bits-by-x-2"]
    assert text.count(r"\caption{Bits by x (0)}") == 1


def test_a_label_is_no_number() -> None:
    rows: list[list[str | Cell]] = [["1.5 ± 0.2", Cell(1.0, 0.5, 2)], ["b", Cell(2.0)]]
    text = as_latex([Table("t", ["scheme", "8"], rows, 2)])
    assert r"\begin{tabular}{lr@{}l@{}l}" in text
    assert r"1.5 $\pm$ 0.2 & $1$" in text


def test_numbers_below_0_in_words_have_a_minus_sign() -> None:
    body = [["n-gram [x=-3]", "-1.2 ± 0.1, 6/6, p 2.4e-04"], ["a", "1.5"]]
    (found,) = parse(latex_table(["scheme", "difference"], body))
    assert found.rows[1][0] == (1, "n-gram {[}x=$-$3{]}")
    assert r"$-$1.2 $\pm$ 0.1, 6/6, p 2.4e-04" in str(found.rows[1][1][1])


def test_a_label_has_some_words_of_a_long_title() -> None:
    text = as_latex([Table("a word " * 40, ["scheme"], [["a"]])])
    (label,) = re.findall(r"\\label\{tab:(.*)\}", text)
    assert label == "-".join(8 * ["a", "word"])


def test_long_headings_stand_in_lines() -> None:
    text = latex_table(["scheme", "a heading wider than numbers"], [["a", "1"]])
    stack = r"\shortstack{a heading wider than \\ numbers}"
    assert rf"\multicolumn{{2}}{{c}}{{{stack}}}" in text


def test_texts_that_are_no_numbers_stay_as_they_are() -> None:
    body = [["rope", "12%"], ["alibi", "-"], ["nope", "3.5 ± 1"]]
    (found,) = parse(latex_table(["scheme", "x"], body))
    assert [row[1] for row in found.rows[1:3]] == [(3, r"12\%"), (3, "-")]


def test_the_caption_says_the_settings_that_all_share() -> None:
    sizes = {"layers": 2, "heads": 4, "steps": 7}
    made = [
        curve("rope", [1.0, 2.0], **sizes, batch=batch, seed=batch) for batch in (1, 2)
    ]
    for body in made:
        body["corpus"] = {"name": "a_book"}
    (table,) = display_tables(tell_apart(sound(made), print))
    (caption,) = re.findall(r"\\caption\{(.*)\}", as_latex([table]))
    assert caption.startswith(r"Bits $\downarrow$ by test length: mean $\pm$ half")
    assert "2 layers, width 32, 4 heads, training length 8, 7 steps" in caption
    assert "batches" not in caption
    assert r"text: a\_book." in caption
    assert "cells ok" not in caption


def test_the_caption_says_what_is_unusual() -> None:
    made = [curve("rope", [1.0], norm="rms", lengths="published", scheme_rate=3.4)]
    made[0]["spec"]["setting"]["dtype"] = "bfloat16"
    (table,) = display_tables(tell_apart(sound(made), print))
    assert "norm: rms, published numbers of positions, rate of" in table.caption
    assert ", in bfloat16" in table.caption
    usual = [curve("rope", [1.0], norm="layer", lengths="scaled", scheme_rate=0.0)]
    usual[0]["spec"]["setting"]["dtype"] = "float32"
    (table,) = display_tables(tell_apart(sound(usual), print))
    assert not any(word in table.caption for word in ("norm", "scaled", "rate of"))


def test_the_caption_says_which_cells_are_missing() -> None:
    made = [record("rope"), record("alibi", status="failed")]
    (table,) = display_tables(tell_apart(sound(made), print))
    assert table.caption.endswith("(1 of 2 cells ok, 1 failed)")


@pytest.mark.skipif(TEX is None, reason="there is no pdflatex")
def test_tex_sets_the_tables(tmp_path: Path) -> None:
    rows: list[list[str | Cell]] = [
        ["rope_|^~\\", Cell(1.0, 0.5, 2, best=True), Cell(note="50% & <none>")],
        ["[x] *", Cell(-1e-9, n=3), Cell(3.0, n=3)],
    ]
    tables = [
        Table("Bits ↓ by x", ["scheme", "a_b", "a very long heading ↑ of x"], rows, 3),
        Table("Cells", ["scheme", "reason"], [["a", "#1 {b} $c$"]]),
    ]
    start = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "a.tex").write_text(f"{start}{as_latex(tables)}\\end{{document}}\n")
    command = [str(TEX), "-interaction=nonstopmode", "-halt-on-error", "-draftmode"]
    command.append("a.tex")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout
