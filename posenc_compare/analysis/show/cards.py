"""A card for each scheme: what it is, where it comes from, its numbers, its cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import cell_text, number
from posenc_compare.analysis.show.installed import Installed, installed
from posenc_compare.analysis.show.listing import by_family
from posenc_compare.analysis.show.means import means_of
from posenc_compare.analysis.show.sections import Section, anchors
from posenc_compare.analysis.show.tables import coverage
from posenc_compare.references import ARXIV, cited

COST = "cost"  # the measure whose numbers stand on every card


@dataclass(frozen=True)
class Numbers:
    """A row of a table that is of a scheme.

    Attributes:
        section: the table, as its page shows it.
        row: its first cell, if that is not the scheme alone.
        cells: heading, text and whether it is marked as best, of each number.
    """

    section: Section
    row: str
    cells: list[tuple[str, str, bool]]


@dataclass(frozen=True)
class Card:
    """A scheme on a page.

    Attributes:
        label: of the scheme with its options.
        anchor: a word that no other card has.
        name: of the scheme.
        family: of the scheme.
        source: paper, as the records say.
        papers: address of each paper on arXiv, by its id.
        bibtex: entries of the papers.
        given: options that differ from the defaults.
        known: what is installed under this name; None if nothing is.
        coverage: how many cells have a result.
        seconds: of all cells together; empty if they do not say.
        costs: name and number of what its measure of cost found.
        numbers: in the order of the tables.
    """

    label: str
    anchor: str
    name: str
    family: str
    source: str
    papers: dict[str, str]
    bibtex: list[str]
    given: list[tuple[str, str]]
    known: Installed | None
    coverage: str
    seconds: str
    costs: list[tuple[str, str]]
    numbers: list[Numbers]


def cards_of(records: Iterable[Record], sections: Sequence[Section]) -> list[Card]:
    """Return a card for each label of records, by family and name.

    Args:
        records: as `load_records` returns them.
        sections: the tables whose rows cards repeat.
    """
    behind: dict[str, list[Record]] = {}
    for record in records:
        behind.setdefault(record.label, []).append(record)
    labels = sorted(behind, key=lambda label: by_family(behind[label][0].family, label))
    words = anchors(labels)
    return [_card(label, words[label], behind[label], sections) for label in labels]


def _card(
    label: str, anchor: str, records: list[Record], sections: Sequence[Section]
) -> Card:
    first = records[0]
    scheme = first.spec.scheme
    known = installed(scheme.name)
    seconds = sum(record.provenance.seconds for record in records)
    cites = " ".join([first.source, known.text if known else ""])
    return Card(
        label,
        anchor,
        scheme.name,
        first.family,
        first.source,
        {key: f"https://arxiv.org/abs/{key}" for key in ARXIV.findall(first.source)},
        cited(cites),
        [(name, str(value)) for name, value in sorted(scheme.options.items())],
        known,
        coverage(records),
        number(seconds) if seconds else "",
        _costs(records),
        [row for section in sections for row in _numbers(section, label)],
    )


def _costs(records: list[Record]) -> list[tuple[str, str]]:
    """Return what a scheme costs, by the headings of the measure that says so."""
    measured = [record for record in records if record.measure == COST]
    headings = {
        name: quantity.heading
        for record in measured
        for name, quantity in record.quantities.items()
    }
    return [
        (headings[mean.quantity], cell_text(mean.cell, len(mean.values)))
        for mean in means_of(measured)
        if mean.values
    ]


def _numbers(section: Section, label: str) -> list[Numbers]:
    """Return the rows of a scheme in a table."""
    return [
        Numbers(
            section,
            "" if line.cells[0][0] == label else line.cells[0][0],
            [
                (heading, text, "best" in look.split())
                for heading, (text, look) in zip(
                    section.head[1:], line.cells[1:], strict=True
                )
            ],
        )
        for line in section.body
        if line.scheme == label
    ]
