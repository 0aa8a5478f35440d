"""The commands that look at records one by one: status, rerun, diff."""

import tempfile
from collections import Counter
from pathlib import Path

from posenc_compare.analysis.engine.plan import here
from posenc_compare.analysis.engine.scheduler import Supervisor
from posenc_compare.analysis.records.cells import cell_of
from posenc_compare.analysis.records.diff import difference, same_cell
from posenc_compare.analysis.records.load import load_records
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.cli.commands import Work
from posenc_compare.cli.machine import check_machine, check_memory
from posenc_compare.cli.say import say, tell
from posenc_compare.cli.show import show
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES

LISTED = 20  # cells that are named one by one


def status(folder: Path, format: str) -> int:
    """Print what a folder holds, by measure and status; 1 if any cell went wrong."""
    store = Store(folder)
    records = load_records(folder, say, arrays=False)
    counts = Counter((record.measure, record.status) for record in records)
    states = ("ok", "unsupported", "failed", "lost")
    body = [
        [measure, *(counts[measure, state] for state in states)]
        for measure in sorted({measure for measure, _ in counts})
    ]
    show(f"{len(records)} records in {folder}", ["measure", *states], body, format)
    for record in [r for r in records if r.status in ("failed", "lost")][:LISTED]:
        say(f"{record.status}: {_name(record)} ({record.key}): {record.error}")
    for what, place in (
        ("unfinished trainings with checkpoints", store.checkpoints),
        ("damaged files set aside", store.quarantine),
    ):
        count = len(list(place.glob("[!.]*"))) if place.is_dir() else 0
        if count:
            say(f"{count} {what} in {place}")
    return int(bool(sum(counts[m, s] for m, s in counts if s in ("failed", "lost"))))


def rerun(key: str, folder: Path, corpus: str, plugins: list[str], work: Work) -> int:
    """Compute the cell of one record again and say whether the result is the same."""
    check_machine(1)  # before records are read
    for plugin in plugins:
        SCHEMES.add_plugin(plugin)
    shown = _record(key, folder)
    found = Store(folder).read(shown.key)  # before its text was cleaned
    old = Record.from_json(found) if found else shown
    try:
        cell = here(cell_of(old.spec, corpus))
        wanted = cell.key()
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"record {old.key}: must be one that this version can compute, and "
            f"lacks or adds {error}"
        ) from error
    limits = work.limits([cell], 1)
    check_memory([cell], limits.memory)
    with tempfile.TemporaryDirectory() as place:
        store = Store(Path(place) / "rerun")
        store.create()
        stopped_by = Supervisor(
            {wanted: cell},
            store,
            plugins,
            limits,
            (),
            lambda cell, units: None,
            lambda record: None,
        ).run()
        computed = store.read(wanted)
    if stopped_by or computed is None:
        say(f"stopped by {stopped_by}")
        return 130
    new = Record.from_json(computed)
    differing = difference(old, new)
    same = "the same" if not differing else "; ".join(differing)
    reason = f" ({new.error})" if new.error != old.error else ""
    tell(f"{_name(shown)}: {new.status}{reason}, {same}")
    return int(bool(differing))


def diff(one: Path, other: Path, format: str) -> int:
    """Compare two folders cell by cell; 1 if anything differs."""
    records = [
        {same_cell(record): record for record in load_records(folder, say)}
        for folder in (one, other)
    ]
    body, same = [], 0
    for cell in {**records[0], **records[1]}:
        pair = [side.get(cell) for side in records]
        if pair[0] is None or pair[1] is None:
            present = pair[0] or pair[1]
            assert present is not None
            what = f"only in {one if pair[0] else other}"
            body.append([_name(present), what])
        elif differing := difference(pair[0], pair[1]):
            body.append([_name(pair[0]), "; ".join(differing)])
        else:
            same += 1
    title = f"{same} cells the same, {len(body)} not"
    if body or format == "table":
        show(title, ["cell", "difference"], sorted(body), format)
    return int(bool(body))


def _record(key: str, folder: Path) -> Record:
    records = load_records(folder, say, arrays=False)
    found = [record for record in records if record.key.startswith(key)]
    if len(found) != 1 or not key:
        raise ConfigError(
            f"{folder}: must hold one record whose key begins with {key[:40]!r}, and "
            f"holds {len(found)}; `posenc-compare table {folder} --format csv` has "
            f"the keys"
        )
    return found[0]


def _name(record: Record) -> str:
    return f"{record.label} {record.measure} seed {record.spec.seed}"
