"""The commands on models of Hugging Face."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import NUMBERS, say, show, tell
from posenc_compare.cli.options import Format, Formats, with_options
from posenc_compare.cli.run import run_comparison

if TYPE_CHECKING:
    from posenc_compare.hf.recommend import Target

app = typer.Typer(
    help="Check, convert, describe and evaluate Hugging Face models, and recommend "
    "scalings; needs the extra `hf`."
)
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]
NO_SUCH = "none that this model reads in transformers"
EXECUTION = ("device", "workers", "threads", "timeout")  # options of `evaluate`


@app.command()
@with_options(
    *EXECUTION,
    "retry",
    "set",
    "out",
    "dry_run",
    out="runs/checkpoint-MODEL, or runs/retrieval-MODEL with --retrieval",
)
def evaluate(
    model: Model,
    lengths: Annotated[
        str, typer.Option(help="Comma-separated window lengths, in tokens.")
    ] = "1024,2048,4096,8192",
    rules: Annotated[
        str, typer.Option(help="Comma-separated RoPE scalings, such as yarn, or `all`.")
    ] = "all",
    windows: Annotated[
        int,
        typer.Option(
            help="Number of windows of the longest length; each counts as a seed."
        ),
    ] = 1,
    retrieval: Annotated[
        bool,
        typer.Option("--retrieval", metavar="", help="Measure retrieval of facts."),
    ] = False,
    fillers: Annotated[
        str,
        typer.Option(
            help="With --retrieval: comma-separated fillers. text = the corpus, source "
            "= Python code, noise = shuffled words of the corpus."
        ),
    ] = "text,noise",
    needles: Annotated[
        int,
        typer.Option(help="With --retrieval: number of facts of each kind per depth."),
    ] = 1,
    corpus: Annotated[
        str,
        typer.Option(help="File or folder of text; its held-out part is evaluated."),
    ] = "stdlib",
    test_corpus: Annotated[
        str,
        typer.Option(help="File or folder of text to evaluate on instead of --corpus."),
    ] = "",
    dtype: Annotated[
        str, typer.Option(help="Data type of weights: float32 or bfloat16.")
    ] = "float32",
    format: Formats = Format.table,
    **options: Any,
) -> int:
    """Evaluate a checkpoint at several lengths, under RoPE scalings.

    Without --retrieval: bits per byte of the same tokens at every length. With it: the
    share of facts found in a text, by length and depth, and bits per byte of that text.
    There are several kinds of facts. A fact counts as found if the model generates its
    value; the model can only generate values that the text gives for that kind.
    """
    from posenc_compare.hf import planned

    given = {"dtype": dtype, "corpus": corpus, "test_corpus": test_corpus}
    of_needles = {"fillers": fillers, "needles": needles}
    out, dry_run = options.pop("out"), bool(options.pop("dry_run"))
    with configured(options, {*EXECUTION, "retry", "checkpoint_every"}) as work:
        if retrieval:
            given |= of_needles
            made = planned.retrieval(model, lengths, rules, given, work, windows)
        else:
            given |= {"lengths": lengths, "rules": rules}
            made = planned.evaluation(model, given, work, windows)
    return run_comparison(made, out, format, dry_run)


@app.command()
def recommend(
    model: Model,
    length: Annotated[
        int,
        typer.Option(help="Length of the text, in tokens.", show_default=False),
    ],
    evidence: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an hf evaluate --retrieval run that reaches beyond the "
            "training length. Without it, no scaling is chosen.",
            show_default=False,
        ),
    ] = None,
    format: Formats = Format.table,
) -> None:
    """Recommend a RoPE scaling for texts beyond the training length.

    Scalings are compared by the facts found beyond the training length, then by bits
    per byte beyond it, then within it. The records in --evidence are from one
    checkpoint and one scaling factor, and may not transfer to others.
    """
    from posenc_compare.hf.recommend import target
    from posenc_compare.hf.rules import AS_TRAINED
    from posenc_compare.records.load import load_records
    from posenc_compare.show.retrieval import Advice, advice

    aim = target(model, length, say)
    within = aim.factor == 1
    if within:
        found = Advice((AS_TRAINED,), (), (), "")
        verdict = f"no scaling is needed up to {aim.geometry.length} tokens"
    elif evidence is None:
        _print_scalings(model, aim, format)
        return
    else:
        found = advice(load_records(evidence, lambda line: None), length)
        verdict = found.verdict
    rule = found.rules[0] if len(found.rules) == 1 else ""
    choice: dict[str, Any] = {
        "rule": rule or None,
        "verdict": verdict,
        "factor": aim.factor if rule else None,
        "base": aim.base,
        "scheme": aim.variant(rule).label if rule else None,
        "rope_parameters": aim.rope_parameters(rule) if rule else None,
        "max_position_embeddings": max(length, aim.geometry.length) if rule else None,
    }
    if format == Format.json:
        evidence_of = {"about": found.about, "reasons": found.reasons}
        print(json.dumps({**choice, **evidence_of, "rules": found.rows}, indent=2))
        return
    if within:
        tell(f"{model}, {length} tokens: {verdict}")
        return
    body = [
        [name, value if isinstance(value, str) else json.dumps(value)]
        for name, value in choice.items()
        if value is not None
    ]
    if rule and choice["rope_parameters"] is None:
        body.append(["rope_parameters", "none found that this model reads"])
    show(f"{model}, {length} tokens", ["", "value"], body, format)
    rows = [[_short(value) for value in row.values()] for row in found.rows]
    show(f"evidence: {found.about}", [*found.rows[0]], rows, format)
    for line in found.reasons:
        say(line)
    say("scalings may rank differently under another model, size or factor")


def _print_scalings(model: str, aim: "Target", format: Format) -> None:
    """Print what each scaling would be, none of which was tested."""
    lengths = f"--lengths {aim.geometry.length},{aim.length} --windows 6"
    how = (
        f"no scaling is chosen without --evidence; `hf evaluate {shlex.quote(model)} "
        f"--retrieval {lengths} --corpus BOOKS --out DIR` records it"
    )
    size = {"max_position_embeddings": aim.length}
    head, body = ["rule", "scheme", "rope_parameters"], []
    for rule in aim.rules:
        parameters = aim.rope_parameters(rule)
        body.append([rule, aim.variant(rule).label, parameters])
    if format == Format.json:
        rows = [{**dict(zip(head, row, strict=True)), **size} for row in body]
        none = dict.fromkeys(("scheme", "rope_parameters", "about", "factor", *size))
        found = {"rule": None, "verdict": how, **none, "base": aim.base}
        print(json.dumps({**found, "reasons": [], "rules": rows}, indent=2))
        return
    texts = [[*row, json.dumps(given) if given else NO_SUCH] for *row, given in body]
    show(f"{model}, {aim.length} tokens", head, texts, format)
    say(f"with each of them, max_position_embeddings must be {aim.length}")
    say(how)


def _short(value: object) -> object:
    """Return a number with three digits."""
    return f"{value:.3f}" if isinstance(value, float) else value


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Identify a model's positional encoding on a small copy with random weights.

    Kinds: rotary; table = vectors added to token embeddings; bias = added to logits;
    none; other.
    A rotary pair is slow if it does not complete a rotation within the training length.
    The attention factor multiplies cosines and sines, the softmax factor all logits.
    Column 'off by' is the largest relative difference between the model's encoding and
    the scheme that was identified; 'logits off by' compares their logits. `--format
    json` also lists the frequencies.
    """
    from posenc_compare.hf.checkpoint import DESCRIBED, configuration_in, local_place
    from posenc_compare.hf.describe import describe as described

    found = described(configuration_in(local_place(model, DESCRIBED), say))
    exact = format is Format.json
    rows = [
        {
            "layers": one.layers,
            "kind": one.kind,
            "measured": dict(one.measured) if exact else one.text,
            "frequencies": one.frequencies,
            "scheme": one.variant and one.variant.name if exact else one.label,
            "options": one.variant and one.variant.options,
            "off by": one.off,
            "logits off by": one.logits_off,
            "note": one.note,
        }
        for one in found
    ]
    head = [n for n in rows[0] if exact or n not in ("options", "frequencies")]
    body = [[_shown(row[name], exact) for name in head] for row in rows]
    show(f"positions of {model}", head, body, format)
    return 0


def _shown(value: object, exact: bool) -> object:
    """Return a number with two digits and None as nothing, unless all is exact."""
    if exact or not (value is None or isinstance(value, float)):
        return value
    return "" if value is None else f"{value:.1e}"


@app.command()
def check(
    model: Model,
    tokens: Annotated[
        int,
        typer.Option(help="Tokens per text; 0 = 64, or the model's limit if smaller."),
    ] = 0,
    format: Formats = Format.table,
) -> int:
    """Check whether a model handles positions correctly.

    Random tokens are evaluated in several ways that must give the same outputs: with a
    cache, padded, packed, alone. Rotations are compared with those of the class in the
    transformers library that the model's configuration names. Column 'bound' is the
    largest difference that rounding can explain.
    """
    from dataclasses import asdict

    from transformers.utils.logging import disable_progress_bar

    from posenc_compare.hf.check import check as checked
    from posenc_compare.hf.checkpoint import READ, configuration_in, load, local_place
    from posenc_compare.hf.readings import tokens_of

    disable_progress_bar()  # of the weights that are loaded
    place = local_place(model, READ)
    config = configuration_in(place, say)
    loaded, unread = load(place, config)
    if unread:
        say(f"{model}: {len(unread)} weights are not read, the first is {unread[0]}")
    found = checked(loaded, tokens)
    count = tokens_of(config.get_text_config(), tokens)
    exact = format in NUMBERS
    rows = [asdict(one) for one in found]
    body = [[_shown(value, exact) for value in row.values()] for row in rows]
    show(f"positions of {model}, rows of {count} tokens", [*rows[0]], body, format)
    failed = sum(one.state == "failed" for one in found)
    if failed:
        say(f"{failed} {'check' if failed == 1 else 'checks'} failed")
    return int(failed > 0)


@app.command()
def convert(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder with safetensors, or name on the hub.", show_default=False
        ),
    ],
    layout: Annotated[
        str, typer.Option(help="Layout of rotary pairs in the copy: half or adjacent.")
    ],
    out: Annotated[
        str, typer.Option(help="Folder of the copy; default: ./MODEL-LAYOUT.")
    ] = "",
    format: Formats = Format.table,
) -> int:
    """Copy a checkpoint, with query and key channels in the other rotary layout.

    If n channels are rotated, layout 'half' pairs channel i with channel i + n / 2, as
    in Hugging Face's Llama. Layout 'adjacent' pairs the channels (0, 1), (2, 3), ...,
    as in Meta's Llama. The copy is for other runtimes: the transformers library still
    rotates the original pairs, so its logits for the copy are wrong.
    """
    from posenc_compare.hf.checkpoint import READ, local_place
    from posenc_compare.hf.convert import convert as converted
    from posenc_compare.hf.convert import cure

    place = local_place(model, READ)
    copy = Path(out or f"{Path(model).resolve().name}-{layout}")
    found = converted(place, layout, copy, say)  # type: ignore[arg-type]
    tensors = Counter((p.kind, p.width, p.rotated) for p in found.values())
    body = [
        [kind, number, width, rotated]
        for (kind, width, rotated), number in sorted(tensors.items())
    ]
    head = ["module", "tensors", "channels of a head", "rotated"]
    show(f"{copy}: reordered for {layout} pairs", head, body, format)
    if how := cure(copy):
        say(f"transformers reads this copy wrongly{how}")
    return 0
