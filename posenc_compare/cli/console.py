"""Console output, with terminal escapes removed.

Paths, docstrings and messages of plugins may be untrusted. What draws tables
and bars is imported when one is drawn: a refusal needs none of it.
"""

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from posenc_compare.records.sanitize import clean

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table as RichTable

    from posenc_compare.records.record import Record
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import Comparison
    from posenc_compare.run.scheduler import Event
    from posenc_compare.show.format import Table

PIPED = 200  # characters of a line that no terminal shows
WIDE = 1000  # characters, more than a table has
NUMBERS = ("csv", "json")  # formats for programs
CROWDED = 8  # columns; more have one space between them
CARD = 3.0  # seconds between two drawings of what there is so far


def say(text: str) -> None:
    """Print one line to stderr, beside the result of the command."""
    print(clean(text), file=sys.stderr, flush=True)


def say_stopped(comparison: "Comparison", store: "Store", stopped_by: str) -> None:
    """Print what a run that was stopped has left to do, and how to go on."""
    left, cells = len(comparison.missing(store)), len(comparison.cells)
    say(f"stopped by {stopped_by}: {left} of {cells} cells are missing")
    folder = shlex.quote(str(store.folder))
    say(f"`posenc-compare table {folder}` shows the records so far")
    say_how_to_go_on()


def say_how_to_go_on(more: str = "") -> None:
    """Print the command itself, with more words."""
    say(f"to go on: {shlex.join(['posenc-compare', *sys.argv[1:]])}{more}")


def tell(text: str) -> None:
    """Print one line to stdout, as part of the result of the command."""
    print(clean(text, sys.maxsize), flush=True)


def show(
    title: str, head: list[str], body: Sequence[list[Any]], format: str = "table"
) -> None:
    """Print one table of texts and numbers as table, json, csv, md or tex."""
    from posenc_compare.show.format import Table

    if format in NUMBERS:
        _print_numbers(head, clean([*body]), format)
    else:
        rows = [[clean(str(cell)) for cell in row] for row in body]
        show_tables([Table(clean(title), head, rows)], format)


def show_tables(
    tables: "Iterable[Table]",
    format: str,
    frame: "DataFrame | None" = None,
    size: str = "",
) -> None:
    """Print tables one after another, with the lines beneath each.

    JSON and CSV hold every number of `frame`, or of the tables; a missing one is null
    or empty. LaTeX fits a size of paper, if one is given.
    """
    from posenc_compare.show.format import as_markdown, cells_of

    if format in NUMBERS:
        from posenc_compare.show.frame import cell_table

        numbers = cell_table(tables) if frame is None else frame
        _print_numbers([*numbers.columns], cells_of(numbers), format)
    elif format == "md":
        print(as_markdown(tables), end="")
    elif format == "tex":
        from posenc_compare.show.latex import as_latex

        print(as_latex(tables, size), end="")
    else:
        for table in tables:
            _print_rich(table)


def _print_numbers(head: list[str], body: list[list[object]], format: str) -> None:
    from posenc_compare.show.format import csv_text

    if format == "csv":
        print(csv_text(head, body), end="")
    else:
        rows = [dict(zip(head, row, strict=True)) for row in body]
        print(json.dumps(rows, indent=2))


def _print_rich(table: "Table") -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    from posenc_compare.show.fit import in_parts, least_widths

    # Piped output keeps its full width: nothing is cut for a terminal that is not
    # there.
    on_screen = sys.stdout.isatty()
    console = Console(width=None if on_screen else PIPED, highlight=False)
    texts, brief = (clean(table.texts(short=short)) for short in (False, True))
    room = console.options.update(max_width=WIDE)
    natural = console.measure(_rich_table(table, texts, WIDE), options=room).maximum
    if short := on_screen and texts != brief and natural > console.width:
        table, texts = replace(table, note=table.note.partition(";")[0]), brief
    console.print(Text(clean(table.title), style="bold"))
    widths = [1 + width for width in least_widths(table, texts, cell_len)]
    for i, part in enumerate(in_parts(table, widths, console.width)):
        if i:
            console.print()
        texts = clean(part.texts(short=short))
        console.print(_rich_table(part, texts, console.width))
    if short:
        console.print("a wider terminal, or --format csv, shows p and better seeds")
    for line in table.lines:
        console.print(Text(clean(line)))
    console.print()


def _rich_table(table: "Table", texts: list[list[str]], room: int) -> "RichTable":
    """Return a table of texts that is no wider than so many characters, if it can be.

    Columns have two spaces between them, or one if they are many or have no room.
    """
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    from posenc_compare.show.fit import least_widths, spread

    least = least_widths(table, texts, cell_len)
    most = [max(map(cell_len, one)) for one in zip(table.head, *texts, strict=True)]
    columns = len(most)
    crowded = columns > CROWDED or sum(least) + 2 * columns > room
    widths = spread(least, most, room - columns * (1 if crowded else 2))
    shown = RichTable(box=None, pad_edge=not crowded, collapse_padding=crowded)
    for name, width in zip(table.head, widths, strict=True):
        shown.add_column(Text(name, style="bold"), width=width, overflow="fold")
    best = table.best
    for i, row in enumerate(texts):
        styles = ("bold" if (i, j) in best else "" for j in range(columns))
        shown.add_row(*map(Text, row, styles))
    return shown


def name_of(record: "Record") -> str:
    """Return what a record is called in a line: scheme, measure and seed."""
    return f"{record.label} {record.measured} seed {record.spec.seed}"


@contextmanager
def progress(
    card: "Callable[[list[Record]], Table | None]" = lambda _: None,
) -> "Iterator[Callable[[Event], None]]":
    """Yield a listener to a comparison, which reports on stderr how far it is.

    A terminal shows a card and a bar; otherwise cells of a second or more have a line
    each.
    """
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console, last, drawn = Console(stderr=True), None, 0.0
    records: list[Record] = []
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    bars = Progress(*columns, console=console)
    bar = bars.add_task("starting", cells="")
    on_screen = console.file.isatty()  # is_terminal is set by FORCE_COLOR, too
    live = Live(bars, console=console, transient=True) if on_screen else None
    with live or nullcontext():

        def listen(event: "Event") -> None:
            nonlocal last, drawn
            last = event
            if event.note:
                say(event.note)
            bars.update(
                bar,
                total=event.work,
                completed=event.units,
                description=event.what[:28],
                cells=f"{event.done}/{event.cells}",
            )
            if (record := event.record) is None:
                return
            records.append(record)
            if record.status in ("failed", "lost"):
                text = f"{record.status}: {name_of(record)}: {record.error}"
                console.print(clean(text), markup=False, soft_wrap=True)
            elif live is None:
                seconds = record.seconds
                if seconds >= 1:
                    count = f"{event.done}/{event.cells}"
                    say(f"{count} {name_of(record)} {seconds:.0f} s")
            if live is not None and time.monotonic() - drawn > CARD:
                drawn = time.monotonic()
                if table := card(records):
                    fit = max(1, console.height - 4)
                    table = replace(table, rows=table.rows[:fit])
                    shown = _rich_table(table, clean(table.body), console.width)
                    live.update(Group(shown, bars))

        yield listen
    if last is not None:
        say(f"computed {last.done} of {last.cells} cells")
