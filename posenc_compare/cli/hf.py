"""The commands on models of Hugging Face."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import NUMBERS, say, show, tell
from posenc_compare.cli.options import Format, Formats, with_options
from posenc_compare.cli.run import run_comparison
from posenc_compare.errors import ConfigError, PosencError

if TYPE_CHECKING:
    from posenc_compare.hf.recommend import Target
    from posenc_compare.show.retrieval import Advice

app = typer.Typer(
    help="Check, convert, describe and evaluate Hugging Face models, and recommend "
    "scalings; requires the 'hf' extra."
)
Model = Annotated[
    str,
    typer.Argument(help="Folder, name on the hub, or GGUF file.", show_default=False),
]
NO_SUCH = "none known for it in transformers"
PRIOR = "for what published models use, see docs/which-one.md, Extending a model"
OWN_CODE = "the folder's own code (auto_map) is not run"
STATED = ("rope_type", "rope_theta", "factor")  # of rope_parameters, a column each
BITS = ("bits beyond", "bits within")
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
        str,
        typer.Option(
            help="Comma-separated RoPE scalings: pi, ntk, ntk_by_parts, yarn, llama3, "
            "longrope; or `all`."
        ),
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
        typer.Option(
            help="File or folder of text; the model is evaluated on its held-out part."
        ),
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
    value. Generation is constrained to the values that the text gives for that kind.
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
    """List RoPE scalings for a text length; with --evidence, recommend one.

    Scalings are compared by the share of facts found beyond the training length. Those
    that do not differ significantly are compared by bits per byte beyond the training
    length, then within it. The evidence is from one checkpoint and one scaling
    factor, and may not hold for others.
    """
    from posenc_compare.hf.recommend import target
    from posenc_compare.hf.rules import AS_TRAINED
    from posenc_compare.records.load import load_records
    from posenc_compare.show.frame import usable
    from posenc_compare.show.retrieval import MEASURE, Advice, advice

    aim, another = target(model, length, say), list[str]()
    within = aim.factor == 1
    if within:
        found = Advice((AS_TRAINED,), (), (), "", tested=True)
        verdict = f"no scaling is needed up to {aim.geometry.length} tokens"
    elif evidence is None:
        _print_scalings(model, aim, format)
        return
    else:
        records = load_records(evidence, lambda line: None)
        found = advice(records, length, aim.factor)
        another = aim.another(usable(records, MEASURE)[0])
        verdict = found.verdict
    rule = found.rules[0] if len(found.rules) == 1 else ""
    choice = _choice(aim, rule, verdict)
    if format == Format.json:
        of = {"about": found.about, "another": another, "reasons": found.reasons}
        more = {row["rule"]: row for row in _scalings(aim)}
        rows = [{**row, **more.get(str(row["rule"]), {})} for row in found.rows]
        print(json.dumps({**choice, **of, "rules": rows}, indent=2))
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
    note = say if format in NUMBERS else tell
    for line in another:
        note(line)
    show(f"{Path(model).resolve().name}, {aim.title}", ["", "value"], body, format)
    _print_evidence(found, format)
    for line in found.reasons:
        note(line)
    if not rule:
        _show_scalings("what to set for each rule", aim, format)
        note(PRIOR)


def _choice(aim: "Target", rule: str, verdict: str) -> dict[str, Any]:
    """Return what to set for a rule; an empty one is none, which sets nothing."""
    size = max(aim.length, aim.geometry.length)
    return {
        "rule": rule or None,
        "verdict": verdict,
        "factor": aim.factor if rule else None,
        "base": aim.base,
        "scheme": aim.variant(rule).label if rule else None,
        "rope_parameters": aim.rope_parameters(rule) if rule else None,
        "max_position_embeddings": size if rule else None,
    }


def _print_evidence(found: "Advice", format: Format) -> None:
    """Print a row for each rule; for readers, each interval with its number."""
    head, body = [*found.rows[0]], [[*row.values()] for row in found.rows]
    if format not in NUMBERS:
        head = ["rule", "found", "95 % interval", "found within"]
        body = [
            [
                *(_short(row[name]) for name in head[:2]),
                f"{row['low']:.2f} to {row['high']:.2f}",
                _short(row["found within"]),
                *(_with_width(row, name) for name in BITS),
            ]
            for row in found.rows
        ]
        head += BITS
    show(f"evidence: {found.about}", head, body, format)


def _with_width(row: Mapping[str, object], name: str) -> str:
    """Return a mean with the half width of its interval, or what there is of them."""
    parts = (_short(row[name]), _short(row[f"{name} ±"]))
    return " ± ".join(part for part in parts if part)


def _print_scalings(model: str, aim: "Target", format: Format) -> None:
    """Print what each scaling would be, none of which was tested."""
    from posenc_compare.hf.planned import retrieval_command
    from posenc_compare.show.retrieval import FEWEST

    lengths = (aim.geometry.length, aim.length)
    how = "no scaling is chosen without --evidence"
    try:
        command = retrieval_command(model, aim.config, lengths, FEWEST)
        how += f"; `{command}` records it"
    except PosencError as error:
        how += f", which cannot be recorded: {error}"
    if format == Format.json:
        every = _scalings(aim)
        none = dict.fromkeys(("about", "factor", *every[0]))
        found = {**none, "verdict": how, "base": aim.base}
        print(json.dumps({**found, "reasons": [], "rules": every}, indent=2))
        return
    _show_scalings(f"{Path(model).resolve().name}, {aim.title}", aim, format)
    say(how)


def _scalings(aim: "Target") -> list[dict[str, Any]]:
    """Return what each scaling would be."""
    return [
        {
            "rule": rule,
            "scheme": aim.variant(rule).label,
            "rope_parameters": aim.rope_parameters(rule),
            "max_position_embeddings": aim.length,
        }
        for rule in aim.rules
    ]


def _show_scalings(title: str, aim: "Target", format: Format) -> None:
    head, body = ["rule", *STATED, "other rope_parameters"], []
    for row in _scalings(aim):
        one = row["rope_parameters"] or {}
        values = {name: _text(value) for name, value in one.items()}
        stated = [values.pop(name, "") for name in STATED]
        rest = ", ".join(f"{name} {value}" for name, value in values.items())
        body.append([row["rule"], *stated, rest if one else NO_SUCH])
    show(title, head, body, format)
    say(f"with each of them, max_position_embeddings must be {aim.length}")


def _text(value: object) -> str:
    """Return a parameter with all digits that matter."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _short(value: object) -> str:
    """Return a number with three digits, and nothing where there is none."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@app.command()
def describe(model: Model, format: Formats = Format.table) -> int:
    """Identify a model's positional encoding on a small copy with random weights.

    Kinds: rotary; table = vectors added to token embeddings; bias = added to logits;
    none; other.
    A rotary pair is slow if it does not complete a rotation within the training length.
    The attention factor multiplies cosines and sines, the softmax factor all logits.
    The column 'off by' is the largest relative difference between the model's encoding
    and the scheme that was identified; 'logits off by' compares their logits. `--format
    json` also lists the frequencies.
    """
    from posenc_compare.hf.checkpoint import (
        DESCRIBED,
        configuration_in,
        has_own_code,
        local_place,
    )
    from posenc_compare.hf.describe import describe as described

    config = configuration_in(local_place(model, DESCRIBED), say)
    found, unread = described(config), [OWN_CODE] if has_own_code(config) else []
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
            "note": "; ".join(filter(None, [*unread, one.note])),
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

    Random tokens are read in several ways that must give the same outputs: with a
    cache, padded, packed, alone. Rotations are compared with those of the class in
    transformers that the model's configuration names. The column 'bound' is the
    largest difference that rounding can explain.
    """
    from dataclasses import asdict

    from transformers.utils.logging import disable_progress_bar

    from posenc_compare.hf.check import Finding
    from posenc_compare.hf.check import check as checked
    from posenc_compare.hf.checkpoint import (
        READ,
        configuration_in,
        has_own_code,
        load,
        local_place,
    )
    from posenc_compare.hf.readings import tokens_of

    disable_progress_bar()  # of the weights that are loaded
    place = local_place(model, READ)
    config = configuration_in(place, say)
    loaded, unread = load(place, config)
    if unread:
        say(f"{model}: {len(unread)} weights are not read, the first is {unread[0]}")
    found = checked(loaded, tokens)
    if has_own_code(config):
        what = f"all below: {type(loaded).__name__} of transformers"
        found.insert(
            0, Finding("code of the folder", what, None, None, "n/a", OWN_CODE)
        )
    count = tokens_of(config.get_text_config(), tokens)
    exact = format in NUMBERS
    rows = [asdict(one) for one in found]
    body = [[_shown(value, exact) for value in row.values()] for row in rows]
    show(f"positions of {model}, rows of {count} tokens", [*rows[0]], body, format)
    counts = Counter(one.state for one in found)
    states = ", ".join(f"{counts[s]} {s}" for s in ("passed", "failed", "n/a"))
    theirs = sum(one.state == "n/a" and one.largest is not None for one in found)
    more = f"; in {theirs} of the n/a checks, the class in transformers differs, too"
    say(f"{len(found)} checks: {states}{more if theirs else ''}")
    return int(counts["failed"] > 0)


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
    from transformers.utils.logging import disable_progress_bar

    from posenc_compare.hf.checkpoint import READ, local_place
    from posenc_compare.hf.convert import convert as converted
    from posenc_compare.hf.convert import label_for, logits_apart

    disable_progress_bar()  # of the weights that are loaded
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
    try:
        if label := label_for(copy):
            say(
                f"transformers reads this copy wrongly until you call "
                f'`hf.apply(model, "{label}")`'
            )
        apart = logits_apart(place, copy)
        say(
            f"{copy}: logits differ from those of {model} by {apart:.1e} of the largest"
        )
    except ConfigError as error:
        say(f"{copy}: logits were not compared with those of {model}: {error}")
    return 0
