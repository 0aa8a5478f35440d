"""The command that lists schemes, measures, tasks and plots."""

from posenc_compare.cli.console import say, show
from posenc_compare.cli.options import Format, Formats, Plugins
from posenc_compare.registry import REGISTRIES


def list_(format: Formats = Format.table, plugin: Plugins = None) -> None:
    """List schemes, measures, tasks and plots."""
    body = []
    for registry in REGISTRIES:
        rows = [
            [name, facts.get("family", registry.kind), what, facts.get("source", "")]
            for name, (facts, what) in registry.listed().items()
        ]
        body += sorted(rows, key=lambda row: row[1])
    show(
        "Schemes by family, measures, tasks and plots",
        ["name", "kind", "what", "source"],
        body,
        format,
    )
    report_broken()


def report_broken() -> None:
    """Print a line for each installed plugin that cannot be used, with the reason."""
    for registry in REGISTRIES:
        for origin, reason in registry.broken.items():
            say(f"broken plugin {origin}: {reason}")
