"""What a report says about its records: how they came about, and how far they go."""

from collections import Counter
from collections.abc import Iterable

from posenc_compare.records.record import Facts, Record, Scalar
from posenc_compare.registry import SETTINGS
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show.format import Cell, Table, number
from posenc_compare.show.ranking import by_family
from posenc_compare.stats.pairs import FEWEST

MANY = 6  # different values of a setting that are listed one by one
QUICK = PRESETS["quick"].training.steps


def coverage(records: Iterable[Record]) -> str:
    """Return how many cells have a result, and the statuses of the others.

    It reads like `1 of 2 cells ok, 1 lost`.
    """
    statuses = [record.status for record in records]
    others = sorted(set(statuses) - {"ok"})
    parts = [f"{statuses.count('ok')} of {len(statuses)} cells ok"]
    return ", ".join(parts + [f"{statuses.count(other)} {other}" for other in others])


def warnings_of(records: Iterable[Record]) -> list[str]:
    """Return a sentence for each reason to claim less than the tables seem to show."""
    found: list[str] = []
    known = list(records)
    trained = [record for record in known if record.task]
    if not trained:
        found.append(
            "Nothing was trained. Measures without training describe schemes; none of "
            "them ranks schemes."
        )
    seeds = len({record.spec.seed for record in trained})
    if 0 < seeds < FEWEST:
        found.append(
            f"{seeds} seed{'s' * (seeds != 1)} cannot rank schemes: {FEWEST} are "
            f"needed. Differences between rows may be chance."
        )
    steps = {record.spec.setting.get("steps") for record in trained}
    counts = [step for step in steps if isinstance(step, int)]
    if counts and max(counts) <= QUICK:
        found.append(
            f"At most {max(counts)} training steps, as in the preset quick: it shows "
            f"that everything works, and its networks are too small for claims."
        )
    lost = sum(record.status in ("failed", "lost") for record in known)
    if lost:
        found.append(
            f"{lost} of {len(known)} cells failed or were lost, and are in no mean."
        )
    return found


def scheme_table(records: list[Record]) -> Table:
    """Return family, paper and cells of every scheme, by family and name."""
    behind: dict[str, list[Record]] = {}
    for record in records:
        behind.setdefault(record.label, []).append(record)
    labels = sorted(behind, key=lambda label: by_family(behind[label][0].family, label))
    rows: list[list[str | Cell]] = []
    for label in labels:
        some = behind[label]
        seconds = sum(record.provenance.seconds for record in some)
        facts = [label, some[0].family, some[0].source, coverage(some)]
        rows.append([*facts, number(seconds) if seconds else ""])
    return Table("Schemes", ["scheme", "family", "paper", "cells", "seconds"], rows)


def quantity_table(records: list[Record]) -> Table:
    """Return measure, name, unit, direction and zero of every quantity."""
    found = {
        (
            f"{record.measure} {record.spec.measure.version}",
            quantity.heading,
            quantity.unit,
            quantity.better,
            quantity.zero,
        )
        for record in records
        for quantity in record.quantities.values()
    }
    head = ["measure and version", "quantity", "unit", "better", "0 means"]
    return Table("Quantities", head, [[*row] for row in sorted(found)])


def made_with(records: list[Record]) -> list[Table]:
    """Return tables of programs, machines, settings and texts."""
    specs = [record.spec for record in records]
    parts: dict[str, list[Facts]] = {
        "Programs": [
            {"numbers": spec.numbers, "torch": spec.torch, "threads": spec.threads}
            for spec in specs
        ],
        "Machines and times": [record.provenance.facts for record in records],
        **{
            entry.facts["heading"]: [
                {n: v for n, v in spec.setting.items() if n != "kind"}
                for spec in specs
                if spec.kind == kind
            ]
            for kind, entry in SETTINGS.entries().items()
        },
        "Corpus": [record.corpus for record in records],
    }
    return [
        Table(heading, ["name", "value"], rows)
        for heading, part in parts.items()
        if (rows := _values(part))
    ]


def _values(parts: list[Facts]) -> list[list[str | Cell]]:
    """Return for every name its different values, with the number of cells of each.

    Of many values only the least and the greatest are shown.
    """
    found: list[list[str | Cell]] = []
    for name in sorted({name for part in parts for name in part}):
        counts = Counter(str(part[name]) for part in parts if name in part)
        values = {str(part[name]): part[name] for part in parts if name in part}
        order = sorted(values, key=lambda text: _place(values[text]))
        if len(order) == 1 and counts[order[0]] == len(parts):
            text = order[0]
        elif len(order) <= MANY:
            shares = [
                f"{value} ({counts[value]} of {len(parts)} cells)" for value in order
            ]
            text = ", ".join(shares)
        else:
            text = f"{order[0]} to {order[-1]} ({len(order)} different values)"
        found.append([name.replace("_", " "), text])
    return found


def _place(value: Scalar) -> tuple[bool, float, str]:
    number = value if isinstance(value, int | float) else None
    return (number is None, number or 0, str(value))
