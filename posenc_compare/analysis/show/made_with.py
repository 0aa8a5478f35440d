"""What the numbers of records mean, and how they came about."""

from collections import Counter

from posenc_compare.analysis.records.record import Facts, Record, Scalar
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.registry import SETTINGS

MANY = 6  # different values of a setting that are listed one by one


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
