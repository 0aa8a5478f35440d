"""Folders and plugins with hostile names: no command lets one act on a terminal."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.records import curve, stored
from test_bad_input import SCHEME

HOSTILE = "\x1b]0;pwn\x07\x9b31m\u202e"
SHOWN = r"\x1b]0;pwn\x07\x9b31m\u202e"


def drawn(seed: int) -> dict[str, Any]:
    """Return a record that there is a plot of."""
    text = json.dumps(curve("rope", [2.0, 1.0], seed=seed))
    return json.loads(text.replace('"gain"', '"bits_per_byte"'))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with records, of a name that a terminal would act on."""
    monkeypatch.chdir(tmp_path)
    for place, seeds in ((Path(HOSTILE), (0, 1)), (Path("other"), (1, 2))):
        stored(place, [drawn(seed) for seed in seeds])
    (Path(HOSTILE) / "ckpt" / "x").mkdir(parents=True)
    return Path(HOSTILE)


@pytest.mark.parametrize(
    "words",
    [
        ["status", HOSTILE],
        ["status", HOSTILE, "--format", "csv"],
        ["table", HOSTILE, "--out", HOSTILE],
        ["plot", HOSTILE],
        ["report", HOSTILE],
        ["report", HOSTILE, "--out", f"{HOSTILE}/none/{HOSTILE}"],
        *(["diff", HOSTILE, "other", "--format", f] for f in ("table", "csv", "md")),
        ["diff", HOSTILE, "other", "--format", "json"],
        ["run", "--dry-run", "--config", HOSTILE],
        ["measure", "--dry-run", "--plugin", f"{HOSTILE}.py"],
        ["measure", "--schemes", "nope", "--measures", "smoothness", "--out", HOSTILE],
    ],
)
def test_a_path_is_shown_as_text(posenc, folder: Path, words: list[str]) -> None:
    done = posenc(*words)
    for printed in (done.stdout, done.stderr):
        assert all(c.isprintable() for line in printed.split("\n") for c in line)
    shown = f"{done.stdout}{done.stderr}".replace("\\\\", "\\")
    assert SHOWN in shown or words[2:] == ["--format", "csv"]


def test_a_plugin_is_shown_as_text(posenc, folder: Path) -> None:
    head = "from posenc_compare.schemes import Scheme, register\n"
    text = SCHEME.format(name="mine").replace("'Mine.'", "'''Mine \x1b[31m.\n\n\x07'''")
    plugin = folder / f"{HOSTILE}.py"
    plugin.write_text(f"{head}{text}")
    for words in (["list"], ["list", "--format", "csv"], ["describe", "mine"]):
        done = posenc(*words, "--plugin", plugin)
        assert done.returncode == 0, done
        assert r"\x1b[31m" in done.stdout
        assert all(c.isprintable() for line in done.stdout.split("\n") for c in line)


def test_a_path_that_is_no_text_is_shown(posenc, folder: Path) -> None:
    other = os.fsdecode(b"\xff")
    folder.rename(other)
    done = posenc("report", other)
    assert (done.returncode, done.stdout) == (0, "\\udcff/report.html\n")
