"""The command `check`, on files with sound and faulty schemes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SCHEMES = '''
import torch
from posenc_compare.schemes import Scheme, register


@register("cli_wide", family="bias", source="Nobody")
class Wide(Scheme):
    """Returns a bias without heads."""

    def offset_bias(self, offsets):
        return -offsets.abs().float()


@register("cli_sound", family="bias", source="Nobody")
class Sound(Scheme):
    """Fades with the distance."""

    def offset_bias(self, offsets):
        return -offsets.abs().double().expand(self.geometry.heads, -1)


@register("cli_grows", family="bias", source="Nobody")
class Grows(Scheme):
    """Adds half the distance."""

    def offset_bias(self, offsets):
        return offsets.abs().double().expand(self.geometry.heads, -1) / 2

@register("cli_clamps", family="absolute", source="Nobody")
class Clamps(Scheme):
    """Adds a clamped id, and misspells a hook."""

    def embed(self, x, ids):
        return x + ids.clamp(max=self.geometry.length - 1)[..., None].to(x.dtype)

    def ofset_bias(self, offsets):
        return None

@register("cli_marks", family="absolute", source="Nobody")
class Marks(Scheme):
    """Adds one to the first four tokens, whatever the length."""

    def embed(self, x, ids):
        return x + (ids < 4)[..., None].to(x.dtype)
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("check") / "mine.py"
    path.write_text(SCHEMES)
    return path


def test_one_cause_is_one_row(posenc: Any, file: Path) -> None:
    done = posenc("check", "cli_wide", "--plugin", file)
    assert done.returncode == 1
    said = "offset_bias must return (heads, offset)"
    assert done.stdout.count(said) == 1 < int(done.stderr.split()[0])


def test_a_file_stands_for_all_of_its_schemes(
    posenc: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # draws no bar where there is no terminal
    done = posenc("check", file, "--format", "json")
    assert "\x1b[?25l" not in done.stderr
    rows = json.loads(done.stdout)
    outcomes = Counter((row["scheme"], row["outcome"]) for row in rows)
    assert outcomes["cli_sound", "passed"] == 24
    failed = sum(
        outcomes[name, "failed"] for name in ("cli_wide", "cli_clamps", "cli_marks")
    )
    assert outcomes["cli_grows", "failed"] == 0
    assert sum(outcomes.values()) == 120
    hint = "the bias of every head grows with the distance, in head 0 from 0 at 0 to "
    assert done.stderr.count("is the sign right?") == 1
    assert f"cli_grows: {hint}128 at 255: it attends most to the far" in done.stderr
    assert done.stderr.count("looks like") == done.stderr.count("clamped?") == 1
    meant = "`ofset_bias` looks like `offset_bias`, which it does not override"
    assert f"cli_clamps: {meant}; is it misspelt?\n" in done.stderr
    assert "cli_clamps: built for 64 positions, it gives all later ones" in done.stderr
    assert "cli_sound: 24 checks: 24 passed\n" in done.stderr
    assert f"{failed} checks failed" in done.stderr


def test_a_class_that_is_no_scheme(posenc: Any, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(SCHEMES.replace("cli_", "odd_").replace("(Scheme)", ""))
    done = posenc("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be a class derived from Scheme, got <class" in done.stderr
