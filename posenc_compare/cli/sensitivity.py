"""The command that says what becomes of an order if a setting changes."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_parts
from posenc_compare.cli.options import Format, Formats
from posenc_compare.errors import ConfigError


def sensitivity(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    by: Annotated[
        str,
        typer.Option(
            help="Comma-separated settings of a training whose values are compared: "
            "steps, norm, heads, learning_rate, corpus, ..."
        ),
    ],
    format: Formats = Format.table,
) -> None:
    """Show how trained scores and orders change with a setting."""
    from posenc_compare.analysis.records.load import load_by
    from posenc_compare.analysis.show.sensitivity import sensitivity_tables

    if format in NUMBERS:
        raise ConfigError(
            f"format must be table, md or tex, got {format.value}; `table DIR --format "
            f"{format.value}` writes every number"
        )
    names = [*dict.fromkeys(name.strip() for name in by.split(","))]
    groups = load_by(folders, names, say)
    tables = sensitivity_tables(", ".join(names), groups)
    if not tables:
        labels = sorted({record.label for some in groups.values() for record in some})
        raise ConfigError(
            f"by {by}: a scheme must have two values or more with all other settings "
            f"equal, got {', '.join(labels[:4])}{', ...' * (len(labels) > 4)}"
        )
    show_parts(tables, format)
