"""Logits that grow with the logarithm of the length.

The softmax over more keys is flatter. A wrapper makes up for it: it multiplies every
query, wherever the scheme inside reads it, by a factor that grows with the logarithm of
how much the query can see. A bias that does not depend on the query stays as it is.
The paper of ssmax multiplies whole logits, which is the same if they are linear in the
query.

Formula: at position p, where L is the training length and n keys are seen, ssmax is
`s_h log(n)` with trained s, log is `max(1, log(p + 1) / log(L))`, and llama4 is
`1 + 0.1 log(1 + floor((p + 1) / 8192))`.
Source: log, Su 2021 (a blog, kexue.fm/archives/8823), as Qwen's code has it; ssmax,
Nakanishi 2025, arXiv:2501.19399; llama4, transformers' port of Llama 4,
which scales only its layers without positions: `log_length:scheme=nope;rule=llama4`.
Initial value: s is 0.43, as in figure 1 of the paper of ssmax, whose initial value in
training was not found. The released code of BAM (arXiv:2505.22842) starts at 1.
Convention: ssmax counts the keys that the mask leaves, and so stays relative; log and
llama4 read the position of the query. A scheme that hides keys goes around ssmax and
not inside. With ssmax every layer has an instance of its own, of the scheme inside too.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, PairBias, check_axes, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

STRENGTH = 0.1  # of llama4
ROWS = 512  # queries whose keys are counted at a time


@register(
    "log_length",
    family="contextual",
    source="Nakanishi 2025, arXiv:2501.19399",
    real=True,
    identities="ssmax counts the keys that the mask leaves",
    checked="public implementations; for `rule=log`, a blog post, not opened",
)
class LogLength(Wrapper):
    """Multiply queries of any scheme by the logarithm of the length.

    `heads` parameters with ssmax, otherwise none.

    Args:
        geometry: `length` is that of training.
        scheme: the scheme whose products of query and key grow.
        rule: what the factor is made of.
        start: of ssmax, the initial factor.
        floor: of llama4, tokens for one step of the factor.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("rope"),
        rule: Literal["log", "ssmax", "llama4"] = "ssmax",
        start: float = 0.43,
        floor: int = 8192,
    ) -> None:
        if rule == "log" and geometry.length < 2:
            raise ConfigError(
                f"log_length: log needs a length of at least 2, got {geometry.length}"
            )
        if floor < 1:
            raise ConfigError(f"log_length: floor must be at least 1, got {floor}")
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.rule, self.floor = rule, floor
        counts = rule == "ssmax"
        if counts and self.facts.hides:
            raise ConfigError(
                f"log_length: scheme must hide no keys, which ssmax counts, got "
                f"{scheme.label}; log_length inside of it would work"
            )
        start_ = torch.full((geometry.heads,), float(start))
        self.steepness = nn.Parameter(start_) if counts else None
        self.facts = replace(
            self.facts,
            per_layer=counts or self.facts.per_layer,
            relative=counts and self.facts.relative,
            by_order=counts and self.facts.by_order,
        )

    def acts_at(self, door: str) -> bool:
        if door in ("pair_bias", "scores"):  # which only pass the query on
            return self.inner.acts_at(door)
        return super().acts_at(door)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        q = self._grown(q, positions, call)
        return super().query(q, positions, call and replace(call, q=q))

    def pair_bias(self, call: Call) -> PairBias | None:
        return super().pair_bias(self._with_grown(call))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return super().scores(logits, self._with_grown(call))

    def factor(self, positions: Tensor, call: Call | None) -> Tensor:
        """Return the factor of every query, `(batch or 1, head or 1, query, 1)`."""
        if self.steepness is not None:
            if call is None:
                raise ConfigError("log_length: ssmax needs the call, got none")
            seen = _seen(call).double().log()
            return self.steepness[:, None, None] * seen[:, None, :, None]
        seen = (positions.clamp(min=0) + 1).double()[..., None, :, None]
        if self.rule == "log":
            return (seen.log() / math.log(self.geometry.length)).clamp(min=1)
        return 1 + STRENGTH * (seen / self.floor).floor().log1p()

    def _grown(self, q: Tensor, positions: Tensor, call: Call | None) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        return (q.to(wide) * self.factor(positions, call).to(wide)).to(q.dtype)

    def _with_grown(self, call: Call) -> Call:
        return replace(call, q=self._grown(call.q, call.q_positions, call))


def _seen(call: Call) -> Tensor:
    """Return how many keys each query sees, `(batch or 1, query)`."""
    simple = call.alike and not call.has_prefix and call.window is None
    if simple and call.causal:
        queries = torch.arange(call.sizes[0], device=call.q.device)
        return (queries + call.past + 1)[None]
    blocks = range(0, call.sizes[0], ROWS)
    parts = [call.part(row, min(row + ROWS, call.sizes[0])) for row in blocks]
    return torch.cat([part.keep().sum(dim=-1)[:, 0] for part in parts], dim=-1)
