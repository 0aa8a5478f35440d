"""The command that lists schemes and measures."""

from posenc_compare.cli.console import say, show
from posenc_compare.cli.options import Format, Formats, Plugins
from posenc_compare.registry import MEASURES, SCHEMES


def list_(format: Formats = Format.table, plugin: Plugins = None) -> None:
    """List schemes and measures. Imports none of them."""
    for source in plugin or []:
        SCHEMES.add_plugin(source)
    body = []
    for registry in (SCHEMES, MEASURES):
        for name, entry in registry.entries().items():
            kind = entry.facts.get("family", registry.kind)
            body.append([name, kind, entry.summary, entry.facts.get("source", "")])
    show(
        "Schemes by family, and measures",
        ["name", "kind", "what", "source"],
        body,
        format,
    )
    report_broken()


def report_broken() -> bool:
    """Say in one line each which installed plugins cannot be used; return if any."""
    for origin, reason in SCHEMES.broken.items():
        say(f"broken plugin {origin}: {reason}")
    return bool(SCHEMES.broken)
