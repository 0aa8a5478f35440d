"""Biases by position that a model adds to its logits, measured before the softmax.

The model evaluates a text of equal tokens. Their products of queries and keys are all
the same, so logits differ by the bias alone.
"""

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT, Watch, layers_of, states_of
from posenc_compare.schemes import Geometry, Scheme, Variant
from posenc_compare.schemes.shared.frequencies import position_angles

SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax)
CONTENT = "a bias by distance that depends on the content of tokens"
BY_PLACE = "a bias that depends on more than the offset"
HIDDEN = -5e3  # logits below are masks


class _Logits(Watch):
    """Logits of all queries and keys, while this is entered.

    Layers whose tokens have become unequal are left out.
    """

    def __init__(self, model: Any, least: int) -> None:
        super().__init__(layers_of(model))
        self.names = {module: name for name, module in model.named_modules()}
        self.least = least
        self.equal = True
        self.name = ""
        self.found: dict[str, Tensor] = {}

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Find out whether the tokens that an attention is given are equal."""
        self.name, x = self.names[module], states_of(args, kwargs)
        if isinstance(x, Tensor) and x.dim() == 3:
            apart = (x - x[:, :1]).abs().max()
            self.equal = bool(apart <= EXACT * x.abs().max())

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in SOFTMAX:
            self._keep(args[0])
        elif func is F.scaled_dot_product_attention:
            self._keep((kwargs or {}).get("attn_mask"))  # with what is added
        return func(*args, **(kwargs or {}))

    def _keep(self, logits: object) -> None:
        """Keep logits of equal tokens, or what is added to them."""
        if not (isinstance(logits, Tensor) and logits.is_floating_point()):
            return
        square = logits.dim() > 2 and logits.shape[-1] == logits.shape[-2]
        if self.equal and square and logits.shape[-1] >= self.least:
            whole = logits.detach().double().reshape(-1, *logits.shape[-3:])[0]
            self.found.setdefault(self.name, whole)


def biases_in(model: Any, given: Mapping[str, Any]) -> list[Described]:
    """Return the biases by position of a model, a row for all layers that have one.

    The model evaluates tokens that are all 0, and then the equal ones that are given: a
    bias that differs depends on their content.
    """
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # whose softmax is seen
    plain = _read(_without_content(model), given)
    full = _read(model, given)
    found = full if all(one is None for one in plain.values()) else plain
    biased = {name: one for name, one in found.items() if one is not None}
    # In deeper layers tokens may be unequal; these are taken to be as the others.
    same = found is plain and all(
        (other := full.get(name)) is None or alike(one, other)
        for name, one in biased.items()
    )
    rows: dict[str, tuple[Described, list[str]]] = {}
    for name, one in biased.items():
        width = getattr(model.config.get_text_config(), "hidden_size", 0)
        row = described_bias(one, model.config, width, by_content=not same)
        rows.setdefault(row.text + row.label + row.note, (row, []))[1].append(name)
    alone = len(rows) == 1
    return [
        replace(row, layers="all" if alone else above(names))
        for row, names in rows.values()
    ]


def above(names: Sequence[str]) -> str:
    """Return the module that contains all of these names; for one name, that module."""
    parts = zip(*(name.split(".") for name in names), strict=False)
    same = itertools.takewhile(lambda each: len({*each}) == 1, parts)
    return ".".join(each[0] for each in same)


def _read(model: Any, given: Mapping[str, Any]) -> dict[str, Tensor | None]:
    """Return the biases of all layers that see equal tokens, by name."""
    least = given["input_ids"].shape[1]
    reading = _Logits(model, least)
    with torch.no_grad(), reading:
        model(**given)
    return {
        name: bias_of(logits[..., -least:, -least:])
        for name, logits in reading.found.items()
    }


def _without_content(model: Any) -> Any:
    """Return a copy of a model whose tokens are all 0."""
    model = copy.deepcopy(model)
    width = model.config.get_text_config().hidden_size
    for part in model.modules():
        if isinstance(part, nn.Embedding) and part.embedding_dim == width:
            part.weight.data.zero_()
    return model


def bias_of(logits: Tensor) -> Tensor | None:
    """Return the bias of logits `(heads, query, key)` of equal tokens; None if 0.

    It is NaN where a query sees no key.
    """
    own = logits.diagonal(dim1=-2, dim2=-1)[..., None]
    values = (logits - own).masked_fill(logits < HIDDEN, torch.nan)
    return None if size_of(values) < EXACT else values


def size_of(values: Tensor) -> float:
    """Return the largest number in size, but for NaN."""
    return float(values.nan_to_num().abs().max())


def alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two biases are the same, but for rounding."""
    atol = EXACT * size_of(one)
    return torch.allclose(one, other, rtol=0, atol=atol, equal_nan=True)


def described_bias(
    values: Tensor, config: Any, width: int, *, by_content: bool
) -> Described:
    """Return the description of a bias, with the scheme that has the same.

    `width` is that of the tokens.
    """
    past, future = values[:, -1].flip(-1), values[:, 0]  # (heads, distance)
    places = torch.arange(values.shape[-1])
    offsets = places - places[:, None]
    after, before = future[:, offsets.abs()], past[:, offsets.abs()]
    whole = torch.where(offsets > 0, after, before)
    same_mask = torch.equal(whole.isnan(), values.isnan())
    by_offset = same_mask and size_of(whole - values) < EXACT * size_of(values)
    if by_content and by_offset and _of_waves(past, future, width // 2):
        return Described("all", "bias", variant=Variant("transformer_xl"))
    if by_content:
        return Described("all", "bias", note=CONTENT)
    if not by_offset:
        return Described("all", "bias", note=BY_PLACE)
    off, times = _alibi(past)
    if off <= EXACT and abs(times - 1) <= EXACT:
        return Described("all", "bias", variant=Variant("alibi"), off=off)
    if off <= EXACT:
        why = f"the bias of alibi times {times:.4g}, which no scheme here has"
        return Described("all", "bias", {"times": times}, note=why)
    both = not bool(future[:, 1:].isnan().all())  # False under a causal mask
    sides = {-1: past, 1: future} if both else {-1: past}
    for variant in _buckets(config, both=both):
        if _same_in_buckets(variant, sides):
            return Described("all", "bias", variant.options, variant)
    return Described("all", "bias", note="a bias by distance that no scheme here has")


def _of_waves(past: Tensor, future: Tensor, pairs: int) -> bool:
    """Return whether biases `(heads, distance)` are weighted sums of sinusoids.

    The sinusoids are those of `transformer_xl`. Each of the two fastest frequencies
    must be needed: a rotation of narrower heads has the first, but not the second.
    There must be fewer sinusoids than offsets, for any bias is a sum of as many.
    """
    count = past.shape[-1]
    values = torch.cat([future.flip(-1), past[:, 1:]], dim=-1).mT  # (offset, heads)
    seen = ~values.isnan().any(dim=-1)
    values, offsets = values[seen], torch.arange(1 - count, count)[seen]
    if not pairs or len(offsets) < 4 * pairs:
        return False
    angle = position_angles(offsets, pairs, base=10_000.0)

    def fits(angle: Tensor) -> bool:
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
        waves = F.pad(waves, (0, 1), value=1.0)  # biases are 0 at offset 0
        found = torch.linalg.lstsq(waves, values, driver="gelsd").solution
        return size_of(waves @ found - values) <= EXACT * size_of(values)

    others = (torch.cat([angle[:, :i], angle[:, i + 1 :]], dim=1) for i in range(2))
    return fits(angle) and not any(map(fits, others))


def _alibi(past: Tensor) -> tuple[float, float]:
    """Fit a multiple of the bias of `alibi` to a bias `(heads, distance)`.

    Returns:
        The largest difference from it, relative to the largest bias; the multiple.
    """
    heads, count = past.shape
    scheme: Scheme = Variant("alibi").build(Geometry(heads * 2, heads=heads))
    own = scheme.offset_bias(-torch.arange(count))
    assert own is not None
    times = float((past * own).sum() / own.square().sum())
    return float((past - times * own).abs().max() / past.abs().max()), times


def _buckets(config: Any, *, both: bool) -> Iterator[Variant]:
    """Yield `t5_bias` with the buckets that a configuration states."""
    stated = config.to_dict()
    numbers = {n: v for n, v in stated.items() if type(v) is int and v > 0}
    rows = [v for n, v in numbers.items() if "bucket" in n]
    ends = [v for n, v in numbers.items() if "distance" in n]
    for buckets in rows:
        for end in ends:
            options = {"buckets": buckets, "max_distance": end}
            yield Variant("t5_bias", {**options, "bidirectional": both})


def _same_in_buckets(variant: Variant, sides: Mapping[int, Tensor]) -> bool:
    """Return whether a bias is constant in each bucket, and changes at its ends.

    `sides` are biases `(heads, distance)` by the sign of the offset.
    """
    heads, count = sides[-1].shape
    try:
        scheme: Any = variant.build(Geometry(heads * 2, heads=heads))
    except ConfigError:
        return False
    for sign, values in sides.items():
        buckets = scheme.buckets(sign * torch.arange(count))
        steps = values.diff(dim=1).abs().amax(dim=0) > EXACT
        if not torch.equal(steps, buckets.diff() != 0):
            return False
    return True
