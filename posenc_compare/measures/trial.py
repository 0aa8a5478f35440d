"""A look at schemes before anything is computed: misspelt hooks, and refused options.

Schemes of the package that are given options are built once and shown two tokens. Those
of plugins are not built here.
"""

from collections.abc import Iterable, Iterator

import torch

from posenc_compare.attention import Session
from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import HOOKS, Geometry, Scheme, Variant
from posenc_compare.schemes.contract import misspelt_hook
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training


def try_options(
    variants: Iterable[Variant], settings: Iterable[ProbeSetting | Training]
) -> None:
    """Use each scheme of the package that has options once, at each size.

    What a scheme refuses at some sizes alone, or with its defaults too, is left to its
    cells.
    """
    sizes = [*dict.fromkeys(map(_geometry, settings))]
    for variant in variants:
        entries = map(SCHEMES.entry, variant.schemes)
        if variant.options and all(entry.ours for entry in entries):
            refused = [_refusal(variant, size) for size in sizes]
            default = Variant(variant.name)
            if all(refused) and not all(_refusal(default, size) for size in sizes):
                raise ConfigError(f"{variant.label}: {refused[0]}")


def misspelt(variants: Iterable[Variant]) -> Iterator[str]:
    """Yield a line for each scheme that has a method with nearly the name of a hook.

    It would be trained without what the method does.
    """
    for name in dict.fromkeys(variant.name for variant in variants):
        scheme = SCHEMES.get(name)
        if not (meant := misspelt_hook(scheme)):
            continue
        if any(getattr(scheme, hook) is not getattr(Scheme, hook) for hook in HOOKS):
            yield f"{name}: {meant}, which it does not override; is it misspelt?"
        else:
            yield f"{name} overrides no hook, and so does nothing; {meant}"


def _geometry(setting: ProbeSetting | Training) -> Geometry:
    trained = isinstance(setting, Training)
    return Geometry(
        model_dim=setting.width,
        heads=setting.heads,
        length=setting.length if trained else setting.positions,
        lengths=setting.lengths,
    )


def _refusal(variant: Variant, geometry: Geometry) -> str:
    """Return why a scheme cannot be built or used, or nothing."""
    try:
        with torch.random.fork_rng(devices=[]):
            scheme = variant.build(geometry)
        axes = scheme.facts.axes
        positions = torch.arange(2)
        if axes > 1:
            positions = positions[:, None].expand(-1, axes)
        session = Session(scheme, positions, generator=torch.Generator())
        x = session.embed(torch.zeros(1, 2, geometry.model_dim))
        heads = torch.zeros(1, geometry.heads, 2, geometry.head_dim)
        session.logits(0, heads, heads, x=x)
    except PosencError as error:
        return str(error)
    return ""
