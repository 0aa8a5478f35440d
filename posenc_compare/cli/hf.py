"""The commands on models of Hugging Face."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import say, show
from posenc_compare.cli.options import Format, Formats, Plugins
from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.registry import add_plugin

app = typer.Typer(help="Look at models of Hugging Face; needs the extra `hf`.")
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]
HEAD = ["layers", "type", "for", "pairs", "slow", "times", "off by", "rope here"]


@app.command()
def export(
    folder: Annotated[
        Path,
        typer.Argument(help="Of a run with `--keep-weights`.", show_default=False),
    ],
    key: Annotated[
        str,
        typer.Argument(help="Of a record, or how it begins.", show_default=False),
    ],
    out: Annotated[
        str, typer.Argument(help="New folder to write.", show_default=False)
    ],
    plugin: Plugins = None,
) -> int:
    """Write a network that was trained here as a model of Hugging Face."""
    from posenc_compare.hf import export

    for source in plugin or []:
        add_plugin(source)
    model = export(folder, key, out)
    size = sum(weight.numel() for weight in model.parameters())
    say(f"{out}: {model.config.scheme}, {size} parameters")
    return 0


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Say which rotary positions a model has, and whether it builds what it states.

    `slow` pairs do not finish a turn within the length that the model is `for`. `times`
    is the factor of cosines and sines. `off by` is the largest relative difference of
    a frequency, as built, from the scheme in the last column, the same rope here.
    """
    from transformers import AutoConfig

    from posenc_compare.hf import rotary_of

    path = Path(model)
    given = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    try:
        config = AutoConfig.from_pretrained(path.parent if given else model, **given)
        found = rotary_of(config)
    except PosencError:
        raise
    except Exception as error:  # whatever a configuration makes transformers raise
        reason = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        raise ConfigError(
            f"model must be a folder with a config.json, a name on the hub or a GGUF "
            f"file, got {model!r}: {reason[:300]}"
        ) from error
    body = [
        [
            one.layers,
            one.rope_type,
            one.length,
            one.pairs,
            one.slow,
            f"{one.attention_factor:.4g}",
            "n/a" if one.apart is None else f"{one.apart:.1e}",
            one.variant.label if one.variant else "n/a",
        ]
        for one in found
    ]
    show(f"rotary positions of {model}", HEAD, body, format)
    return 0
