"""What tables, plots and reports show of a run: schemes, measures, tasks, versions."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from support.records import curve, record, stored

import posenc_compare as pc
from posenc_compare.analysis.records.load import load_records, sound
from posenc_compare.analysis.records.selection import Selection, newest, remade
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import ConfigError


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
        ({"schemes": "alibbi"}, "no record is of scheme 'alibbi'; did you mean alibi?"),
        ({"schemes": "none"}, "no record is of scheme 'none'; "),
        ({"measures": "cost"}, "no record is of measure 'cost'"),
        ({"tasks": "cop"}, "no record is of task 'cop'; did you mean copy?"),
        ({"schemes": 3}, "schemes must be text, got 3"),
    ],
)
def test_what_stands_for_nothing_is_one_line(
    run: Path, chosen: Any, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        shown(run, **chosen)
    assert message in str(error.value)


def keyed(one: dict[str, Any]) -> dict[str, Any]:
    """Give a record a key of its own, as another code has."""
    code = one["spec"]["scheme"]["source_sha256"]
    return one | {"key": hashlib.sha256((one["key"] + code).encode()).hexdigest()[:32]}


def edited(code: str, day: int, label: str = "rope", seed: int = 0) -> dict[str, Any]:
    one = record(label, seed=seed)
    one["spec"]["scheme"]["source_sha256"] = code * 64
    one["provenance"]["started"] = f"2026-01-0{day}"
    return keyed(one)


def test_only_the_newest_code_of_a_scheme_is_shown(tmp_path: Path) -> None:
    records = [
        edited("a", 1),
        edited("b", 3),
        edited("b", 4, seed=1),
        edited("c", 2),
        edited("a", 1, "alibi"),
    ]
    kept = newest(sound(records))
    assert [(one.label, one.spec.scheme.source_sha256[0]) for one in kept] == [
        ("rope", "b"),
        ("rope", "b"),
        ("alibi", "a"),
    ]
    folder = stored(tmp_path / "run", records)
    hidden = "2 records of older code are not shown: rope; `--all-versions` shows them"
    with pytest.warns(UserWarning, match=hidden):
        assert len(pc.load(folder).records) == 3
    with pytest.warns(UserWarning, match="several versions of a scheme"):
        assert len(pc.load(folder, all_versions=True).records) == 5


def test_an_older_version_stays_where_a_newer_one_has_nothing() -> None:
    one, other = edited("a", 1), edited("b", 2)
    other["spec"]["measure"]["name"] = "smoothness"
    assert len(newest(sound([one, other]))) == 2
    other = edited("b", 2)
    other["spec"]["setting"]["positions"] = 64
    assert len(newest(sound([one, other]))) == 2


def test_what_newer_code_has_not_made_well_is_not_made_anew() -> None:
    old = [edited("a", 1), edited("a", 1, seed=1), edited("a", 1, seed=2)]
    failed = edited("b", 2) | {"status": "failed", "error": "it raises", "rows": []}
    other = edited("b", 2, seed=1)
    other["spec"]["setting"]["positions"] = 64
    well = edited("b", 2, seed=2)
    found = remade(sound([*old, failed, other, well]))
    assert [(one.spec.seed, one.spec.scheme.source_sha256[0]) for one in found] == [
        (2, "a")
    ]


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
    done = posenc("table", run, "--schemes", "alibbi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    page = run / "page.html"
    assert posenc("report", run, "--schemes", "learned", "--out", page).returncode == 0
    assert "alibi" not in page.read_text()


def test_plots_are_chosen_with_their_format(posenc: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    run = posenc(
        *(
            "measure",
            "--schemes",
            "rope,alibi",
            "--measures",
            "uniqueness,perturbation",
        ),
        *("--set", "positions=8", "--out", results),
    )
    assert run.returncode == 0, run.stderr
    out = tmp_path / "plots"
    done = posenc(
        *("plot", results, "--plots", "uniq*", "--format", "pdf,svg", "--out", out)
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {"uniqueness.pdf", "uniqueness.svg"}
    assert (out / "uniqueness.pdf").read_bytes().startswith(b"%PDF")
    for more, message in (
        (("--plots", "uniqeness"), "unknown plot 'uniqeness'; did you mean uniqueness"),
        (("--format", "jpg"), "format must be png or svg or pdf, got 'jpg'"),
    ):
        done = posenc("plot", results, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


@pytest.mark.parametrize("packed", [True, False])
def test_prune_removes_what_older_code_has_made(
    posenc: Command, tmp_path: Path, packed: bool
) -> None:
    records = [edited("a", 1), edited("b", 2), edited("a", 1, "alibi")]
    folder = stored(tmp_path / "run", records)
    if packed:
        assert posenc("pack", folder).returncode == 0
    done = posenc("prune", folder, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 records were made anew by newer code" in done.stderr
    assert done.stdout.count("rope") == 1
    assert len(load_records(folder, lambda line: None)) == 3
    done = posenc("prune", folder)
    assert "1 records removed" in done.stderr
    left = load_records(folder)
    assert {(one.label, one.spec.scheme.source_sha256[0]) for one in left} == {
        ("rope", "b"),
        ("alibi", "a"),
    }
    assert "0 of 2 records" in posenc("prune", folder).stderr


def asked(one: dict[str, Any], day: int) -> dict[str, Any]:
    one["provenance"]["asked"] = f"2026-01-0{day}"
    return one


def test_what_tables_show_is_never_pruned() -> None:
    old = [asked(edited("a", 1), 5), edited("a", 1, seed=1)]
    new = [edited("b", 3), edited("b", 3, seed=1)]
    records = sound([*old, *new])
    shown = newest(records)
    assert {one.spec.scheme.source_sha256[0] for one in shown} == {"a"}
    assert [one.key for one in remade(records)] == [new[0]["key"]]


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-01-05T00:00:00.000000+00:00", "a"),
        ("2999-01-05T00:00:00.000000+00:00", "b"),
        ("2026-01-05", "b"),
        ("zzz", "b"),
        (5, "b"),
    ],
)
def test_a_note_must_be_a_time_that_was(tmp_path: Path, time: Any, shown: str) -> None:
    old, new = edited("a", 1), edited("b", 3)
    folder = stored(tmp_path / "run", [old, new])
    keys = {
        body["spec"]["scheme"]["source_sha256"][0]: body["key"]
        for body in Store(folder).records()
    }
    (folder / "asked.json").write_text(json.dumps({keys["a"]: time}))
    (one,) = load_records(folder, lambda line: None, selection=Selection())
    assert one.spec.scheme.source_sha256[0] == shown


MINE = """
from posenc_compare.schemes import Scheme, register

@register("mine", family="absolute", source="test")
class Mine(Scheme):
    "Add the position."

    def embed(self, x, positions):
        return x + FACTOR * positions[..., None].to(x.dtype)
"""


def test_code_that_a_run_came_back_to_is_the_newest(
    posenc: Command, tmp_path: Path
) -> None:
    path, out = tmp_path / "mine.py", tmp_path / "out"
    words = ["measure", "--schemes", "mine", "--measures", "code_norm", "--set"]
    words += ["positions=8", "--plugin", path, "--out", out]

    def run(factor: int) -> list[str]:
        """Return the numbers that a run prints, which are those of its table.md."""
        path.write_text(MINE.replace("FACTOR", str(factor)))
        done = posenc(*words)
        assert done.returncode == 0, done.stderr
        printed = _numbers(done.stdout)
        assert _numbers((out / "table.md").read_text().replace("|", " ")) == printed
        return printed

    first, second = run(1), run(3)
    assert first != second
    assert run(1) == first  # nothing is computed, and its numbers are shown again
    assert _numbers(posenc("table", out).stdout) == first
    done = posenc("prune", out)
    assert "1 of 2 records were made anew by newer code" in done.stderr
    assert run(1) == first
    assert "0 to compute" in posenc(*words).stderr
    (out / "asked.json").write_text("[]")
    assert posenc("table", out).returncode == 0


def _numbers(text: str) -> list[str]:
    """Return what stands behind the name of the scheme, in all lines that begin so."""
    lines = [line.split() for line in text.splitlines()]
    return [word for line in lines if line[:1] == ["mine"] for word in line[1:]]


def test_a_run_that_comes_back_to_nothing_notes_nothing(
    posenc: Command, tmp_path: Path
) -> None:
    words = ["measure", "--measures", "smoothness", "--set", "positions=8", "--out"]
    for schemes in ("nope,rope", "rope", "nope,rope"):
        posenc(*words, tmp_path / "out", "--schemes", schemes)
    assert not (tmp_path / "out" / "asked.json").exists()
