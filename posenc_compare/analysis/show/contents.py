"""All that a report shows, ready for its template."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.cards import Card, cards_of
from posenc_compare.analysis.show.figures import Plate
from posenc_compare.analysis.show.format import Table
from posenc_compare.analysis.show.listing import by_family
from posenc_compare.analysis.show.made_with import Listed, made_with, quantities_of
from posenc_compare.analysis.show.sections import Section, anchors, place, sections_of
from posenc_compare.analysis.show.tables import (
    coverage,
    display_tables,
    task_tables,
    without_result,
)
from posenc_compare.analysis.show.verdict import Verdict, verdict, warnings_of

VERDICTS = 4  # sentences at the top


@dataclass(frozen=True)
class Task:
    """The tables of one of several tasks.

    Attributes:
        name: of the task.
        address: from the first page.
        tables: in order.
        sections: the same, as a page shows them.
    """

    name: str
    address: str
    tables: list[Table]
    sections: list[Section]


class Contents(TypedDict):
    """What the template of the first page takes.

    Attributes:
        coverage: how many cells have a result.
        made: by which versions of the package, and when.
        verdicts: who is best, and where that stands.
        warnings: reasons to claim less.
        families: of the schemes.
        sections: tables with their plots.
        plots: those that belong to no table.
        tasks: if there are several.
        cards: of the schemes.
        links: address of each scheme, by label, from the first page.
        missing: a table of the cells without a result, if there are any.
        quantities: what numbers mean.
        made_with: how records came about.
    """

    coverage: str
    made: str
    verdicts: list[tuple[Verdict, Section]]
    warnings: list[str]
    families: list[str]
    sections: list[Section]
    plots: list[Plate]
    tasks: list[Task]
    cards: list[Card]
    links: dict[str, str]
    missing: list[Table]
    quantities: list[list[str]]
    made_with: dict[str, Listed]


def contents_of(records: list[Record], plates: Iterable[Plate] = ()) -> Contents:
    """Return what a page shows of records.

    Args:
        records: as `load_records` returns them.
        plates: plots of them.
    """
    tables = display_tables(records)
    labels = {record.label for record in records}
    sections = sections_of(tables, labels)
    plots = place(plates, tables, sections)
    tasks = _tasks(records, labels)
    cards = cards_of(
        records, [*sections, *(s for task in tasks for s in task.sections)]
    )
    return Contents(
        coverage=coverage(records),
        made=_made(records),
        verdicts=verdicts_of(tables, sections),
        warnings=warnings_of(records),
        families=families_of(records),
        sections=sections,
        plots=plots,
        tasks=tasks,
        cards=cards,
        links={card.label: f"#scheme-{card.anchor}" for card in cards},
        missing=without_result(records),
        quantities=quantities_of(records),
        made_with=made_with(records),
    )


def verdicts_of(
    tables: Sequence[Table], sections: Sequence[Section]
) -> list[tuple[Verdict, Section]]:
    """Return the first verdicts of tables, each with the place of its table."""
    both = zip(map(verdict, tables), sections, strict=True)
    return [(said, section) for said, section in both if said is not None][:VERDICTS]


def families_of(records: Iterable[Record]) -> list[str]:
    """Return the families of schemes, in the order of tables."""
    found = {record.family for record in records}
    return sorted(found, key=lambda family: by_family(family, family))


def _made(records: list[Record]) -> str:
    """Return versions of the package, and the day of the last cell, if records say."""
    made = {record.provenance.text("posenc_compare") for record in records}
    versions = ", ".join(sorted(made - {""}))
    last = max(record.provenance.text("started")[:10] for record in records)
    return f"posenc-compare {versions}{f'; {last}' if last else ''}"


def _tasks(records: list[Record], labels: set[str]) -> list[Task]:
    """Return the tasks of records, if there are several."""
    found = task_tables(records)
    if len(found) < 2:
        return []
    tasks = []
    for name, word in anchors(found).items():
        sections = sections_of(found[name], labels, f"task-{word}-table")
        tasks.append(Task(name, f"#task-{word}", found[name], sections))
    return tasks
