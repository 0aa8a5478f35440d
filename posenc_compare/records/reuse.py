"""Records that other folders have already, so that nothing is computed twice.

A key names all that a number depends on, so a record of that key can be copied as it
is. What was timed, or did not come out well, is computed anew.
"""

from collections.abc import Iterable
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.records.store import Store
from posenc_compare.settings.canonical import Body


def find_records(keys: Iterable[str], folders: Iterable[Path]) -> dict[str, Store]:
    """Return for each key that a folder has a sound record of the first such folder."""
    held: dict[str, Store] = {}
    left = list(keys)
    for store in map(Store, folders):
        if not store.packed.exists() and not store.cells.is_dir():
            raise ConfigError(
                f"reuse {store.folder}: must be the folder of a run, and holds no "
                f"records"
            )
        for key in left:
            if key not in held and _stays_true(store.read(key)):
                held[key] = store
    return held


def copy_records(held: dict[str, Store], to: Store) -> None:
    """Copy records into a folder, to the byte."""
    for key, store in held.items():
        if found := store.find(key):  # or else it was removed a moment ago
            to.put(key, found[0])


def _stays_true(body: Body | None) -> bool:
    """Return whether a record can be reused for its cell at any time."""
    try:
        record = Record.from_json(body)
    except ValueError:
        return False
    timed = any(not quantity.repeatable for quantity in record.quantities.values())
    return record.status == "ok" and not timed
