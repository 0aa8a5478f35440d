"""Plots from small records made by hand."""

import io
import json
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image
from support.plots import drawn, titles
from support.processes import python
from support.records import HOSTILE, curve, fact, read, row, stored
from support.records import record as stored_record

from posenc_compare.check import built_in
from posenc_compare.errors import ConfigError, StoreError
from posenc_compare.records.quantities import ONE_LAYER, Quantity, Row
from posenc_compare.records.record import Record, Status
from posenc_compare.registry import FAMILIES, PLOTS, SCHEMES
from posenc_compare.show.differences import Difference
from posenc_compare.show.plots import style
from posenc_compare.show.plots.clock_hands import angles_of_code
from posenc_compare.show.plots.codes import channels_of, cosines
from posenc_compare.show.plots.drawing import draw_all, images
from posenc_compare.show.plots.maps import below_largest, draw_bias_maps
from posenc_compare.show.plots.panels import draw_heat
from posenc_compare.show.plots.paper import on_paper
from posenc_compare.show.plots.plot import in_order
from posenc_compare.show.plots.rank import draw_rank
from posenc_compare.show.plots.style import FAINT, FIRST, LABEL, looks, safe
from posenc_compare.show.results import Results
from posenc_compare.stats.intervals import half_width

# These need many rates or other records: `test_sensitivity.py`, `test_retrieval.py`.
OTHERS = {"sensitivity", "retrieval", "retrieval_bits"}
NAMES = [entry.name for entry in in_order() if entry.name not in OTHERS]
TRAINED = ("extrapolation", "inside")
UNITS = {"distinct_share": "share of codes"}


def record(
    measure: str,
    label: str = "rope",
    *,
    seed: int = 0,
    rows: list[Row] | None = None,
    arrays: dict[str, Any] | None = None,
    status: Status = "ok",
    family: str = "rotary",
    task: str = "language",
) -> Record:
    kind: dict[str, Any] = {"trained": 8}
    if measure in TRAINED:
        kind = {"corpus_sha256": "1", "task": task}
    made = read(stored_record("x", measure, seed=seed, length=8, **kind))
    names = {*UNITS, *(row.quantity for row in rows or [])}
    units = {name: UNITS.get(name, "") for name in names}
    return replace(
        made,
        label=label,
        family=family,
        status=status,
        quantities={k: Quantity(k, unit, "neither", "") for k, unit in units.items()},
        rows=tuple(rows or []),
        arrays=arrays or {},
    )


def full(label: str, *, lift: float = 0.0, seeds: int = 2) -> list[Record]:
    """Records of one scheme, with something for every plot."""
    return [one for seed in range(seeds) for one in full_seed(label, lift, seed)]


def full_seed(label: str, lift: float, seed: int) -> list[Record]:
    bits = [Row("bits_per_byte", 3 + lift + 0.1 * seed, 8 << i) for i in range(3)]
    bits += [
        Row("read_bits_per_byte", 2 + lift + 0.1 * seed, 8 << i, case)
        for i in (1, 2)
        for case in ("pi", "yarn")
    ]
    static = [
        Row("read_bits_per_byte", 2 + lift, 8, "static pi"),
        Row("sliding_bits_per_byte", 2.0 + lift),
    ]
    rows = {
        "checkpoint": [*bits, *static],
        "inside": [Row("position_probe", 0.1 + lift, x) for x in range(3)],
        "uniqueness": [
            Row("distinct_share", 1.0, case="float32"),
            Row("distinct_share", 0.75, case="bfloat16"),
            Row("distinct_share", None, case="float16", note="none"),
            Row("nearest_distance_relative", 0.2),
        ],
        "far_keys": [
            Row("locality", 0.5 + lift, 2048),
            Row("inconsistency", 0.1 * seed, 2048),
        ],
    }
    arrays: dict[str, dict[str, Any]] = {
        "inside": {
            "pair_use": [[2.0, 1.0 + lift]],
            "trained_bias": [[[0, None], [-1, 0]]],
            "trained_similarity": [[[1, 0.5], [0.5, 1]]],
        },
        "portrait": {
            "code": np.sin(np.outer(range(8), range(12))).tolist(),
            "bias_map": [[[0, None], [-1, 0]], [[0, None], [-2, 0]]],
            "bias_heads": [0, 7],
            "grid_bias": [[[-1, 0, -1]] * 3, [[-2, 0, -2]] * 3],
            "grid_similarity": [[[0.5, 1, 0.5]] * 3],
            "angles": np.outer(range(10), [1, 0.1, 0]).tolist(),
            "similarity": [1.0, 0.5 + lift, None],
        },
        "distance_decay": {"mean_logit": [5.0, 4.0, -35.0 - lift]},
    }
    found = [
        record(
            measure,
            label,
            seed=seed,
            rows=rows.get(measure),
            arrays=arrays.get(measure),
        )
        for measure in {**rows, **arrays}
    ]
    accuracy = [Row("accuracy", 0.9 - lift, 8 << i) for i in range(3)]
    return [
        record("extrapolation", label, seed=seed, rows=bits),
        record("extrapolation", label, seed=seed, task="copy", rows=accuracy),
        *found,
    ]


def texts(figure: Figure) -> list[str]:
    shown = figure.findobj(lambda artist: isinstance(artist, Text))
    found = [artist.get_text() for artist in shown if isinstance(artist, Text)]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in found]


@pytest.mark.parametrize("name", NAMES)
def test_draws_what_has_a_result_and_nothing_else(name: str) -> None:
    broken = [replace(r, status="failed") for r in full("broken")]
    figure = drawn(name, full("rope") + full("alibi", lift=0.1) + broken)
    assert figure.get_figwidth() == 7.0
    assert "broken" not in " ".join(texts(figure))
    empty = [record(measure) for measure in {r.measure for r in full("rope")}]
    for none in ([], [record("other")], empty, broken):
        assert PLOTS.get(name)(none) is None
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", NAMES)
def test_hostile_labels_are_drawn_as_text(name: str, tmp_path: Path) -> None:
    tail = HOSTILE[HOSTILE.index("\x1b[31mred\x1b[0m\x1b]0;title\x07") :]
    labels = ["", "x" * 300, "<script>a$b$ $\\frac{"]
    labels += ["".join(tail[:2]), "".join(tail[2:6]), "".join(tail[6:])]
    records = [
        r for i, label in enumerate(labels) for r in full(label, lift=i / 100, seeds=1)
    ]
    if (figure := PLOTS.get(name)(records)) is None:
        pytest.fail("nothing was drawn")
    figure.savefig(tmp_path / "plot.svg")
    svg = (tmp_path / "plot.svg").read_text()
    assert not any(sign in svg for sign in ("\x1b", "\x07", "\0", "\u202e"))


def test_hostile_cases_and_units_are_drawn_as_text() -> None:
    rows = [Row("distinct_share", 1.0, case=case) for case in HOSTILE]
    one = record("uniqueness", rows=rows)
    unit = Quantity("distinct_share", "$\\frac{ " * 90, "neither", "")
    one = replace(one, quantities={unit.name: unit})
    drawn("uniqueness", [one])


def test_all_plots_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    records = full("a$b_{", seeds=1)
    paths = draw_all(records, tmp_path / "new" / "one", format="png")
    assert [path.name for path in paths] == [f"{name}.png" for name in NAMES]
    both: dict[str, Any] = {"plots": NAMES[0], "format": "png,svg"}
    (png, svg), again = (draw_all(records, tmp_path / n, **both) for n in ("a", "b"))
    assert (png.name, svg.name) == (f"{NAMES[0]}.png", f"{NAMES[0]}.svg")
    for first, second in zip((png, png, svg), (paths[0], *again), strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert draw_all([], tmp_path / "none") == []
    assert plt.imread(png).shape[1] == 7.0 * 150
    assert ">a$b_{</text>" in svg.read_text()


def test_numbers_of_one_layer_of_several_are_not_drawn() -> None:
    records = [one for one in full("rope") if one.measure == "uniqueness"]
    assert images(records, dpi=20).keys() == {"uniqueness.png"}
    noted = [
        replace(one, rows=tuple(replace(each, note=ONE_LAYER) for each in one.rows))
        for one in records
    ]
    assert not images(noted, dpi=20)
    with pytest.raises(ConfigError, match="must have records that it can draw"):
        Results(noted, Path()).plot("uniqueness")


def test_a_plot_without_records_is_no_failure(posenc: Any, tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [stored_record("rope", "portrait")])
    done = posenc("plot", run, "--plots", "extrapolation")
    assert (done.returncode, done.stdout) == (0, "")
    said = "nothing drawn for plots extrapolation: they show records of extrapolation"
    assert done.stderr == f"{said}, and here are those of portrait\n"


def test_maps_of_wide_codes_show_whole_pairs_of_channels() -> None:
    draw = np.random.default_rng(0)
    assert [*channels_of(draw.normal(size=(9, 128)))] == [*range(128)]
    kept = channels_of(draw.normal(size=(9, 512)))
    assert ([*kept[:2]], [*kept[-2:]], len(kept)) == ([0, 1], [510, 511], 128)
    assert all(kept[1::2] == kept[::2] + 1)
    bits = np.arange(64)[:, None] >> np.arange(6) & 1  # copied, and then filled up
    repeated = np.pad(np.tile(bits, 85), ((0, 0), (0, 2)))
    assert [*channels_of(repeated.astype(float))] == [*range(6)]
    reordered = np.hstack([bits[:, ::-1] if i % 2 else bits for i in range(85)])
    odd = np.where(np.arange(512) % 2, np.nan, np.zeros((9, 512)))
    for other in (reordered.astype(float), odd):
        assert len(channels_of(other)) == 128


@pytest.mark.parametrize(
    "values",
    [[[]], [[[]]], [1.0], [[1.0]], [[[[1.0]]]], [None], [[None]], [1e308, -1e308]],
)
def test_no_array_stops_the_plots(values: list[Any]) -> None:
    names: list[str] = ["code", "bias_map", "angles", "similarity"]
    odd = record("portrait", arrays=dict.fromkeys(names, values))
    lines: list[str] = []
    images([odd], lines.append, endings=("png",), dpi=20)
    assert all(line.startswith("plot ") and "\n" not in line for line in lines)


def test_plots_are_written_by_name_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "uniqueness.png").symlink_to(outside)
    draw_all(full("rope")[-1:], folder)
    assert outside.read_text() == "precious"
    with pytest.raises(StoreError, match="must take plots"):
        draw_all([], outside)


def test_the_users_own_style_does_not_matter() -> None:
    records = [r for r in full("rope") if r.measure == "uniqueness"]
    plain = images(records, endings=("png",), dpi=30)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
        assert images(records, endings=("png",), dpi=30) == plain
        assert mpl.rcParams["font.size"] == 30


def test_plots_need_no_torch() -> None:
    code = (
        "import sys, posenc_compare.show.plots.drawing; "
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' not in sys.modules)"
    )
    assert python("-c", code).returncode == 0


def of_family(names: dict[str, str]) -> list[Record]:
    return [record("m", name, family=family) for name, family in names.items()]


def test_a_scheme_has_one_look_in_every_company_and_no_other_has_it_in_grey() -> None:
    names = {name: SCHEMES.entry(name).facts["family"] for name in built_in()}
    names |= {"mine": "rotary", "rope:base=5.0": "rotary", "x": "strange"}
    every = looks(of_family(names))
    for name, family in names.items():
        alone = looks(of_family({name: family}))[name]
        assert alone == every[name]
    assert len({(look.dash, look.marker) for look in every.values()}) == len(names)
    assert len({every[name].colour for name in FIRST}) == len(FIRST)
    assert every["mine"].colour not in {every[name].colour for name in built_in()}
    for plain in ("rope", "mine"):
        bases = looks(of_family({f"{plain}:base={n}.0": "rotary" for n in range(30)}))
        assert every[plain].colour not in {look.colour for look in bases.values()}
        assert len({(look.dash, look.marker) for look in bases.values()}) == 30


def test_a_scheme_keeps_colour_and_dash_under_several_settings() -> None:
    names = {"rope": "rotary", "fire": "bias"}
    few, every = (
        looks(
            replace(one, label=f"{one.label} [steps={n}]", settings=(f"steps={n}",))
            for one in of_family(some)
            for n in (300, 600)
        )
        for some in (names, dict.fromkeys(built_in(), "bias"))
    )
    for label, alone in looks(of_family(names)).items():
        first, second = (few[f"{label} [steps={n}]"] for n in (300, 600))
        assert first.line == every[f"{label} [steps=300]"].line == alone.line
        assert (second.colour, second.dash) == (alone.colour, alone.dash)
    assert len({(look.dash, look.marker) for look in few.values()}) == 4


def test_looks_are_ordered_by_family_then_year_and_have_texts_of_their_own() -> None:
    wanted = {
        "nope": "none",
        "learned": "absolute",
        "t5_bias": "bias",
        "alibi": "bias",
        "alibi:a=1": "bias",
        "z": "strange",
    }
    records = of_family(dict(reversed(wanted.items())))
    assert list(looks(records)) == list(wanted)
    shown = [look.text for look in looks([record("m", s) for s in HOSTILE]).values()]
    assert len(set(shown)) == len(HOSTILE)
    assert max(map(len, shown)) <= LABEL + 1


def test_a_label_that_matplotlib_would_hide_is_shown() -> None:
    assert (safe("_x"), safe("a\nb")) == (" _x", "a?b")


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def lines_of(axes: Axes) -> list[Any]:
    return [np.asarray(line.get_xydata(), float).T.tolist() for line in axes.lines]


def test_extrapolation_draws_means_and_marks_ends() -> None:
    note = "not defined beyond 8"
    bits = [Row("bits_per_byte", 2.0, 8), Row("bits_per_byte", None, 16, note=note)]
    ending = [record("extrapolation", "learned", rows=bits)]
    figure = drawn("extrapolation", full("rope") + full("mix") + ending)
    axes = figure.axes[0]
    assert [[8, 16, 32], pytest.approx([3.05] * 3)] in lines_of(axes)
    (band,) = (one for one in axes.collections if one.get_paths())
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    # 12.706 is the quantile of Student's t for two seeds, which lie 0.1 apart.
    half_width = 12.706 * 0.1 / 2
    assert heights.min() == pytest.approx(3.05 - half_width, abs=1e-4)
    assert heights.max() == pytest.approx(3.05 + half_width, abs=1e-4)
    (bar,) = (line for line in axes.lines if line.get_marker() == "|")
    assert np.asarray(bar.get_xydata()).tolist() == [[8, 2]]
    assert legend_of(axes) == ["rope, mix", "learned"]  # by their ends; equal are one
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == [
        "no further positions",
        "training length",
        "95% interval over seeds",
    ]
    setting = "width 32, training length 8, in float64"
    assert figure.get_suptitle() == f"{setting}, n = 1 to 2 seeds"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    wide = drawn("extrapolation", full("rope") + full("alibi", lift=4.0))
    assert wide.axes[0].get_yscale() == "log"
    assert wide.get_supylabel() == "bits per byte (logarithmic)"


@pytest.mark.parametrize(("apart", "seed"), [(0.0, 0), (0.5, 0), (0.5, 1)])
def test_simple_models_of_one_text_alone_are_drawn(apart: float, seed: int) -> None:
    records = [
        record(
            "extrapolation",
            label,
            seed=seed if more else 0,
            rows=[
                *(Row("bits_per_byte", 2.5 + i, 8 << i) for i in range(2)),
                Row("floor_bits_per_byte", 3.0 + more, 8, "2-gram"),
                Row("floor_bits_per_byte", 2.9 + more, 16, "2-gram"),
            ],
        )
        for label, more in (("a", 0.0), ("b", apart))
    ]
    if seed:  # of another text, without a common seed
        spec = records[1].spec
        other = replace(spec, setting={**spec.setting, "corpus_sha256": "2"})
        records[1] = replace(records[1], spec=other)
    figure = drawn("extrapolation", records)
    assert ([[8, 16], [3.0, 2.9]] in lines_of(figure.axes[0])) == (apart == 0)
    assert ("2-gram" in texts(figure)) == (apart == 0)


def test_simple_models_are_left_out_if_asked(posenc: Any, tmp_path: Path) -> None:
    one = curve("rope", [2.0, 3.0], quantity="bits_per_byte")
    name = "floor_bits_per_byte"
    facts = fact({"floor_of": "bits_per_byte"}, x="test length", name=name)
    one["quantities"][name] = facts
    one["rows"] += [row(2.5, x=x, quantity=name, case="2-gram") for x in (8, 16)]
    run = stored(tmp_path / "run", [one])
    words = ["plot", run, "--plots", "extrapolation", "--format", "svg"]
    for floors, more in ((True, []), (False, ["--no-floors"])):
        assert posenc(*words, *more).returncode == 0
        assert (">2-gram<" in (run / "extrapolation.svg").read_text()) is floors
        assert ("2-gram" in posenc("table", run, *more).stdout) is floors


def test_names_beside_points_lie_on_nothing() -> None:
    made = []
    for i in range(12):
        shift = 0.02 * (i // 2)
        rows = [Row("locality", 0.5, 2048), Row("inconsistency", shift, 2048)]
        rows.append(Row("locality", 1.0, 128))
        made.append(record("far_keys", f"a_long_scheme{i}", rows=rows))
    made.append(record("far_keys", "none", rows=[Row("locality", None, 2048)]))
    figure = drawn("far_keys", made)
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts} == {
        f"a_long_scheme{i}, a_long_scheme{i + 1}" for i in range(0, 12, 2)
    }
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    dots = axes.transData.transform([(0.02 * i, 0.5) for i in range(6)])
    assert not any(box.contains(*dot) for box, dot in product(boxes, dots))


def test_intervals_of_shares_end_at_0_and_1() -> None:
    made = [
        record(
            "far_keys",
            "a",
            rows=[Row("locality", y, 2048), Row("inconsistency", 0.1, 2048)],
            seed=i,
        )
        for i, y in enumerate((0.2, 0.9))
    ]
    (axes,) = drawn("far_keys", made).axes
    ends = [
        np.asarray(path.vertices)[:, 1]
        for bar in axes.collections
        for path in bar.get_paths()
    ]
    assert (np.min(ends), np.max(ends)) == (0, 1)


def test_models_off_the_axis_are_named_and_one_that_crosses_it_is_drawn() -> None:
    rows = [Row("bits_per_byte", 2.5 + i, 8 << i) for i in range(2)]
    rows += [Row("floor_bits_per_byte", 1.25, 8 << i, "5-gram") for i in range(2)]
    rows += [Row("floor_bits_per_byte", 7.5, 8 << i, "1-gram") for i in range(2)]
    rows += [Row("floor_bits_per_byte", 3.0 - 2 * i, 8 << i, "3-gram") for i in (0, 1)]
    figure = drawn("extrapolation", [record("extrapolation", "a", rows=rows)])
    off = {"below the axis: 5-gram (1.25)", "above the axis: 1-gram (7.50)"}
    assert off | {"3-gram"} <= set(texts(figure))


def test_colours_of_few_pixels_survive_the_palette_of_a_png() -> None:
    figure = style.new_figure(3.0)
    x = np.linspace(0, 1, 6)
    for place, colour in enumerate(style.COLOURS):
        y = np.sin(3 * x + place)
        axes = figure.add_subplot(2, len(style.COLOURS) // 2, place + 1)
        if place % 4 == 3:
            axes.plot(x[:2], y[:2], color=colour, linewidth=0.8)
        else:
            for up in y + np.arange(6)[:, None] / 9:
                axes.fill_between(x, up - 0.1, up + 0.1, color=colour, alpha=0.15)
    few, whole = io.BytesIO(style.render(figure, "png", 150)), io.BytesIO()
    with style.in_style():
        figure.savefig(whole, format="png", dpi=150)
    found, drawn_as = (
        np.array(Image.open(data).convert("RGB")).astype(int) for data in (few, whole)
    )
    for colour in style.COLOURS[3::4]:
        own = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        pure = (drawn_as == own).all(axis=-1)
        assert pure.any()
        assert np.median(np.abs(found[pure] - own).max(axis=-1)) <= 4, colour


def test_a_scaling_keeps_its_look_whichever_others_are_drawn() -> None:
    few = style.looks_of_scalings(["yarn", "own"])
    every = style.looks_of_scalings([*style.SCALINGS, "own"])
    assert few == {name: every[name] for name in ("yarn", "own")}
    assert len({look.colour for look in every.values()}) == len(every)
    assert len({look.dash for look in every.values()}) == len(every)


def test_many_schemes_have_a_panel_for_each_family() -> None:
    labels = {f"{family}{i}": family for family in FAMILIES[1:] for i in range(4)}
    labels |= {f"s{i:02}": "rotary" for i in range(10)}
    records = [
        replace(found, family=family)
        for i, (label, family) in enumerate({"nope": "none", **labels}.items())
        for found in full(label, lift=0.001 * i)
    ]
    figure = drawn("extrapolation", records)
    titled = {axes.get_title(loc="left"): axes for axes in figure.axes}
    families = {"absolute", "rotary (1 of 2)", "rotary (2 of 2)", "bias"}
    assert families <= set(titled)
    for family in ("absolute", "bias", "contextual"):
        shown = [*(f"{family}{i}" for i in reversed(range(4))), "nope"]
        assert legend_of(titled[family]) == shown  # from the highest end down
        colours = [line.get_color() for line in titled[family].lines]
        assert colours.count(FAINT) == len(labels) - 4
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


def test_many_schemes_have_a_column_of_tasks_for_each_family() -> None:
    tasks = ("copy", "sort")
    records = [
        record("extrapolation", f"{family}{i}", task=task, family=family, rows=rows)
        for task, family in product(tasks, FAMILIES)
        for i in range(2)
        for rows in [[Row("accuracy", 0.1 * i, 8 << x) for x in range(2)]]
    ]
    figure = drawn("tasks", records)
    wanted = [f"{task}, {family}" for task, family in product(tasks, FAMILIES[1:])]
    assert titles(figure) == wanted
    with on_paper("column"):
        narrow = drawn("tasks", records)
    assert titles(narrow) == ["copy", "sort"]


@pytest.mark.parametrize(("level", "above"), [(0.5, True), (1.5, False)])
def test_bits_of_checkpoints_count_from_their_own_sliding_windows_below_all(
    level: float, above: bool
) -> None:
    made = [
        replace(
            one,
            rows=tuple(
                replace(r, value=level + lift + 0.1 * one.spec.seed)  # of a window
                if r.quantity.startswith("sliding")
                else r
                for r in one.rows
            ),
        )
        for label, lift in (("rope", 0.0), ("xpos", 0.2))
        for one in full(label)
        if one.measure == "checkpoint"
    ]
    figure = drawn("checkpoint", made)
    panels = titles(figure)
    factors = ("factor of each length", "factor of the longest")
    assert panels == [f"{label}\n{x}" for label in ("rope", "xpos") for x in factors]
    assert ("above" in figure.get_supylabel()) == above
    for title, axes in zip(panels, figure.axes, strict=True):
        own = level + 0.05 + 0.2 * title.startswith("xpos")
        trained = 3.05 - (own if above else 0)  # the mean of both seeds
        heights = [np.asarray(y) for _, y in lines_of(axes)]
        assert any(len(h) == 3 and np.allclose(h, trained) for h in heights)
        assert any(np.allclose(h, own) for h in heights) != above


def test_trained_networks_are_drawn_under_their_scalings() -> None:
    records = [r for r in full("rope") + full("mix", lift=1) if r.measure in TRAINED]
    figure = drawn("checkpoint", records)
    assert titles(figure) == ["rope", "mix"]
    assert {"as trained", "pi, yarn", "test length (bytes)"} <= set(texts(figure))
    assert [[16, 32], pytest.approx([2.05] * 2)] in lines_of(figure.axes[0])
    plain = [record("extrapolation", rows=[Row("bits_per_byte", 3.0, 8)])]
    assert PLOTS.get("checkpoint")(plain) is None
    long = [r for end in "ab" for r in full("rope:" + "x" * 200 + end)]
    figure = drawn("checkpoint", [r for r in long if r.measure == "checkpoint"])
    assert len({*titles(figure)}) == 4


def heat_of(axes: Axes) -> Any:
    mesh = axes.collections[0]
    assert isinstance(mesh, QuadMesh)
    return np.ma.filled(np.ma.asarray(mesh.get_array(), dtype=float), np.nan)


def test_similarity_has_a_row_for_each_scheme_and_counts_logits_from_distance_0() -> (
    None
):
    steep = record("distance_decay", "alibi", arrays={"mean_logit": [5.0, 1.0, -5.0]})
    steep = replace(steep, family="bias")
    figure = drawn("similarity", [*full("rope"), *full("mix"), steep])
    cosines, logits = figure.axes[:2]
    names = [text.get_text() for text in cosines.get_yticklabels()]
    assert names == ["rope, mix", "alibi"]
    assert heat_of(cosines)[0].tolist() == [1, 0.5]
    assert np.isnan(heat_of(cosines)[1]).all()
    assert heat_of(logits).tolist() == [[0, -1, -40], [0, -4, -10]]
    assert {"rotary", "bias"} <= set(texts(figure))
    title = "mean cosine of two codes\n(n = 2 seeds; grey: not defined)"
    assert title in texts(figure)


def test_the_rows_of_a_family_stand_by_how_far_they_fall() -> None:
    records = [
        record("distance_decay", label, arrays={"mean_logit": [0.0, -fall]})
        for label, fall in (("rope", 3.0), ("xpos", 1.0), ("fope", 2.0))
    ]
    axes = drawn("similarity", records).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["xpos", "fope", "rope"]


def test_similarity_of_many_distances_has_rows_and_bar_of_its_own() -> None:
    logits = {"mean_logit": [-0.05 * distance for distance in range(200)]}
    flat = {"mean_logit": [0.0] * 200}
    figure = drawn(
        "similarity",
        [
            replace(record("distance_decay", "alibi", arrays=logits), family="bias"),
            record("distance_decay", "rope", arrays=flat),
        ],
    )
    axes, bar = figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert sorted(names) == ["alibi", "rope"]
    assert bar.get_xlim() == (-10, 0)
    assert heat_of(axes).shape == (2, 200)


def test_codes_are_drawn_over_their_largest_beside_their_cosines() -> None:
    short = record("portrait", "learned", arrays={"code": [[1.0, -4.0], [0.0, 0.0]]})
    figure = drawn("codes", [*full("rope"), replace(short, family="absolute")])
    learned, cosine, rope = figure.axes[:3]
    assert heat_of(learned).tolist() == [[0.25, -1], [0, 0]]
    assert heat_of(cosine)[0, 0] == pytest.approx(1)
    assert np.isnan(heat_of(cosine)[1]).all()
    wave = np.sin(np.outer(range(8), range(12)))
    assert heat_of(rope) == pytest.approx(wave / np.abs(wave).max())
    assert [axes.get_ylim() for axes in (learned, rope)] == [(8, 0), (8, 0)]
    assert learned.get_facecolor()[0] == pytest.approx(0.85)
    assert cosines(np.array([[1.0, 0.0], [1.0, 1.0]]))[0, 1] == pytest.approx(0.5**0.5)


def test_biases_are_counted_from_the_largest_of_each_query() -> None:
    maps = np.array([[[8.0, 9.0], [7.0, 8.0]]])
    assert below_largest(maps)[0, 1].tolist() == [-1, 0]
    assert np.isnan(below_largest(maps)[0, 0, 1])
    raised = np.array([[[np.nan, np.nan], [107.0, 108.0]]])
    assert below_largest(raised)[0, 1].tolist() == [-1, 0]


def test_equal_maps_are_drawn_once_before_and_after_training() -> None:
    figure = drawn("bias_maps", full("rope") + full("mix"))
    named = [text for text in texts(figure) if text.startswith("rope")]
    assert named == ["rope, mix, head 0, 7", "rope, mix", "rope, mix"]
    assert "before and after training, seed 0" in texts(figure)
    assert np.nanmin(heat_of(figure.axes[1])) == -2
    same = record("portrait", arrays={"bias_map": [[[0, 1], [1, 0]]] * 3})
    found = texts(drawn("bias_maps", [same]))
    assert {"rope, all heads", "before training, seed 0"} <= set(found)


def test_a_map_that_shows_nothing_is_named_instead() -> None:
    slope, flat = ([[[0, 0], [low, 0]]] for low in (-2, -0.2))
    records = [
        record("portrait", label, arrays={"bias_map": maps})
        for label, maps in (("a", slope), ("b", flat))
    ]
    figure = drawn("bias_maps", records)
    assert "before training, seed 0; nearly flat: b" in texts(figure)
    assert not any(text.startswith("b") and "," in text for text in texts(figure)[1:])
    assert draw_bias_maps(records[1:]) is None


def test_a_map_keeps_fewer_heads_where_all_would_not_fit_a_page() -> None:
    records = []
    far = -np.abs(np.subtract.outer(range(4), range(4)))
    for i in range(15):
        maps = [(far * (1 + i) * 2.0**-head).tolist() for head in range(4)]
        arrays = {"bias_map": maps, "bias_heads": list(range(4))}
        records.append(record("portrait", f"scheme{i}", arrays=arrays))
    with on_paper("column"):
        figure, of_few = (drawn("bias_maps", some) for some in (records, records[:5]))
    assert "scheme0,\nhead 0" in texts(figure)
    assert figure.get_figheight() <= 9
    assert "scheme0, head 0, 1, 2, 3" in texts(of_few)


def test_the_middle_of_a_grid_is_framed() -> None:
    values = np.arange(12.0).reshape(1, 2, 6).tolist()
    figure = drawn("grid_maps", [record("portrait", arrays={"grid_bias": values})])
    (frame,) = figure.axes[0].patches
    assert isinstance(frame, Rectangle)
    assert (frame.get_x(), frame.get_y()) == (3, 1)
    assert heat_of(figure.axes[0])[1].tolist() == [-5, -4, -3, -2, -1, 0]


def test_clock_hands_point_where_the_angles_say() -> None:
    figure = drawn("clock_hands", [r for r in full("rope") if r.measure == "portrait"])
    hands = lines_of(figure.axes[0])
    assert [angles[1] for angles, _ in hands] == pytest.approx([*range(8)])
    lengths = [ends[1] for _, ends in hands]
    assert lengths == sorted(lengths)
    assert titles(figure) == [
        "rope\npair 0\n6.3 positions",
        "pair 1\n62.8 positions",
        "pair 2\nno rotation",
    ]
    axes: Any = figure.axes[0]
    assert (axes.get_theta_offset(), axes.get_theta_direction()) == (0, 1)
    assert "turn anticlockwise" in figure.legends[0].get_title().get_text()


def test_sinusoids_have_clock_hands_and_equal_rows_are_one() -> None:
    angles = np.outer(np.arange(10), [1.0, 0.1])
    code = np.stack([np.sin(angles + 1), np.cos(angles + 1)], -1).reshape(10, 4)
    assert angles_of_code(2 * code) == pytest.approx(angles)
    for odd in (code + 0.1, np.roll(code, 1, 0), np.ones((3, 1)), code * np.nan):
        assert angles_of_code(odd) is None
    records = [
        record("portrait", "sinusoidal", arrays={"code": code.tolist()}),
        record("portrait", "rope", arrays={"angles": angles.tolist()}),
        record("portrait", "mix", arrays={"angles": (angles * 2).tolist()}),
    ]
    panels = titles(drawn("clock_hands", records))
    assert [title for title in panels if title.count("\n") > 1] == [
        "sinusoidal,\nrope\npair 0\n6.3 positions",
        "mix\npair 0\n3.1 positions",
    ]


def test_dots_are_means_over_seeds_with_their_intervals() -> None:
    records = [
        record("uniqueness", seed=s, rows=[Row("distinct_share", 0.2 * s, case="f")])
        for s in range(3)
    ] + [
        record("shift_linearity", rows=[Row("linear_residual", 0.5, k) for k in (1, 2)])
    ]
    figure = drawn("uniqueness", records)
    share, shift = figure.axes
    (dot,), (bar,) = share.lines, share.collections[0].get_paths()
    assert np.asarray(dot.get_xdata()).tolist() == [pytest.approx(0.2)]
    # 4.303 is the quantile of Student's t for three seeds.
    half_width = 4.303 * 0.2 / 3**0.5
    ends = [0.2 - half_width, 0.2 + half_width]
    assert np.asarray(bar.vertices)[:, 0] == pytest.approx(ends, abs=1e-4)
    assert share.get_xlim() == (-0.03, 1.03)
    assert "error of one linear map" in shift.get_title(loc="left").replace("\n", " ")
    assert np.asarray(shift.lines[0].get_xdata()).tolist() == [0.5]


def test_zero_stands_in_a_grey_strip_of_a_logarithmic_axis() -> None:
    records = [
        record("uniqueness", label, rows=[Row("nearest_distance_relative", distance)])
        for label, distance in (("a", 0.0), ("b", 1e-4), ("c", 0.5))
    ]
    axes = drawn("uniqueness", records).axes[0]
    assert axes.get_xscale() == "symlog"
    assert "linear in grey" in axes.get_xlabel().replace("\n", " ")
    assert axes.get_xlim()[0] < 0
    assert axes.get_xticklabels()[0].get_text() == "0"
    none = [one for one in records if one.label != "a"]
    assert drawn("uniqueness", none).axes[0].get_xscale() == "log"


def test_the_place_of_ones_own_scheme_is_marked_among_all() -> None:
    half = np.array([-1.0, 1.0]) / half_width([-1.0, 1.0])
    changes = {
        "rope": Difference(0.3 + 0.2 * half, np.nan),
        "nope": Difference(np.array([0.1]), np.nan),
        "lost": Difference(np.array([]), np.nan),
    }
    figure = draw_rank("mine_$x$", changes, "bits per byte less those of mine")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["1. mine_$x$", "2. nope", "3. rope"]
    dots = [[[0.0], [0]], [[0.1], [1]], [[pytest.approx(0.3)], [2]]]
    assert lines_of(axes)[1:] == dots
    bars: list[Any] = [bar.get_paths()[0].vertices for bar in axes.collections]
    assert bars[-1] == pytest.approx(np.array([[0.1, 2], [0.5, 2]]))
    assert np.isnan(bars[0][:, 0]).all()
    colours = [line.get_color() for line in axes.lines]
    assert colours[1] != colours[2] == colours[3]
    assert axes.get_xlabel() == "bits per byte less those of mine"


def test_pairs_of_channels_are_drawn_over_their_mean_use() -> None:
    one = record("inside", rows=[Row("position_probe", 0.1, x) for x in range(3)])
    figure = drawn("inside", [replace(one, arrays={"pair_use": [[4, 2, 1, 1]] * 2})])
    assert lines_of(figure.axes[0])[0] == [[0, 1, 2], pytest.approx([0.1] * 3)]
    uses = [[1, 2, 3, 4], pytest.approx([2.0, 1.0, 0.5, 0.5])]
    assert lines_of(figure.axes[-1])[0] == uses


def test_pdf_has_its_fonts_inside(tmp_path: Path) -> None:
    (path,) = draw_all(full("rope"), tmp_path, plots="extrapolation", format="pdf")
    data = path.read_bytes()
    assert b"/CIDFontType2" in data
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


# --- plots that exit and raise ----------------------------------------------------

PLUGIN = """
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
    plugin.write_text(PLUGIN)
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


def test_a_pixel_shows_the_mean_of_the_numbers_under_it() -> None:
    board = np.where(np.indices((512, 512)).sum(axis=0) % 2, -1.0, 1.0)
    figure, image = Figure(figsize=(2, 2), dpi=100), io.BytesIO()
    axes = figure.add_axes((0, 0, 1, 1))
    draw_heat(axes, board, ("gray", -1, 1))
    figure.savefig(image, format="png")
    image.seek(0)
    found = plt.imread(image)[20:180, 20:180, 0]  # away from the ticks
    assert np.abs(found - 0.5).max() < 0.05
