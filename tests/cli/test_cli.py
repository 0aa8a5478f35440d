"""The commands, run as a user runs them."""

import json
from pathlib import Path

import pytest
from support.processes import python
from support.records import record, stored

from posenc_compare.registry import SCHEMES

LIGHT = """
import json, sys
from posenc_compare.cli import main
for words, code, _ in json.loads(sys.argv[1]):
    sys.argv = ["posenc-compare", *words]
    try:
        main()
    except SystemExit as end:
        assert (end.code or 0) == code
    print(json.dumps(list(sys.modules)))
"""
PLOTS = ["pandas", "matplotlib"]
LATE = [*PLOTS, "seaborn", "torch", "numpy", "einops"]
# What a command exits with, and what neither it nor one before it imports.
COMMANDS: list[tuple[list[str], int, list[str]]] = [
    (["--help"], 0, LATE),
    (["run", "--help"], 0, LATE),
    (["--version"], 0, LATE),
    (["status", "results/language/1500"], 0, ["torch", "pandas", "numpy"]),
    (["list"], 0, ["torch", "pandas", "numpy"]),
    (["run", "--schemes", "rope:bas=1"], 2, PLOTS),
    (["describe", "rope"], 0, PLOTS),
    (["describe", "bias_maps"], 0, []),  # which lies in another file
]


def test_what_computes_nothing_imports_nothing_heavy(root: Path) -> None:
    done = python("-c", LIGHT, json.dumps(COMMANDS), cwd=root)
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith('["')]
    for (words, _, heavy), modules in zip(COMMANDS, found, strict=True):
        assert not {*heavy} & {*json.loads(modules)}, words


@pytest.mark.parametrize("module", ["typer", "pandas"])
def test_an_interruption_of_an_import_is_one_line(
    root: Path, tmp_path: Path, module: str
) -> None:
    lines = (
        "import os, signal, time",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",  # a job ignores it
        "os.kill(os.getpid(), signal.SIGINT)",
        "time.sleep(9)",
    )
    text = "\n".join(lines)
    (tmp_path / f"{module}.py").write_text(text)
    folder = next((root / "results").glob("**/cells.jsonl.xz")).parent
    words = ("-m", "posenc_compare", "table", folder)
    done = python(*words, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted\n"


def test_an_error_is_one_line_from_a_process_too(posenc_process) -> None:
    done = posenc_process("run", "--schemes", "alibbi")
    assert done.returncode == 2
    assert done.stderr == (
        "error: unknown scheme 'alibbi'; did you mean alibi or alibi_2d? "
        "(`posenc-compare list` shows all; `--plugin FILE` adds those of a file)\n"
    )


def test_measure_writes_data_to_stdout_alone(
    posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEMES.broken, "demo (gone:Gone)", "must import cleanly")
    words = ["measure", "--schemes", "rope,alibi", "--measures", "shift_error"]
    words += ["--set", "positions=128", "--out", str(tmp_path)]
    first = posenc(*words, "--format", "json")
    rows = json.loads(first.stdout)
    assert first.returncode == 0
    assert "broken plugin demo (gone:Gone): must import cleanly\n" in first.stderr
    assert {row["scheme"] for row in rows} == {"rope", "alibi"}
    for row in rows:  # as exact as the record
        record = json.loads((tmp_path / "cells" / f"{row['records']}.json").read_text())
        assert row["mean"] in [found["value"] for found in record["body"]["rows"]]
    assert "2 to compute" in first.stderr
    second = posenc(*words, "--format", "csv")
    assert "0 to compute" in second.stderr
    assert second.stdout.startswith("scheme,family,measure,")
    again = posenc("table", tmp_path, "--format", "md").stdout
    assert again.startswith("**Measures without training")


def test_dry_run_computes_nothing(posenc, tmp_path: Path) -> None:
    done = posenc(
        "measure", "--schemes", "rope*", "--dry-run", "--out", tmp_path / "run"
    )
    assert done.returncode == 0
    assert "to compute" in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_many_cells_counts_them(posenc) -> None:
    words = ["measure", "--dry-run", "--measures", "smoothness,shift_error"]
    done = posenc(*words, "--schemes", "*rope*,alibi,nope", "--seeds", "3")
    rows = [line.split() for line in done.stdout.splitlines()]
    counts = {row[0]: int(row[-1]) for row in rows[2:] if row}
    assert [*counts] == ["shift_error", "smoothness"]
    assert sum(counts.values()) == int(rows[0][0]) > 40
    assert "`--format csv` lists every cell" in done.stderr


# --- records one by one -----------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"), [("ok", 0), ("unsupported", 0), ("failed", 1), ("lost", 1)]
)
def test_status_counts_what_went_wrong(
    posenc, tmp_path: Path, status: str, code: int
) -> None:
    folder = stored(tmp_path, [record(), record("alibi", status=status)])
    done = posenc("status", folder, "--format", "json")
    (counts,) = json.loads(done.stdout)
    wanted = dict.fromkeys(("ok", "unsupported", "failed", "lost"), 0) | {"ok": 1}
    wanted[status] += 1
    assert counts == {"measure": "shift_error", **wanted}
    assert done.returncode == code
    assert (f"{status}: alibi shift_error seed 0" in done.stderr) == bool(code)


def test_two_folders_are_compared_cell_by_cell(posenc, tmp_path: Path) -> None:
    same = record(seed=2)
    one = stored(tmp_path / "one", [same, record(value=1.0), record("alibi")])
    other = stored(tmp_path / "other", [same, record(value=2.0), record("nope")])
    done = posenc("diff", one, other, "--format", "json")
    found = {row["cell"]: row["difference"] for row in json.loads(done.stdout)}
    assert found == {
        "alibi shift_error seed 0": f"only in {one}",
        "nope shift_error seed 0": f"only in {other}",
        "rope shift_error seed 0": "1 numbers, by up to 5.0e-01 relative (gain  None)",
    }
    assert done.returncode == 1
    same = posenc("diff", one, one)
    assert (same.returncode, same.stdout.strip().count("\n")) == (0, 0)
    assert same.stdout.endswith(" the same, 0 not\n")
    assert posenc("diff", one, one, "--format", "json").stdout == "[]\n"


# --- packages that are missing ----------------------------------------------------


def without(
    package: str, folder: Path, *words: str | Path, where: str = "True"
) -> tuple[int, str]:
    """Run a command where a package is missing; return its code and stderr."""
    text = f"import sys\nif {where}:\n    sys.modules[{package!r}] = None\n"
    (folder / "sitecustomize.py").write_text(text)
    done = python("-m", "posenc_compare", *words, PYTHONPATH=str(folder))
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("package", "words"),
    [("pandas", ["table", "."]), ("einops", ["measure", "--schemes", "nope"])],
)
def test_a_package_that_a_command_lacks_is_one_line(
    package: str, words: list[str], tmp_path: Path
) -> None:
    said = f"error: {package} must be installed, and is not; `pip install {package}`\n"
    assert without(package, tmp_path, *words) == (2, said)


def test_a_worker_that_dies_at_import_says_why(tmp_path: Path) -> None:
    words = ["measure", "--schemes", "nope", "--measures", "smoothness"]
    words += ["--seeds=1", "--workers=1", "--out", str(tmp_path / "run")]
    workers = "sys.flags.safe_path"  # which start with -P
    code, said = without("torch", tmp_path, *words, where=workers)
    assert code == 1
    reason = "without an answer: ModuleNotFoundError: import of torch halted"
    assert f"lost: nope smoothness seed 0: exit: code 1 {reason}" in said
