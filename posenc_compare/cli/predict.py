"""The command that says which measure without training foretells a trained score."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_numbers, show_parts
from posenc_compare.cli.options import Format, Formats
from posenc_compare.errors import ConfigError


def predict(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    format: Formats = Format.table,
) -> None:
    """Show which untrained measure foretells a trained score."""
    import pandas as pd

    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.show.predictions import (
        prediction_frame,
        prediction_tables,
        predictions,
    )
    from posenc_compare.stats.correlation import FEWEST

    tables, frames = [], []
    for folder in folders:
        found = predictions(load_records(folder, say, arrays=False))
        if not found:
            raise ConfigError(
                f"{folder}: must hold {FEWEST} schemes or more with a measure without "
                f"training and a trained curve, and holds fewer; the folder of a whole "
                f"`run` would work"
            )
        name = folder.resolve().name
        tables += prediction_tables(found, name)
        frame = prediction_frame(found)
        frame.insert(0, "folder", name)
        frames.append(frame)
    if format in NUMBERS:
        show_numbers(pd.concat(frames, ignore_index=True), format)
    else:
        show_parts(tables, format)
