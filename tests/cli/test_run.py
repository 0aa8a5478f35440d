"""A whole run: some schemes and one of the user's own, into tables and plots."""

import csv
import re
from pathlib import Path

import pytest
from conftest import ROOT, forgotten, run_here
from support.trainings import WHOLE_RUN

from posenc_compare.records.store import Store

PLUGIN = ROOT / "examples" / "plugin_package" / "posenc_triangle.py"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "small.toml").write_text(f"{WHOLE_RUN}positions = 128\n")
    (folder / "text.txt").write_bytes(b"All the world's a stage, and all " * 200)
    schemes = "none,learned,rope,t5_bias,triangle,rope:layout=half"
    words = ["run", "--schemes", schemes, "--plugin", PLUGIN]
    words += ["--config", folder / "small.toml", "--corpus", folder / "text.txt"]
    words += ["--out", folder / "out", "--set", "threads=1"]
    with forgotten():
        return folder / "out", words, run_here(*words)


def test_a_scheme_of_ones_own_is_in_every_table_and_plot(
    finished, posenc, tmp_path: Path
) -> None:
    out, _, done = finished
    assert done.returncode == 0, done.stderr
    for text in (
        done.stdout,
        (out / "table.md").read_text(),
        (out / "table.tex").read_text(),
        (out / "table.csv").read_text(),
        (out / "rows.csv").read_text(),
    ):
        assert "triangle" in text
        assert "rope:layout=half" in text
    assert "triangle: not checked here; `posenc-compare check` does that" in done.stderr
    plots = {path.stem for path in out.glob("*.png")}
    drawn = posenc("plot", out, "--format", "svg", "--out", tmp_path)
    assert {Path(line).stem for line in drawn.stdout.splitlines()} == plots
    for name in ("extrapolation", "codes", "similarity"):
        assert "triangle" in (tmp_path / f"{name}.svg").read_text(), name
    for name in ("bias_maps", "clock_hands", "uniqueness"):
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


def test_a_grid_compares_the_schemes_of_its_axes(posenc, tmp_path: Path) -> None:
    schemes = ("alibi_2d", "rope_2d", "sinusoidal_2d")
    words = ["run", "--set=grid=4x5", "--out", tmp_path]
    done = posenc(*words, "--schemes", ",".join([*schemes, "rope"]))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    why = "their positions do not have the 2 axes of a grid of 4x5"
    assert lines[:2] == [
        f"left out: rope; {why}",
        "left out: cost, extrapolation; networks are trained on text",
    ]
    assert "adds no code to tokens" in done.stdout
    sizes = "width 64, 4 heads, 20 positions, sequences of 20 tokens, float64, grid 4x5"
    assert f"Measures without training, 1 of 4 ({sizes}; 1 seed; " in done.stdout
    posenc("plot", tmp_path, "--plots", "grid_maps", "--format", "svg")
    maps = (tmp_path / "grid_maps.svg").read_text()
    for scheme in schemes:
        assert scheme in done.stdout
        assert scheme in maps
    settings = [record["spec"]["setting"] for record in Store(tmp_path).records()]
    assert {(s["grid"], s["positions"], s["tokens"]) for s in settings} == {
        ("4x5", 20, 20)
    }


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
    assert re.fullmatch(rf"left out: rope, .*_2d, swin; {why}\n", done.stderr)
    done = posenc("measure", "--dry-run", "--set", "grid=2x3x4")
    assert re.fullmatch(rf"left out: \d+ schemes; {why}\n", done.stderr)
    assert "m_rope" in done.stdout


@pytest.mark.parametrize(
    ("measure", "given", "unread"),
    [
        ("uniqueness", "steps=9,positions=8", "steps"),
        ("uniqueness", "dtype=bfloat16", "dtype"),
        ("extrapolation", "positions=8,steps=9", "positions"),
        ("uniqueness,extrapolation", "positions=8,steps=9", ""),
    ],
)
def test_settings_that_no_measure_reads_are_named(
    posenc, measure: str, given: str, unread: str
) -> None:
    words = ["--schemes", "rope", "--measures", measure, "--set", given, "--dry-run"]
    done = posenc("run", *words)
    assert done.returncode == 0
    said = f"not used: {unread}; read by no chosen measure"
    assert (said in done.stderr) == bool(unread)
    assert ("not used" in done.stderr) == bool(unread)
