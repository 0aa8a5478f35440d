"""Which of the records in some folders are shown."""

import fnmatch
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.registry import FAMILIES, RELATIVE
from posenc_compare.settings.canonical import canonical
from posenc_compare.validate import check_text, hint

NAMED = 5  # schemes of which records are hidden
KINDS = {"trained": "training", "untrained": "probe"}
LISTED = 24  # names in an error message


@dataclass(frozen=True)
class Selection:
    """What is shown; an empty text stands for everything.

    Attributes:
        schemes: comma-separated labels, families or globs of labels.
        measures: comma-separated names or globs of names, `trained` or `untrained`.
        tasks: comma-separated names or globs; records without training have none.
        baseline: label of a scheme that is shown whatever `schemes` are, with or
            without settings.
    """

    schemes: str = ""
    measures: str = ""
    tasks: str = ""
    baseline: str = ""

    def of(
        self,
        records: list[Record],
        warn: Callable[[str], object],
        current: Collection[str] = (),
    ) -> list[Record]:
        """Return the records that are shown, each of one code alone.

        It is that of the keys in `current`, else the one that was run last. `warn` is
        called with a line if this hides some records.
        """
        chosen = _matching("scheme", self.schemes, records, _scheme_names)
        keys = {record.key for record in chosen}
        records = [r for r in records if r.key in keys or self._is_baseline(r)]
        for name, text, names_of in (
            ("measure", self.measures, lambda r: (r.measure, r.spec.kind)),
            ("task", self.tasks, lambda r: (r.task,) if r.task else ()),
        ):
            records = _matching(name, text, records, names_of)
        kept = newest(records, current)
        if len(kept) < len(records):
            shown = {record.key for record in kept}
            hidden = {r.label: None for r in records if r.key not in shown}
            more = f", and {len(hidden) - NAMED} more" if len(hidden) > NAMED else ""
            warn(
                f"{len(records) - len(kept)} records of other code are not shown: "
                f"{', '.join([*hidden][:NAMED])}{more}"
            )
        return kept

    def _is_baseline(self, record: Record) -> bool:
        name = f"{record.label} ["  # settings may follow
        return record.label == self.baseline or self.baseline.startswith(name)


def newest(records: Iterable[Record], current: Collection[str] = ()) -> list[Record]:
    """Return the records without those that other code has made anew since.

    Of the records of one scheme with one measure, task and setting, those stay whose
    code is that of a key in `current`, or else those with the highest `numbers` and
    the code of the record begun last. A record that was lost replaces none.
    """
    records = list(records)
    last: dict[Texts, tuple[bool, bool, int, str, Texts]] = {}
    for record in records:
        row, code = _table_row(record), _code(record)
        made = record.status != "lost", record.key in current, record.spec.numbers
        found = *made, record.made("started"), code
        last[row] = max(last.get(row, found), found)
    return [r for r in records if last[_table_row(r)][-1] == _code(r)]


Texts = tuple[str, ...]


def _table_row(record: Record) -> Texts:
    """Return what the records of a scheme share that a table puts into one row."""
    spec = record.spec
    setting = {name: v for name, v in spec.setting.items() if name != "seed"}
    same = canonical([setting, spec.threads, spec.graphics]).decode()
    return record.label, record.measured, same


def _code(record: Record) -> Texts:
    spec = record.spec
    own = spec.scheme.code, spec.measure.code, str(spec.measure.version)
    return (*own, str(spec.numbers), spec.modified)


def _scheme_names(record: Record) -> Texts:
    """Return what stands for the scheme of a record: its label and its families."""
    families = (record.family, "relative" if record.family in RELATIVE else "")
    return (record.label, *families)


def _matching(
    what: str,
    text: str,
    records: list[Record],
    names_of: Callable[[Record], Texts],
) -> list[Record]:
    """Return the records with a name that is one of some patterns.

    A pattern may also be a glob of the first name.
    """
    check_text(f"{what}s", text, "all")
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    if not patterns or "all" in patterns:
        return records
    names = [names_of(record) for record in records]
    kept: set[int] = set()
    for pattern in patterns:
        kind = KINDS.get(pattern, pattern)
        found = {
            index
            for index, own in enumerate(names)
            if kind in own or fnmatch.filter(own[:1], kind)
        }
        if not found:
            known = sorted({name for own in names for name in own} - {"", *FAMILIES})
            more = ", ..." * (len(known) > LISTED)
            near = hint(pattern, known) or f"; there are {', '.join(known[:LISTED])}"
            raise ConfigError(f"no record has the {what} {pattern[:80]!r}{near}{more}")
        kept |= found
    return [records[index] for index in sorted(kept)]
