"""Tables, made from records alone.

`display_tables` are what a reader sees: schemes down, headline quantities or the points
of a curve across, means with their intervals inside, and beneath them what may be said
of the order of schemes. Where networks were trained on several tasks, these tables lay
the tasks side by side, and `task_tables` has those of each. `without_result` lists the
cells that are in no mean, with their reasons.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from posenc_compare.errors import StoreError
from posenc_compare.records.files import write_file
from posenc_compare.records.quantities import (
    Better,
    ByCase,
    Curve,
    Floor,
    Headline,
    Quantity,
)
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import clean
from posenc_compare.show.about import coverage
from posenc_compare.show.columns import Chosen, Column, pointed
from posenc_compare.show.floors import FloorMean, floor_lines, floors_of
from posenc_compare.show.format import Cell, Table, as_markdown
from posenc_compare.show.latex import as_latex
from posenc_compare.show.means import (
    Mean,
    failures,
    means_of,
    of_headline,
    of_quantity,
    spread_note,
    views_of,
)
from posenc_compare.show.numbers import as_csv, long_table, summary
from posenc_compare.show.ranking import (
    alike,
    alike_throughout,
    by_family,
    may_rank,
    order_lines,
    ranking,
    same_lines,
)
from posenc_compare.show.seconds import seconds_tables
from posenc_compare.show.setting import SEVERAL, setting_line, texts_of
from posenc_compare.show.tasks import (
    ACROSS,
    by_task,
    page_name,
    prefix,
    reciprocal_ranks,
)

COLUMNS = 4  # quantities side by side in one displayed table
# By kind of setting, in the order of display.
TITLES = {
    "training": "Measures with training",
    "checkpoint": "Measures of checkpoints",
    "probe": "Measures without training",
}


def display_tables(records: list[Record], columns: str = "") -> list[Table]:
    """Return the tables a reader sees: of what is trained first, and curves first.

    Args:
        records: of the comparison.
        columns: comma-separated headings or globs of those to show; all, if empty.

    Raises:
        ConfigError: if no table has such a column.
    """
    tasks, chosen = by_task(records), Chosen(columns)
    if len(tasks) > 1:
        found = _across(tasks, chosen)
    else:
        found = [one for task in tasks for one in _of_task(tasks, task, chosen)]
    kinds: dict[str, list[Record]] = {kind: [] for kind in TITLES}
    for record in records:
        if not record.task:
            kind = str(record.spec.setting.get("kind"))
            kinds[kind if kind in kinds else "probe"].append(record)
    found += [one for k, own in kinds.items() for one in Part(own, k, chosen).tables()]
    chosen.check()
    return found


def task_tables(records: list[Record]) -> dict[str, list[Table]]:
    """Return the tables of each task by its name, if there are several tasks."""
    tasks = by_task(records)
    if len(tasks) < 2:
        return {}
    return {task: _of_task(tasks, task, Chosen()) for task in tasks}


def _of_task(tasks: dict[str, list[Record]], task: str, chosen: Chosen) -> list[Table]:
    """Return the tables of a task."""
    part = Part(tasks[task], "training", chosen, prefix(task))
    return part.tables() + seconds_tables(tasks[task], chosen)


def _across(tasks: dict[str, list[Record]], chosen: Chosen) -> list[Table]:
    """Return tables with a column for each task that has a quantity of all tasks."""
    tables = []
    for name in ACROSS:
        shown: dict[str, Column] = {}
        title = ""
        for task, records in tasks.items():
            part = Part(records, "training", chosen)
            for (measure, quantity), view in part.views.items():
                if quantity == name and isinstance(view, Headline):
                    column = part.headline(view, measure)
                    shown[task] = replace(column, name=task, arrow=False)
                    title = column.heading
        if not shown:
            continue
        behind = {task: tasks[task] for task in shown}
        ranks = reciprocal_ranks(behind) if name == ACROSS[0] else []
        if ranks and len(shown) > 1:
            measure = next(iter(shown.values())).measure
            shown["all"] = Column("mean reciprocal rank", measure, ranks, "higher")
        every = [record for records in behind.values() for record in records]
        if columns := chosen.of(shown.values()):
            tables.append(_layout(f"{title}, by task", columns, every))
    return tables


class Part:
    """The records of one kind of setting and one task, and their tables.

    Args:
        records: of that kind and task.
        kind: of the setting.
        chosen: the columns that are asked for.
        prefix: of titles.
    """

    def __init__(
        self, records: list[Record], kind: str, chosen: Chosen, prefix: str = ""
    ) -> None:
        self.records, self.kind, self.chosen = records, kind, chosen
        self.prefix = prefix
        self.means, self.views = means_of(records), views_of(records)

    def tables(self) -> list[Table]:
        """Return the tables of curves and cases, and then those of headlines."""
        found: list[Table] = []
        headlines = []
        for (measure, name), view in self.views.items():
            match view:
                case Curve():
                    found += self.curve(view, measure)
                case ByCase():
                    found += self.by_case(view, measure)
                case Headline():
                    some = of_quantity(self.means, measure, name)
                    if some or failures(self.means, measure):
                        headlines.append(self.headline(view, measure))
        columns = self.chosen.of(headlines)
        title = f"{self.prefix}{TITLES[self.kind]}{_grid(self.records)}"
        parts = range(0, len(columns), COLUMNS)
        return [
            *(replace(one, name=f"{self.prefix}{one.name}") for one in found),
            *(_layout(title, columns[i : i + COLUMNS], self.records) for i in parts),
        ]

    def headline(self, view: Headline, measure: str) -> Column:
        """Return the column of one row of a quantity; a trained one has an order."""
        means = of_headline(self.means, measure, view)
        means = failures(self.means, measure) + means
        quantity = view.quantity
        return Column(
            quantity.heading, measure, means, self._better(quantity), arrow=True
        )

    def curve(self, view: Curve, measure: str) -> list[Table]:
        """Return the table of a curve, if there is anything to show."""
        quantity = view.quantity
        read = of_quantity(self.means, measure, quantity.name)
        mine, failed = _with_cases(read), failures(self.means, measure)
        floors = floors_of(
            mean
            for (name, _), other in self.views.items()
            if name == measure and isinstance(other, Floor) and other.of == quantity
            for mean in of_quantity(self.means, measure, other.quantity.name)
        )
        columns = _by_x(measure, mine, failed, self._better(quantity), floors)
        columns = self.chosen.of(columns)
        if not columns or not (mine or failed):
            return []
        labels = {one.label for one in self.records if one.measure == measure}
        own = {m.scheme for m in mine} | (labels - {m.scheme for m in read})
        own -= _without(mine)
        title = f"{pointed(quantity.heading, quantity.better)} by {quantity.x}"
        table = _layout(title, columns, self.records, own, ranked=True)
        return [replace(table, lines=(*table.lines, *_reasons(mine, own)))]

    def by_case(self, view: ByCase, measure: str) -> list[Table]:
        """Return the table of the cases of a quantity, if there are any."""
        quantity = view.quantity
        read = of_quantity(self.means, measure, quantity.name)
        curve = of_quantity(self.means, measure, view.of.name) if view.of else []
        mine = [*_as_trained(read, curve), *_with_cases(read)]
        columns = _by_x(measure, mine, [], self._better(quantity))
        columns = self.chosen.of(columns)
        if not mine or not columns:
            return []
        title = f"{pointed(quantity.heading, quantity.better)}, by {quantity.x}"
        own = {mean.scheme for mean in mine}
        return [_layout(title, columns, self.records, own, ranked=True)]

    def _better(self, quantity: Quantity) -> Better:
        return quantity.better if self.kind != "probe" else "neither"


def _with_cases(means: list[Mean]) -> list[Mean]:
    """Return means whose schemes are named with their case, if they have one."""
    return [replace(m, scheme=f"{m.scheme} + {m.case}") if m.case else m for m in means]


def _without(means: list[Mean]) -> set[str]:
    """Return the schemes that have reasons alone, and no number."""
    return {m.scheme for m in means} - {m.scheme for m in means if m.cell.n}


def _reasons(means: list[Mean], shown: set[str]) -> list[str]:
    """Return a line that says why schemes have no number and no row, if any have."""
    found: dict[str, list[str]] = {}
    for mean in means:
        if math.isnan(mean.x):  # of a cell that failed, which has a row
            continue
        schemes = found.setdefault(mean.note, [])
        if mean.scheme not in shown and mean.scheme not in schemes:
            schemes.append(mean.scheme)
    parts = [f"{', '.join(names)} ({note})" for note, names in found.items() if names]
    return [f"without a number: {'; '.join(parts)}"] if parts else []


def _as_trained(read: list[Mean], curves: list[Mean]) -> list[Mean]:
    """Return, of the same schemes and points, what a network scores as trained.

    Their intervals are over seeds, as those of the scalings beside them.
    """
    schemes, points = {mean.scheme for mean in read}, {mean.x for mean in read}
    return [
        replace(mean, scheme=f"{mean.scheme}, as trained").over_seeds
        for mean in curves
        if mean.scheme in schemes and mean.x in points and not mean.case
    ]


def _grid(records: list[Record]) -> str:
    """Say on which grid all records were made, if it is one."""
    grids = {record.spec.setting.get("grid", "") for record in records}
    if len(grids) != 1 or grids == {""}:
        return ""
    return f" on a grid of {clean(str(*grids), 40)}"


def without_result(records: list[Record]) -> list[Table]:
    """Return a table of the cells without a result, or nothing if all have one."""
    rows = sorted(
        [r.label, r.measured, str(r.spec.seed), r.status, r.error]
        for r in records
        if r.status != "ok"
    )
    head = ["scheme", "measure", "seed", "status", "reason"]
    if not rows:
        return []
    body: list[list[str | Cell]] = [[*row] for row in rows]
    return [Table("Cells without a result", head, body, note=coverage(records))]


def write_tables(
    records: list[Record], folder: Path, tables: list[Table] | None = None
) -> list[Path]:
    """Write rows.csv, table.csv, table.md and table.tex; return their paths.

    Of several tasks each has tables of its own, in the folder `tasks`.

    Args:
        records: of the comparison; without any there are no files of all numbers.
        folder: where the files go; made if it is missing.
        tables: of table.md and table.tex; all tables of the records, if not given.

    Raises:
        StoreError: if one cannot be written.
    """
    texts: dict[str, str] = {}
    for task, own in task_tables(records).items():
        texts[f"tasks/{page_name(task)}.md"] = as_markdown(own)
        texts[f"tasks/{page_name(task)}.tex"] = as_latex(own)
    if records:
        texts["rows.csv"] = as_csv(long_table(records))
        texts["table.csv"] = as_csv(summary(records))
    if tables is None:
        tables = display_tables(records) + without_result(records)
    texts |= {"table.md": as_markdown(tables), "table.tex": as_latex(tables)}
    try:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, text.encode())
    except OSError as error:
        raise StoreError(f"{folder}: must take tables, got {error}") from error
    return [folder / name for name in texts]


def _by_x(
    measure: str,
    means: list[Mean],
    failed: list[Mean],
    better: Better,
    floors: Sequence[FloorMean] = (),
) -> list[Column]:
    """Return a column for each point of a curve, or one that says what failed."""
    points = sorted({mean.x for mean in means if mean.x == mean.x})
    return [
        Column(
            f"{x:g}",
            measure,
            failed + [mean for mean in means if mean.x == x],
            better,
            {floor.mean.scheme: floor for floor in floors if floor.mean.x == x},
        )
        for x in points
    ] or [Column("result", measure, failed)]


def _layout(
    title: str,
    columns: list[Column],
    records: list[Record],
    schemes: Iterable[str] | None = None,
    *,
    ranked: bool = False,
) -> Table:
    """Lay out means under their headings.

    Args:
        title: of the table; how many cells it rests on is added.
        columns: from left to right.
        records: of the whole comparison.
        schemes: rows of the table; every scheme that has a record, if not given.
        ranked: whether the best number of the last column is the first; where there is
            none, the column before decides. Where no order can be claimed, for nothing
            is better or seeds are too few, schemes go by family and name.
    """
    measures = {column.measure for column in columns}
    behind = [record for record in records if record.measure in measures]
    families = {record.label: record.family for record in behind}
    families |= {mean.scheme: mean.family for c in columns for mean in c.means}
    shown = [{mean.scheme: mean for mean in column.means} for column in columns]
    labels = sorted(
        schemes or {record.label for record in behind},
        key=lambda label: by_family(families[label], label),
    )
    lines: list[str] = []
    below: dict[int, tuple[str, ...]] = {}
    best: list[set[str]] = [set() for _ in columns]
    better: list[Better] = [column.better for column in columns]
    if {*better} != {"neither"}:
        rows = {label: [column.get(label) for column in shown] for label in labels}
        same = _same(rows, behind)
        labels = [label for label in labels if label not in same]
        if ranked and may_rank(shown):
            labels.sort(key=lambda label: _rank(rows[label], better[-1]))
        headings = [column.name for column in columns]
        kept = [{k: c[k] for k in labels if k in c} for c in shown]
        if len(texts_of(behind)) <= 1:
            rankings = [*map(ranking, kept, better)]
            lines += order_lines(headings, rankings)
            best = [one.best if one else set() for one in rankings]
        else:
            lines.append(SEVERAL)
        lines += same_lines(same)
        floors = [column.floors for column in columns]
        below = floor_lines(headings, kept, floors, higher=better[-1] == "higher")
        lines += [line for some in below.values() for line in some]
        shown = [
            {**c, **{name: floor.mean for name, floor in models.items()}}
            for c, models in zip(shown, floors, strict=True)
        ]
        labels += dict.fromkeys(name for models in floors for name in models)
    cells = [
        [
            replace(c[k].cell, best=k in top) if k in c else Cell()
            for c, top in zip(shown, best, strict=True)
        ]
        for k in labels
    ]
    seeds = len({record.spec.seed for record in records})
    spread, whole = _spread(seeds, columns), coverage(behind)
    caption = f"{title[:1].upper()}{title[1:]}: {spread}. {setting_line(behind)}"
    if any(record.status != "ok" for record in behind):
        caption = f"{caption} ({whole})"
    return Table(
        title,
        ["scheme", *(column.heading for column in columns)],
        [[label, *row] for label, row in zip(labels, cells, strict=True)],
        seeds,
        tuple(lines),
        tuple(families.get(label, "") for label in labels),
        frozenset(measures),
        caption,
        f"{spread}; {whole}",
        below,
    )


def _same(rows: dict[str, list[Mean | None]], behind: list[Record]) -> dict[str, str]:
    """Return the rows that a table leaves out, each with the one that stands for it.

    They are alike in the table. Of two schemes all other numbers of the records behind
    it are so too.
    """
    here, schemes = alike(rows), {record.label for record in behind}
    if here.keys().isdisjoint(schemes):
        return here
    same = {label: first for label, first in here.items() if label not in schemes}
    for label, first in alike_throughout(behind).items():
        if label in here and here[label] == here.get(first, first):
            same[label] = first
    return same


def _rank(row: list[Mean | None], better: Better) -> list[tuple[bool, float]]:
    """Return what sorts a row: its last number first, where it has one."""
    sign = -1 if better == "higher" else 1
    return [
        (False, sign * mean.mean) if mean and mean.values else (True, 0.0)
        for mean in reversed(row)
    ]


def _spread(seeds: int, columns: list[Column]) -> str:
    """Say what the numbers of a table are."""
    known = {m.documents for c in columns for m in c.means if m.values}
    documents = max(known, default=0)
    note = spread_note(seeds, documents)
    if documents and seeds > 1:
        note += " at the most" * (len(known) > 1)
        note += ", of n-gram models over seeds" * any(c.floors for c in columns)
    return note
