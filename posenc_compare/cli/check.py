"""The command that checks schemes against what every scheme must do."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import say, show, tell
from posenc_compare.cli.options import Format, Formats, Plugins
from posenc_compare.errors import ConfigError
from posenc_compare.records.sanitize import clean
from posenc_compare.registry import SCHEMES, add_plugin
from posenc_compare.variants import Variant, parse_variants

if TYPE_CHECKING:
    from posenc_compare.check import Outcome, Subject

STATES = ("passed", "failed", "expected to fail", "not applicable")


def check(
    scheme: Annotated[
        str,
        typer.Argument(help="Schemes, as in run --schemes, or a Python file."),
    ],
    plugin: Plugins = None,
    format: Formats = Format.table,
) -> int:
    """Run the conformance checks on schemes."""
    from posenc_compare.check.hints import hints
    from posenc_compare.measures.trial import misspelt

    plugins, text = plugin or [], scheme
    if scheme.endswith(".py"):
        plugins, text = [*plugins, scheme], schemes_in(scheme)
    head, as_table = ["check", "what it checks", "outcome", "detail"], format == "table"
    bad, rows = 0, []
    for variant in parse_variants(text):
        subject, outcomes = checked(variant, plugins)
        counts = Counter(outcome.state for outcome in outcomes)
        said = ", ".join(f"{counts[s]} {s}" for s in STATES if counts[s])
        line = f"{variant.label}: {len(outcomes)} checks: {said}"
        found = [outcome for outcome in outcomes if outcome.state != "passed"]
        (tell if as_table else say)(line)
        if subject.declared.mixed:
            say(f"{variant.label}: only layer 1; check the schemes inside separately")
        for hint in (*misspelt([variant]), *hints(subject)):
            say(hint)
        if found and as_table:
            show("", head, by_cause(found))
        rows += [[variant.label, *_row(outcome)] for outcome in outcomes]
        bad += counts["failed"]
    if not as_table:
        show("Checks", ["scheme", *head], rows, format)
    if bad:
        say(f"{bad} {'check' if bad == 1 else 'checks'} failed")
    return int(bool(bad))


def schemes_in(file: str) -> str:
    """Return the names of the schemes that a plugin file declares, by comma."""
    names = [name for name in add_plugin(file) if name in SCHEMES]
    own = [n for n in names if not SCHEMES.entry(n).ours]
    if not own:
        raise ConfigError(f"{file}: must register a scheme, and registers none")
    return ",".join(own)


def checked(variant: Variant, plugins: list[str]) -> "tuple[Subject, list[Outcome]]":
    """Run all checks on a scheme, which may be of one of the plugins."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import track

    from posenc_compare.check import CHECKS, Subject, run_check

    origins = {SCHEMES.entry(name).origin for name in variant.schemes}
    subject = Subject(variant, next((p for p in plugins if p in origins), ""))
    console = Console(stderr=True)
    codes = track(
        [*CHECKS],
        escape(clean(variant.label)),
        console=console,
        transient=True,
        disable=not console.file.isatty(),
    )
    return subject, [run_check(subject, code) for code in codes]


def _row(outcome: "Outcome") -> list[str]:
    return [outcome.check.code, outcome.check.title, outcome.state, outcome.detail]


def by_cause(outcomes: "Iterable[Outcome]") -> list[list[str]]:
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
