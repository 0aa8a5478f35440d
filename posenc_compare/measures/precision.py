"""Precision: how far is a scheme from itself in float64, near and far from position 0?

A text of `tokens` tokens stands at positions p, p + 1, ... In float32 and in half types
each of three things is computed as the scheme computes it, and compared with the same
in float64, of the same input and parameters: both are rounded to the dtype first. So
no error is that of the input.

Several libraries make position ids in the dtype of the activations. From 256 on,
bfloat16 does not hold every whole number, from 2048 on neither does float16. What this
does is measured as well: the scheme computes in the dtype and is given such ids.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.contract import ask
from posenc_compare.schemes.shared.rotation import PAIRS, Rotation
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.train.progress import Progress

STARTS = (0, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000)
NAMED = 65_536.0  # the start that tables show
HALF = ("bfloat16", "float16")
PARTS = ("query", "key")
X = "first position p of the text"
Error = Callable[[Tensor, Tensor], float]  # of ids as made, and as they are
WHOLE = "the same as in float64"

CODE = Quantity(
    "code_error",
    unit="of a channel of the code",
    better="lower",
    zero=WHOLE,
    x=X,
    title="error of the code in bfloat16 at 65,536",
)
PHASE = Quantity(
    "phase_error",
    unit="radians",
    better="lower",
    zero=WHOLE,
    x=X,
    title="error of the relative phase in bfloat16 at 65,536 (radians)",
)
LOGIT = Quantity(
    "logit_error",
    unit="logit",
    better="lower",
    zero=WHOLE,
    x=X,
    title="error of logits in bfloat16 at 65,536",
)


@dataclass(frozen=True)
class Case:
    """The dtypes that a scheme computes in."""

    name: str  # of the rows
    dtype: str  # of input and parameters
    heads: str  # dtype of queries and keys
    rounded: bool = False  # whether position ids are made in the dtype


CASES = (
    *(Case(dtype, dtype, dtype) for dtype in ("float32", *HALF)),
    Case("autocast", "float32", "bfloat16"),  # which casts what a Linear returns
    *(Case(f"{dtype} ids", dtype, dtype, rounded=True) for dtype in HALF),
)


@register_measure(
    "precision",
    quantities=(CODE, PHASE, LOGIT),
    views=(
        Headline(CODE, "bfloat16", NAMED),
        Headline(PHASE, "bfloat16", NAMED),
        Headline(LOGIT, "bfloat16", NAMED),
    ),
    version=2,
    once=True,
    extra=True,
)
def precision(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Largest error of codes, relative phases and logits against float64, by position.

    Returns:
        Rows by first position and by case: the dtype, `autocast` (parameters in
        float32; for `logit_error`, queries and keys in bfloat16) or `bfloat16 ids` (all
        is in bfloat16, and so are the ids when they are made). `code_error` is of what
        is added to a token, `phase_error` of the angle between a rotated pair and that
        of the first token, `logit_error` of queries and keys of unit variance in every
        channel, or, where a code is added to tokens, of exact projections. For a scheme
        that adds no code, or is no plain rotation, one row says so.
    """
    if probe.grid:
        note = "measured in a sequence only"
        kinds = (CODE, PHASE, LOGIT)
        return Result([Row(q.name, None, NAMED, HALF[0], note) for q in kinds])
    rows: list[Row] = []
    for case in CASES:
        pair = _Pair(variant, probe, case)
        for start in STARTS:
            rows += pair.rows(start)
    for quantity, note in ((CODE, "adds no code"), (PHASE, "no plain rotation")):
        if not any(row.quantity == quantity.name for row in rows):
            rows.append(Row(quantity.name, None, NAMED, HALF[0], note))
    return Result(rows)


class _Pair:
    """A scheme in the dtype of a case, and the same scheme in float64."""

    def __init__(self, variant: Variant, probe: Probe, case: Case) -> None:
        self.case = case
        self.probe = replace(probe, dtype=case.dtype)
        self.wide = replace(probe, dtype="float64")
        self.scheme, self.exact = self.probe.build(variant), self.wide.build(variant)
        exact = dict(self.exact.named_parameters())
        for name, parameter in self.scheme.named_parameters():
            exact[name].copy_(parameter)
        self.rotation = _rotation(self.exact)
        self.errors: dict[Quantity, Error] = {LOGIT: self._logits}
        if self.scheme.acts_at("embed"):
            self.errors[CODE] = self._codes
        if self.rotation is not None:
            self.errors[PHASE] = self._phases

    def rows(self, start: int) -> Iterator[Row]:
        """Yield the errors of a text that starts there, or why there are none."""
        case, ids = self.case, start + self.probe.arange(self.probe.tokens)
        made = ids.to(self.probe.torch_dtype) if case.rounded else ids
        for quantity, error in self.errors.items():
            value, note = None, f"{case.dtype} holds no such position"
            if made.isfinite().all():
                try:
                    value, note = error(made.long(), ids), ""
                except UndefinedPositionError as fault:
                    note = f"not defined beyond {fault.limit}"
            yield Row(quantity.name, value, start, case.name, note)

    def _codes(self, made: Tensor, ids: Tensor) -> float:
        found = self.probe.session(self.scheme, made).embed(self._zeros(self.probe))
        exact = self.wide.session(self.exact, ids).embed(self._zeros(self.wide))
        return _largest(found, exact)

    def _phases(self, made: Tensor, ids: Tensor) -> float:
        found = self._turned(self.probe, self.scheme, made)
        exact = self._turned(self.wide, self.exact, ids)
        return float((found * exact.conj()).angle().abs().max())

    def _turned(self, probe: Probe, scheme: Scheme, ids: Tensor) -> Tensor:
        """Return each rotated pair of keys of ones, relative to that of the first."""
        assert self.rotation is not None
        call = probe.call_of_ones(probe.session(scheme, ids))
        turned = ask(scheme, "key", call.k, call.k_positions, call).double()
        count = self.rotation.angles(ids[:1]).shape[-1]
        turned = self.rotation.turning(turned, count)
        form = f"... {PAIRS[self.rotation.layout]} -> ... pair two"
        pairs = rearrange(turned, form, two=2).contiguous()
        pairs = torch.view_as_complex(pairs)
        return pairs * pairs[..., :1, :].conj()

    def _logits(self, made: Tensor, ids: Tensor) -> float:
        x = self.probe.normal("tokens", 1, self.probe.tokens, self.probe.width)
        wide = self.wide.session(self.exact, ids)
        narrow = self.probe.session(self.scheme, made)
        if self.scheme.acts_at("embed"):
            found, exact = (
                wide.logits(0, *map(partial(self.wide.heads_of, one), PARTS), x=one)
                for one in (narrow.embed(x).double(), wide.embed(x.double()))
            )
        else:
            heads = getattr(torch, self.case.heads)
            q, k = (self._heads(part).to(heads) for part in PARTS)
            exact = wide.logits(0, q.double(), k.double(), x=x.double())
            found = narrow.logits(0, q, k, x=x)
        seen = exact.isfinite()
        return _largest(found[seen], exact[seen])

    def _heads(self, purpose: str) -> Tensor:
        geometry = self.probe.geometry
        shape = (1, geometry.heads, self.probe.tokens, geometry.head_dim)
        return self.probe.normal(purpose, *shape)

    def _zeros(self, probe: Probe) -> Tensor:
        return probe.zeros(1, probe.tokens, probe.width)


def _rotation(scheme: Scheme) -> Rotation | None:
    """Return the rotation that a scheme is, or that is inside it."""
    while isinstance(scheme, Wrapper):
        scheme = scheme.inner
    return scheme if isinstance(scheme, Rotation) else None


def _largest(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).abs().max())
