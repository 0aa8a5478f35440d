"""What a report says about its records: how they came about, and how far they go."""

from collections import Counter
from collections.abc import Iterable

from posenc_compare.records.record import Facts, Record, Scalar
from posenc_compare.registry import SETTINGS
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show.format import Cell, Table, number
from posenc_compare.show.ranking import by_family_of
from posenc_compare.show.setting import coverage
from posenc_compare.stats.pairs import FEWEST

MANY = 6  # different values of a setting that are listed one by one
QUICK = PRESETS["quick"].training.steps


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
            f"At most {max(counts)} training steps, as in the preset quick. Longer "
            f"training may change the ranking (docs/training.md)."
        )
    lost = sum(record.status in ("failed", "lost") for record in known)
    if lost:
        found.append(
            f"{lost} of {len(known)} cells failed or were lost, and are in no mean."
        )
    return found


def about_tables(records: list[Record]) -> list[Table]:
    """Return tables of schemes, quantities, programs, machines, settings and texts."""
    specs = [record.spec for record in records]
    parts: dict[str, list[Facts]] = {
        "Programs": [
            {"numbers": spec.numbers, "torch": spec.torch, "threads": spec.threads}
            for spec in specs
        ],
        "Machines and times": [record.provenance.facts for record in records],
    }
    for kind, entry in SETTINGS.entries().items():
        settings = [spec.setting for spec in specs if spec.kind == kind]
        parts[entry.facts["heading"]] = settings
    parts["Corpus"] = [record.corpus for record in records]
    found = [(heading, _values(part)) for heading, part in parts.items()]
    made = [Table(name, ["name", "value"], rows) for name, rows in found if rows]
    return [_schemes(records), _quantities(records), *made]


def _schemes(records: list[Record]) -> Table:
    """Return family, paper and cells of every scheme, by family and name."""
    behind: dict[str, list[Record]] = {}
    for record in records:
        behind.setdefault(record.label, []).append(record)
    families = {label: some[0].family for label, some in behind.items()}
    rows: list[list[str | Cell]] = []
    for label in by_family_of(families, behind):
        some = behind[label]
        seconds = sum(record.provenance.seconds for record in some)
        facts = [label, families[label], some[0].source, coverage(some)]
        rows.append([*facts, number(seconds) if seconds else ""])
    return Table("Schemes", ["scheme", "family", "paper", "cells", "seconds"], rows)


def _quantities(records: list[Record]) -> Table:
    """Return measure, name, unit, direction and zero of every quantity."""
    found = {
        (f"{r.measure} {r.spec.measure.version}", q.heading, q.unit, q.better, q.zero)
        for r in records
        for q in r.quantities.values()
    }
    head = ["measure and version", "quantity", "unit", "better", "0 means"]
    return Table("Quantities", head, [[*row] for row in sorted(found)])


def _values(parts: list[Facts]) -> list[list[str | Cell]]:
    """Return for every name its different values, with the number of cells of each.

    Of many values only the least and the greatest are shown.
    """
    found: list[list[str | Cell]] = []
    for name in sorted({name for part in parts for name in part} - {"kind"}):
        values = [part[name] for part in parts if name in part]
        counts = Counter(str(value) for value in sorted(values, key=_place))
        first, *_, last = [*counts, *counts]
        if counts[first] == len(parts):
            text = first
        elif len(counts) <= MANY:
            of = f"of {len(parts)} cells"
            text = ", ".join(f"{value} ({n} {of})" for value, n in counts.items())
        else:
            text = f"{first} to {last} ({len(counts)} different values)"
        found.append([name.replace("_", " "), text])
    return found


def _place(value: Scalar) -> tuple[bool, float, str]:
    """Return what sorts a value: numbers first."""
    number = value if isinstance(value, int | float) else None
    return (number is None, number or 0, str(value))
