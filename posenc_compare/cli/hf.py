"""The commands on models of Hugging Face."""

from typing import Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import NUMBERS, say, show
from posenc_compare.cli.options import Format, Formats, with_options
from posenc_compare.cli.run import run_comparison

app = typer.Typer(
    help="Check, describe and evaluate models of Hugging Face (extra `hf`)."
)
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]
EXECUTION = ("device", "workers", "threads", "timeout")  # options of `evaluate`
COLUMNS = {  # each with its attribute, and the form of its numbers
    "layers": ("layers", ""),
    "type": ("rope_type", ""),
    "for": ("length", ""),
    "pairs": ("pairs", ""),
    "slow": ("slow", ""),
    "times": ("attention_factor", ".4g"),
    "scores times": ("scale", ".4g"),
    "off by": ("apart", ".1e"),
    "logits off by": ("off", ".1e"),
    "rope here": ("label", ""),
    "why not": ("reason", ""),
}


@app.command()
@with_options(*EXECUTION, "retry", "set", "out", "dry_run")
def evaluate(
    model: Model,
    lengths: Annotated[
        str, typer.Option(help="Comma-separated window lengths, in tokens.")
    ] = "1024,2048,4096,8192",
    rules: Annotated[
        str, typer.Option(help="Comma-separated scalings of `rope`, or `all`.")
    ] = "all",
    windows: Annotated[
        int, typer.Option(help="Windows of the longest length; each counts as a seed.")
    ] = 1,
    corpus: Annotated[str, typer.Option(help="File or folder of text.")] = "stdlib",
    test_corpus: Annotated[
        str, typer.Option(help="File or folder to evaluate on; default: the corpus.")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Precision of the weights.")] = "float32",
    format: Formats = Format.table,
    **options: Any,
) -> int:
    """Evaluate a checkpoint by length, under every scaling of its positions."""
    from posenc_compare.hf.planned import evaluation

    given = {"lengths": lengths, "rules": rules, "dtype": dtype}
    given |= {"corpus": corpus, "test_corpus": test_corpus}
    out, dry_run = options.pop("out"), bool(options.pop("dry_run"))
    with configured(options, {*EXECUTION, "retry", "checkpoint_every"}) as work:
        comparison = evaluation(model, given, work, windows)
    return run_comparison(comparison, out, format, dry_run)


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Describe the rotary positions of a model, measured on a small random copy.

    Columns: slow = pairs that do not complete a rotation within the length; times =
    factor on cosines and sines; scores times = factor on logits beside
    1/sqrt(head_dim); off by = largest relative error of a frequency of the scheme;
    logits off by = largest error of a logit, relative to the largest logit.
    """
    from posenc_compare.hf.planned import DESCRIBED, local_place, rotary_in

    _, found = rotary_in(local_place(model, DESCRIBED))

    exact = format in NUMBERS

    def text(value: object, form: str) -> object:
        if exact or not form:
            return value
        return "n/a" if value is None else f"{value:{form}}"

    body = [
        [text(getattr(one, name), form) for name, form in COLUMNS.values()]
        for one in found
    ]
    show(f"rotary positions of {model}", [*COLUMNS], body, format)
    return 0


@app.command()
def check(
    model: Model,
    tokens: Annotated[
        int, typer.Option(help="Tokens of a text; 0 = 64, or a smaller model limit.")
    ] = 0,
    format: Formats = Format.table,
) -> int:
    """Check how a model handles positions, as it is.

    Random tokens are evaluated in several ways that must give the same outputs: with a
    cache, padded, packed, alone. Rotations are compared with the configuration and with
    transformers. `bound` is the largest difference that rounding explains.
    """
    from dataclasses import astuple

    from posenc_compare.hf.check import check as checked
    from posenc_compare.hf.check import load
    from posenc_compare.hf.planned import READ, configuration_in, local_place

    place = local_place(model, READ)
    found = checked(load(place, configuration_in(place)), tokens)
    exact = format in NUMBERS

    def text(value: object) -> object:
        if exact or not (value is None or isinstance(value, float)):
            return value
        return "" if value is None else f"{value:.1e}"

    head = ["check", "what is compared", "largest", "bound", "outcome", "why"]
    body = [[text(value) for value in astuple(one)] for one in found]
    show(f"positions of {model}", head, body, format)
    failed = sum(one.state == "failed" for one in found)
    if failed:
        say(f"{failed} {'check' if failed == 1 else 'checks'} failed")
    return int(failed > 0)
