"""Untrusted names and messages: shown as text, and never acted on."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import HOSTILE, PORTRAIT, hostile, labelled, record

from posenc_compare.cli.console import show
from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import sound
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import clean
from posenc_compare.registry import PLOTS
from posenc_compare.show.format import as_markdown
from posenc_compare.show.frame import Numbers
from posenc_compare.show.latex import PACKAGE, as_latex
from posenc_compare.show.plots.drawing import draw_all
from posenc_compare.show.report import write_report
from posenc_compare.show.tables import display_tables, without_result, write_tables

PATHS = ["../x", "/etc/x", "a/b", "C:\\x", "nul\0", ".", "x" * 300, "CON", "con"]
OURS = {"begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule"}
OURS |= {"textbf", "par", "smallskip", "parbox", "linewidth", "footnotesize"}
OURS |= {"raggedright"}
ESCAPES = {"textbackslash", "textasciitilde", "ensuremath", "pm"}
ESCAPES |= {"textbar", "textasciicircum", "downarrow", "uparrow"}
ESCAPES |= {"textemdash", "textasciigrave"}
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Return sound records with every hostile text, a third of them failed."""
    made = [hostile(text, curve=i % 2 == 1) for i, text in enumerate(HOSTILE)]
    for one in made[::3]:
        one.update(status="failed", rows=[])
    found = sound(made)
    assert len(found) == len(HOSTILE)
    return label_settings(found, print)


def every_text(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for part in value.values() for text in every_text(part))]
    parts = value if isinstance(value, list) else []
    return [text for part in parts for text in every_text(part)]


def test_names_never_become_paths(tmp_path: Path) -> None:
    made = [hostile(text) for text in PATHS]
    made += [{**record(text, "portrait"), "arrays": PORTRAIT} for text in PATHS[:4]]
    found = labelled(made)
    folder = tmp_path / "outer" / "run"
    folder.mkdir(parents=True)
    write_tables(Numbers(found), folder)
    write_report(found, "../title", folder / "report.html", plots=False)
    draw_all(found, folder)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    names = {"rows.csv", "table.csv", "table.md", "table.tex", "report.html"}
    names |= {f"{plot}.png" for plot in PLOTS.entries()}
    plots = {f"outer/run/{name}.png" for name in ("codes", "bias_maps", "clock_hands")}
    assert (
        plots <= written <= {"outer", "outer/run"} | {f"outer/run/{n}" for n in names}
    )


@given(st.text(st.characters(codec=None)), st.integers(20, 60))
def test_clean_text_prints_and_is_short(text: str, limit: int) -> None:
    shown = clean(text, limit)
    assert shown.isprintable()
    assert not any(unicodedata.category(char) in HIDDEN for char in shown)
    assert len(shown) <= limit
    if text.isprintable() and len(text) <= limit:
        assert shown == text


@given(st.text("ab"), st.text("ab"))
def test_texts_that_differ_still_do_when_they_are_cut(one: str, other: str) -> None:
    cut = [clean("x" * 30 + end, 20) for end in (one, other)]
    assert (cut[0] == cut[1]) == (one == other)


def test_everything_in_a_record_is_cleaned(records: list[Record]) -> None:
    texts = every_text([{**r.to_json(), "key": r.key} for r in records])
    assert all(text.isprintable() for text in texts)
    assert max(map(len, texts)) <= 2000
    shown = set(texts)
    assert {r"\x1b[31mred\x1b[0m\x1b]0;title\x07", r"\u202enoitisop\u2066"} <= shown
    assert {r"two\nlines\u2028three", r"nul\x00byte", r"\ud800"} <= shown


@pytest.mark.parametrize("format", ["table", "csv", "md", "json", "tex"])
def test_nothing_but_text_and_line_breaks_reaches_the_terminal(
    records: list[Record], format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in display_tables(Numbers(records)) + without_result(records):
        show(table.title, table.head, table.body, format)
    shown = capsys.readouterr().out
    assert "noitisop" in shown.replace("\n", "")
    assert {char for char in shown if not char.isprintable()} == {"\n"}


def test_printed_csv_and_markdown_are_as_safe_as_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show("title", ["scheme", "value"], [["=a|b", -1.5]], "csv")
    assert capsys.readouterr().out == 'scheme,value\n"\'=a|b",-1.5\n'
    show("title", ["scheme", "value"], [["=a|b", -1.5]], "md")
    assert r"=a\|b" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["x" * 500, "\u4e2d" * 12])
def test_long_and_wide_names_leave_room_for_numbers(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show("title", ["scheme", "value"], [[name, "1.234"]])
    shown = capsys.readouterr().out
    assert "1.234" in shown
    assert name[:12] in shown


def test_markdown_tables_stay_whole(records: list[Record]) -> None:
    for table in display_tables(Numbers(records)) + without_result(records):
        title, blank, *lines = as_markdown([table]).splitlines()
        assert blank == ""
        assert len(lines) == len(table.body) + 2
        for line in lines:
            bare = re.sub(r"\\.", "", line)
            assert bare.count("|") == len(table.head) + 1
        for text in (title, *lines):
            assert not re.search(r"[<>`]|]\(", re.sub(r"\\.", "", text))


def test_latex_tables_stay_whole(records: list[Record]) -> None:
    for table in display_tables(Numbers(records)) + without_result(records):
        first, _, text = as_latex([table]).partition("\n")
        assert first == PACKAGE
        assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= OURS | ESCAPES
        lines = text.splitlines()
        rows = [line for line in lines if line.endswith(r" \\")]
        (kinds,) = re.findall(r"\\begin\{tabular\}\{(.*)\}", text)
        assert len(rows) == len(table.body) + 1
        for row in rows:
            bare = re.sub(r"\\[^a-zA-Z]", "", row)
            assert bare.count("&") + 1 == len(kinds)
            assert row.lstrip()[0] not in "[*"
        bare = re.sub(r"\\[^a-zA-Z]", "", text)
        assert bare.count("{") == bare.count("}")
        # Signs are all that stands in mathematics.
        bare = re.sub(r"\$(?:-|\\(?:pm|downarrow|uparrow))\$", "", bare)
        assert not re.search(r"[%#_^~$]", bare)
