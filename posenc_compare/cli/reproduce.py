"""The command that trains published rankings again."""

from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import progress, say, show, show_tables
from posenc_compare.cli.options import WORK, OnPaper, with_options
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work
from posenc_compare.validate import check_choice

Names = Annotated[
    str,
    typer.Argument(
        help="Names of published rankings, comma-separated, or 'all'. "
        "Without a name, the command lists them."
    ),
]

ALLOWED = {"preset", "seeds", "steps", *Work.__dataclass_fields__}


@with_options(
    *("config", "set", "preset", "seeds", *WORK), preset="standard", seeds="6"
)
def reproduce(
    names: Names = "",
    format: OnPaper = "table",
    out: Annotated[
        Path, typer.Option(help="Folder for records; those in it are not recomputed.")
    ] = Path("runs/reproduce"),
    **options: Any,
) -> int:
    """Train the schemes of a published ranking, and compare their order with it.

    The training runs of a ranking take minutes to hours.
    """
    from posenc_compare.show.published_orders import ORDERS

    if not names:
        body = [[name, order.says, order.source] for name, order in ORDERS.items()]
        show("Published rankings", ["name", "says", "source"], body, format)
        return 0
    with configured(options, ALLOWED) as chosen:
        return _orders(names, out, format, {"preset": "standard", **chosen})


def _orders(names: str, out: Path, format: str, chosen: Body) -> int:
    """Train what published rankings need and show their verdicts.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell has no result, else 0.
    """
    from posenc_compare.records.labels import without_settings
    from posenc_compare.records.record import Record
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import plan_comparison
    from posenc_compare.show.orders import order_table, outcomes
    from posenc_compare.show.published_orders import ORDERS

    wanted = [*ORDERS] if names == "all" else names.replace(" ", "").split(",")
    for name in wanted:
        check_choice("ranking", name, (*ORDERS,))
    orders = {name: ORDERS[name] for name in wanted}
    store, tables, failed = Store(out), [], 0
    for name, order in orders.items():
        records: list[Record] = []
        for convolution, schemes in order.runs.items():
            both: Body = {**chosen, **order.choices, "convolution": convolution}
            comparison = plan_comparison(schemes, "extrapolation", **both)
            with progress() as listen:
                if comparison.compute(store, listen):
                    return 130
            results = comparison.results(store, say, arrays=False)
            failed += len(results.failed)
            records += map(without_settings, results.records)  # labels name no settings
        tables.append(order_table(name, order, outcomes(order, records)))
    show_tables(tables, format)
    return int(failed > 0)
