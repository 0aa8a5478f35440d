"""The command that recomputes published numbers and rankings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import NUMBERS, progress, say, show, show_parts
from posenc_compare.cli.options import WORK, Format, Formats, with_options
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work

Names = Annotated[
    str,
    typer.Argument(
        help="Comma-separated published rankings, or the word `orders` for all; "
        "default: the published numbers that need no training."
    ),
]

ALLOWED = {"preset", "seeds", "steps", *Work.__dataclass_fields__}


@with_options(
    *("config", "set", "preset", "seeds", *WORK), preset="standard", seeds="6"
)
def reproduce(
    names: Names = "",
    format: Formats = Format.table,
    out: Annotated[
        Path, typer.Option(help="Folder for records; those in it are not recomputed.")
    ] = Path("runs/reproduce"),
    **options: Any,
) -> int:
    """Recompute published numbers and rankings, and compare.

    A ranking needs training runs, which take minutes to hours.
    """
    if not names:
        return _figures(format)
    with configured(options, ALLOWED) as chosen:
        return _orders(names, out, format, {"preset": "standard", **chosen})


def _figures(format: str) -> int:
    from posenc_compare.reproduce.published import figures
    from posenc_compare.reproduce.published_orders import ORDERS

    found = list(figures())
    body = [[f.what, _brief(f.published), _brief(f.ours), f.verdict] for f in found]
    show("Published numbers", ["what", "published", "ours", "verdict"], body, format)
    for figure in found:
        if figure.note:
            say(f"{figure.what}: {figure.note}")
    say(f"rankings that `reproduce NAME` trains: {', '.join(ORDERS)}")
    return int(any(figure.verdict == "differs" for figure in found))


def _orders(names: str, out: Path, format: str, chosen: Body) -> int:
    """Train what published rankings need and show their verdicts.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell has no result, else 0.
    """
    from posenc_compare.records.store import Store
    from posenc_compare.reproduce.orders import ROW, order_table, outcomes
    from posenc_compare.reproduce.published_orders import ORDERS, published_order
    from posenc_compare.run.comparison import plan_comparison

    wanted = [*ORDERS] if names == "orders" else names.replace(" ", "").split(",")
    orders = {name: published_order(name) for name in wanted}
    store, tables, failed = Store(out), [], 0
    rows: list[list[object]] = []
    for name, order in orders.items():
        both: Body = {**chosen, **order.choices}
        comparison = plan_comparison(order.schemes, "extrapolation", **both)
        with progress() as listen:
            if comparison.compute(store, listen):
                return 130
        results = comparison.results(store, say, arrays=False)
        failed += len(results.failed)
        found = outcomes(order, results.records)
        tables.append(order_table(name, order, found))
        rows += [[name, *outcome.row] for outcome in found]
    if format in NUMBERS:
        show("Published orders", ["order", *ROW], rows, format)
    else:
        show_parts(tables, format)
    return int(failed > 0)


def _brief(value: list[float] | float | None) -> str:
    if isinstance(value, list):
        return " ".join(f"{item:g}" for item in value)
    return "" if value is None else f"{value:g}"
