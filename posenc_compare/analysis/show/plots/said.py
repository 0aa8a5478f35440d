"""What every figure says of itself: the setting it is of, and how many seeds."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.paper import wrapped
from posenc_compare.analysis.show.plots.style import MIDDLE, safe
from posenc_compare.analysis.show.setting import short_setting

SIZE = 6  # points
LINE = 0.11  # inches
LONGEST = 300  # characters


def say_setting(figure: Figure, records: Iterable[Record]) -> None:
    """Say in grey above everything what all records share, and how many seeds."""
    say(figure, short_setting(records))


def say_seed(figure: Figure, records: Iterable[Record], when: str) -> None:
    """Say in grey above everything of which seed a figure is, and when in training.

    Args:
        figure: of the first seed of each scheme.
        records: it is drawn from.
        when: such as `before training`.
    """
    seeds = {record.label: record.spec.seed for record in reversed([*records])}
    first = sorted(set(seeds.values()))
    word = "seed" if len(first) == 1 else "seeds"
    say(figure, f"{when}, {word} {', '.join(map(str, first))}")


def say(figure: Figure, text: str) -> None:
    """Write a grey line above everything; the figure grows by its height."""
    text = wrapped(safe(text, LONGEST), figure.get_figwidth() - 0.2, SIZE)
    lines = text.count("\n") + 1
    figure.set_figheight(figure.get_figheight() + LINE * lines)
    figure.suptitle(text, x=0.995, ha="right", color=MIDDLE, fontsize=SIZE)
