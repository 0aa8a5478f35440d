"""Standard streams that are closed, full or of few letters; every command shares it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import record, stored

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FULL = "error: stdout: must take what is printed, got [Errno 28] No space left on"


def shell(command: str, **environment: str) -> tuple[int, str, str]:
    """Run a line of bash in which $PC is this command line."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "PC": f"{sys.executable} -m posenc_compare", **environment},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with records whose names are not ASCII."""
    made = [record("schéma", seed=seed) for seed in range(2)]
    return str(stored(tmp_path_factory.mktemp("records"), made))


@pytest.mark.parametrize("command", ["status $D", "table $D --format csv"])
def test_a_full_stdout_is_one_line_and_code_3(folder: str, command: str) -> None:
    code, _, said = shell(f"$PC {command} > /dev/full", D=folder)
    assert code == 3
    (line,) = said.splitlines()
    assert line.startswith(FULL)


def test_a_closed_stdout_is_refused_before_anything_is_done(folder: str) -> None:
    code, _, said = shell("$PC measure --schemes nope --out $D/x >&-", D=folder)
    assert code == 3
    assert said == (
        "error: stdout: must be open, and is closed; `> /dev/null` would work\n"
    )
    assert not (Path(folder) / "x").exists()


@pytest.mark.parametrize("stderr", ["2>&-", "2> /dev/full"])
def test_a_stderr_that_takes_nothing_changes_nothing_else(
    folder: str, stderr: str
) -> None:
    assert shell(f"$PC status none {stderr}") == (2, "", "")
    code, shown, _ = shell(f"$PC status $D {stderr}", D=folder)
    assert (code, "2 records in" in shown) == (0, True)
    assert shell(f"$PC status $D > /dev/full {stderr}", D=folder) == (3, "", "")


def test_all_streams_may_be_closed(folder: str) -> None:
    assert shell("$PC status $D <&- >&- 2>&-", D=folder) == (3, "", "")


def test_workers_keep_their_pipes_where_stdin_and_stderr_are_closed(
    tmp_path: Path,
) -> None:
    words = "measure --schemes nope --measures smoothness --format json"
    code, shown, _ = shell(f"$PC {words} --out {tmp_path}/run <&- 2>&-")
    assert (code, bool(json.loads(shown))) == (0, True)


@pytest.mark.parametrize("few", [ASCII, {"PYTHONIOENCODING": "ascii"}])
def test_what_is_not_ascii_is_shown_as_an_escape(folder: str, few: dict) -> None:
    code, shown, said = shell("$PC table $D", D=folder, **few)
    assert (code, said) == (0, "")
    assert shown.isascii()
    assert r"sch\xe9ma" in shown


def test_json_is_json_whatever_the_letters(folder: str, tmp_path: Path) -> None:
    stored(tmp_path, [record("schéma", seed=5)])
    code, shown, _ = shell(f"$PC diff $D {tmp_path} --format json", D=folder, **ASCII)
    assert code == 1
    assert len(json.loads(shown)) == 3
    assert {row["cell"][:6] for row in json.loads(shown)} == {"schéma"}


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code, _, said = shell("$PC list --format csv | true")
    assert (code, said) == (1, "")
