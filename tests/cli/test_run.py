"""A whole run: some schemes and one of the user's own, into tables and plots."""

import csv
import json
import re
from pathlib import Path

import pytest
from conftest import forgotten, run_here

from posenc_compare.records.store import Store

SCHEME = '''"""A user's scheme."""

import torch
from torch import Tensor

from posenc_compare.schemes import Scheme, register


@register("ramp", family="absolute", source="nobody 2026")
class Ramp(Scheme):
    """Add a ramp to one channel."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        code = torch.zeros(*positions.shape, x.shape[-1], dtype=x.dtype)
        code[..., 0] = positions / 64
        return x + code
'''

SMALL = """
steps = 3
layers = 1
width = 16
heads = 2
length = 8
longest = 2
batch = 2
test_bytes = 64
positions = 128
seeds = 1
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "ramp.py").write_text(SCHEME)
    (folder / "small.toml").write_text(SMALL)
    (folder / "text.txt").write_bytes(b"All the world's a stage, and all " * 200)
    schemes = "none,learned,rope,t5_bias,ramp,rope:layout=half"
    words = ["run", "--schemes", schemes, "--plugin", folder / "ramp.py"]
    words += ["--config", folder / "small.toml", "--corpus", folder / "text.txt"]
    words += ["--out", folder / "out", "--set", "threads=1"]
    with forgotten():
        return folder / "out", words, run_here(*words)


def test_a_scheme_of_twenty_lines_is_in_every_table_and_plot(
    finished, posenc, tmp_path: Path
) -> None:
    assert len(SCHEME.splitlines()) <= 20
    out, _, done = finished
    assert done.returncode == 0, done.stderr
    for text in (
        done.stdout,
        (out / "table.md").read_text(),
        (out / "table.tex").read_text(),
        (out / "table.csv").read_text(),
        (out / "rows.csv").read_text(),
    ):
        assert "ramp" in text
        assert "rope:layout=half" in text
    assert "not checked: ramp; `posenc-compare check` does that" in done.stderr
    plots = {path.stem for path in out.glob("*.png")}
    drawn = posenc("plot", out, "--format", "svg", "--out", tmp_path)
    assert {Path(line).stem for line in drawn.stdout.splitlines()} == plots
    for name in ("extrapolation", "codes", "similarity", "perturbation"):
        assert "ramp" in (tmp_path / f"{name}.svg").read_text(), name
    for name in ("bias_maps", "clock_hands", "uniqueness", "position_bits"):
        assert name in plots


def test_undefined_lengths_are_named_not_blank(finished) -> None:
    out, _, done = finished
    assert "not defined beyond 8" in (out / "table.md").read_text()
    assert "undefined" in done.stdout


def test_every_number_leads_to_a_record(finished) -> None:
    out, _, _ = finished
    with (out / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 300
    store = Store(out)
    for row in rows:
        body = store.read(row["record"])
        assert body is not None
        assert body["label"] == row["scheme"]
        if row["value"]:
            assert any(
                r["quantity"] == row["quantity"]
                and r["case"] == row["case"]
                and r["value"] == float(row["value"])
                for r in body["rows"]
            )
    with (out / "table.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            for key in row["records"].split():
                assert key in store.keys()


def test_a_second_run_computes_nothing(finished, posenc_process) -> None:
    out, words, first = finished
    files = [path for path in out.rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in files}
    assert {path.suffix for path in files} >= {".xz", ".png", ".md"}
    again = posenc_process(*words)
    assert " 0 to compute" in again.stderr
    assert again.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in files} == before


def test_a_grid_compares_the_schemes_of_its_axes(posenc, tmp_path: Path) -> None:
    done = posenc(
        "run", "--set", "grid=4x5", "--schemes", "*_2d,rope", "--out", tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    why = "their positions do not have the 2 axes of a grid of 4x5"
    assert lines[:2] == [
        f"left out: rope; {why}",
        "left out: cost, extrapolation; networks are trained on text",
    ]
    assert "adds no code to tokens" in done.stdout
    assert "Measures without training on a grid of 4x5, 1 of 4 (" in done.stdout
    posenc("plot", tmp_path, "--plots", "grid_maps", "--format", "svg")
    maps = (tmp_path / "grid_maps.svg").read_text()
    for scheme in ("alibi_2d", "rope_2d", "sinusoidal_2d"):
        assert scheme in done.stdout
        assert scheme in maps
    settings = [record["spec"]["setting"] for record in Store(tmp_path).records()]
    assert {(s["grid"], s["positions"], s["tokens"]) for s in settings} == {
        ("4x5", 20, 20)
    }
    again = posenc("run", "--set", "grid=4x5", "--schemes", "*_2d", "--out", tmp_path)
    assert "0 to compute" in again.stderr


def test_a_text_names_the_schemes_it_leaves_out(posenc) -> None:
    done = posenc("run", "--dry-run", "--schemes", "rope,swin,m_rope")
    assert done.stderr.splitlines()[0] == (
        "left out: swin, m_rope; their positions have several axes, a text has one; "
        "`--set grid=16x16` compares those of two"
    )
    done = posenc(
        "measure", "--dry-run", "--set", "grid=2x3x4", "--schemes", "rope,*_2d,m_*,swin"
    )
    why = "their positions do not have the 3 axes of a grid of 2x3x4"
    assert re.fullmatch(rf"left out: rope, .*_2d, swin; {why}\n.*\n", done.stderr)
    done = posenc("measure", "--dry-run", "--set", "grid=2x3x4")
    assert re.fullmatch(rf"left out: \d+ schemes; {why}\n.*\n", done.stderr)
    assert "m_rope" in done.stdout


def test_a_comparison_trains_on_one_text_and_tests_on_another(
    posenc, tmp_path: Path
) -> None:
    (tmp_path / "books").mkdir()
    for name in ("one", "two", "three"):
        text = f"{name}: All the world's a stage, " * 50
        (tmp_path / "books" / name).write_text(text)
    (tmp_path / "last").write_text("And all the men and women merely players. " * 20)
    corpora = f"corpus = '{tmp_path}/books'\ntest-corpus = '{tmp_path}/last'\n"
    chosen = "schemes = 'nope'\nmeasures = 'extrapolation'\n"
    (tmp_path / "all.toml").write_text(SMALL.replace("seeds = 1", chosen) + corpora)
    out = tmp_path / "out"
    config = ["--config", tmp_path / "all.toml", "--seeds", "1"]
    assert posenc("run", *config, "--out", out).returncode == 0
    (path,) = (out / "cells").glob("*.json")
    corpus = json.loads(path.read_text())["body"]["corpus"]
    assert corpus["name"] == "books, tested on last"
    assert corpus["test_bytes"] == (tmp_path / "last").stat().st_size
