"""Tables in LaTeX: read by a small parser, and set by TeX where there is one."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.records import curve, labelled, record

from posenc_compare.show.format import Cell, Table
from posenc_compare.show.latex import as_latex, latex_table
from posenc_compare.show.tables import display_tables

TEX = shutil.which("pdflatex")


@dataclass
class Tabular:
    """The kinds of the columns of a tabular, and the texts of its rows."""

    kinds: str
    rows: list[list[str]]


def parse(text: str) -> list[Tabular]:
    """Return the tabulars of a text; every row must fill all its columns."""
    found = []
    for kinds, inside in re.findall(
        r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL
    ):
        first, *lines, last = inside.splitlines()
        assert (first, lines.pop(1), last) == (r"\toprule", r"\midrule", r"\bottomrule")
        assert all(line.endswith(r" \\") for line in lines)
        rows = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in lines]
        assert {len(row) for row in rows} == {len(kinds)}
        found.append(Tabular(kinds, rows))
    return found


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(1.5, n=1), "$1.500$"),
        (Cell(-1.0, 0.25, 1), r"$-1.000 \pm 0.250$"),
        (Cell(1.2e-14, n=1), r"$1.2 \times 10^{-14}$"),
        (Cell(123456.0, n=1), r"$1.2 \times 10^{5}$"),
        (Cell(2.0, 2e-4, 1, best=True), r"{\boldmath $2.000 \pm 2.0 \times 10^{-4}$}"),
        (Cell(1e-16, n=1, rounding=True), "$0$ (rounding)"),
        (Cell(2.0, n=0), "$2.000$ (n = 0)"),
        (Cell(2.0, 0.1, 0, more=", 6/6, p -1"), r"$2.000 \pm 0.100$ (n = 0)"),
        (Cell(2.0, 0.1, 1, more=", p 0", star=True), r"$2.000 \pm 0.100^{*}$"),
        (Cell(), "---"),
        ("1.5 ± -2_", r"1.5 $\pm$ $-$2\_"),
    ],
)
def test_numbers_are_in_math_mode_and_words_are_escaped(
    cell: Cell | str, text: str
) -> None:
    rows: list[list[str | Cell]] = [["a", cell]]
    (found,) = parse(as_latex([Table("bits", ["scheme", "x"], rows, 1)]))
    number = isinstance(cell, Cell) and cell.mean is not None
    assert found.kinds == ("lr" if number else "ll")
    assert found.rows == [["scheme", "x"], ["a", text]]


def test_words_become_notes_with_a_letter_for_each() -> None:
    ended = Cell(note="not defined beyond 64")
    other = Cell(note="failed: a_b")
    rows: list[list[str | Cell]] = [
        ["a", ended, Cell(1.0, n=3)],
        ["b", other, ended],
    ]
    text = as_latex([Table("bits", ["scheme", "x", "y"], rows, 3, ("a < b",))])
    (found,) = parse(text)
    assert [row[1:] for row in found.rows[1:]] == [
        [r"---\textsuperscript{a}", "$1.000$"],
        [r"---\textsuperscript{b}", r"---\textsuperscript{a}"],
    ]
    _, _, beneath = text.partition(r"\parbox")
    assert [line.removesuffix(r"\par") for line in beneath.splitlines()[1:-2]] == [
        r"\textsuperscript{a} not defined beyond 64",
        r"\textsuperscript{b} failed: a\_b",
        r"a \ensuremath{<} b",
    ]


def test_labels_are_of_titles_and_of_one_table_each() -> None:
    text = as_latex([Table("Bits by x", ["scheme"], [["a"]], note="0")] * 2)
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:bits-by-x", "tab:bits-by-x-2"]
    assert text.count(r"\caption{Bits by x (0)}") == 2


def test_a_label_has_some_words_of_a_long_title() -> None:
    text = as_latex([Table("a word " * 40, ["scheme"], [["a"]])])
    (label,) = re.findall(r"\\label\{tab:(.*)\}", text)
    assert label == "-".join(8 * ["a", "word"])


def test_long_headings_stand_in_lines() -> None:
    text = latex_table(["scheme", "a heading wider than numbers"], [["a", "1"]])
    stack = r"\shortstack{a heading wider than \\ numbers}"
    assert rf"scheme & {stack} \\" in text


def test_the_caption_says_the_settings_that_all_share() -> None:
    sizes = {"layers": 2, "heads": 4, "steps": 7}
    made = [
        curve("rope", [1.0, 2.0], **sizes, batch=batch, seed=batch) for batch in (1, 2)
    ]
    for body in made:
        body["corpus"] = {"name": "a_book"}
    (table,) = display_tables(labelled(made))
    (caption,) = re.findall(r"\\caption\{(.*)\}", as_latex([table]))
    assert caption.startswith(r"Bits $\downarrow$ by test length: mean $\pm$ half")
    assert "2 layers, width 32, 4 heads, training length 8, 7 steps" in caption
    assert "batches" not in caption
    assert r"text: a\_book." in caption
    assert "cells ok" not in caption


def test_the_caption_says_what_is_unusual() -> None:
    made = [curve("rope", [1.0], norm="rms", lengths="published", scheme_rate=3.4)]
    made[0]["spec"]["setting"]["dtype"] = "bfloat16"
    (table,) = display_tables(labelled(made))
    assert "norm: rms, published numbers of positions, rate of" in table.caption
    assert ", in bfloat16" in table.caption
    usual = [curve("rope", [1.0], norm="layer", lengths="scaled", scheme_rate=0.0)]
    usual[0]["spec"]["setting"]["dtype"] = "float32"
    (table,) = display_tables(labelled(usual))
    assert not any(word in table.caption for word in ("norm", "scaled", "rate of"))


def test_the_caption_says_which_cells_are_missing() -> None:
    made = [record("rope"), record("alibi", status="failed")]
    (table,) = display_tables(labelled(made))
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
