"""How long cells would take, from records of cells like them."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from posenc_compare.records.cells import Cell
from posenc_compare.records.record import Record


def seconds_of(cells: Iterable[Cell], records: Iterable[Record], workers: int) -> float:
    """Return how long cells would take, or 0 if a measure has no record.

    A cell takes the median time of the records of its scheme and measure, or else of
    its measure, in proportion to the steps of a training. Sizes other than the number
    of steps are taken to be alike.

    Args:
        cells: to compute.
        records: some of them computed on this machine.
        workers: cells that are computed at once.

    Returns:
        Seconds, at the least those of the longest cell.
    """
    paces: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.status == "ok" and record.provenance.seconds > 0:
            pace = record.provenance.seconds / _steps(record.spec.setting.get("steps"))
            paces[record.measured].append(pace)
            paces[f"{record.measured} {record.spec.scheme.name}"].append(pace)
    total = longest = 0.0
    for cell in cells:
        found = paces.get(f"{cell.measured} {cell.variant.name}")
        found = found or paces.get(cell.measured)
        if not found:
            return 0.0
        seconds = median(found) * _steps(getattr(cell.setting, "steps", None))
        total, longest = total + seconds, max(longest, seconds)
    return max(total / workers, longest)


def _steps(given: object) -> int:
    return given if isinstance(given, int) and given > 0 else 1
