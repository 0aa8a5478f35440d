"""The commands on models of Hugging Face."""

from typing import Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import NUMBERS, say, show
from posenc_compare.cli.options import WORK, Format, Formats, with_options
from posenc_compare.cli.run import run_comparison

app = typer.Typer(
    help="Check, describe and evaluate models of Hugging Face (extra `hf`)."
)
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]


@app.command()
@with_options(*WORK[:4], "retry", "set", "out", "dry_run")
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
    with configured(options, {*WORK[:4], "retry", "checkpoint_every"}) as work:
        comparison = evaluation(model, given, work, windows)
    return run_comparison(comparison, out, format, dry_run)


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Describe the positions of a model, measured on a small random copy.

    Kinds: rotary; table = vectors that are added to tokens; bias = of logits; none.
    Slow pairs do not complete a rotation within the length. Attention factor = of
    cosines and sines; softmax factor = of logits beside 1/sqrt(head_dim). Off by =
    largest error of the scheme, relative; logits off by = the same of logits.
    """
    from posenc_compare.hf.describe import describe as described
    from posenc_compare.hf.planned import DESCRIBED, configuration_in, local_place

    found = described(configuration_in(local_place(model, DESCRIBED)))
    exact = format is Format.json

    def number(value: float | None) -> object:
        return value if exact or value is None else f"{value:.1e}"

    rows = [
        {
            "part": one.part,
            "layers": one.layers,
            "kind": one.kind,
            "measured": dict(one.measured) if exact else one.text,
            "scheme": one.variant and one.variant.name if exact else one.label,
            "options": one.variant and one.variant.options,
            "off by": number(one.off),
            "logits off by": number(one.logits_off),
            "note": one.note,
        }
        for one in found
    ]
    unused = set() if exact else {"options"}
    if not exact and not any(one.part for one in found):
        unused.add("part")
    head = [name for name in rows[0] if name not in unused]
    empty = None if exact else ""
    body = [[empty if row[n] is None else row[n] for n in head] for row in rows]
    show(f"positions of {model}", head, body, format)
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
