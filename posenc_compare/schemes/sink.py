"""Attention sinks: a trained logit a head that no key has.

The softmax runs over the keys and one number more, whose weight is dropped. So a head
may attend to nothing, and the weights of few keys sum to less than those of many.

Formula: `w_ij = exp(z_ij) / (exp(s_h) + sum_k exp(z_ik))`.
Source: Xiao et al. 2023, arXiv:2309.17453, for the sink; that it is one trained number
a head follows transformers' port of gpt-oss.
Layers: each has sinks of its own, as in the port, and an instance of the scheme inside.
Start: zeros, an even chance against one key of logit 0; the port draws them from
N(0, 0.02).
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, check_axes, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "sink",
    family="rotary",
    source="Xiao et al. 2023, arXiv:2309.17453",
    real=True,
    identities="equals the scheme inside if the sinks are shut",
    oracles="transformers 0",
    checked="paper for the idea, a port of gpt-oss for the form, its report not opened",
)
class Sink(Wrapper):
    """Give the softmax of any scheme a sink. `heads` parameters per layer.

    Args:
        geometry: passed on.
        scheme: the scheme inside.
        start: initial logit of the sinks.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("rope"),
        start: float = 0.0,
    ) -> None:
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        if self.inner.acts_at("weights"):
            raise ConfigError(
                f"sink: the scheme inside must not replace the softmax, got "
                f"{scheme.label}; rope would work"
            )
        self.facts = replace(self.facts, per_layer=True)
        self.logit = nn.Parameter(torch.full((geometry.heads,), float(start)))

    def weights(self, logits: Tensor, call: Call) -> Tensor:
        sink = self.logit.to(logits.dtype)[:, None, None]
        sink = sink.expand(*logits.shape[:-1], 1)
        return torch.cat([logits, sink], dim=-1).softmax(dim=-1)[..., :-1]
