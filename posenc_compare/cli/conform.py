"""The command that checks schemes against what every scheme must do."""

from collections import Counter

from posenc_compare.cli.say import say
from posenc_compare.cli.show import show
from posenc_compare.conformance import CHECKS, Subject, run_check
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.variants import parse_variants

STATES = ("passed", "failed", "expected to fail", "not applicable")


def check(text: str, plugins: list[str], format: str) -> int:
    """Run every check on the schemes named; 1 if any failed.

    Args:
        text: names or variants as on the command line, or `path.py:Class`, whose
            file is a plugin too.
        plugins: files or modules that register schemes.
        format: of the table of checks that did not pass.

    Raises:
        ConfigError: if a name is unknown.
    """
    path, colon, name = text.partition(".py:")
    if colon:
        plugins = [*plugins, f"{path}.py"]
    origins = {}
    for plugin in plugins:
        origins |= dict.fromkeys(SCHEMES.add_plugin(plugin), plugin)
    if colon:
        text = _name_of(name, [n for n, o in origins.items() if o == plugins[-1]])
    bad = 0
    for variant in parse_variants(text):
        subject = Subject(variant, origins.get(variant.name, ""))
        outcomes = [run_check(subject, code) for code in CHECKS]
        counts = Counter(outcome.state for outcome in outcomes)
        said = ", ".join(f"{counts[s]} {s}" for s in STATES if counts[s])
        print(f"{variant.label}: {len(outcomes)} declared: {said}", flush=True)
        body = [
            [o.check.code, o.check.title, o.state, " ".join(o.detail.split())[:300]]
            for o in outcomes
            if o.state != "passed"
        ]
        if body:
            show("", ["check", "what it checks", "outcome", "detail"], body, format)
        bad += counts["failed"]
    if bad:
        say(f"{bad} checks failed")
    return int(bool(bad))


def _name_of(asked: str, names: list[str]) -> str:
    """Return the registered name of a class, or the name itself."""
    for name in names:
        if asked in (name, SCHEMES.get(name).__name__):
            return name
    raise ConfigError(f"no scheme {asked[:80]!r} in that file; it declares {names}")
