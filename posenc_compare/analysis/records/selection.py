"""Which of the records in some folders are shown."""

import fnmatch
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from posenc_compare.analysis.records.record import Record
from posenc_compare.errors import ConfigError
from posenc_compare.registry import FAMILIES, RELATIVE
from posenc_compare.validate import check_text, hint

KINDS = {"trained": "training", "untrained": "probe"}


@dataclass(frozen=True)
class Selection:
    """What is shown; an empty text stands for everything.

    Attributes:
        schemes: comma-separated labels, families or globs of labels.
        measures: comma-separated names or globs, `trained` or `untrained`.
        tasks: comma-separated names or globs; records without training have none.
        all_versions: show what an older version of a scheme, or of a measure, has made
            of a scheme although a newer one has made it too.
    """

    schemes: str = ""
    measures: str = ""
    tasks: str = ""
    all_versions: bool = False

    def of(self, records: list[Record]) -> list[Record]:
        """Return the records that are shown.

        Raises:
            ConfigError: if a pattern stands for no record.
        """
        for name, text, names_of in (
            ("scheme", self.schemes, _scheme_names),
            ("measure", self.measures, lambda r: (r.measure, r.spec.kind)),
            ("task", self.tasks, lambda r: (r.task,) if r.task else ()),
        ):
            records = _matching(name, text, records, names_of)
        return records if self.all_versions else newest(records)


def newest(records: Iterable[Record]) -> list[Record]:
    """Return the records without those whose code has a later version.

    Of the records of one scheme with one measure and task, those stay whose scheme and
    measure have the code with which the last of them was begun.
    """
    records = list(records)
    last: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
    for record in records:
        place = (record.label, record.measured)
        begun = record.provenance.text("started")
        last[place] = max(last.get(place, ("", ())), (begun, _code(record)))
    return [
        record
        for record in records
        if last[record.label, record.measured][1] == _code(record)
    ]


def _code(record: Record) -> tuple[str, ...]:
    measure = record.spec.measure
    scheme = record.spec.scheme.source_sha256
    return scheme, measure.source_sha256, str(measure.version)


def _scheme_names(record: Record) -> tuple[str, ...]:
    """Return what stands for the scheme of a record: its label and its families."""
    families = (record.family, "relative" if record.family in RELATIVE else "")
    return (record.label, *families)


def _matching(
    what: str,
    text: str,
    records: list[Record],
    names_of: Callable[[Record], tuple[str, ...]],
) -> list[Record]:
    """Return the records of which a name matches one of some patterns."""
    check_text(f"{what}s", text, "all")
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    if not patterns or "all" in patterns:
        return records
    kept: dict[int, Record] = {}
    for pattern in patterns:
        found = {
            place: record
            for place, record in enumerate(records)
            if _stands_for(KINDS.get(pattern, pattern), names_of(record))
        }
        if not found:
            known = sorted({name for record in records for name in names_of(record)})
            known = [name for name in known if name and name not in FAMILIES]
            near = hint(pattern, known) or f"; there are {', '.join(known[:8])}"
            raise ConfigError(f"no record is of {what} {pattern[:80]!r}{near}")
        kept |= found
    return [kept[place] for place in sorted(kept)]


def _stands_for(pattern: str, names: tuple[str, ...]) -> bool:
    return pattern in names or bool(fnmatch.filter(names, pattern))
