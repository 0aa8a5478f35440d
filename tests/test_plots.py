"""Plots from small records made by hand."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import Command
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from posenc_compare.analysis.show.plots.alike import groups_alike, joined
from posenc_compare.analysis.show.plots.head_maps import below_largest
from posenc_compare.analysis.show.plots.lines import layers
from posenc_compare.analysis.show.plots.position_bits import binned
from support.records import record as stored_record
from support.records import stored

from posenc_compare.analysis.core.quantities import Quantity, Row
from posenc_compare.analysis.records.record import (
    MeasureSpec,
    Provenance,
    Record,
    SchemeSpec,
    Spec,
)
from posenc_compare.analysis.show.plots import draw_all, images
from posenc_compare.analysis.show.plots.clock_hands import angles_of_code
from posenc_compare.analysis.show.plots.heat import palette_for
from posenc_compare.analysis.show.plots.paper import (
    OWN,
    Paper,
    on_paper,
    paper_of,
    wrapped,
)
from posenc_compare.analysis.show.plots.plot import in_order
from posenc_compare.analysis.show.plots.style import (
    COLOURS,
    LABEL,
    looks,
    looks_of,
    safe,
)
from posenc_compare.conformance import built_in
from posenc_compare.errors import ConfigError, StoreError
from posenc_compare.registry import FAMILIES, PLOTS, SCHEMES

# These need many schemes, or many rates: `test_predictions.py`, `test_sensitivity.py`.
OTHERS = {"prediction", "sensitivity"}
NAMES = [entry.name for entry in in_order() if entry.name not in OTHERS]
TRAINED = ("extrapolation", "inside", "cost")
HOSTILE = [
    "a$b_{",
    "$\\frac{1}{2}$",
    "\\input{secret}",
    "x" * 300,
    "x" * 299 + "y",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\u202enoitisop\u2066",
    "two\nlines\ttab\0",
    "_hidden",
    "\u4e2d\u6587 \U0001f600",
    "",
    "y" * 10_000,
    "<svg>&amp;\"'",
]


def record(
    measure: str,
    label: str = "rope",
    *,
    seed: int = 0,
    rows: list[Row] | None = None,
    arrays: dict[str, Any] | None = None,
    status: str = "ok",
    family: str = "rotary",
    task: str = "language",
) -> Record:
    units = {
        "distinct_share": "share",
        "relative_size": "ratio |change| / |vector|, mean",
    }
    return Record(
        key="",
        spec=Spec(
            SchemeSpec(label, {}, ""),
            MeasureSpec(measure, 1),
            {"kind": "training", "seed": seed, "length": 8, "task": task}
            if measure in TRAINED
            else {"kind": "probe", "seed": seed, "length": 8, "trained": 8},
            threads=1,
            package="0.1.0",
            torch="2.13.0",
        ),
        label=label,
        family=family,
        source="",
        status=status,
        error="" if status == "ok" else "boom",
        quantities={
            name: Quantity(name, units.get(name, ""), "neither", "")
            for name in {*units, *(row.quantity for row in rows or [])}
        },
        rows=tuple(rows or []),
        arrays=arrays or {},
    )


def row(
    quantity: str,
    value: float | None,
    x: float | None = None,
    case: str = "",
    note: str = "",
) -> Row:
    return Row(quantity, value, x, case, note)


def full(label: str, *, lift: float = 0.0, seeds: int = 2) -> list[Record]:
    """Records of one scheme, with something for every plot."""
    found = []
    for seed in range(seeds):
        bits = [row("bits_per_byte", 3 + lift + 0.1 * seed, 8 << i) for i in range(3)]
        bits += [
            row("read_bits_per_byte", 2 + lift + 0.1 * seed, 8 << i, case)
            for i in (1, 2)
            for case in ("pi", "yarn")
        ]
        found.append(
            record(
                "extrapolation",
                label,
                seed=seed,
                rows=bits,
                arrays={"position_bits": [3.0 + lift + seed] * 31 + [None]},
            )
        )
        bits += [
            row("read_bits_per_byte", 2 + lift, 8, "static pi"),
            row("sliding_bits_per_byte", 2.0 + lift),
        ]
        found.append(record("checkpoint", label, seed=seed, rows=bits))
        found.append(
            record(
                "extrapolation",
                label,
                seed=seed,
                task="copy",
                rows=[row("accuracy", 0.9 - lift, 8 << i) for i in range(3)],
            )
        )
        found.append(
            record(
                "inside",
                label,
                seed=seed,
                rows=[row("position_probe", 0.1 + lift, x) for x in range(3)],
                arrays={
                    "pair_use": [[2.0, 1.0 + lift]],
                    "trained_bias": [[[0, None], [-1, 0]]],
                    "trained_similarity": [[[1, 0.5], [0.5, 1]]],
                },
            )
        )
        found.append(
            record(
                "portrait",
                label,
                seed=seed,
                arrays={
                    "code": np.sin(np.outer(range(8), range(12))).tolist(),
                    "code_small": np.eye(4, 6).tolist(),
                    "bias_map": [[[0, None], [-1, 0]], [[0, None], [-2, 0]]],
                    "bias_heads": [0, 7],
                    "grid_bias": [[[-1, 0, -1]] * 3, [[-2, 0, -2]] * 3],
                    "grid_similarity": [[[0.5, 1, 0.5]] * 3],
                    "angles": np.outer(range(10), [1, 0.1, 0]).tolist(),
                    "similarity": [1.0, 0.5 + lift, None],
                },
            )
        )
        found.append(
            record(
                "distance_decay",
                label,
                seed=seed,
                arrays={"mean_logit": [5.0, 4.0, -35.0 - lift]},
            )
        )
        found.append(
            record(
                "perturbation",
                label,
                seed=seed,
                rows=[
                    row("relative_size", 0.001 + lift, case="N(0, 1)"),
                    row("relative_size", 30.0, case="query"),
                    row("relative_size", 0.0, case="key"),
                    row("own_token_nearest", None, case="key", note="none"),
                    row("bias_share", 0.5),
                ],
            )
        )
        found.append(
            record(
                "cost",
                label,
                seed=seed,
                rows=[
                    row("scheme_parameters", 10 * lift),
                    row("step_seconds", 0.1 + lift),
                    row("step_memory", 20.0),
                ],
            )
        )
        found.append(
            record(
                "attention_cost",
                label,
                seed=seed,
                rows=[
                    row(f"gradient_{name}", value * n + lift, n)
                    for n in (16, 64)
                    for name, value in (("ms", 3.0), ("ratio", 1.5))
                ],
            )
        )
        found.append(
            record(
                "precision",
                label,
                seed=seed,
                rows=[
                    row("logit_error", 1e-3 + lift, x, case)
                    for x in (0, 65_536)
                    for case in ("bfloat16", "bfloat16 ids")
                ],
            )
        )
        found.append(
            record(
                "uniqueness",
                label,
                seed=seed,
                rows=[
                    row("distinct_share", 1.0, case="float32"),
                    row("distinct_share", 0.75, case="bfloat16"),
                    row("nearest_distance_relative", 0.2),
                ],
            )
        )
    return found


def texts(figure: Figure) -> list[str]:
    shown = figure.findobj(lambda artist: isinstance(artist, Text))
    return [artist.get_text() for artist in shown if isinstance(artist, Text)]


def drawn(name: str, records: list[Record]) -> Figure:
    figure = PLOTS.get(name)(records)
    assert figure is not None
    return figure


@pytest.mark.parametrize("name", NAMES)
def test_draws_what_is_there_and_nothing_else(name: str) -> None:
    figure = drawn(name, full("rope") + full("alibi", lift=0.1))
    figure.draw_without_rendering()
    assert figure.get_figwidth() in (3.4, 7.0)
    assert PLOTS.get(name)([]) is None
    assert PLOTS.get(name)([record("other")]) is None
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("status", ["failed", "unsupported"])
def test_records_without_a_result_are_passed_over(name: str, status: str) -> None:
    broken = [replace(r, status=status) for r in full("broken")]
    assert PLOTS.get(name)(broken) is None
    labels = " ".join(texts(drawn(name, full("rope") + broken)))
    assert "broken" not in labels


@pytest.mark.parametrize("name", NAMES)
def test_records_without_rows_or_arrays_give_no_plot(name: str) -> None:
    measures = {r.measure for r in full("rope")}
    assert PLOTS.get(name)([record(measure) for measure in measures]) is None


@pytest.mark.parametrize("name", NAMES)
def test_hostile_labels_are_drawn_as_text(name: str, tmp_path: Path) -> None:
    records = [
        r for i, label in enumerate(HOSTILE) for r in full(label, lift=i / 100, seeds=1)
    ]
    figure = drawn(name, records)
    figure.savefig(tmp_path / "plot.svg")
    figure.savefig(tmp_path / "plot.png", dpi=20)
    svg = (tmp_path / "plot.svg").read_text()
    assert not any(sign in svg for sign in ("\x1b", "\x07", "\0", "\u202e"))


def test_hostile_cases_and_units_are_drawn_as_text() -> None:
    rows = [row("relative_size", 1.0, case=case) for case in HOSTILE]
    one = record("perturbation", rows=rows)
    unit = Quantity("relative_size", "$\\frac{ " * 90, "neither", "")
    one = replace(one, quantities={unit.name: unit})
    drawn("perturbation", [one]).draw_without_rendering()


def test_all_plots_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    records = full("rope", seeds=1)
    paths = draw_all(records, tmp_path / "new" / "one")
    again = draw_all(records, tmp_path / "two")
    assert [path.name for path in paths] == [
        f"{name}.{ending}" for name in NAMES for ending in ("png", "svg")
    ]
    for first, second in zip(paths, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert draw_all([], tmp_path / "none") == []


def test_svg_keeps_text_and_png_has_300_dpi(tmp_path: Path) -> None:
    png, svg = draw_all(full("a$b_{", seeds=1)[:1], tmp_path)[:2]
    assert ">a$b_{</text>" in svg.read_text()
    assert plt.imread(png).shape[1] == 3.4 * 300


def test_mathematics_is_off_whatever_the_text() -> None:
    text = "$\\frac{ x$ $x^2$"
    figure = drawn("extrapolation", full(text))
    figure.draw_without_rendering()
    assert text in texts(figure)


def test_a_plot_that_fails_leaves_the_others_and_is_named() -> None:
    odd = record("portrait", "odd", arrays={"bias_map": [[1.0], [1.0, 2.0]]})
    lines: list[str] = []
    drawn = images([*full("rope"), odd], lines.append, endings=("png",), dpi=20)
    assert drawn.keys() == {f"{name}.png" for name in NAMES} - {"bias_maps.png"}
    (line,) = lines
    assert line.startswith("plot bias_maps: not drawn: ValueError: ")
    with pytest.warns(UserWarning, match="plot bias_maps: not drawn"):
        images([odd])


def test_the_exit_code_says_that_a_plot_failed(posenc: Command, tmp_path: Path) -> None:
    odd = stored_record("odd", "portrait")
    odd["arrays"] = {"bias_map": [[1.0], [1.0, 2.0]]}
    run = stored(tmp_path / "run", [odd])
    done = posenc("plot", run, "--plots", "bias_maps")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("plot bias_maps: not drawn: ValueError: ")
    done = posenc("plot", run, "--plots", "extrapolation")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "nothing drawn for plots extrapolation\n"


@pytest.mark.parametrize("array", ["code", "bias_map", "angles", "similarity"])
@pytest.mark.parametrize(
    "values",
    [[[]], [[[]]], [1.0], [[1.0]], [[[[1.0]]]], [None], [[None]], [1e308, -1e308]],
)
def test_no_array_stops_the_plots(array: str, values: list[Any]) -> None:
    odd = record("portrait", arrays={array: values})
    lines: list[str] = []
    images([odd], lines.append, endings=("png",), dpi=20)
    assert all(line.startswith("plot ") and "\n" not in line for line in lines)


def test_plots_are_written_by_name_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "uniqueness.svg").symlink_to(outside)
    draw_all(full("rope")[-1:], folder)
    assert outside.read_text() == "precious"
    with pytest.raises(StoreError, match="must take plots"):
        draw_all([], outside)


def test_the_users_own_style_does_not_matter() -> None:
    plain = images(full("rope"), endings=("png",), dpi=30)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
        assert images(full("rope"), endings=("png",), dpi=30) == plain
        assert mpl.rcParams["font.size"] == 30


def test_plots_need_no_torch() -> None:
    code = (
        "import sys, posenc_compare.analysis.show.plots; "
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' not in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_label_has_a_look_of_its_own() -> None:
    records = [record("other", f"scheme {i}") for i in range(len(COLOURS))]
    styles = looks(records)
    assert len({look.colour for look in styles.values()}) == len(COLOURS)
    many = looks([record("other", f"scheme {i:03}") for i in range(64)])
    faces = {(look.colour, look.marker, look.dash) for look in many.values()}
    assert len(faces) == 64


def test_looks_depend_on_labels_alone() -> None:
    records = full("rope") + full("alibi") + [record("x", "nope", status="failed")]
    assert looks(records) == looks(records[::-1])
    assert looks(records) == looks(records + full("rope", seeds=3))


def test_a_scheme_looks_the_same_in_every_company() -> None:
    names = {name: SCHEMES.entry(name).facts["family"] for name in built_in()}
    alone = {name: looks_of({name: family})[name] for name, family in names.items()}
    common = ("nope", "sinusoidal", "learned", "rope", "alibi", "t5_bias", "kerple_log")
    together = looks_of({name: names[name] for name in common})
    assert len({look.colour for look in together.values()}) == len(common)
    for name in common:
        assert together[name].colour == alone[name].colour
        assert together[name].marker == alone[name].marker
    beside = looks_of({"rope": "rotary", "mine": "rotary", "rope:base=5.0": "rotary"})
    assert beside["rope"].colour == alone["rope"].colour
    assert len({look.colour for look in beside.values()}) == 3
    every = looks_of(names)
    for family in set(names.values()):
        members = [n for n, own in names.items() if own in ("none", family)]
        differ = min(len(members), len(COLOURS))
        assert len({every[name].colour for name in members}) == differ
    faces = {(look.colour, look.marker, look.dash) for look in every.values()}
    assert len(faces) == len(names)


def test_looks_are_ordered_by_family_then_name() -> None:
    records = [
        record("m", "z", family="strange"),
        record("m", "t5_bias", family="bias"),
        record("m", "nope", family="none"),
        record("m", "alibi", family="bias"),
        record("m", "learned", family="absolute"),
    ]
    assert list(looks(records)) == ["nope", "learned", "alibi", "t5_bias", "z"]


def test_labels_that_look_alike_when_cut_are_told_apart() -> None:
    shown = [look.text for look in looks([record("m", s) for s in HOSTILE]).values()]
    assert len(set(shown)) == len(HOSTILE)
    assert max(map(len, shown)) <= LABEL + 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rope:base=500000.0", "rope:base=500000.0"),
        ("a$b", "a$b"),
        ("\x1b[31m", "?[31m"),
        ("a\nb", "a?b"),
        ("_x", " _x"),
        ("x" * 41, "x" * 39 + "…"),
        ("\u4e2d", "?"),
    ],
)
def test_safe(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_extrapolation_draws_means_and_marks_ends() -> None:
    ending = [
        record(
            "extrapolation",
            "learned",
            rows=[
                row("bits_per_byte", 2.0, 8),
                row("bits_per_byte", None, 16, note="not defined beyond 8"),
                row("bits_per_byte", None, 32, note="not defined beyond 8"),
            ],
        )
    ]
    figure = drawn("extrapolation", full("rope") + ending)
    axes = figure.axes[0]
    lines = [np.asarray(line.get_xydata()).T.tolist() for line in axes.lines]
    assert [[8, 16, 32], pytest.approx([3.05] * 3)] in lines
    assert [[8, 16, 32], pytest.approx([3.0] * 3)] not in lines
    (band,) = axes.collections  # of one scheme; the other has a single seed
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    # 12.706 is the quantile of Student's t for two seeds, which lie 0.1 apart.
    half_width = 12.706 * 0.1 / 2
    assert heights.min() == pytest.approx(3.05 - half_width, abs=1e-4)
    assert heights.max() == pytest.approx(3.05 + half_width, abs=1e-4)
    assert "95% interval" in texts(figure)
    assert any(line.get_marker() == "|" for line in axes.lines)
    assert {"not defined beyond 8", "training length"} <= set(texts(figure))
    assert axes.get_xscale() == "log"


def test_extrapolation_says_each_end_where_they_differ() -> None:
    ends = [
        record(
            "extrapolation",
            label,
            rows=[
                row("bits_per_byte", 2.0, 8),
                row("bits_per_byte", None, 16, note=f"not defined beyond {limit}"),
            ],
        )
        for label, limit in (("binary", 8), ("learned", 12))
    ]
    assert {
        "binary (not defined beyond 8)",
        "learned (not defined beyond 12)",
    } <= set(texts(drawn("extrapolation", ends)))
    never = record(
        "extrapolation", "none", rows=[row("bits_per_byte", None, 8, note="not ever")]
    )
    assert {
        "binary (not defined beyond 8)",
        "learned (not defined beyond 12)",
        "none (not ever)",
    } <= set(texts(drawn("extrapolation", [*ends, never])))


@pytest.mark.parametrize(("level", "above"), [(0.5, True), (1.5, False)])
def test_bits_of_a_checkpoint_count_from_sliding_windows_below_all(
    level: float, above: bool
) -> None:
    made = [one for one in full("rope") if one.spec.measure.name == "checkpoint"]
    slid = [
        replace(
            one,
            rows=tuple(
                replace(row, value=level) if row.quantity.startswith("sliding") else row
                for row in one.rows
            ),
        )
        for one in made
    ]
    figure = PLOTS.get("checkpoint")(slid)
    assert isinstance(figure, Figure)
    axes = figure.axes[0]
    assert axes.get_ylabel().startswith("bits per byte above") == above
    heights = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    trained = 3.05 - (level if above else 0)  # the mean of both seeds
    assert any(len(h) == 3 and np.allclose(h, trained) for h in heights)
    flat = [h for h in heights if np.allclose(h, level)]
    assert bool(flat) != above  # intervals of `pi` reach below 1.5


@pytest.mark.parametrize(("level", "above"), [(0.5, True), (1.5, False)])
def test_each_of_several_checkpoints_has_panels_and_counts_from_its_own_level(
    level: float, above: bool
) -> None:
    made = [
        replace(
            one,
            rows=tuple(
                replace(r, value=level + lift)
                if r.quantity.startswith("sliding")
                else r
                for r in one.rows
            ),
        )
        for label, lift in (("rope", 0.0), ("xpos", 0.2))
        for one in full(label)
        if one.spec.measure.name == "checkpoint"
    ]
    figure = PLOTS.get("checkpoint")(made)
    assert isinstance(figure, Figure)
    titles = [axes.get_title(loc="right") for axes in figure.axes]
    factors = ("factor of each length", "factor of the longest")
    assert titles == [f"{label}\n{x}" for label in ("rope", "xpos") for x in factors]
    assert ("above" in figure.axes[0].get_ylabel()) == above
    for title, axes in zip(titles, figure.axes, strict=True):
        own = level + 0.2 * title.startswith("xpos")
        heights = [np.asarray(line.get_ydata(), float) for line in axes.lines]
        trained = 3.05 - (own if above else 0)  # the mean of both seeds
        assert any(len(h) == 3 and np.allclose(h, trained) for h in heights)
        assert any(np.allclose(h, own) for h in heights) != above
        curves = [line for line in axes.lines if line.get_marker() not in ("None", "")]
        for line in curves:  # one text each: no length comes twice
            at = np.asarray(line.get_xdata(), float)
            assert len(set(at)) == len(at)


def test_checkpoints_whose_long_names_begin_alike_have_panels_each() -> None:
    made = [
        one
        for end in ("first", "second")
        for one in full("rope:" + "x" * 200 + end)
        if one.spec.measure.name == "checkpoint"
    ]
    figure = PLOTS.get("checkpoint")(made)
    assert isinstance(figure, Figure)
    assert len({axes.get_title(loc="right") for axes in figure.axes}) == 4


def test_many_schemes_have_a_panel_for_each_family() -> None:
    labels = {f"{family}{i}": family for family in FAMILIES[1:] for i in range(4)}
    records = [
        replace(found, family=family)
        for i, (label, family) in enumerate({"nope": "none", **labels}.items())
        for found in full(label, lift=0.001 * i)
        if label != "nope" or found.measure != "portrait"
    ]
    for name in ("extrapolation", "position_bits", "similarity"):
        figure = drawn(name, records)
        titled = {axes.get_title(loc="right"): axes for axes in figure.axes}
        assert set(FAMILIES[1:]) <= set(titled)
        for family in FAMILIES[1:]:
            legend = titled[family].get_legend()
            assert legend is not None
            shown = [text.get_text() for text in legend.get_texts()]
            assert shown == ["nope", *(f"{family}{i}" for i in range(4))]
    for axes in drawn("extrapolation", records).axes:
        low, high = axes.get_ylim()
        assert 2.3 < low < 2.42 < 3.68 < high < 3.8  # 3.05 ± 0.635, and an edge
    styles = looks(records)
    for family in FAMILIES[1:]:
        own = [look for look in styles.values() if look.family in ("none", family)]
        assert len({look.colour for look in own}) == len(own)


def test_panels_of_families_share_one_scale_of_bits() -> None:
    labels = {f"{family}{i}": family for family in FAMILIES[1:] for i in range(4)}
    lifts = {family: 0.2 * i for i, family in enumerate(FAMILIES[1:])}
    records = [
        replace(found, family=family)
        for i, (label, family) in enumerate({"nope": "none", **labels}.items())
        for found in full(label, lift=lifts.get(family, 0.1) + 0.001 * i)
    ]
    figure = drawn("extrapolation", records)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    low, high = figure.axes[0].get_ylim()
    assert low < 2.42 < 3.68 + max(lifts.values()) < high
    far = [*records, *(replace(r, family="bias") for r in full("far", lift=9.0))]
    figure = drawn("extrapolation", far)
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert "bits per byte (logarithmic)" in texts(figure)


def test_names_of_simple_models_stand_apart_beside_their_lines() -> None:
    floors = [
        row("floor_bits_per_byte", 3.0 + 0.001 * i, 8 << j, f"{i}-gram")
        for i in range(3)
        for j in range(3)
    ]
    bits = [row("bits_per_byte", 2.5 + i, 8 << i) for i in range(3)]
    figure = drawn(
        "extrapolation", [record("extrapolation", "a", rows=[*bits, *floors])]
    )
    names = [text for text in figure.axes[0].texts if "-gram" in text.get_text()]
    places = [name.xy for name in names if isinstance(name, Annotation)]
    assert [name.get_text() for name in names] == ["0-gram", "1-gram", "2-gram"]
    assert [x for x, _ in places] == [1, 1, 1]
    assert np.diff([y for _, y in places]) == pytest.approx([0.07, 0.07])


@pytest.mark.parametrize("name", ["extrapolation"])
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_simple_models_of_one_text_alone_are_drawn(name: str, apart: float) -> None:
    records = [
        record(
            "extrapolation",
            label,
            rows=[
                *(row("bits_per_byte", 2.5 + i, 8 << i) for i in range(2)),
                row("floor_bits_per_byte", 3.0 + more, 8, "2-gram"),
                row("floor_bits_per_byte", 2.9 + more, 16, "2-gram"),
            ],
        )
        for label, more in (("a", 0.0), ("b", apart))
    ]
    lines = [line.get_xydata() for line in drawn(name, records).axes[0].get_lines()]
    steps = [np.diff(np.asarray(line)[:, 1]) for line in lines]
    assert any((step < 0).any() for step in steps) == (apart == 0)


def test_lines_that_coincide_are_layered() -> None:
    curves = pd.DataFrame(
        {
            "scheme": ["a", "a", "b", "b", "c", "c", "d"],
            "x": [1, 2, 1, 2, 1, 2, 1],
            "value": [1.0, 2.0, 1.0, 2.001, 1.0, 3.0, 1.0],
        }
    )
    assert layers(curves) == {"a": (0, 1), "b": (1, 0), "c": (0, 0), "d": (0, 0)}


def test_coinciding_schemes_differ_in_width_and_dash() -> None:
    figure = drawn(
        "extrapolation",
        full("integer") + full("nope", lift=0.001) + full("rope", lift=1.0),
    )
    handles = figure.legends[0].get_lines()
    wide, narrow = handles[:2]
    assert wide.get_linewidth() > 2 * narrow.get_linewidth()
    assert wide.get_linestyle() == "-"
    assert narrow.get_linestyle() == "--"


def test_bins_share_out_every_position() -> None:
    bits = np.arange(1.0, 65.0)
    table = binned(bits)
    assert table["x"].is_monotonic_increasing
    assert table["value"].iloc[0] == pytest.approx(np.mean(bits[:8]))
    assert table["value"].iloc[-1] == pytest.approx(np.mean(bits[45:64]))
    assert table["x"].iloc[-1] == pytest.approx(np.exp(np.mean(np.log(bits[45:]))))


def test_code_maps_show_the_numbers_and_grey_the_rest() -> None:
    short = record("portrait", "learned", arrays={"code": [[1.0, 2.0]]})
    short = replace(short, family="absolute")
    figure = drawn("codes", [*full("rope"), short])
    learned, rope = (
        np.asarray(axes.collections[0].get_array()) for axes in figure.axes[:2]
    )
    assert learned.tolist() == [[1, 2]]
    assert rope == pytest.approx(np.sin(np.outer(range(8), range(12))))
    assert [axes.get_ylim() for axes in figure.axes[:2]] == [(8, 0), (8, 0)]
    assert figure.axes[0].get_facecolor()[0] == pytest.approx(0.85)


def test_bias_heads_that_are_alike_are_drawn_once() -> None:
    same = record("portrait", arrays={"bias_map": [[[0, 1], [1, 0]]] * 3})
    found = texts(drawn("bias_maps", [same]))
    assert {"rope", "all heads"} <= set(found)
    assert not any(text.startswith("head") for text in found)
    assert {"rope", "head 0", "head 7"} <= set(texts(drawn("bias_maps", full("rope"))))


def test_schemes_with_equal_maps_are_drawn_once() -> None:
    figure = drawn("bias_maps", full("rope") + full("mix"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["rope, mix", "", ""]  # two heads, and the scale of all
    said = [" ".join(text.split()) for text in texts(figure)]
    assert "logits below the largest of the query" in said
    assert "before training, seed 0" in said
    dark = figure.axes[0].collections[0]
    assert isinstance(dark, QuadMesh)
    assert dark.get_clim() == (-10, 0)
    assert dark.get_cmap().name == "rocket"


def test_a_map_keeps_fewer_heads_where_all_would_not_fit_a_page() -> None:
    records = []
    far = -np.abs(np.subtract.outer(range(4), range(4)))
    for i in range(60):
        maps = [(far * (1 + i) * 2.0**-head).tolist() for head in range(4)]
        arrays = {"bias_map": maps, "bias_heads": list(range(4))}
        records.append(record("portrait", f"scheme{i}", arrays=arrays))
    figure = drawn("bias_maps", records)
    shown = {text for text in texts(figure) if text.startswith("head")}
    assert shown == {"head 0"}
    assert figure.get_figheight() <= 9
    few = drawn("bias_maps", records[:10])
    assert "head 2" in texts(few)


def test_the_middle_of_a_grid_is_framed() -> None:
    values = np.arange(12.0).reshape(1, 2, 6).tolist()
    figure = drawn("grid_maps", [record("portrait", arrays={"grid_bias": values})])
    (frame,) = figure.axes[0].patches
    assert isinstance(frame, Rectangle)
    assert (frame.get_x(), frame.get_y()) == (3, 1)
    assert {"rope", "row", "column", "logits"} <= set(texts(figure))


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([-1.0, 3.0], ("vlag", -3, 3)),
        ([-3.0, 1.0], ("vlag", -3, 3)),
        ([0.0, 3.0], ("rocket_r", 0, 3)),
        ([-2.0, -1.0, np.nan], ("rocket", -2, 0)),
        ([0.0, 0.0], ("rocket_r", 0, 1)),
        ([np.nan], ("rocket_r", 0, 1)),
    ],
)
def test_zero_is_pale(values: list[float], ends: tuple[str, float, float]) -> None:
    assert palette_for(np.array(values)) == ends


def test_clock_hands_point_where_the_angles_say() -> None:
    figure = drawn("clock_hands", full("rope"))
    greys = ("0.85", "0.45")
    hands = [line for line in figure.axes[0].lines if line.get_color() not in greys]
    tips = [np.asarray(line.get_xydata())[1] for line in hands]
    assert [math.atan2(y, x) % math.tau for x, y in tips] == pytest.approx(
        [position % math.tau for position in range(8)]
    )
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:3] == [
        "rope\npair 0\n6.3 positions/turn",
        "pair 1\n62.8 positions/turn",
        "pair 2\ndoes not turn",
    ]


def test_logits_are_drawn_from_distance_zero() -> None:
    axes = drawn("similarity", full("rope")).axes[1]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [0, -1, -40]
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] == -20
    shallow = record("distance_decay", arrays={"mean_logit": [5.0, 4.0, -5.0]})
    assert drawn("similarity", [shallow]).axes[0].get_ylim()[0] < -10


def test_dots_are_means_over_seeds_with_their_intervals() -> None:
    records = [
        record("uniqueness", seed=s, rows=[row("distinct_share", 0.2 * s, case="f")])
        for s in range(3)
    ]
    axes = drawn("uniqueness", records).axes[0]
    bars, dots = axes.collections
    assert np.asarray(dots.get_offsets())[:, 0] == pytest.approx([0.2])
    (bar,) = bars.get_paths()
    # 4.303 is the quantile of Student's t for three seeds.
    half_width = 4.303 * 0.2 / 3**0.5
    ends = sorted(np.asarray(bar.vertices)[:, 0])
    assert ends == pytest.approx([0.2 - half_width, 0.2 + half_width], abs=1e-4)


def test_zero_stands_in_a_grey_strip_of_a_logarithmic_axis() -> None:
    records = [
        record("uniqueness", label, rows=[row("nearest_distance_relative", distance)])
        for label, distance in (("a", 0.0), ("b", 1e-4), ("c", 0.5))
    ]
    axes = drawn("uniqueness", records).axes[0]
    assert axes.get_xscale() == "log"
    assert "logarithmic; 0 in grey" in axes.get_xlabel().replace("\n", " ")
    (strip,) = axes.patches
    left, right = np.asarray(strip.get_extents().get_points())[:, 0]
    at = [
        float(axes.transData.transform(np.asarray(dots.get_offsets())[0])[0])
        for dots in axes.collections
    ]
    assert left < at[0] < right < at[1] < at[2]
    assert axes.get_xticklabels()[0].get_text() == "0"
    none = [one for one in records if one.label != "a"]
    assert not drawn("uniqueness", none).axes[0].patches


def test_perturbation_shows_schemes_where_they_change_something() -> None:
    rows = {
        "added": [row("relative_size", 0.5, case="N(0, 1)"), row("bias_share", 0.0)],
        "turned": [
            row("relative_size", 0.0, case="N(0, 1)"),
            row("relative_size", 1.2, case="query"),
        ],
        "biased": [row("bias_share", 0.3)],
        "idle": [row("relative_size", 0.0, case="key"), row("bias_share", 0.0)],
    }
    records = [record("perturbation", label, rows=own) for label, own in rows.items()]
    figure = drawn("perturbation", records)
    named = {
        axes.get_title().replace("\n", " "): [
            text.get_text() for text in axes.get_yticklabels()
        ]
        for axes in figure.axes
    }
    assert named == {
        "size of what is added to tokens": ["added"],
        "change of queries and keys": ["turned"],
        "bias in logits": ["biased"],
    }
    assert PLOTS.get("perturbation")(records[3:]) is None


def test_similarity_draws_the_panels_that_exist() -> None:
    both = full("rope")
    logits = [r for r in full("alibi", lift=1) if r.measure == "distance_decay"]
    many = [
        replace(one, family=family)
        for i in range(7)
        for family, found in (("rotary", both), ("bias", logits))
        for one in (replace(r, label=f"{family}{i}") for r in found)
        if one.measure in ("portrait", "distance_decay")
    ]
    for i, one in enumerate(many):  # no two schemes alike
        arrays: dict[str, Any] = dict(one.arrays)
        for name in ("similarity", "mean_logit"):
            if name in arrays:
                arrays[name] = [*arrays[name], 0.01 * i]
        many[i] = replace(one, arrays=arrays)
    figure = drawn("similarity", many)
    labels = [
        (axes.get_title(loc="right"), axes.get_ylabel().split()[1])
        for axes in figure.axes
    ]
    assert labels == [("rotary", "cosine"), ("rotary", "logit"), ("bias", "logit")]


def grid_of(figure: Figure) -> tuple[int, int]:
    """Return how many rows and columns the panels of a figure have room for."""
    grid = figure.axes[0].get_gridspec()
    assert grid is not None
    return grid.nrows, grid.ncols


def test_fewer_panels_stand_side_by_side_in_a_column() -> None:
    with on_paper(paper_of("column", None)):
        narrow = grid_of(drawn("clock_hands", full("rope")))
    assert narrow == (1, 3)
    assert grid_of(drawn("clock_hands", full("rope"))) == (1, 6)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("two words", ["two words"]),
        ("randomized_distance", ["randomized_", "distance"]),
        ("a b, c=d", ["a b, c=d"]),
        ("x" * 30, ["x" * 17, "x" * 13]),
        ("", [""]),
    ],
)
def test_text_is_broken_where_it_may_be(text: str, lines: list[str]) -> None:
    assert wrapped(text, 1.0, 7).split("\n") == lines  # 17 letters of 4.2 points


def test_labels_of_many_maps_stay_in_the_figure() -> None:
    far = -np.abs(np.subtract.outer(range(48), range(48)))
    records = []
    for i in range(12):  # one of them with long numbers beside its colours
        maps = [
            (far * (10.0 + i if i else 523.0) * 2.0**-head).tolist()
            for head in range(4)
        ]
        arrays = {"bias_map": maps, "bias_heads": list(range(4))}
        records.append(record("portrait", f"scheme{i}", arrays=arrays))
    figure = drawn("bias_maps", records)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = [axes.yaxis.label for axes in figure.axes if axes.get_ylabel() == "query"]
    assert len(labels) == 12 * 4 // 8  # one for each row of eight maps
    for label in labels:
        assert label.get_window_extent(canvas.get_renderer()).x0 >= 0


def test_schemes_with_equal_curves_are_drawn_once_with_both_names() -> None:
    figure = drawn("extrapolation", full("mix") + full("rope") + full("alibi", lift=1))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[:2] == ["alibi", "rope, mix"]
    wave = np.sin(np.arange(9.0))
    other = wave + 1e-4
    groups = groups_alike(["mix", "alibi", "rope"], [wave, other, wave + 1e-7])
    assert groups == [["alibi"], ["rope", "mix"]]
    assert joined(["a", "b"]) == "a, b"
    assert joined(["a" * 30, "b" * 9, "c"]) == "a" * 30 + " and 2 more"


def test_one_panel_says_preset_and_seeds_and_is_logarithmic_where_wide() -> None:
    figure = drawn("extrapolation", full("rope") + full("alibi", lift=0.1))
    assert figure.get_suptitle() == "training length 8, n = 2 seeds"
    assert figure.axes[0].get_yscale() == "linear"
    wide = drawn("extrapolation", full("rope", seeds=1) + full("alibi", lift=4.0))
    assert wide.axes[0].get_yscale() == "log"
    assert "(logarithmic)" in wide.axes[0].get_ylabel()


def test_sinusoids_have_clock_hands_and_rows_alike_are_one() -> None:
    angles = np.outer(np.arange(10), [1.0, 0.1])
    code = np.stack([np.sin(angles + 1), np.cos(angles + 1)], -1).reshape(10, 4)
    assert angles_of_code(2 * code) == pytest.approx(angles)
    for odd in (code + 0.1, np.roll(code, 1, 0), np.ones((3, 1)), code * np.nan):
        assert angles_of_code(odd) is None
    records = [
        replace(record("portrait", "sinusoidal"), arrays={"code": code.tolist()}),
        record("portrait", "rope", arrays={"angles": angles.tolist()}),
        record("portrait", "mix", arrays={"angles": (angles * 2).tolist()}),
    ]
    titles = [
        axes.get_title(loc="left").split("\n")[0]
        for axes in drawn("clock_hands", records).axes
        if axes.get_title(loc="left").count("\n") == 2
    ]
    assert titles == ["mix", "sinusoidal, rope"]


def test_biases_are_counted_from_the_largest_of_each_query() -> None:
    maps = np.array([[[8.0, 9.0], [7.0, 8.0]]])
    assert below_largest(maps)[0, 1].tolist() == [-1, 0]
    assert np.isnan(below_largest(maps)[0, 0, 1])
    raised = np.array([[[np.nan, np.nan], [107.0, 108.0]]])
    assert below_largest(raised)[0, 1].tolist() == [-1, 0]


def test_many_schemes_of_a_family_have_several_panels() -> None:
    records = [one for i in range(30) for one in full(f"s{i:02}", lift=i / 9, seeds=1)]
    figure = drawn("extrapolation", records)
    figure.draw_without_rendering()  # with a warning if panels have no room
    assert figure.get_figheight() < 6
    long = [
        one for i in range(30) for one in full(f"{'s ' * 16}{i:02}", lift=i, seeds=1)
    ]
    drawn("extrapolation", long).draw_without_rendering()
    titles = [axes.get_title(loc="right") for axes in figure.axes]
    assert titles == [f"rotary ({i} of 3)" for i in (1, 2, 3)]
    assert [len(axes.lines) for axes in figure.axes] == [len(figure.axes[0].lines)] * 3


def test_plots_of_the_same_records_are_not_drawn_again(tmp_path: Path) -> None:
    records = full("rope", seeds=1)
    told: list[tuple[str, bool]] = []

    def draw(records: list[Record], paper: Paper = OWN) -> set[bool]:
        told.clear()
        hear = lambda path, new: told.append((path.name, new))  # noqa: E731
        draw_all(
            records,
            tmp_path,
            plots="uniqueness",
            format="svg,pdf",
            paper=paper,
            told=hear,
        )
        assert [name for name, _ in told] == ["uniqueness.svg", "uniqueness.pdf"]
        return {new for _, new in told}

    assert draw(records) == {True}
    assert draw(records) == {False}
    later = Provenance({"started": "2026-01-02"})
    assert draw([replace(records[0], provenance=later), *records[1:]]) == {True}
    assert draw(records) == {True}
    assert draw(records, paper_of("column", None)) == {True}
    (tmp_path / "uniqueness.pdf").unlink()
    assert draw(records, paper_of("column", None)) == {True}


def test_pdf_has_its_fonts_inside(tmp_path: Path) -> None:
    (path,) = draw_all(full("rope"), tmp_path, plots="extrapolation", format="pdf")
    data = path.read_bytes()
    assert b"/CIDFontType2" in data
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


def test_a_user_chooses_width_and_style(tmp_path: Path) -> None:
    style = tmp_path / "my.mplstyle"
    style.write_text("font.size: 13\naxes.grid: True\n")
    with on_paper(paper_of("page", style)):
        figure = drawn("extrapolation", full("rope"))
    assert figure.get_figwidth() == 7.0
    assert drawn("extrapolation", full("rope")).get_figwidth() == 3.4
    plain = draw_all(full("rope"), tmp_path / "a", plots="extrapolation", format="svg")
    mine = draw_all(
        full("rope"),
        tmp_path / "b",
        plots="extrapolation",
        format="svg",
        paper=paper_of("", style),
    )
    assert plain[0].read_text() != mine[0].read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("font.size: 12x", "Key font.size: Could not convert"),
        ("fnt.size: 12", "Bad key fnt.size"),
        (None, "No such file"),
    ],
)
def test_a_style_that_cannot_be_used_is_refused(
    text: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.mplstyle"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        paper_of("", path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="size must be"):
        paper_of("poster", None)
