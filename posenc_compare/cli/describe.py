"""The command that describes a scheme, a measure, a task, a plot or all settings."""

import inspect
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import show, tell
from posenc_compare.cli.options import Plugins
from posenc_compare.errors import ConfigError
from posenc_compare.records.sanitize import one_line
from posenc_compare.references import cited
from posenc_compare.registry import MEASURES, REGISTRIES, SCHEMES, Registry
from posenc_compare.settings.presets import default_text
from posenc_compare.settings.table import GROUPS, TABLE, type_text
from posenc_compare.validate import hint
from posenc_compare.variants import Variant, option_types

if TYPE_CHECKING:
    from posenc_compare.schemes import Scheme

LENGTHS = 64, 128, 512  # of training, of the presets


def describe(
    name: Annotated[
        str, typer.Argument(help="Scheme, measure, task, plot, or `settings`.")
    ],
    plugin: Plugins = None,
) -> None:
    """Describe a scheme, a measure, a task or a plot; or `settings`, all of them."""
    if name == "settings":
        return _describe_settings()
    found = [registry for registry in REGISTRIES if name in registry.entries()]
    if not found:
        every = sorted({known for r in REGISTRIES for known in r.entries()})
        raise ConfigError(
            f"no scheme, measure, task or plot is {name[:80]!r}{hint(name, every)} "
            f"(`posenc-compare list` shows all; `--plugin FILE` adds those of a file)"
        )
    for registry in found:
        if registry is SCHEMES:
            _describe_scheme(name)
        elif registry is MEASURES:
            _describe_measure(name)
        else:
            _describe_other(name, registry)


def kind_text(kind: object) -> str:
    """Return how the type of an option is written for a reader."""
    if kind is Variant:
        return "scheme"
    choices = getattr(kind, "__args__", None)
    return " | ".join(map(str, choices)) if choices else getattr(kind, "__name__", "")


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


def _describe_scheme(name: str) -> None:
    scheme = SCHEMES.get(name)
    module = inspect.getmodule(scheme)
    texts = [inspect.getdoc(part) or "" for part in (module, scheme)]
    _tell_all(f"{name} ({scheme.family})", *texts)
    options = option_types(name)
    if options:
        body = [
            [key, kind_text(kind), default] for key, (kind, default) in options.items()
        ]
        show("Options", ["option", "type", "default"], body)
    _describe_instance(scheme)
    if scheme.source and scheme.source not in " ".join(" ".join(texts).split()):
        tell(f"Source: {scheme.source}")
    tell(f"Comes from: {SCHEMES.entry(name).origin}")
    for entry in cited(" ".join([scheme.source, *texts])):
        print()
        print(entry)


def _describe_instance(scheme: "type[Scheme]") -> None:
    """Print what a scheme with its default options and sizes does and holds."""
    from posenc_compare.schemes import DOORS, Geometry

    try:
        built = scheme(Geometry())
        at = [scheme.defaults_at(length) for length in LENGTHS]
    except Exception as error:  # of a plugin: say so, and go on with the facts
        tell(f"Cannot be built: {type(error).__name__}: {one_line(str(error))}")
        return
    if scheme.published:
        _show_defaults(scheme, at)
    doors = [door for door in DOORS if built.acts_at(door)]
    tell(f"Acts at: {', '.join(doors) or 'no door'}")
    tell(f"Depends on: {dependence(built, doors)}")
    tell(f"Axes of a position: {built.facts.axes}")
    tell(f"Causal only: {'yes' if built.facts.causal_only else 'no'}")
    tell(f"Parameters: {parameters(built)}")


def _show_defaults(scheme: "type[Scheme]", at: list[dict[str, int]]) -> None:
    """Print the defaults that depend on the training length.

    Args:
        scheme: with `published` options.
        at: what they are at each of `LENGTHS`.
    """
    head = ["option", "published", "trained at", *(f"at {n}" for n in LENGTHS)]
    body = [
        [option, of.positions, of.trained_at, *(defaults[option] for defaults in at)]
        for option, of in scheme.published.items()
    ]
    show("Defaults by training length, with lengths=scaled", head, body)


def dependence(scheme: "Scheme", doors: list[str]) -> str:
    """Return what the scheme looks at to tell where tokens stand."""
    if not doors:
        return "nothing"
    if scheme.facts.by_order:
        parts = ["the order of the tokens, not their position ids"]
    elif scheme.facts.relative:
        parts = ["differences of positions"]
    else:
        parts = ["the positions themselves"]
    if scheme.family == "contextual":
        parts.append("what the tokens are")
    if scheme.facts.mixes_heads:
        parts.append("all heads at once")
    return "; ".join(parts)


def parameters(scheme: "Scheme") -> str:
    """Return how many numbers the scheme holds, and who shares them."""
    sizes = [(p.numel(), p.requires_grad) for p in scheme.parameters()]
    if not sizes:
        return "none"
    trained = sum(size for size, trains in sizes if trains)
    frozen = sum(size for size, trains in sizes if not trains)
    parts = [f"{trained} trained"] * (trained > 0) + [f"{frozen} fixed"] * (frozen > 0)
    where = "in each layer" if scheme.facts.per_layer else "for all layers together"
    return (
        f"{' and '.join(parts)} {where}, with model_dim {scheme.geometry.model_dim}, "
        f"{scheme.geometry.heads} heads, length {scheme.geometry.length}"
    )


def _describe_measure(name: str) -> None:
    measure = MEASURES.get(name)
    module = inspect.getmodule(measure.compute)
    texts = [inspect.getdoc(part) or "" for part in (module, measure.compute)]
    _tell_all(f"{name} (measure, {measure.setting})", *texts)
    body = [[q.name, q.unit, q.better, q.zero] for q in measure.quantities.values()]
    if body:
        show("Quantities", ["quantity", "unit", "better", "0 means"], body)


def _describe_other(name: str, registry: Registry[object]) -> None:
    """Print what a task or a plot is, with the facts that it is registered with."""
    thing = registry.get(name)
    texts = [inspect.getdoc(part) or "" for part in (inspect.getmodule(thing), thing)]
    _tell_all(f"{name} ({registry.kind})", *texts)
    entry = registry.entry(name)
    for fact, value in entry.facts.items():
        value = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        tell(f"{fact.replace('_', ' ').capitalize()}: {value}")
    tell(f"Comes from: {entry.origin}")


def _tell_all(*texts: str) -> None:
    """Print texts of several lines, each with an empty line behind."""
    for text in filter(None, texts):
        for line in [*text.split("\n"), ""]:
            tell(line)
