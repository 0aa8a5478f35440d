"""How long cells would take, from records of cells like them."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from posenc_compare.records.cells import Cell
from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import Scalar

Sizes = tuple[Scalar | None, ...]


SIZES = ("width", "heads", "layers", "length", "batch", "longest", "test_bytes")
SIZES += ("positions", "tokens")


def seconds_of(cells: Iterable[Cell], records: Iterable[Record], workers: int) -> float:
    """Return how long cells would take, or 0 if a measure has no record of these sizes.

    A cell takes the median time of the records of its scheme and measure, or else of
    its measure, in proportion to the steps of a training.

    Returns:
        Seconds, at the least those of the longest cell.
    """
    paces: dict[tuple[str, Sizes], list[tuple[str, float]]] = defaultdict(list)
    for record in records:
        if record.status == "ok" and record.provenance.seconds > 0:
            setting = record.spec.setting
            pace = record.provenance.seconds / _steps(setting.get("steps"))
            sizes = tuple(setting.get(name) for name in SIZES)
            paces[record.measured, sizes].append((record.spec.scheme.name, pace))
    total = longest = 0.0
    for cell in cells:
        sizes = tuple(getattr(cell.setting, name, None) for name in SIZES)
        found = paces.get((cell.measured, sizes), [])
        own = [pace for name, pace in found if name == cell.variant.name]
        if not found:
            return 0.0
        pace = median(own or [pace for _, pace in found])
        seconds = pace * _steps(getattr(cell.setting, "steps", None))
        total, longest = total + seconds, max(longest, seconds)
    return max(total / workers, longest)


def _steps(given: object) -> int:
    return given if isinstance(given, int) and given > 0 else 1
