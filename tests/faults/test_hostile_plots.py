"""Plots of plugins that exit and raise: each costs itself alone."""

import json
from pathlib import Path

import matplotlib.pyplot as plt

PLOTS = """
import sys
from posenc_compare.show.plots.plot import register_plot

@register_plot("draws", caption="Draws.")
def draws(records):
    "Draw."
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots()
    axes.set_title(f"{len(records)} at {mpl.rcParams['lines.linewidth']}")
    return figure

@register_plot("exits", caption="Exits.")
def exits(records):
    "Exit."
    sys.exit(0)

@register_plot("raises", caption="Raises.")
def raises(records):
    "Raise."
    import matplotlib.pyplot as plt
    plt.figure()
    raise ValueError("boom")
"""
MEASURE = ["measure", "--schemes=nope", "--measures=smoothness", "--set=positions=8"]


def test_a_plot_that_fails_costs_itself_alone(posenc, tmp_path: Path) -> None:
    plugin, run = tmp_path / "plots.py", tmp_path / "run"
    plugin.write_text(PLOTS)
    done = posenc(*MEASURE, "--plugin", plugin, "--out", run, "--format=json")
    assert (done.returncode, bool(json.loads(done.stdout))) == (0, True), done.stderr
    assert (run / "draws.png").exists()
    words = ["--plots=draws,exits,raises", "--out", tmp_path / "out", "--format=svg"]
    words += ["--plugin", plugin]
    done = posenc("plot", run, *words)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "plot exits: not drawn: SystemExit: 0",
        "plot raises: not drawn: ValueError: boom",
    ]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["draws.svg"]
    assert "1 at 1.2" in (tmp_path / "out" / "draws.svg").read_text()
    assert plt.get_fignums() == []
