"""Standard streams that are full or of few letters; every command shares it."""

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


def test_a_full_stdout_is_one_line_and_code_3(folder: str) -> None:
    code, _, said = shell("$PC table $D --format csv > /dev/full", D=folder)
    assert code == 3
    (line,) = said.splitlines()
    assert line.startswith(FULL)


def test_a_closed_stdout_is_refused(folder: str) -> None:
    code, _, said = shell("$PC status $D >&-", D=folder)
    assert code == 3
    assert said == "error: stdout: must be open; `> /dev/null` would work\n"


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


def test_a_reader_that_has_seen_enough_is_no_error(folder: str) -> None:
    code, _, said = shell("$PC table $D --format csv | true", D=folder)
    assert (code, said) == (1, "")
