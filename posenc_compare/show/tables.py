"""Tables, made from records alone.

`display_tables` are what a reader sees: schemes down, headline quantities or the points
of a curve across, means with their intervals inside, and beneath them what may be said
of the order of schemes. Networks that were trained on several tasks stand side by side.
`without_result` lists the cells that are in no mean, with their reasons.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from posenc_compare.errors import StoreError
from posenc_compare.records.quantities import (
    ONE_LAYER,
    Better,
    ByCase,
    Curve,
    Floor,
    Headline,
    View,
    has_note,
)
from posenc_compare.records.record import Record
from posenc_compare.show import frame, ranking
from posenc_compare.show.format import Cell, Table, as_csv, as_markdown
from posenc_compare.show.frame import Frame, Mean, Numbers, by_scheme, of_quantity
from posenc_compare.show.latex import as_latex
from posenc_compare.show.ranking import Column
from posenc_compare.show.retrieval import retrieval_tables
from posenc_compare.show.scorecard import scorecard
from posenc_compare.show.setting import SEVERAL, coverage, sizes_untrained, texts_of
from posenc_compare.show.tasks import (
    AREA,
    SOLVED,
    by_task,
    prefix,
    reciprocal_ranks,
    solved,
)
from posenc_compare.stats.intervals import LEVEL
from posenc_compare.validate import check_folder, write_file

COLUMNS = 4  # quantities side by side in one displayed table
ACROSS = (AREA, "mastered_length")  # quantities that lie side by side, by task
PAIRED = "± covers documents too; tests pair seeds on the same documents"
ARROWS = {"lower": " ↓", "higher": " ↑", "neither": ""}
# By kind of setting, in the order of display.
TITLES = {
    "training": "Measures with training",
    "checkpoint": "Measures of checkpoints",
    "retrieval": "Retrieval of checkpoints",
    "probe": "Measures without training",
}


def display_tables(numbers: Numbers) -> list[Table]:
    """Return the tables a reader sees: of what is trained first, and curves first."""
    records = numbers
    tasks = by_task(records)
    found = _across(numbers, tasks) if len(tasks) > 1 else []
    for task, own in tasks.items():
        views = frame.views_of(own) if found else ()
        across = {measure for measure, name in views if name in ACROSS}
        rest = [record for record in own if record.measure not in across]
        found += Part(numbers.among(rest), "training", prefix(task)).tables()
    for kind in TITLES:
        own = [one for one in records if one.spec.kind == kind and not one.task]
        found += Part(numbers.among(own), kind).tables()
    return found + retrieval_tables(records)


def all_tables(numbers: Numbers) -> list[Table]:
    """Return the scorecard, the tables of all measures and cells without a result."""
    card = [*filter(None, [scorecard(numbers)])]
    return card + display_tables(numbers) + without_result(numbers)


def without_result(records: list[Record]) -> list[Table]:
    """Return a table of the cells without a result, or nothing if all have one.

    Seeds without a result for the same reason share a row.
    """
    seeds: dict[tuple[str, str, str, str], list[int]] = {}
    for r in records:
        if r.status != "ok":
            cause = (r.label, r.measured, r.status, r.error)
            seeds.setdefault(cause, []).append(r.spec.seed)
    rows = [
        [label, measured, ", ".join(map(str, sorted(known))), status, reason]
        for (label, measured, status, reason), known in sorted(seeds.items())
    ]
    head = ["scheme", "measure", "seeds", "status", "reason"]
    name, note = "Cells without a result", coverage(records)
    return [Table(name, head, rows, note=note)] if rows else []


def write_tables(
    numbers: Numbers,
    folder: Path,
    tables: list[Table] | None = None,
    shown: Frame | None = None,
    size: str = "",
) -> list[Path]:
    """Write rows.csv, table.csv, table.md and table.tex; return their paths.

    table.md and table.tex hold `tables`, or all tables of the records if None;
    table.csv holds `shown`, or the means of the records. `size` is as in `as_latex`.
    """
    check_folder("out", folder)
    texts: dict[str, str] = {}
    if numbers:
        texts["rows.csv"] = as_csv(numbers.rows[frame.LONG])
        shown = numbers.summary if shown is None else shown
    if shown is not None:
        texts["table.csv"] = as_csv(shown)
    if tables is None:
        tables = all_tables(numbers)
    texts |= {"table.md": as_markdown(tables), "table.tex": as_latex(tables, size)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_file(folder / name, text.encode())
    except OSError as error:
        raise StoreError(f"{folder}: must take tables, got {error}") from error
    return [folder / name for name in texts]


def _across(numbers: Numbers, tasks: Mapping[str, list[Record]]) -> list[Table]:
    """Return tables with a column for each task that has a quantity of all tasks."""
    tables = []
    parts = {k: Part(numbers.among(own), "training") for k, own in tasks.items()}
    for name in ACROSS:
        columns, title, lines = [], "", ()
        for task, part in parts.items():
            for (measure, other), view in part.views.items():
                if other == name and isinstance(view, Headline):
                    column = part.headline(view, measure)
                    title = f"{column.heading}, by task"
                    columns.append(replace(column, name=task, heading=""))
        behind = {column.name: tasks[column.name] for column in columns}
        if name == AREA and len(columns) > 1:
            counted = solved(behind)
            heading, measure = "mean reciprocal rank", columns[0].measure
            if ranks := by_scheme(reciprocal_ranks(numbers, counted)):
                columns.append(Column(heading, measure, ranks, "higher"))
                lines = (
                    f"{heading}: over {len(counted)} of {len(behind)} tasks, those in "
                    f"which some scheme has an accuracy of {SOLVED} at the training "
                    f"length",
                )
        every = [record for records in behind.values() for record in records]
        if columns:
            table = layout(title, columns, every)
            tables.append(replace(table, lines=(*table.lines, *lines)))
    return tables


class Part:
    """The tables of one kind of setting and one task, whose titles have one start."""

    def __init__(self, numbers: Numbers, kind: str, start: str = "") -> None:
        self.records, self.kind, self.start = numbers, kind, start
        self.means, self.views = numbers.means, frame.views_of(numbers)

    def tables(self) -> list[Table]:
        """Return the tables of curves and cases, and then those of headlines."""
        found: list[Table] = []
        headlines = []
        rows = {key: of_quantity(self.means, *key) for key in self.views}
        answered = {measure for (measure, _), read in rows.items() if len(read)}
        for (measure, name), view in self.views.items():
            read = rows[measure, name]
            failed = len(of_quantity(self.means, measure, ""))
            if isinstance(view, ByCase) and len(read):
                found.append(self.by_case(view, measure, read))
            elif len(read) or (failed and measure not in answered):
                if isinstance(view, Curve):
                    found.append(self.curve(view, measure, read))
                elif isinstance(view, Headline):
                    headlines.append(self.headline(view, measure))
        title = f"{self.start}{TITLES[self.kind]}"
        parts = [headlines[i : i + COLUMNS] for i in range(0, len(headlines), COLUMNS)]
        for i, part in enumerate(parts, 1):
            number = f", {i} of {len(parts)}" if len(parts) > 1 else ""
            found.append(layout(f"{title}{number}", part, self.records))
        return found

    def headline(self, view: Headline, measure: str) -> Column:
        """Return the column of one row of a quantity."""
        own = frame.of_headline(self.means, measure, view)
        name, better = view.quantity.heading, self.better(view)
        known = [one for one in self.floors(view, measure) if one.x == view.x]
        return Column(name, measure, own, better, (*known,), name + ARROWS[better])

    def floors(self, view: View, measure: str) -> list[Mean]:
        """Return what stands below the schemes in the table of a quantity."""
        models = [
            name
            for (other, name), one in self.views.items()
            if other == measure and isinstance(one, Floor) and one.of == view.quantity
        ]
        own = self.means["quantity"].isin(models) & (self.means["measure"] == measure)
        return frame.rows_of(ranking.floors_of(self.means[own]))

    def curve(self, view: Curve, measure: str, read: Frame) -> Table:
        """Return the table of a curve."""
        named, failed = _with_cases(read), of_quantity(self.means, measure, "")
        floors = self.floors(view, measure)
        columns = by_x(measure, named, self.better(view), failed, floors)
        labels = {one.label for one in self.records if one.measure == measure}
        whole = (self.means["measure"] == measure) & (self.means["quantity"] != "")
        labels -= {*self.means[whole]["scheme"]}  # which have other quantities
        rows = labels | {label for label, mean in named if mean.n}
        return self.shown(" by", view, columns, rows, _reasons(named, rows))

    def by_case(self, view: ByCase, measure: str, read: Frame) -> Table:
        """Return the table of the cases of a quantity.

        Beside them stands what a network scores as trained, at the same points. Its
        intervals are over seeds, as those of the cases.
        """
        named = _with_cases(read)
        if view.of:
            curve = frame.over_seeds(of_quantity(self.means, measure, view.of.name))
            same = curve["scheme"].isin(read["scheme"]) & curve["x"].isin(read["x"])
            trained = frame.rows_of(curve[same & (curve["case"] == "")])
            named += [(f"{mean.scheme}, as trained", mean) for mean in trained]
        columns = by_x(measure, named, self.better(view))
        return self.shown(", by", view, columns, {label for label, _ in named})

    def shown(
        self,
        by: str,
        view: View,
        columns: list[Column],
        rows: set[str],
        lines: Sequence[str] = (),
    ) -> Table:
        """Return the table of columns."""
        quantity = view.quantity
        heading = f"{quantity.heading}{ARROWS[quantity.better]}"
        title = f"{self.start}{heading}{by} {quantity.x}"
        table = layout(title, columns, self.records, rows, ranked=True)
        return replace(table, lines=(*table.lines, *lines))

    def better(self, view: View) -> Better:
        """Return which end is better, if the numbers rank schemes."""
        return view.quantity.better if self.kind != "probe" else "neither"


def by_x(
    measure: str,
    named: list[tuple[str, Mean]],
    better: Better,
    failed: Frame | None = None,
    models: Sequence[Mean] = (),
) -> list[Column]:
    """Return a column for each point of a curve, or one that says what failed.

    Means come with the labels of their rows, floors as `floors_of` returns them.
    """
    reasons = {} if failed is None else by_scheme(failed)
    columns: list[Column] = []
    for x in sorted({mean.x for _, mean in named if not math.isnan(mean.x)}):
        means = {**reasons, **{label: mean for label, mean in named if mean.x == x}}
        own = tuple(floor for floor in models if floor.x == x)
        columns.append(Column(f"{x:g}", measure, means, better, own))
        if len(columns) == 1:  # the others have the status alone
            for label, mean in reasons.items():
                reasons[label] = mean._replace(note=mean.note.partition(":")[0])
    return columns or [Column("result", measure, reasons)]


def _with_cases(means: Frame) -> list[tuple[str, Mean]]:
    """Return means with their scheme, and their case if they have one."""
    return [
        (f"{m.scheme} + {m.case}" if m.case else m.scheme, m)
        for m in frame.rows_of(means)
    ]


def _reasons(named: list[tuple[str, Mean]], shown: set[str]) -> list[str]:
    """Return a line that says why schemes have no number and no row, if any have."""
    found: dict[str, dict[str, None]] = {}
    for label, mean in named:
        if label not in shown and not math.isnan(mean.x):
            found.setdefault(mean.note, {})[label] = None
    parts = [f"{', '.join(labels)} ({note})" for note, labels in found.items()]
    return [f"without a number: {'; '.join(parts)}"] if parts else []


def without_number(records: list[Record], shown: Collection[str]) -> list[str]:
    """Return a line that names the schemes of records that are not shown, if any."""
    labels = sorted({record.label for record in records} - {*shown})
    return [f"without a number: {', '.join(labels)}"] if labels else []


def layout(
    title: str,
    columns: list[Column],
    records: list[Record],
    rows: Collection[str] = (),
    *,
    ranked: bool = False,
) -> Table:
    """Lay out means under their headings, in rows of these labels or of all schemes.

    If they are ranked, the best number of the last column is the first; where there is
    none, the column before decides. Where no order can be claimed, for nothing is
    better or seeds are too few, schemes go by family and name.
    """
    measures = {column.measure for column in columns}
    behind = [record for record in records if record.measure in measures]
    families = {record.label: record.family for record in behind}
    means = [item for column in columns for item in column.means.items()]
    families |= {label: mean.family for label, mean in means}
    wanted = set(rows) or {record.label for record in behind}
    labels = ranking.by_family_of(families, wanted & families.keys())
    if ranked and columns[-1].better != "neither" and ranking.may_rank(columns):
        labels.sort(key=lambda label: _rank(label, columns))
    columns = [
        _of_one_kind(replace(c, means={k: c.means[k] for k in labels if k in c.means}))
        for c in columns
    ]
    rankings = [*map(ranking.ranking, columns)]
    best = [one.best for one in rankings]
    orders = {
        place: f"{column.name}: {one.text}"
        for place, (column, one) in enumerate(zip(columns, rankings, strict=True), 1)
        if one.text
    }
    lines = [*orders.values()] or ranking.no_order(rankings)
    if lines and any(len(texts_behind(column, behind)) > 1 for column in columns):
        best, lines = [frozenset[str]() for _ in columns], [SEVERAL]
    below = {
        place: some
        for place, column in enumerate(columns, 1)
        if column.better != "neither" and (some := (*ranking.floor_lines(column),))
    }
    ranked_by = [columns[place - 1] for place in orders] if SEVERAL not in lines else []
    if any(mean.documents for c in ranked_by for mean in c.means.values()):
        lines.append(PAIRED)
    noted = {label for label, mean in means if has_note(mean.note, ONE_LAYER)}
    one_layer = [label for label in labels if label in noted]
    if one_layer:
        lines.append(f"{ONE_LAYER}: {', '.join(one_layer)}")
    labels += dict.fromkeys(floor.scheme for c in columns for floor in c.floors)
    cells: list[list[str | Cell]] = [[label] for label in labels]
    for column, top in zip(columns, best, strict=True):
        own = {**column.means, **{floor.scheme: floor for floor in column.floors}}
        for row, label in zip(cells, labels, strict=True):
            shown = label in own
            row.append(frame.cell_of(own[label], label in top) if shown else Cell())
    seeds = len({record.spec.seed for record in behind})
    notes = [sizes_untrained(behind), _spread(seeds, columns), coverage(behind)]
    return Table(
        title,
        ["scheme", *(column.heading or column.name for column in columns)],
        cells,
        seeds,
        (*lines, *(line for some in below.values() for line in some)),
        frozenset(measures),
        "; ".join(filter(None, notes)),
        orders,
        below,
    )


def _of_one_kind(column: Column) -> Column:
    """Return a column whose intervals cover documents in every row, or in none."""
    known = [m for m in column.means.values() if m.values and not m.case]
    if all(mean.documents for mean in known):
        return column
    means = {k: frame.with_values(m, m.values) for k, m in column.means.items()}
    return replace(column, means=means)


def texts_behind(column: Column, records: list[Record]) -> set[tuple[str, str]]:
    """Return the texts that the numbers of a column were measured on."""
    keys = {key for mean in column.means.values() for key in mean.records}
    return texts_of(record for record in records if record.key in keys)


def _rank(label: str, columns: list[Column]) -> list[tuple[bool, float]]:
    """Return what sorts a row: its last number first, where it has one."""
    sign, row = columns[-1].sign, [c.means.get(label) for c in reversed(columns)]
    return [(False, sign * m.mean) if m and m.values else (True, 0.0) for m in row]


def _spread(seeds: int, columns: list[Column]) -> str:
    """State what the numbers of a table are."""
    if seeds == 1:
        return "1 seed"
    known = {m.documents for c in columns for m in c.means.values() if m.values}
    note = f"mean ± half width of the {LEVEL:.0%} interval over {seeds} seeds"
    if documents := max(known, default=0):
        note += f" and {documents} documents"
        note += " at the most" * (len(known) > 1)
        note += ", of n-gram models over seeds" * any(c.floors for c in columns)
    return note
