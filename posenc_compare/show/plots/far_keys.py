"""Far keys: whether schemes favour near keys, against how often they reverse two."""

import textwrap

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from posenc_compare.show.frame import Frame, Numbers, usable
from posenc_compare.show.plots.frames import means_of
from posenc_compare.show.plots.names import name_points
from posenc_compare.show.plots.panels import legend_below, note_setting
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import looks, looks_in_turn, new_figure
from posenc_compare.show.setting import short_setting

DISTANCE = 2048  # positions, as in tables
ALIKE = 0.012  # of a share, within which schemes are named together
LETTERS = 32  # of a line of names
DOT, HEIGHT = 6.0, 4.2  # points of a dot, and inches of the plot


@register_plot(
    "far_keys",
    order=95,
    measure="far_keys",
    caption=f"What {DISTANCE} positions do to random keys: the share with a lower "
    "logit than beside the query, against the share of pairs in reversed order. Means "
    "over seeds with their 95% intervals. Upper left: distance lowers the logits of "
    "all keys alike; bottom and right: it does not favour near keys, or it reverses "
    "what the content says. Names stand where there is room. Schemes "
    "whose layers differ are left out.",
)
def draw_far_keys(records: Numbers) -> Figure | None:
    """Draw locality against inconsistency, with a point for each scheme."""
    chosen, styles = usable(records, "far_keys"), looks(records)
    rows = means_of(records, chosen, styles)
    rows = rows[rows["x"] == DISTANCE].dropna(subset="mean")
    if rows.empty:
        return None
    by_scheme = rows.groupby(["family", "scheme", "quantity"], sort=False)
    points = by_scheme[["mean", "half_width"]].first().unstack("quantity")
    points = points.dropna(subset=[("mean", "locality"), ("mean", "inconsistency")])
    figure = new_figure(HEIGHT)
    axes, bars = figure.subplots(), list[Bbox]()
    families = looks_in_turn(points.index.unique("family"))
    for family, own in points.groupby(level="family", sort=False):
        (x, y), widths = (
            (own[of]["inconsistency"], own[of]["locality"])
            for of in ("mean", "half_width")
        )
        across, up = map(_within, (x, y), widths)
        look = families[family]
        style = {"color": look.colour, "marker": look.marker, "markersize": DOT}
        _, _, drawn = axes.errorbar(x, y, up, across, ls="", mec="w", **style)
        for bar in drawn:
            bar.set(alpha=0.3, linewidth=0.7)
            ends = [path.vertices for path in bar.get_paths()]
            bars += [Bbox(end) for end in ends if np.isfinite(end).all()]
    axes.margins(x=0.1)
    axes.set_xlabel(f"pairs of keys in reversed order\nat {DISTANCE} positions (share)")
    axes.set_ylabel(f"keys with a lower logit\nat {DISTANCE} positions (share)")
    legend_below(figure, {name: look.dot() for name, look in families.items()})
    note_setting(figure, short_setting(chosen))
    means = points["mean"][["inconsistency", "locality"]]
    name_points(axes, _names(means.droplevel("family")), bars)
    return figure


def _within(share: Frame, width: Frame) -> np.ndarray:
    """Return how far an interval reaches to both sides, within 0 and 1."""
    return np.minimum([width, width], [share, 1 - share])


def _names(points: Frame) -> dict[tuple[float, float], str]:
    """Return the names of schemes by their points, in one text if these are close."""
    groups: dict[tuple[float, float], list[str]] = {}
    for name, x, y in points.itertuples():
        near = (at for at in groups if max(abs(at[0] - x), abs(at[1] - y)) <= ALIKE)
        groups.setdefault(next(near, (x, y)), []).append(name)
    return {at: textwrap.fill(", ".join(k), LETTERS) for at, k in groups.items()}
