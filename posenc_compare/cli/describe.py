"""The command that describes a scheme, a measure, a task, a plot or all settings."""

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import show, tell
from posenc_compare.cli.options import Plugins
from posenc_compare.errors import ConfigError
from posenc_compare.records.sanitize import one_line
from posenc_compare.references import find_bibtex
from posenc_compare.registry import MEASURES, REGISTRIES, SCHEMES, Entry, Registry
from posenc_compare.settings.presets import default_text
from posenc_compare.settings.table import GROUPS, TABLE, type_text
from posenc_compare.validate import hint
from posenc_compare.variants import Variant, labelled, option_named, option_types

if TYPE_CHECKING:
    from posenc_compare.schemes import Scheme

LENGTHS = 64, 128, 512  # of training, of the presets
YES_NO = {True: "yes", False: "no"}
ARGS = re.compile(r"^Args:\n(?:    .*\n)+\n?", re.MULTILINE)
GEOMETRY = re.compile(r"^    geometry: .*\n(?:        .*\n)*", re.MULTILINE)


def describe(
    name: Annotated[
        str,
        typer.Argument(
            help="Scheme, family, variant, measure, quantity, task, plot or `settings`."
        ),
    ],
    plugin: Plugins = None,
) -> None:
    """Describe a scheme, measure, task or plot; or list all `settings`.

    For a quantity such as `bits_per_byte`, the command describes its measure.
    """
    if name == "settings":
        return _describe_settings()
    if name in SCHEMES.groups:
        names = SCHEMES.select(name)
        count = f"{len(names)} scheme{'s' * (len(names) > 1)}"
        return tell(f"{name} ({count}): {', '.join(names)}")
    label, (name, colon, _) = name, name.partition(":")
    # Only schemes have options; to import what draws plots takes seconds.
    kinds = (SCHEMES,) if colon or name in SCHEMES else REGISTRIES
    found = [registry for registry in kinds if name in registry.entries()]
    if not found and (option := option_named(name)):
        raise ConfigError(option)
    if not found and (measure := _measure_of(name)):
        return _describe(measure, MEASURES, measure.name)
    if not found:
        every = sorted({known for r in REGISTRIES for known in r.entries()})
        raise ConfigError(
            f"no scheme, measure, task or plot is {name[:80]!r}{hint(name, every)} "
            f"(`posenc-compare list` shows all; `--plugin FILE` adds those of a file)"
        )
    for registry in found:
        _describe(registry.entry(name), registry, label)


def _measure_of(quantity: str) -> Entry | None:
    """Return the measure that returns a quantity, if one does."""
    measures = MEASURES.entries().values()
    return next((one for one in measures if quantity in one.item.quantities), None)


def kind_text(kind: object) -> str:
    """Return how the type of an option is written for a reader."""
    if kind is Variant:
        return "scheme"
    choices = getattr(kind, "__args__", None)
    return " | ".join(map(str, choices)) if choices else getattr(kind, "__name__", "")


def facts_of(scheme: "Scheme") -> dict[str, str]:
    """Return what a built scheme does and holds, in words by heading."""
    from posenc_compare.schemes import HOOKS
    from posenc_compare.schemes.scheme import why_all_placed

    hooks = [hook for hook in HOOKS if scheme.acts_at(hook)]
    return {
        "acts at": ", ".join(hooks) or "no hook",
        "depends on": _dependence(scheme) if hooks else "nothing",
        "axes of a position": str(scheme.facts.axes),
        "real positions": YES_NO[scheme.facts.real],
        "tokens without a position": YES_NO[not why_all_placed(scheme)],
        "causal only": YES_NO[scheme.facts.causal_only],
        "parameters": _parameters(scheme),
    }


def _describe_settings() -> None:
    """Print the table of settings: name, type, unit, default, sentence."""
    tell("For `--set NAME=VALUE`, `--config FILE.toml` and `compare(NAME=VALUE)`.")
    for title, group in GROUPS.items():
        print()
        tell(title)
        for name in inspect.get_annotations(group):
            one, default = TABLE[name], default_text(name) or "none"
            tell(f"  {name}: {type_text(one)}")
            text = f"{one.metadata['sentence']} [{default}]"
            for line in textwrap.wrap(text, 74):
                tell(f"      {line}")


def _describe(entry: Entry, registry: Registry, label: str) -> None:
    """Print the docstrings of a thing and its module, and what is known of it."""
    thing = entry.item
    documented = thing.compute if registry is MEASURES else thing
    parts = (inspect.getmodule(documented), documented)
    texts = [inspect.getdoc(part) or "" for part in parts]
    kind = registry.kind
    if registry is SCHEMES:
        kind = thing.family
        texts = [GEOMETRY.sub("", f"{text}\n").rstrip() for text in texts]
        texts = [text.removesuffix("\n\nArgs:") for text in texts]  # no option
    elif registry is MEASURES:
        kind = f"measure, {thing.setting}"
        texts = [ARGS.sub("", text) for text in texts]  # all measures share them
    variant = labelled(label) if registry is SCHEMES else None
    for text in filter(None, [f"{label} ({kind})", *texts]):
        for line in [*text.split("\n"), ""]:
            tell(line)
    facts = entry.facts
    if variant:
        _describe_scheme(thing, variant)
        told = thing.source in " ".join(" ".join(texts).split())
        facts = {} if told else {"source": thing.source}
    elif registry is MEASURES:
        facts = {}
        body = [[q.name, q.unit, q.better, q.zero] for q in thing.quantities.values()]
        if body:
            show("Quantities", ["quantity", "unit", "better", "0 means"], body)
    for fact, value in {**facts, "comes from": entry.origin}.items():
        value = YES_NO[value] if isinstance(value, bool) else value
        tell(f"{fact.replace('_', ' ').capitalize()}: {value}")
    if registry is SCHEMES:
        for paper in find_bibtex(" ".join([thing.source, *texts])):
            print()
            print(paper)


def _describe_scheme(scheme: "type[Scheme]", variant: Variant) -> None:
    """Print options, and what a variant of a scheme with default sizes does."""
    from posenc_compare.schemes import Geometry

    if options := option_types(scheme.name):
        body = [[k, kind_text(kind), default] for k, (kind, default) in options.items()]
        show("Options", ["option", "type", "default"], body)
    try:
        built = variant.build(Geometry())
        at = [scheme.defaults_at(length) for length in LENGTHS]
    except Exception as error:  # of a plugin: say so, and go on with the facts
        tell(f"Cannot be built: {type(error).__name__}: {one_line(str(error))}")
        return
    if scheme.published:
        head = ["option", "published", "trained at", *(f"at {n}" for n in LENGTHS)]
        body = [
            [option, of.positions, of.trained_at, *(known[option] for known in at)]
            for option, of in scheme.published.items()
        ]
        show("Defaults by training length, with lengths=scaled", head, body)
    if built.facts.mixed:
        tell("Layers may have different schemes; what follows describes layer 1:")
    for heading, text in facts_of(built).items():
        tell(f"{heading.capitalize()}: {text}")


def _dependence(scheme: "Scheme") -> str:
    """Return what the scheme reads to locate tokens."""
    if scheme.facts.by_order:
        parts = ["the order of the tokens, not their position ids"]
    elif scheme.facts.relative:
        parts = ["differences of positions"]
    else:
        parts = ["the positions themselves"]
    if scheme.family == "contextual":
        parts.append("usually what the tokens are")
    if scheme.facts.mixes_heads:
        parts.append("all heads at once")
    return "; ".join(parts)


def _parameters(scheme: "Scheme") -> str:
    """Return how many numbers the scheme holds, and who shares them."""
    counts = {"trained": 0, "fixed": 0}
    for p in scheme.parameters():
        counts["trained" if p.requires_grad else "fixed"] += p.numel()
    parts = [f"{count} {state}" for state, count in counts.items() if count]
    where = "in each layer" if scheme.facts.per_layer else "for all layers together"
    sizes = scheme.geometry
    if not parts:
        return "none"
    return (
        f"{' and '.join(parts)} {where}, with the default sizes: model_dim "
        f"{sizes.model_dim}, {sizes.heads} heads, length {sizes.length}"
    )
