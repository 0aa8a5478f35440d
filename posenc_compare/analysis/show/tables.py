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

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.quantities import (
    Better,
    ByCase,
    Curve,
    Floor,
    Headline,
    View,
)
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.about import coverage
from posenc_compare.analysis.show.columns import Chosen, Column, pointed
from posenc_compare.analysis.show.floors import FloorMean, floor_lines, floors_of
from posenc_compare.analysis.show.format import Cell, Table, as_markdown
from posenc_compare.analysis.show.latex import as_latex
from posenc_compare.analysis.show.means import (
    Mean,
    Views,
    failures,
    means_of,
    of_headline,
    of_quantity,
    spread_note,
    views_of,
)
from posenc_compare.analysis.show.numbers import as_csv, long_table, summary
from posenc_compare.analysis.show.ranking import (
    alike,
    alike_throughout,
    by_family,
    may_rank,
    order_lines,
    ranking,
    same_lines,
)
from posenc_compare.analysis.show.seconds import seconds_tables
from posenc_compare.analysis.show.setting import SEVERAL, setting_line, texts_of
from posenc_compare.analysis.show.tasks import (
    ACROSS,
    FIRST,
    by_task,
    page_name,
    prefix,
    reciprocal_ranks,
)
from posenc_compare.errors import StoreError

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
        trained = _across(tasks, chosen)
    else:
        trained = [
            table
            for task, some in tasks.items()
            for table in (
                *_tables(some, "training", chosen, task),
                *seconds_tables(some, chosen),
            )
        ]
    kinds: dict[str, list[Record]] = {kind: [] for kind in TITLES}
    for record in records:
        kind = str(record.spec.setting.get("kind"))
        if not record.task:
            kinds[kind if kind in kinds else "probe"].append(record)
    rest = [
        table for kind, own in kinds.items() for table in _tables(own, kind, chosen)
    ]
    chosen.check()
    return trained + rest


def task_tables(records: list[Record]) -> dict[str, list[Table]]:
    """Return the tables of each task by its name, if there are several tasks."""
    every, tasks = Chosen(), by_task(records)
    return {
        task: _tables(some, "training", every, task) + seconds_tables(some, every)
        for task, some in (tasks.items() if len(tasks) > 1 else ())
    }


def _tables(
    records: list[Record], kind: str, chosen: Chosen, task: str = FIRST
) -> list[Table]:
    """Return the tables of the records of one kind of setting and one task."""
    means, views = means_of(records), views_of(records)
    tables = [
        replace(table, name=f"{prefix(task)}{table.name}")
        for (measure, _), view in views.items()
        if (table := _table_of(view, measure, means, records, views, chosen, kind))
    ]
    headlines = (
        _headline(view, measure, means, kind)
        for (measure, name), view in views.items()
        if isinstance(view, Headline)
        and (of_quantity(means, measure, name) or failures(means, measure))
    )
    columns = chosen.of(headlines)
    title = f"{prefix(task)}{TITLES[kind]}{_grid(records)}"
    parts = range(0, len(columns), COLUMNS)
    return tables + [_layout(title, columns[i : i + COLUMNS], records) for i in parts]


def _across(tasks: dict[str, list[Record]], chosen: Chosen) -> list[Table]:
    """Return tables with a column for each task that has a quantity of all tasks."""
    tables = []
    for name in ACROSS:
        shown: dict[str, Column] = {}
        title = ""
        for task, records in tasks.items():
            for (measure, quantity), view in views_of(records).items():
                if quantity == name and isinstance(view, Headline):
                    column = _headline(view, measure, means_of(records), "training")
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


def _table_of(
    view: View,
    measure: str,
    means: list[Mean],
    records: list[Record],
    views: Views,
    chosen: Chosen,
    kind: str,
) -> Table | None:
    """Return the table that a view has of its own, or None."""
    quantity = view.quantity
    better = quantity.better if kind != "probe" else "neither"
    read = of_quantity(means, measure, quantity.name)
    mine = [replace(m, scheme=f"{m.scheme} + {m.case}") if m.case else m for m in read]
    match view:
        case Curve():
            title = f"{pointed(quantity.heading, quantity.better)} by {quantity.x}"
            labels = {record.label for record in records if record.measure == measure}
            own = {m.scheme for m in mine} | (labels - {m.scheme for m in read})
            own -= _without(mine)
            floors = floors_of(
                mean
                for (name, _), other in views.items()
                if name == measure and isinstance(other, Floor) and other.of == quantity
                for mean in of_quantity(means, measure, other.quantity.name)
            )
            failed = failures(means, measure)
            columns = chosen.of(_by_x(measure, mine, failed, better, floors))
            if not columns or not (mine or failed):
                return None
            table = _layout(title, columns, records, own, ranked=True)
            return replace(table, lines=(*table.lines, *_reasons(mine, own)))
        case ByCase():
            title = f"{pointed(quantity.heading, quantity.better)}, by {quantity.x}"
            curve = of_quantity(means, measure, view.of.name) if view.of else []
            mine = [*_as_trained(read, curve), *mine]
            columns = chosen.of(_by_x(measure, mine, [], better))
            if not mine or not columns:
                return None
            own = {mean.scheme for mean in mine}
            return _layout(title, columns, records, own, ranked=True)
    return None


def _headline(view: Headline, measure: str, means: list[Mean], kind: str) -> Column:
    """Return the column of one row of a quantity; a trained one has an order."""
    return Column(
        view.quantity.heading,
        measure,
        failures(means, measure) + of_headline(means, measure, view),
        view.quantity.better if kind != "probe" else "neither",
        arrow=True,
    )


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
