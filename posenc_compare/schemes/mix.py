"""Two schemes in one network, by layers.

Every n-th layer uses the first scheme, all other layers the second. Layers with the
second scheme may see only a window of the text.

Formula: layer l, counted from 1, has the first scheme if `l mod every = 0`, and the
second elsewhere.
Source: NoPE among RoPE layers, which have a sliding window: Yang et al. 2025,
arXiv:2501.18795. The window is that of Beltagy et al. 2020, arXiv:2004.05150. The rule
that layer `every`, 2 * `every`, ..., counted from 1, has no positions is that of
SmolLM3's configuration (no_rope_layer_interval 4).
Convention: a network with fewer layers than `every` has the second scheme only. A
scheme that acts before the first layer (`positions`, `draw`, `embed`) serves all
layers, and is refused. An inner scheme whose table all layers share has one per layer
when layers mix.
"""

from dataclasses import replace

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_axes, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "mix",
    family="rotary",
    source="Yang et al. 2025, arXiv:2501.18795",
    real=True,
    identities="each part acts as it does alone, on all paths",
    checked="paper",
)
class Mix(Wrapper):
    """Give some layers another scheme.

    Args:
        geometry: `layer` decides which scheme it gets.
        first: the scheme of the chosen few.
        second: the scheme of the others.
        every: n; one layer in n uses the first scheme.
        window: how many tokens a query sees under the second scheme, itself included;
            0: all.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        first: Variant = Variant("nope"),
        second: Variant = Variant("rope"),
        every: int = 4,
        window: int = 0,
    ) -> None:
        if every < 1:
            raise ConfigError(f"mix: every must be at least 1, got {every}")
        if window < 0:
            raise ConfigError(f"mix: window must be at least 0, got {window}")
        near = (geometry.layer + 1) % every > 0
        super().__init__(geometry, _built(second if near else first, geometry))
        differ = every > 1 and (first.label != second.label or window > 0)
        mixed = differ or self.facts.mixed
        self.facts = replace(self.facts, per_layer=True, mixed=mixed)
        if near and window:
            narrower = min(window, self.facts.window or window)
            self.facts = replace(self.facts, window=narrower)


def _built(variant: Variant, geometry: Geometry) -> Scheme:
    scheme = variant.build(geometry)
    check_axes(scheme)
    if any(scheme.acts_at(door) for door in ("positions", "draw", "embed")):
        raise ConfigError(
            f"mix: a scheme must act inside the layers, got {variant.label}, which "
            f"acts before the first"
        )
    return scheme
