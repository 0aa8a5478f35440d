"""The commands that state facts: list, describe, env."""

import importlib.util
import inspect
import os
import platform
from importlib import metadata
from typing import Any

from posenc_compare import __version__
from posenc_compare.analysis.core.sanitize import one_line
from posenc_compare.cli.say import say, tell
from posenc_compare.cli.show import show
from posenc_compare.references import cited
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.variants import option_types

PACKAGES = ("torch", "einops", "numpy", "pandas", "seaborn", "matplotlib", "typer")


def show_list(format: str, plugins: list[str]) -> None:
    """Print every scheme and measure with its facts, importing none."""
    for plugin in plugins:
        SCHEMES.add_plugin(plugin)
    body = []
    for registry in (SCHEMES, MEASURES):
        for name, entry in registry.entries().items():
            kind = entry.facts.get("family", registry.kind)
            body.append([name, kind, entry.summary, entry.facts.get("source", "")])
    show(
        "Schemes by family, and measures",
        ["name", "kind", "what", "source"],
        body,
        format,
    )
    report_broken()


def report_broken() -> bool:
    """Say in one line each which installed plugins cannot be used; return if any."""
    for origin, reason in SCHEMES.broken.items():
        say(f"broken plugin {origin}: {reason}")
    return bool(SCHEMES.broken)


def show_description(name: str, plugins: list[str]) -> None:
    """Print what a scheme or measure is, from its own docstrings and signature."""
    for plugin in plugins:
        SCHEMES.add_plugin(plugin)
    if name in MEASURES.entries():
        _describe_measure(name)
    else:
        _describe_scheme(name)


def _describe_scheme(name: str) -> None:
    scheme = SCHEMES.get(name)
    module = inspect.getmodule(scheme)
    texts = [inspect.getdoc(part) or "" for part in (module, scheme)]
    _tell_all(f"{name} ({scheme.family})", *texts)
    options = option_types(name)
    if options:
        body = [[key, _type(kind), default] for key, (kind, default) in options.items()]
        show("Options", ["option", "type", "default"], body)
    _describe_instance(scheme)
    if scheme.source and scheme.source not in " ".join(" ".join(texts).split()):
        tell(f"Source: {scheme.source}")
    tell(f"Comes from: {SCHEMES.entry(name).origin}")
    for entry in cited(" ".join([scheme.source, *texts])):
        print()
        print(entry)


def _describe_instance(scheme: Any) -> None:
    """Print what a scheme with its default options and sizes does and holds."""
    from posenc_compare.schemes import DOORS, Geometry

    try:
        built = scheme(Geometry())
    except Exception as error:  # of a plugin: say so, and go on with the facts
        tell(f"Cannot be built: {type(error).__name__}: {one_line(str(error))}")
        return
    doors = [door for door in DOORS if built.acts_at(door)]
    tell(f"Acts at: {', '.join(doors) or 'no door'}")
    tell(f"Depends on: {_dependence(built, doors)}")
    tell(f"Axes of a position: {built.axes}")
    tell(f"Causal only: {'yes' if built.causal_only else 'no'}")
    tell(f"Parameters: {_parameters(built)}")


def _dependence(scheme: Any, doors: list[str]) -> str:
    """Return what the scheme looks at to tell where tokens stand."""
    if not doors:
        return "nothing"
    if scheme.by_order:
        parts = ["the order of the tokens, not their position ids"]
    elif scheme.relative:
        parts = ["differences of positions"]
    else:
        parts = ["the positions themselves"]
    if scheme.family == "contextual":
        parts.append("what the tokens are")
    if scheme.mixes_heads:
        parts.append("all heads at once")
    return "; ".join(parts)


def _parameters(scheme: Any) -> str:
    """Return how many numbers the scheme holds, and who shares them."""
    sizes = [(p.numel(), p.requires_grad) for p in scheme.parameters()]
    if not sizes:
        return "none"
    trained = sum(size for size, trains in sizes if trains)
    frozen = sum(size for size, trains in sizes if not trains)
    parts = [f"{trained} trained"] * (trained > 0) + [f"{frozen} fixed"] * (frozen > 0)
    where = "in each layer" if scheme.per_layer else "for all layers together"
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


def _tell_all(*texts: str) -> None:
    """Print texts of several lines, each with an empty line behind."""
    for text in filter(None, texts):
        for line in [*text.split("\n"), ""]:
            tell(line)


def _type(kind: Any) -> str:
    choices = getattr(kind, "__args__", None)
    return " | ".join(map(str, choices)) if choices else getattr(kind, "__name__", "")


def show_environment(format: str) -> None:
    """Print versions, processor and devices."""
    facts = {
        "posenc-compare": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = importlib.util.find_spec(package) is not None
            facts[package] = "found, version unknown" if found else "not installed"
    import torch

    facts["threads"] = str(torch.get_num_threads())
    facts["cuda"] = (
        ", ".join(
            torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())
        )
        or "no device"
    )
    show(
        "Environment", ["what", "value"], [list(item) for item in facts.items()], format
    )


def show_published(format: str) -> int:
    """Print published figures beside ours; 1 if any differs."""
    from posenc_compare.reproduce.published import figures

    found = list(figures())
    body = [[f.what, _brief(f.published), _brief(f.ours), f.verdict] for f in found]
    show("Published figures", ["what", "published", "ours", "verdict"], body, format)
    for figure in found:
        if figure.note:
            say(f"{figure.what}: {figure.note}")
    return int(any(figure.verdict == "differs" for figure in found))


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(f"{item:g}" for item in value)
    return "" if value is None else f"{value:g}"
