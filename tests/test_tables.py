"""Reading records, and the tables made from them."""

import csv
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import SPREAD, curve, fact, labelled, record, row, stored
from support.shown import refusal, shown_in

from posenc_compare.cli.console import show_tables
from posenc_compare.errors import StoreError
from posenc_compare.records.load import sound
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show import frame
from posenc_compare.show.format import Cell, Table, as_csv, csv_text
from posenc_compare.show.frame import LONG, Numbers
from posenc_compare.show.report import write_report
from posenc_compare.show.setting import short_setting
from posenc_compare.show.tables import display_tables, without_result, write_tables


def cells(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    (table,) = display_tables(Numbers(labelled(records)))
    return {first: rest for first, *rest in table.body}


def read_table(path: Path) -> pd.DataFrame:
    """Read rows.csv or table.csv as they were before they were written."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *body = csv.reader(file)
    frame = pd.DataFrame(body, columns=head)
    for name in head:
        if name in ("x", "seed", "value", "mean", "half_width", "n"):
            frame[name] = pd.to_numeric(frame[name])
        else:
            frame[name] = frame[name].str.removeprefix("'")
    return frame


def test_the_reason_of_a_failure_stands_once_in_a_row() -> None:
    broken = {**curve("b", []), "status": "lost", "error": "no memory"}
    assert cells([broken]) == {"b": ["lost: no memory"]}
    found = cells([curve("a", [2.0, 3.0, 4.0]), broken])
    assert found["b"] == ["lost: no memory", "lost", "lost"]


def test_what_no_cell_has_a_row_of_has_no_table_and_no_column() -> None:
    empty = curve("a", [])
    (table,) = display_tables(Numbers(labelled([empty, record("a")])))
    assert table.title.startswith("Measures without training")
    lone = record("a")
    lone["quantities"]["other"] = fact(["", None], name="other")
    failed = record("b", status="failed")
    failed["quantities"] = {**lone["quantities"], "third": fact(name="third", x="n")}
    for made in ([lone], [lone, failed]):  # nor where another cell of it failed
        (table,) = display_tables(Numbers(labelled(made)))
        assert table.head == ["scheme", "gain"]


def test_a_curve_leaves_out_schemes_with_reasons_alone() -> None:
    none = curve("b", [])
    none["rows"] = [{**row(0.0), "quantity": "gain", "x": 8.0}]
    none["rows"][0] |= {"value": None, "note": "has no code"}
    failed = {**curve("c", []), "status": "failed", "error": "boom"}
    made = [curve("a", [2.0]), none, failed, curve("d", [])]
    assert cells(made) == {"a": ["2.000"], "c": ["failed: boom"], "d": ["n/a"]}
    (table,) = display_tables(Numbers(labelled(made)))
    assert "without a number: b (has no code)" in table.lines
    assert cells([none]) == {"b": ["has no code"]}


def test_a_curve_leaves_out_schemes_with_rows_of_another_alone() -> None:
    made = [curve("a", [2.0]), curve("b", [])]
    made[1]["rows"] = [row(1.0, quantity="other", x=8.0)]
    other = fact("curve", name="other", x="n")
    for one in made:
        one["quantities"] = {**one["quantities"], "other": other}
    tables = display_tables(Numbers(labelled(made)))
    assert [[first for first, *_ in table.body] for table in tables] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("name", "unit", "values", "text"),
    [
        ("effective_length", "bytes", (128, 128, 256), "170.7 (128 to 256)"),
        ("reach", "logit", (128, 128, 256), "170.7 ± 183.6"),
        ("context_used", "bytes", (4, 8, 12), "8 (4 to 12)"),
        ("reach", "numbers", (123456, 123456, 123456), "123456"),
        ("reach", "channels, counting identical ones once", (1, 1, 1), "1"),
        ("reach", "share of channels", (1, 1, 1), "1.000"),
    ],
)
def test_tested_lengths_have_a_range_and_counts_no_decimals(
    name: str, unit: str, values: tuple[int, ...], text: str
) -> None:
    records = []
    for seed, value in enumerate(values):
        one = curve("rope", [1.0], seed=seed)
        one["quantities"] |= {name: {**fact(["", None], unit=unit), "name": name}}
        one["rows"].append(row(value, quantity=name))
        records.append(one)
    found = display_tables(Numbers(labelled(records)))
    assert ["rope", text] in [line for table in found for line in table.body]


def test_titles_of_older_records_are_those_of_today() -> None:
    one = curve("rope", [1.0])
    one["quantities"]["gain"]["title"] = "fresh windows of L"
    (table,) = display_tables(Numbers(labelled([one])))
    assert table.name.startswith("non-overlapping windows of L ↓ by")


def test_each_number_of_a_record_is_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counts: Counter[str] = Counter()

    def counted(name: str) -> Any:
        plain = getattr(frame, name)
        return lambda given: counts.update([name]) or plain(given)

    for name in ("_rows", "_mean"):
        monkeypatch.setattr(frame, name, counted(name))
    made = [curve("a", [2.0, 3.0]), record("a"), record("b", status="failed")]
    made += [curve("a", [2.0], task=task) for task in ("copy", "sort")]
    records = labelled(made)
    write_tables(Numbers(records), tmp_path)
    once = {"_rows": len(records), "_mean": 6}
    assert counts == once
    counts.clear()
    write_report(records, "title", tmp_path / "report.html")
    assert counts == once


LONG_HEAD = [
    "scheme",
    "gain from context beyond the length ↑",
    "64",
    "128",
    "256",
    "512",
]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_terminal_tears_no_number_and_no_word_apart(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    number, few = Cell(1.8044, 0.1733, 6), Cell(1.8044, 0.1733, 5)
    reason = Cell(note="not defined beyond 128 positions of a text")
    rows: list[list[str | Cell]] = [
        ["transformer_xl", number, number, few, number, few],
        ["learned", number, reason, reason, reason, reason],
    ]
    show_tables([Table("t", LONG_HEAD, rows, 6)], "table")
    shown = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.count("1.804 ± 0.173") == 6
    assert shown.count("1.804 ± 0.173 (n = 5)") == 2
    words = shown.split()
    assert {*" ".join(LONG_HEAD).split(), *reason.note.split()} <= {*words}
    assert words.count("learned") == words.count("scheme")  # of every part


def test_one_table_is_printed_by_its_title(posenc, tmp_path: Path) -> None:
    folder = stored(tmp_path / "run", [curve("a", [2.0, 3.0]), record("a")])
    words = ["table", folder, "--only", "bits BY"]
    shown = posenc(*words, "--format", "md").stdout
    assert shown.startswith("**bits ↓ by test length")
    assert shown.count("**") == 2
    rows = posenc(*words, "--format", "csv", "--out", tmp_path / "out").stdout
    assert {line.split(",")[2] for line in rows.splitlines()[1:]} == {'"8"', '"16"'}
    assert (tmp_path / "out" / "table.csv").read_text() == rows
    assert (tmp_path / "out" / "table.md").read_text() == shown
    assert not (tmp_path / "out" / "rows.csv").exists()
    assert refusal(posenc("table", folder, "--size", "column")) == (
        "error: size column: must have LaTeX; --format tex would work"
    )
    assert refusal(posenc("table", folder, "--only", "bytes")) == (
        "error: only 'bytes': must be part of the title of a table; there are bits by "
        "test length; Measures without training"
    )


def test_columns_are_printed_by_their_headings(posenc, tmp_path: Path) -> None:
    made = [
        one
        for seed, spread in enumerate(SPREAD)
        for one in (
            curve("a", [2.0, 3.0, 4.0 + spread], seed=seed),
            curve("b", [5.0 + spread, 3.0, 5.0], seed=seed),
            record("a", seed=seed),
        )
    ]
    folder = stored(tmp_path / "run", made)
    words = ["table", folder, "--format"]
    assert "\n8: " in posenc(*words, "md").stdout
    (shown,) = shown_in(posenc(*words, "md", "--columns", "32,1?").stdout)
    assert (shown.head, [*shown.rows]) == (["16", "32"], ["a", "b"])
    assert [line.partition(":")[0] for line in shown.lines] == ["16", "32"]
    rows = posenc(*words, "csv", "--columns", "GAIN").stdout
    assert {line.split(",")[2] for line in rows.splitlines()[1:]} == {'"gain"'}
    said = refusal(posenc("table", folder, "--columns", "scheme"))
    assert "columns 'scheme': must name one besides those that identify" in said
    assert refusal(posenc("table", folder, "--columns", "8,x")) == (
        "error: columns 'x': must be the heading of a column; there are scheme; 8; 16; "
        "32; gain"
    )


def test_the_longest_length_decides_the_order_and_then_the_next() -> None:
    curves = {"a": [1.0, 9.0], "b": [2.0, 8.0], "c": [0.5], "d": [0.1], "e": []}
    shown = cells(
        [curve(label, v, seed=seed) for label, v in curves.items() for seed in range(6)]
    )
    assert list(shown) == ["b", "a", "d", "c", "e"]


def test_rows_of_a_cell_without_a_result_count_for_nothing() -> None:
    forged = {**record("a", seed=1, status="failed"), "rows": [row(100.0)]}
    assert cells([record("a"), forged]) == {"a": ["1.500 (n = 1)"]}


def test_long_reasons_are_cut_in_tables_and_whole_in_the_list(tmp_path: Path) -> None:
    reason = "because " * 100
    records = labelled([record("a", status="failed", error=reason)])
    (shown,) = display_tables(Numbers(records))[0].body[0][1:]
    assert shown.startswith("failed: because")
    assert len(shown) == 120
    write_tables(Numbers(records), tmp_path)
    assert reason in (tmp_path / "table.md").read_text()


def test_seeds_without_a_result_for_the_same_reason_share_a_row() -> None:
    failed = [record("a", seed=s, status="failed", error="no") for s in (2, 0)]
    other = record("a", seed=1, status="lost", error="oom")
    (table,) = without_result(labelled([*failed, other]))
    assert [row[2:] for row in table.body] == [
        ["0, 2", "failed", "no"],
        ["1", "lost", "oom"],
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"device": "cuda"},
        {"dtype": "float32"},
        {"torch": "2.14"},
        {"numbers": 2},
        {"modified": "abcdefgh"},
        {"version": 2},
        {"width": 64},
        {"threads": 2},
    ],
)
def test_what_was_made_otherwise_is_never_in_one_row(change: dict[str, Any]) -> None:
    name = next(iter(change))
    shown = cells([record(value=1.0), record(value=3.0, **change)])
    assert len(shown) == 2
    values = {row[0]: label for label, row in shown.items()}
    assert f"{name}={change[name]}" in values["3.000"]
    assert f"{name}={change[name]}" not in values["1.000"]


@pytest.mark.parametrize(
    "change",
    [{"device": "cuda"}, {"dtype": "float32"}, {"torch": "2.14"}, {"numbers": 2}],
)
def test_columns_made_otherwise_are_never_in_one_row(change: dict[str, Any]) -> None:
    shown = cells([record(), record(measure="smoothness", **change)])
    assert len(shown) == 2
    assert all("n/a" in row for row in shown.values())


def test_another_scheme_with_the_same_label_has_its_row() -> None:
    other = record(value=3.0)
    other["spec"]["scheme"]["name"] = "impostor"
    edited = record(value=5.0)
    edited["spec"]["scheme"]["code"] = "1" * 64
    assert len(cells([record(), other, edited])) == 3


def test_one_label_with_other_options_has_its_row() -> None:
    tuned = record(value=3.0)
    tuned["spec"]["scheme"]["options"] = {"base": 5.0}
    shown = cells([record(), tuned])
    assert sorted(shown.values()) == [["1.500"], ["3.000"]]
    assert sum('{"base": 5.0}' in label for label in shown) == 1


def test_long_labels_that_differ_at_the_end_stay_apart() -> None:
    shown = cells([record("x" * 300), record("x" * 299 + "y")])
    assert len(shown) == 2
    assert {len(label) for label in shown} == {200}


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("rows"),
        lambda r: r.pop("label"),
        lambda r: r.pop("provenance"),
        lambda r: r["rows"][0].pop("x"),
        lambda r: r["quantities"]["gain"].pop("headline"),
        lambda r: r.update(label=["a"]),
        lambda r: r.update(status="splendid"),
        lambda r: r.update(rows={}),
        lambda r: r["rows"][0].update(value="1"),
        lambda r: r["rows"][0].update(value=math.nan),
        lambda r: r["rows"][0].update(value=True),
        lambda r: r["rows"][0].update(value=10**400),
        lambda r: r["rows"][0].update(x=[1]),
        lambda r: r["rows"][0].update(quantity="unheard of"),
        lambda r: r["quantities"]["gain"].update(headline="of the day"),
        lambda r: r["quantities"]["gain"].update(better="best"),
        lambda r: r.update(quantities=[]),
        lambda r: r.update(arrays={"code": "text"}),
        lambda r: r.update(arrays={"code": [[1.0, math.nan]]}),
        lambda r: r.update(arrays={"code": [{"a": 1}]}),
        lambda r: r.update(spec=None),
        lambda r: r["spec"]["setting"].pop("seed"),
        lambda r: r["spec"]["setting"].update(seed="0"),
        lambda r: r["spec"]["scheme"].update(options={"a": {}}),
        lambda r: r.update(provenance={"a": {"b": 1}}),
        lambda r: r.update(arrays={"code": nested(5000)}),
    ],
)
def test_a_malformed_record_is_left_out_with_one_line(
    damage: Callable[[dict[str, Any]], Any],
) -> None:
    broken = record("broken")
    damage(broken)
    lines: list[str] = []
    assert [r.label for r in sound([broken, record()], lines.append)] == ["rope"]
    (line,) = lines
    assert line.startswith(f"record {broken['key']}: left out: ")
    assert line.isprintable()
    with pytest.warns(UserWarning, match="left out"):
        sound([broken])


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


texts = st.text(st.characters(codec=None), max_size=12) | st.builds(
    "".join, st.lists(st.sampled_from([*" =+-@\t\r\n\0'\",;a1", "\r\n"]), max_size=6)
)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(texts, texts, numbers, numbers), min_size=1, max_size=4))
def test_csv_reads_as_it_was_and_holds_no_formula(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    frame = pd.DataFrame(rows, columns=["scheme", "note", "value", "x"])
    frame = frame.astype({"value": "float64", "x": "float64"})
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    path.write_bytes(as_csv(frame).encode("utf-8", "surrogatepass"))
    if not any("\ud800" <= c <= "\udfff" for r in rows for t in r[:2] for c in t):
        pd.testing.assert_frame_equal(read_table(path), frame, check_exact=True)
    for scheme, note, *_ in rows:
        for cell in (scheme, note):
            written = csv_text([], [[cell]]).partition('"')[2]
            assert written.lstrip(" ")[:1] not in {*"=+-@\t\r\0"} - {""}


@pytest.mark.parametrize("cell", ["=1", " +1", "\t-1", "@a", "'a", "\0", " \r=", "＝1"])  # noqa: RUF001
def test_cells_that_would_be_formulas_get_a_quote(cell: str) -> None:
    assert csv_text(["a"], [[cell]]) == f'a\n"\'{cell}"\n'


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    assert csv_text(["a"], [[-1.5, 1e-300, None, 3, "a-b=c", ""]]) == (
        'a\n-1.5,1e-300,"",3,"a-b=c",""\n'
    )


def test_tables_replace_links_and_never_follow_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "table.md").symlink_to(outside)
    write_tables(Numbers(labelled([record()])), folder)
    assert outside.read_text() == "precious"
    assert "rope" in (folder / "table.md").read_text()
    with pytest.raises(StoreError, match="must take tables"):
        write_tables(Numbers(labelled([record()])), outside)


def test_rows_cannot_pose_as_another_scheme() -> None:
    made = record()
    made["rows"][0] |= {"scheme": "alibi", "status": "failed", "record": "0"}
    (line,) = Numbers(labelled([made])).rows[LONG].to_dict("records")
    assert (line["scheme"], line["status"]) == ("rope", "ok")


@pytest.mark.parametrize("ranked", [False, True])
def test_a_curve_has_a_row_for_every_scheme_and_case(ranked: bool) -> None:
    made = []
    values = {"a": {"": 2.0, "clean": 1.0, "noisy": 3.0}, "b": {"clean": 5.0}, "c": {}}
    for label, seed in itertools.product(values, range(6 if ranked else 1)):
        one = curve(label, [], seed=seed)
        one["rows"] = [row(v, x=8, case=case) for case, v in values[label].items()]
        made.append(one)
    made[-1] |= {"status": "failed", "error": "boom"}
    assert cells(made) == {
        "a": ["2.000"],
        "a + clean": ["1.000"],
        "a + noisy": ["3.000"],
        "b + clean": ["5.000"],
        "c": ["failed: boom"],
    }
    order = ["a + clean", "a", "a + noisy"] if ranked else ["a", "a + clean"]
    assert list(cells(made))[: len(order)] == order


def test_the_last_digit_of_an_interval_does_not_depend_on_the_keys() -> None:
    made = [record(seed=seed, value=0.1 * seed**1.5) for seed in range(7)]
    tables = [Numbers(labelled(order)).summary for order in (made, made[::-1])]
    for name in ("mean", "half_width"):
        assert tables[0][name].tolist() == tables[1][name].tolist()


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"arithmetic": "AVX2 GenuineIntel"}, "cpu=AVX2 GenuineIntel"),
        ({"arithmetic": "AVX512 X MKL_CBWR=AVX2"}, "cpu=AVX512 X MKL_CBWR=AVX2"),
        ({"torch": "2.13.0+cu130"}, "build=2.13.0+cu130"),
        ({"float32_matmul_precision": "medium"}, "matmul=medium"),
    ],
)
def test_what_was_made_elsewhere_shares_no_mean(
    change: dict[str, str], shown: str
) -> None:
    made = [record(seed=seed) for seed in range(3)]
    here = {"arithmetic": "AVX512 X", "torch": "2.13.0+cpu"}
    for one in made:
        one["provenance"] |= here
    made[2]["provenance"] |= change
    said: list[str] = []
    told = labelled(made, said.append)
    assert shown in told[2].label
    assert sorted(Numbers(told).summary["n"]) == [1, 2]
    made.append(record(seed=3, status="failed"))
    made[3]["provenance"] |= made[2]["provenance"]
    assert labelled(made)[3].label == told[2].label
    assert bool(said) is shown.startswith("cpu")


def test_schemes_of_two_processors_stand_side_by_side_and_a_line_says_so() -> None:
    made = [record(label, seed=seed) for label in ("rope", "nope") for seed in (0, 1)]
    for one, cpu in zip(made, ("AVX512 X", "AVX512 X", "AVX2", "AVX2"), strict=True):
        one["provenance"]["arithmetic"] = cpu
    said: list[str] = []
    told = labelled(made, said.append)
    assert {one.label for one in told} == {"rope", "nope"}
    assert said == [
        "records of processors that calculate differently: AVX2 made nope; "
        "AVX512 X made rope"
    ]
    for one in made:  # of whose numbers one is a time
        time = {**one["quantities"]["gain"], "name": "time", "repeatable": False}
        one["quantities"]["time"] = time
        one["rows"].append(row(2.0, quantity="time"))
    made.append(record("nope", seed=2, status="failed"))
    made[-1]["provenance"]["arithmetic"] = "AVX2"
    labels = {one.label for one in labelled(made, said.append)}
    assert labels == {"rope [cpu=AVX512 X]", "nope [cpu=AVX2]"}


def test_records_of_other_code_share_no_mean() -> None:
    made = [record(label, seed=seed) for label in ("rope", "nope") for seed in (0, 1)]
    for one, code, day in zip(made, "abaa", (5, 1, 5, 5), strict=True):
        one["spec"]["measure"]["code"] = code * 64
        one["provenance"]["started"] = f"2026-01-0{day}"
    said: list[str] = []
    labels = [one.label for one in labelled(made, said.append)]
    new, old = "[measure_code=aaaaaaaa]", "[measure_code=bbbbbbbb]"
    assert labels == [f"rope {new}", f"rope {old}", f"nope {new}", f"nope {new}"]
    assert said == [
        "records of several versions of a measure: labels name each by "
        "[measure_code=...]"
    ]


def test_two_gpus_share_no_mean() -> None:
    made = [record(seed=seed, device="cuda") for seed in range(2)]
    for one, name in zip(made, ("A100", "H200"), strict=True):
        one["spec"]["graphics"] = name
    labels = {one.label for one in labelled(made)}
    assert labels == {"rope [graphics=A100]", "rope [graphics=H200]"}


def test_a_cell_without_numbers_tells_no_other_apart() -> None:
    made = [record(seed=seed) for seed in range(3)]
    for one in made:
        one["provenance"] |= {"arithmetic": "AVX512 X", "torch": "2.13.0+cpu"}
    made.append(record(seed=3, status="lost"))
    said: list[str] = []
    labels = {one.label for one in labelled(made, said.append)}
    assert (labels, said) == ({"rope"}, [])


def test_labels_name_the_size_of_a_grid_and_of_a_text() -> None:
    text = record("rope", positions=512, tokens=64)
    grid = record("rope_2d", positions=256, tokens=256, grid="16x16")
    labels = {one.label for one in labelled([text, grid])}
    assert labels == {"rope [positions=512, tokens=64]", "rope_2d [grid=16x16]"}


@pytest.mark.parametrize(
    ("name", "said"),
    [("Bleak House", ", text: Bleak House"), ("a standard library", "")],
)
def test_figures_name_the_text_that_is_not_the_usual_one(name: str, said: str) -> None:
    sizes = {**asdict(PRESETS["quick"].training), "corpus_sha256": "1"}
    one = record("rope", "extrapolation", **sizes)
    one["corpus"] = {"name": name}
    assert short_setting(labelled([one])) == f"preset quick{said}, n = 1 seed"


def test_sizes_that_all_share_are_named() -> None:
    sizes: dict[str, Any] = {"layers": 2, "heads": 4, "steps": 7}
    made = [
        curve("rope", [1.0, 2.0], **sizes, batch=batch, seed=batch) for batch in (1, 2)
    ]
    for body in made:
        body["corpus"] = {"name": "a_book"}
    words = short_setting(labelled(made))
    assert "2 layers, width 32, 4 heads, training length 8, 7 steps" in words
    assert "batches" not in words
    assert "text: a_book" in words


def test_what_is_unusual_is_named() -> None:
    made = [curve("rope", [1.0], norm="rms", lengths="published", scheme_rate=3.4)]
    made[0]["spec"]["setting"]["dtype"] = "bfloat16"
    words = short_setting(labelled(made))
    assert "norm: rms, published numbers of positions, rate of" in words
    assert ", in bfloat16" in words
    usual = [curve("rope", [1.0], norm="layer", lengths="scaled", scheme_rate=0.0)]
    usual[0]["spec"]["setting"]["dtype"] = "float32"
    words = short_setting(labelled(usual))
    assert not any(word in words for word in ("norm", "scaled", "rate of"))
