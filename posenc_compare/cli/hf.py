"""The commands on models of Hugging Face."""

from typing import Annotated

import typer

from posenc_compare.cli.console import show
from posenc_compare.cli.options import Format, Formats, with_choices
from posenc_compare.cli.run import DryRun, Out, run_comparison

app = typer.Typer(help="Look at models of Hugging Face; needs the extra `hf`.")
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]
HEAD = ["layers", "type", "for", "pairs", "slow", "times", "off by", "rope here"]


@app.command()
@with_choices(["device", "threads", "workers", "timeout", "checkpoint_every", "retry"])
def evaluate(
    model: Model,
    lengths: Annotated[
        str, typer.Option(help="Of windows, in tokens, by comma.")
    ] = "1024,2048,4096,8192",
    rules: Annotated[
        str, typer.Option(help="Scalings to read it under, by comma, or `all`.")
    ] = "all",
    windows: Annotated[
        int, typer.Option(help="Of the longest length, each a seed of the tables.")
    ] = 1,
    corpus: Annotated[str, typer.Option(help="File or folder of text.")] = "stdlib",
    test_corpus: Annotated[
        str, typer.Option(help="File or folder to read; default: of the corpus.")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Of the weights.")] = "float32",
    out: Out = None,
    format: Formats = Format.table,
    dry_run: DryRun = False,
    **chosen: object,
) -> int:
    """Read a checkpoint at several lengths, under every scaling of its positions."""
    from posenc_compare.hf.planned import evaluation

    given = {"lengths": lengths, "rules": rules, "dtype": dtype}
    given |= {"corpus": corpus, "test_corpus": test_corpus}
    made = {name: value for name, value in chosen.items() if value is not None}
    comparison = evaluation(model, given, made, windows)
    return run_comparison(comparison, out, format, dry_run)


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Say which rotary positions a model has, and whether it builds what it states.

    `slow` pairs do not finish a turn within the length that the model is `for`. `times`
    is the factor of cosines and sines. `off by` is the largest relative difference of
    a frequency, as built, from the scheme in the last column, the same rope here.
    """
    from posenc_compare.hf.planned import DESCRIBED, local_place, rotary_in

    _, found = rotary_in(local_place(model, DESCRIBED))
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
