"""The command that computes one record again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_compare.cli.console import name_of, say, tell
from posenc_compare.cli.options import Folder, Plugins, with_options
from posenc_compare.errors import ConfigError
from posenc_compare.settings.table import Work

if TYPE_CHECKING:
    from posenc_compare.records.record import Record


@with_options("timeout", "memory")
def rerun(
    key: Annotated[
        str, typer.Argument(help="Key of a record, or its first characters.")
    ],
    folder: Folder,
    corpus: Annotated[
        str, typer.Option(help="File or folder of the training text.")
    ] = ("stdlib"),
    test_corpus: Annotated[
        str, typer.Option(help="File or folder of the test text, if it differs.")
    ] = "",
    plugin: Plugins = None,
    **options: Any,
) -> int:
    """Recompute one record, and report whether the result is the same."""
    from posenc_compare.records.diff import difference
    from posenc_compare.records.record import Record
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import recompute

    shown = _record(key, folder)
    stored = Store(folder).read(shown.key)  # before its text was cleaned
    old = Record.from_json(stored) if stored else shown
    work = Work(
        workers=1,
        deterministic=bool(old.provenance.facts.get("deterministic_algorithms")),
        **{name: value for name, value in options.items() if value is not None},
    )
    new = recompute(old, (corpus, test_corpus), plugin or [], work)
    if isinstance(new, str):
        say(f"stopped by {new}")
        return 130
    differing = difference(old, new)
    same = "the same" if not differing else "; ".join(differing)
    reason = f" ({new.error})" if new.error != old.error else ""
    tell(f"{name_of(shown)}: {new.status}{reason}, {same}")
    return int(bool(differing))


def _record(key: str, folder: Path) -> "Record":
    from posenc_compare.records.load import load_records

    records = load_records(folder, say, arrays=False)
    found = [record for record in records if record.key.startswith(key)]
    if len(found) != 1 or not key:
        raise ConfigError(
            f"{folder}: must hold one record whose key begins with {key[:40]!r}, and "
            f"holds {len(found)}; `posenc-compare table {folder} --format csv` has "
            f"the keys"
        )
    return found[0]
