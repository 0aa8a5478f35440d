"""Plots of plugins that hang, exit, die and raise: each costs itself alone."""

import json
from pathlib import Path

import pytest
from support.filesystem import within

from posenc_compare.show.plots import drawing

PLOTS = """
import os, time
from posenc_compare.show.plots.plot import register_plot

@register_plot("draws", caption="Draws.")
def draws(records):
    "Draw, and print where answers go."
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    print("noise", mpl.rcParams["lines.linewidth"], flush=True)
    figure, axes = plt.subplots()
    axes.set_title(f"{len(records)} at {mpl.rcParams['lines.linewidth']}")
    return figure

@register_plot("exits", caption="Exits.")
def exits(records):
    "Exit."
    os._exit(0)

@register_plot("raises", caption="Raises.")
def raises(records):
    "Raise."
    raise ValueError("boom")
"""
HANGS = """
import os, time
from posenc_compare.show.plots.plot import register_plot

@register_plot("hangs", caption="Hangs.")
def hangs(records):
    "Hang, with a child."
    os.fork()
    time.sleep(60)
"""
MEASURE = ["measure", "--schemes=nope", "--measures=smoothness", "--set=positions=8"]


def test_a_plot_that_fails_costs_itself_alone(posenc, tmp_path: Path) -> None:
    plugin, run = tmp_path / "plots.py", tmp_path / "run"
    plugin.write_text(PLOTS)
    (tmp_path / "my.mplstyle").write_text("lines.linewidth: 7.5\n")
    done = posenc(*MEASURE, "--plugin", plugin, "--out", run, "--format=json")
    assert (done.returncode, bool(json.loads(done.stdout))) == (0, True), done.stderr
    assert (run / "draws.png").exists()
    words = ["--plots=draws,exits,raises", "--out", tmp_path / "out", "--format=svg"]
    words += ["--style", tmp_path / "my.mplstyle", "--plugin", plugin]
    done = posenc("plot", run, *words)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "plot exits: not drawn: its process ended with exit code 0",
        "plot raises: not drawn: ValueError: boom",
    ]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["draws.svg"]
    assert "1 at 7.5" in (tmp_path / "out" / "draws.svg").read_text()


def test_a_plot_that_hangs_is_ended(
    posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, run = tmp_path / "plots.py", tmp_path / "run"
    plugin.write_text(HANGS)
    assert posenc(*MEASURE, "--out", run).returncode == 0
    monkeypatch.setattr(drawing, "SECONDS", 8.0)
    with within(50):
        done = posenc("plot", run, "--plots=hangs", "--plugin", plugin)
    assert done.returncode == 1
    assert "plot hangs: not drawn: it took more than 8 s" in done.stderr
