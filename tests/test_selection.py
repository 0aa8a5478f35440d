"""What tables, plots and reports show of a run: schemes, measures, tasks, versions."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from support.records import PORTRAIT, curve, record, row, stored
from support.shown import refusal

import posenc_compare as pc
from posenc_compare.errors import ConfigError
from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import load_records, sound
from posenc_compare.records.selection import Selection, newest


def made() -> list[dict[str, Any]]:
    """Return records of four schemes, two measures and two tasks."""
    labels = {"rope": "rotary", "rope:base=500.0": "rotary", "alibi": "bias"}
    found = []
    for label, family in {**labels, "learned": "absolute"}.items():
        found.append(record(label) | {"family": family})
        for task in ("language", "copy"):
            found.append(curve(label, [2.0, 3.0], task=task) | {"family": family})
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return stored(tmp_path / "run", made())


def shown(folder: Path, **chosen: Any) -> set[tuple[str, str]]:
    records = load_records(folder, print, selection=Selection(**chosen))
    return {(one.label, one.measured) for one in records}


@pytest.mark.parametrize(
    ("schemes", "labels"),
    [
        ("", {"rope", "rope:base=500.0", "alibi", "learned"}),
        ("all", {"rope", "rope:base=500.0", "alibi", "learned"}),
        ("rope", {"rope"}),
        ("rope*", {"rope", "rope:base=500.0"}),
        ("rotary, learned", {"rope", "rope:base=500.0", "learned"}),
        ("relative", {"rope", "rope:base=500.0", "alibi"}),
        ("alibi,alibi", {"alibi"}),
        ("r*", {"rope", "rope:base=500.0"}),  # and not all that is relative
    ],
)
def test_schemes_are_chosen_by_label_family_or_glob(
    run: Path, schemes: str, labels: set[str]
) -> None:
    assert {label for label, _ in shown(run, schemes=schemes)} == labels


def test_measures_and_tasks_are_chosen(run: Path) -> None:
    curves = {"extrapolation", "extrapolation on copy"}
    assert {m for _, m in shown(run)} == {"shift_error", *curves}
    assert {m for _, m in shown(run, measures="trained")} == curves
    assert {m for _, m in shown(run, measures="shift_*")} == {"shift_error"}
    assert {m for _, m in shown(run, tasks="copy")} == {"extrapolation on copy"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"schemes": "alibbi"},
            "no record has the scheme 'alibbi'; did you",
        ),
        ({"schemes": "none"}, "no record has the scheme 'none'; "),
        ({"measures": "cost"}, "no record has the measure 'cost'"),
        ({"tasks": "cop"}, "no record has the task 'cop'; did you mean copy?"),
        ({"schemes": 3}, "schemes must be text, got 3"),
    ],
)
def test_what_stands_for_nothing_is_one_line(
    run: Path, chosen: Any, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        shown(run, **chosen)
    assert message in str(error.value)


def coded(day: int, **changes: Any) -> dict[str, Any]:
    """Return a record of a day, whose code and versions may be others."""
    code, measured = changes.pop("code", "0"), changes.pop("measured", "0")
    graphics = changes.pop("graphics", "")
    one = record(**changes)
    one["spec"]["graphics"] = graphics
    one["spec"]["scheme"]["code"] = code * 64
    one["spec"]["measure"]["code"] = measured * 64
    one["provenance"]["started"] = f"2026-01-0{day}"
    one["key"] = f"{day}{one['key'][1:]}"
    return one


def test_only_the_newest_code_of_a_scheme_is_shown(tmp_path: Path) -> None:
    records = [
        coded(1, code="a"),
        coded(3, code="b"),
        coded(4, code="b", seed=1),
        coded(2, code="c"),
        coded(1, code="a", label="alibi"),
    ]
    folder = stored(tmp_path / "run", records)
    hidden = "2 records of other code are not shown: rope"
    with pytest.warns(UserWarning, match=hidden):
        kept = pc.load(folder).records
    codes = {(one.label, one.spec.scheme.code[0]) for one in kept}
    assert (len(kept), codes) == (3, {("rope", "b"), ("alibi", "a")})
    with pytest.warns(UserWarning, match="several versions of a scheme"):
        assert len(load_records(folder)) == 5


def test_the_code_that_is_run_counts_where_a_newer_one_was_taken_back() -> None:
    old, new, other = sound(
        [coded(1, code="a"), coded(2, code="b"), coded(3, code="c", label="alibi")]
    )
    assert newest([old, new, other]) == [new, other]
    assert newest([old, new, other], {old.key}) == [old, other]


@pytest.mark.parametrize(
    ("options", "differ"),
    [
        (({"slope": 0.5}, {"slope": 2.0}), True),
        (({}, {"slope": 2.0}), True),
        (({"inner": "alibi"}, {"inner": "rope"}), False),  # whose code counts with it
    ],
)
def test_a_sweep_of_options_names_code_that_was_edited_between(
    options: Any, differ: bool
) -> None:
    records = []
    for code, some in zip("ab", options, strict=True):
        label = f"mine:{some}" if some else "mine"
        one = coded(1, code=code, label=label)
        one["spec"]["scheme"] |= {"name": "mine", "options": some}
        records.append(one)
    warned: list[str] = []
    labelled = label_settings(sound(records), warned.append)
    assert bool(warned) is differ
    assert all("[scheme_code=" in one.label for one in labelled) is differ


def test_a_lost_record_of_newer_code_hides_no_result() -> None:
    lost = coded(2, code="b") | {"status": "lost", "rows": [], "error": "killed"}
    records = sound([coded(1, code="a"), lost])
    assert [one.status for one in newest(records)] == ["ok"]


def test_a_result_stands_for_a_failure_elsewhere(tmp_path: Path) -> None:
    lost = record("rope") | {"status": "lost", "rows": [], "error": "killed"}
    other = stored(tmp_path / "other", [lost])
    for known in (record("rope"), lost | {"status": "unsupported", "error": "no"}):
        one = stored(tmp_path / known["status"], [known])
        for folders in ([one, other], [other, one]):
            (found,) = load_records(folders, print)
            assert found.status == known["status"]


def test_a_cell_with_two_results_is_named_and_the_last_counts(tmp_path: Path) -> None:
    folders, said = [], list[str]()
    for name, value in (("one", 1.0), ("other", 2.0)):
        body = record("rope", "cost")
        body["rows"] = [row(value)]
        folders.append(stored(tmp_path / name, [body]))
    (found,) = load_records(folders, said.append)
    assert found.rows[0].value == 2.0
    assert said == [
        "cells with different results in several folders: 1, of cost; the last folder "
        "is used"
    ]
    load_records([folders[0], folders[0]], said.append)
    assert len(said) == 1


def test_several_folders_are_read_together(run: Path, tmp_path: Path) -> None:
    other = stored(tmp_path / "other", [record("fire"), made()[0]])
    records = load_records([run, other], print)
    assert len(records) == len(made()) + 1
    assert {one.label for one in pc.load(run, other, schemes="fire").records} == {
        "fire"
    }


def test_commands_show_what_is_chosen(posenc: Command, run: Path) -> None:
    done = posenc("table", run, "--schemes", "alibi", "--measures", "untrained")
    assert done.returncode == 0, done.stderr
    assert "alibi" in done.stdout
    assert "rope" not in done.stdout
    assert "test length" not in done.stdout
    assert "did you mean" in refusal(posenc("table", run, "--schemes", "alibbi"))
    page = run / "page.html"
    assert posenc("report", run, "--schemes", "learned", "--out", page).returncode == 0
    assert "alibi" not in page.read_text()


def test_plots_are_chosen_with_their_format(posenc: Command, tmp_path: Path) -> None:
    one = record("rope", "portrait") | {"arrays": PORTRAIT}
    results, out = stored(tmp_path / "run", [one]), tmp_path / "plots"
    words = ("--plots", "cod*", "--format", "pdf,svg", "--out", out)
    done = posenc("plot", results, *words)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {"codes.pdf", "codes.svg"}
    assert (out / "codes.pdf").read_bytes().startswith(b"%PDF")
    for more, message in (
        (("--plots", "coeds"), "unknown plot 'coeds'; did you mean codes"),
        (("--size", "poster"), "size must be"),
        (("--format", "jpg"), "format must be png or svg or pdf, got 'jpg'"),
    ):
        assert message in refusal(posenc("plot", results, *more))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"code": "a"}, 1),
        ({"measured": "a"}, 1),
        ({"version": 2}, 1),
        ({"numbers": 2}, 1),
        ({"modified": "a"}, 1),
        ({"code": "a", "seed": 1}, 1),
        ({"code": "a", "threads": 2}, 2),
        ({"code": "a", "graphics": "a card"}, 2),
        ({"code": "a", "width": 64}, 2),
        ({"code": "a", "label": "alibi"}, 2),
        ({"code": "a", "measure": "smoothness"}, 2),
    ],
)
def test_the_last_code_of_one_row_is_shown(
    changes: dict[str, Any], kept: int, reverse: bool
) -> None:
    records = [coded(1), coded(2, **changes)]
    read = sound(records[::-1] if reverse else records)
    found = newest(read)
    assert len(found) == kept
    assert read[0 if reverse else 1] in found


def test_patterns_add_up_in_the_order_of_the_records() -> None:
    records = sound([record("rope"), record("alibi"), record("nope")])
    found = Selection(schemes="nope,r*").of(records, print)
    assert [one.label for one in found] == ["rope", "nope"]


@pytest.mark.parametrize(
    ("labels", "more"), [("abcdefg", ", and 2 more"), ("abcde", "")]
)
def test_records_that_are_hidden_are_counted(labels: str, more: str) -> None:
    others = labels[1:]
    records = [coded(1, label=label) for label in labels]
    records += [coded(2, label=label, code="a") for label in others] + [
        coded(2, label="a", code="a", seed=seed) for seed in (1, 2, 3)
    ]
    lines: list[str] = []
    Selection().of(sound(records), lines.append)
    (line,) = lines
    said = f"{len(labels)} records of other code are not shown: a, b, c, d, e{more}"
    assert line == said
