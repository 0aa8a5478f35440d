"""Scores of trained networks against the test length."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.show.frame import Frame, Numbers
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks, safe
from posenc_compare.show.ranking import floors_of

BITS, FLOORS = "bits_per_byte", "floor_bits_per_byte"
READ = ("corpus_sha256", "split", "length", "batch", "steps")  # which bytes floors read
GREY = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))  # of simple models
CONSTANT = {"color": MIDDLE, "linewidth": 0.8, "linestyle": ":"}


@register_plot(
    "extrapolation",
    order=10,
    measure="extrapolation",
    caption="Bits per byte against the test length: means over seeds with their 95% "
    "intervals. Of many schemes, a panel for each family, with the others in pale "
    "grey. Dark grey: n-gram models of the same training bytes.",
)
def draw_extrapolation(records: Numbers) -> Figure | None:
    """Draw the score of each scheme by test length.

    A line that ends at a bar belongs to a scheme that defines no further positions.
    All panels have one scale of bits, so that families can be compared.
    """
    styles, chosen = looks(records), frames.in_bits(records)
    means = frames.means_of(records, chosen, styles)
    means = means[means["x"] > 0]
    bits = means[means["quantity"] == BITS]
    if bits["mean"].isna().all() or bits["x"].nunique() < 2:
        return None
    ended = set(bits.loc[bits["mean"].isna(), "scheme"])
    bits, merged = frames.merge_equal(bits.assign(panel=""), styles)
    lines = Lines(bits, merged)
    lines.length_axis()
    scale = lines.value_axis()
    lines.mark_ends(merged[k].text for k in merged if styles[k].text in ended)
    lines.mark_training(chosen)
    if len({tuple(map(one.spec.setting.get, READ)) for one in chosen}) == 1:
        _draw_floors(lines, _alike(means[means["quantity"] == FLOORS]))
    lines.finish("test length (bytes)", f"bits per byte{scale}", chosen)
    return lines.figure


@register_plot(
    "tasks",
    order=15,
    measure="extrapolation",
    caption="Accuracy on each task against the test length in training lengths: means "
    "over seeds with their 95% intervals. Dotted: a model that always gives the same "
    "answer.",
)
def draw_tasks(records: Numbers) -> Figure | None:
    """Draw the accuracy on each task by test length."""
    tasks = frames.scored(records, "accuracy")
    if not tasks:
        return None
    styles, every = looks(records), [one for some in tasks.values() for one in some]
    means = frames.means_of(records, every, styles)
    trained = {
        (styles[one.label].text, one.task): frames.training_length(one) for one in every
    }
    places = zip(means["scheme"], means["task"], strict=True)
    lengths = means["x"] / [*map(trained.get, places)]
    means = means.assign(x=lengths, panel=means["task"].map(safe))
    means = means[means["x"] > 0].sort_values("panel", kind="stable")
    scores, floors = (
        means[means["quantity"] == name] for name in ("accuracy", "floor_accuracy")
    )
    size: dict[str, Any] = {"columns": 3, "width": 1.7}  # in inches
    size |= {"height": 1.3} if len(tasks) > 2 else {}
    lines = Lines(scores, styles, **(size if len(tasks) > 1 else {}))
    lines.length_axis()
    lines.axes[0].set_ylim(-0.03, 1.03)
    for axes, task, _ in lines.facets:
        floor = _alike(floors[floors["panel"] == task])
        if len(floor):
            axes.plot(floor["x"], floor["mean"], **CONSTANT)
            lines.entries["constant answer"] = Line2D([], [], **CONSTANT)
    lines.finish("test length /\ntraining length", "accuracy", every)
    return lines.figure


def _alike(floors: Frame) -> Frame:
    """Return the floors of all schemes; none if schemes differ in theirs."""
    found = floors_of(floors).sort_values("x")
    return found[:0] if found.duplicated(["case", "x"]).any() else found


def _draw_floors(lines: Lines, floors: Frame) -> None:
    """Draw the means of simple models in grey, where the bits of schemes lie."""
    low, high = lines.axes[0].get_ylim()
    means = floors.pivot(index="case", columns="x", values="mean")
    off: dict[str, list[str]] = {"below": [], "above": []}
    for (case, line), dash in zip(means.iterrows(), GREY * len(means), strict=False):
        known = line.dropna()
        if ((low < known) & (known < high)).any():
            look = {"color": MIDDLE, "linewidth": 0.7, "linestyle": dash}
            for axes in lines.axes:
                axes.plot(line.index, line, zorder=2, **look)
            lines.entries[str(case)] = Line2D([], [], **look)
        elif len(known):
            side = "below" if known.iloc[-1] <= low else "above"
            off[side].append(f"{case} ({known.iloc[-1]:.2f})")
    for side, names in off.items():  # which a legend names, so that nothing is hidden
        if names:
            label = f"{side} the axis: {', '.join(names)}"
            lines.entries[label] = Line2D([], [], linestyle="none")
    lines.axes[0].set_ylim(low, high)
