"""Perturbation: how much every scheme changes what it is applied to."""

from typing import NamedTuple

from matplotlib.figure import Figure, SubFigure

from posenc_compare.analysis.show.plots.dots import (
    NAMES,
    SHARE,
    Mark,
    bar_entry,
    draw_panel,
    mark_entries,
    name_panel,
    panel_height,
    unit_of,
)
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    Record,
    means_table,
    usable,
)
from posenc_compare.analysis.show.plots.paper import across, paper_width
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    MARKERS,
    PAGE,
    add_legend,
    looks,
    new_figure,
    palette,
)
from posenc_compare.stats.rounding import NOTHING

BLOCK = 3.4  # inches that a block of one panel needs
SIZE, BIAS = "relative_size", "bias_share"
TOKENS = {
    SIZE: "size of what is added to tokens",
    "own_token_nearest": "tokens still nearest to their own vector",
    "left_after_layernorm": "left of it after LayerNorm",
}
TURNED = {"query": Mark("queries", "s"), "key": Mark("keys", "s", filled=False)}
DRAWN = {
    "N(0, 1)": Mark("tokens N(0, 1)", "o"),
    "N(0, 1) sqrt(d)": Mark("tokens N(0, 1) \N{SQUARE ROOT}d", "o", filled=False),
    "N(0, 0.02^2)": Mark("tokens N(0, 0.02\N{SUPERSCRIPT TWO})", "^"),
    "N(0, 0.02^2) sqrt(d)": Mark(
        "tokens N(0, 0.02\N{SUPERSCRIPT TWO}) \N{SQUARE ROOT}d", "^", filled=False
    ),
}


class Block(NamedTuple):
    """Panels side by side, of the same schemes.

    Attributes:
        titles: of the panels, by quantity.
        rows: their numbers, of schemes that change something.
        marks: of cases.
    """

    titles: dict[str, str]
    rows: Frame
    marks: dict[str, Mark]

    def names(self) -> list[str]:
        """Return the schemes, in the order of legends."""
        return list(self.rows["scheme"].unique())

    def height(self, units: dict[str, str], room: float) -> float:
        """Return the inches of the block, whose panels have some room."""
        labels = [(title, units[name]) for name, title in self.titles.items()]
        return panel_height(len(self.names()), labels, room / len(labels))

    def draw(
        self,
        place: SubFigure,
        units: dict[str, str],
        colours: dict[str, str],
        room: float,
    ) -> None:
        """Draw the panels side by side.

        Args:
            place: for them alone.
            units: of quantities.
            colours: of schemes.
            room: inches of all panels.
        """
        grid = place.subplots(1, len(self.titles), sharey=True, squeeze=False)
        for axes, (name, title) in zip(grid.flat, self.titles.items(), strict=True):
            panel = self.rows[self.rows["quantity"] == name]
            whole = units[name].startswith(SHARE)
            draw_panel(axes, panel, self.names(), self.marks, colours, whole=whole)
            name_panel(axes, title, units[name], room / len(self.titles))


@register_plot(
    "perturbation",
    order=100,
    measure="perturbation",
    caption="How much each scheme changes what it is applied to, for the schemes that "
    "change it: means over seeds with their 95% intervals.",
)
def draw_perturbation(records: list[Record]) -> Figure | None:
    """Draw what schemes do to tokens, to queries and keys, and to logits.

    A scheme stands in the panels of what it changes, and nowhere else.
    """
    styles = looks(records)
    chosen = usable(records, "perturbation")
    rows = means_table(chosen, styles).dropna(subset="value")
    blocks = [block for block in _blocks(rows) if len(block.rows)]
    if not blocks:
        return None
    units = {name: unit_of(chosen, name) for name in set(rows["quantity"])}
    lines = _lines(blocks)
    rooms = [paper_width(PAGE) / len(line) - NAMES for line in lines]
    heights = [
        max(block.height(units, room) for block in line)
        for line, room in zip(lines, rooms, strict=True)
    ]
    figure = new_figure(PAGE, sum(heights))
    parts = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)
    for part, line, room in zip(parts.flat, lines, rooms, strict=True):
        places = part.subfigures(1, len(line), squeeze=False)
        for place, block in zip(places.flat, line, strict=True):
            block.draw(place, units, palette(styles), room)
    marks = [mark for block in blocks for mark in block.marks.values()]
    add_legend(figure, [*mark_entries(marks), *bar_entry(rows)])
    say_setting(figure, chosen)
    return figure


def _lines(blocks: list[Block]) -> list[list[Block]]:
    """Return blocks by line: one of several panels alone, others as there is room."""
    lines: list[list[Block]] = []
    for block in blocks:
        alone = len(block.titles) > 1 or not lines or len(lines[-1][0].titles) > 1
        if alone or len(lines[-1]) == across(BLOCK, 2):
            lines.append([block])
        else:
            lines[-1].append(block)
    return lines


def _blocks(rows: Frame) -> list[Block]:
    """Return the panels of tokens, of queries and keys, and of logits."""
    turned = rows["case"].isin(TURNED)
    size, bias = rows["quantity"] == SIZE, rows["quantity"] == BIAS
    cases = rows.loc[size & ~turned, "case"].unique()
    marks = {
        case: DRAWN.get(case, Mark(case, MARKERS[i % len(MARKERS)]))
        for i, case in enumerate(cases)
    }
    return [
        _block(TOKENS, rows[~turned & ~bias], marks),
        _block({SIZE: "change of queries and keys"}, rows[turned & size], TURNED),
        _block({BIAS: "bias in logits"}, rows[bias], {"": Mark("")}),
    ]


def _block(titles: dict[str, str], rows: Frame, marks: dict[str, Mark]) -> Block:
    """Return the panels that have numbers, with the schemes that change something."""
    main = rows[rows["quantity"] == next(iter(titles))]
    acting = main.loc[main["value"].abs() > NOTHING, "scheme"].unique()
    rows = rows[rows["scheme"].isin(acting)]
    shown = {
        name: text for name, text in titles.items() if name in set(rows["quantity"])
    }
    return Block(shown, rows, {k: marks[k] for k in marks if k in set(rows["case"])})
