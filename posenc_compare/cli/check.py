"""The command that checks schemes against what every scheme must do."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import counted, say, show, tell
from posenc_compare.cli.options import Format, Formats, Plugins
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES, add_plugin
from posenc_compare.validate import hint
from posenc_compare.variants import parse_variants

if TYPE_CHECKING:
    from posenc_compare.check import Outcome

FILE = re.compile(r"([^,]+\.py)(?::([^:]*)(:.*)?)?")  # and a class, and its options
STATES = ("passed", "failed", "expected to fail", "not applicable")


def check(
    scheme: Annotated[
        str,
        typer.Argument(
            help="Schemes as for `run`, a Python file, or one class as file.py:Class."
        ),
    ],
    plugin: Plugins = None,
    format: Formats = Format.table,
) -> int:
    """Run the conformance checks on schemes."""
    from posenc_compare.check import CHECKS, Subject, run_check

    plugins, text = plugin or [], scheme
    if given := FILE.fullmatch(scheme):
        plugins, text = [*plugins, given[1]], _schemes_in(*given.groups())
    head, as_table = ["check", "what it checks", "outcome", "detail"], format == "table"
    bad, rows = 0, []
    for variant in parse_variants(text):
        origins = {SCHEMES.entry(name).origin for name in variant.schemes}
        own = next((p for p in plugins if p in origins), "")
        subject = Subject(variant, own)
        codes = counted([*CHECKS], variant.label)
        outcomes = [run_check(subject, code) for code in codes]
        counts = Counter(outcome.state for outcome in outcomes)
        said = ", ".join(f"{counts[s]} {s}" for s in STATES if counts[s])
        line = f"{variant.label}: {len(outcomes)} checks: {said}"
        found = [outcome for outcome in outcomes if outcome.state != "passed"]
        (tell if as_table else say)(line)
        if subject.declared.mixed:
            say(f"{variant.label}: only layer 1; check the schemes inside separately")
        if found and as_table:
            show("", head, _alike(found))
        rows += [[variant.label, *_row(outcome)] for outcome in outcomes]
        bad += counts["failed"]
    if not as_table:
        show("", ["scheme", *head], rows, format)
    if bad:
        say(f"{bad} {'check' if bad == 1 else 'checks'} failed")
    return int(bool(bad))


def _schemes_in(file: str, asked: str | None, options: str | None) -> str:
    """Return the schemes of a file, or the one that is asked for, with its options."""
    names: dict[str, str] = {}
    for name in add_plugin(file):
        if name in SCHEMES and not SCHEMES.owns((entry := SCHEMES.entry(name)).module):
            names |= {name: name, entry.definition: name}
    if asked is None:
        return ",".join(dict.fromkeys(names.values()))
    if asked not in names:
        raise ConfigError(
            f"no scheme {asked[:80]!r} in that file{hint(asked, names)}; it declares "
            f"{', '.join(names)}"
        )
    return names[asked] + (options or "")


def _row(outcome: "Outcome") -> list[str]:
    return [outcome.check.code, outcome.check.title, outcome.state, outcome.detail]


def _alike(outcomes: "Iterable[Outcome]") -> list[list[str]]:
    """Return a row for each cause, with the codes of all checks that found it."""
    rows: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        # Causes that differ in numbers alone, as in sizes of the input, are one.
        cause = outcome.state, re.sub(r"\d+,?", "", outcome.cause)
        if cause in rows:
            rows[cause][0] += f" {outcome.check.code}"
        else:
            rows[cause] = _row(outcome)
    return list(rows.values())
