"""The command that computes published figures again."""

from posenc_compare.cli.console import say, show
from posenc_compare.cli.options import Format, Formats


def reproduce(format: Formats = Format.table) -> int:
    """Compute figures that papers have published, and compare."""
    from posenc_compare.reproduce.published import figures

    found = list(figures())
    body = [[f.what, _brief(f.published), _brief(f.ours), f.verdict] for f in found]
    show("Published figures", ["what", "published", "ours", "verdict"], body, format)
    for figure in found:
        if figure.note:
            say(f"{figure.what}: {figure.note}")
    return int(any(figure.verdict == "differs" for figure in found))


def _brief(value: list[float] | float | None) -> str:
    if isinstance(value, list):
        return " ".join(f"{item:g}" for item in value)
    return "" if value is None else f"{value:g}"
