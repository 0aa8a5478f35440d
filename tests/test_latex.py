"""Tables in LaTeX: read by a small parser, and set by TeX where there is one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from posenc_compare.show.format import Cell, Table
from posenc_compare.show.latex import as_latex

TEX = shutil.which("pdflatex")


def parse(text: str) -> list[list[list[str]]]:
    """Return the rows of each tabular; every row must fill all its columns."""
    found = []
    for kinds, inside in re.findall(
        r"\\begin\{tabular\}\{(l[lr]*)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL
    ):
        first, *lines, last = inside.splitlines()
        assert (first, lines.pop(1), last) == (r"\toprule", r"\midrule", r"\bottomrule")
        assert all(line.endswith(r" \\") for line in lines)
        rows = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in lines]
        assert {len(row) for row in rows} == {len(kinds)}
        found.append(rows)
    return found


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(1.5, n=1), "1.500"),
        (Cell(-1.0, 0.25, 1), r"$-$1.000 $\pm$ 0.250"),
        (Cell(1.2e-14, n=1), "1.2e-14"),
        (Cell(2.0, 2e-4, 1, best=True), r"\textbf{2.000 $\pm$ 2.0e-04}"),
        (Cell(1e-16, n=1, rounding=True), "0 (rounding)"),
        (Cell(2.0, n=0), "2.000 (n = 0)"),
        (Cell(2.0, 0.1, 0, wins=0, p=0.5), r"2.000 $\pm$ 0.100 (n = 0)"),
        (Cell(2.0, 0.1, 1, wins=1, p=0.0), r"2.000 $\pm$ 0.100 {*}"),
        (Cell(note="failed: a_b"), r"\textemdash{}"),
        (Cell(), r"\textemdash{}"),
        ("1.5 ± -2_", r"1.5 $\pm$ $-$2\_"),
        ("a---b", "a-{}-{}-b"),
        ("`run --seeds 3`", r"\textasciigrave{}run -{}-seeds 3\textasciigrave{}"),
    ],
)
def test_cells_have_real_signs_and_are_escaped(cell: Cell | str, text: str) -> None:
    rows: list[list[str | Cell]] = [["a", cell]]
    (found,) = parse(as_latex([Table("bits", ["scheme", "x"], rows, 1)]))
    if isinstance(cell, Cell) and cell.wins is not None:  # a difference
        assert [row.pop() for row in found] == ["p, x", f"{cell.p:.3f}"]
    assert found == [["scheme", "x"], ["a", text]]


@pytest.mark.parametrize(
    ("width", "text"), [(6.9e-4, r"1.077$\pm$0.001"), (4e-4, r"1.077$\pm$0.000")]
)
def test_half_widths_of_a_paper_are_rounded(width: float, text: str) -> None:
    rows: list[list[str | Cell]] = [["a", Cell(1.077, width, 3)]]
    text_of = as_latex([Table("bits", ["scheme", "x"], rows, 3)], "column")
    (found,) = parse(text_of)
    assert found[1] == ["a", text]
    assert r"\begin{tabular}{lr}" in text_of  # numbers are aligned on the right


def test_a_caption_is_the_title_and_lines_stand_beneath() -> None:
    rows: list[list[str | Cell]] = [["a", Cell(1.0, n=3)]]
    note = "of 3 seeds; 3 of 3 cells ok"
    text = as_latex([Table("bits", ["scheme", "x"], rows, 3, ("a < b",), note=note)])
    assert r"\caption{bits (of 3 seeds)}" in text
    _, _, beneath = text.partition(r"\parbox")
    (line,) = beneath.splitlines()[1:-2]
    assert line == r"a \ensuremath{<} b\par"
    rows[0][1] = Cell(1.0, n=3, best=True)
    text = as_latex([Table("bits", ["a", "x"], rows, 3)])
    assert "bold: the best group" in text
    assert "braces:" not in text
    order = as_latex([Table("bits", ["a", "x"], rows, 3, ("{a, b} < c",))])
    assert "braces:" in order


@pytest.mark.parametrize(("size", "room"), [("column", 56), ("page", 116)])
def test_a_table_fits_a_column_or_a_page(size: str, room: int) -> None:
    cell, none = Cell(1.8044, 2e-4, 6), Cell(note="not defined")
    head = ["scheme", *(f"the bits of every byte at {2**i}" for i in range(12))]
    rows: list[list[str | Cell]] = [["transformer_xl", *[cell] * 11, none]]
    text = as_latex([Table("bits", head, rows, 6, ("a < b",))], size)
    environment = {"column": "table", "page": "table*"}[size]
    assert f"\\begin{{{environment}}}[tb]\n\\centering\n\\caption{{bits}}\n" in text
    assert text.endswith(f"\\end{{{environment}}}\n")
    assert text.count("ensuremath{<} b") == text.count(r"\caption") == 1
    parts = parse(text)
    assert len(parts) > 1
    assert sum(len(part[1]) - 1 for part in parts) == 12
    for (first, *heads), (label, *cells) in parts:
        assert (first, label) == ("scheme", r"transformer\_xl")
        assert all(one.startswith(r"\shortstack[r]{") for one in heads)
        texts = ["transformer_xl", *(one.replace(r"$\pm$", "±") for one in cells)]
        assert sum(len(one) + 1 for one in texts) <= room


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
