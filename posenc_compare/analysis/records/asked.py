"""Records that a run came back to, although other code has made their cells since.

Tables show what the newest code has made. Where an edit of a scheme is undone, the
code in use is older than what the folder holds of the edit. The run that finds the
records of such code notes when, and from then on they are the newest.
"""

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from posenc_compare.analysis.core.canonical import parse_strictly
from posenc_compare.analysis.core.files import read_file, write_file
from posenc_compare.analysis.records.record import Provenance, Record
from posenc_compare.analysis.records.selection import ASKED, newest
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import StoreError

LIMIT = 1 << 24  # bytes of a file of notes


def note_asked(store: Store, found: Iterable[Record], keys: Collection[str]) -> None:
    """Note which of the records that a run asked for are of code that was left before.

    Args:
        store: where they are.
        found: all records that are there.
        keys: of all cells of the run.

    Raises:
        StoreError: if the note cannot be written.
    """
    records = with_asked(store, found)
    shown = {record.key for record in newest(records)}
    left = [r.key for r in records if r.key in keys and r.key not in shown]
    if not left:
        return
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    noted = {**_noted(store), **dict.fromkeys(left, now)}
    try:
        write_file(store.asked, json.dumps(noted, indent=0).encode(), os)
    except OSError as error:
        raise StoreError(
            f"{store.folder}: must take {store.asked.name}, got {error}"
        ) from error


def with_asked(store: Store, records: Iterable[Record]) -> list[Record]:
    """Return records with the time when a run came back to them, where one did."""
    noted = _noted(store)
    return [
        replace(r, provenance=Provenance({**r.provenance.facts, ASKED: noted[r.key]}))
        if r.key in noted
        else r
        for r in records
    ]


def _noted(store: Store) -> dict[str, str]:
    """Return the times in the file of a folder; what is damaged says nothing."""
    try:
        found = parse_strictly(read_file(store.asked, LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: time for key, time in found.items() if _was(time)}


def _was(time: object) -> bool:
    """Return whether a text is a time in UTC, as it is noted, that has been."""
    try:
        then = datetime.fromisoformat(str(time))
        return then.tzinfo is UTC and then <= datetime.now(UTC)
    except ValueError:
        return False
