"""A bias of content and distance that a model adds to its logits, as Inkling does.

Weights of an attention that could be those of `inkling` are given to that scheme. Then
a text of random tokens is evaluated, and what the attention adds to the products of its
queries and keys is compared with the scheme.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc_compare.attention import attention_logits
from posenc_compare.hf.biases import HIDDEN, SOFTMAX
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT, PRODUCTS, Watch, layers_of, states_of
from posenc_compare.hf.rotary import layers_text
from posenc_compare.hf.tiny import given
from posenc_compare.schemes import Geometry, Variant

LATE = 16  # queries that are compared, at the end of a text
MOST = 2048  # tokens of a text
LARGER = 32.0  # times the weights that mix: a limit of their outputs is then seen


class Weights(NamedTuple):
    """Weights that could mix profiles of the distance.

    Attributes:
        linear: layer with `heads * rank` outputs.
        profiles: `(rank, reach)`.
        scale: `(heads, rank)`, which multiplies the outputs.
    """

    linear: nn.Linear
    profiles: Tensor
    scale: Tensor


class Read(NamedTuple):
    """Inputs and outputs of an attention module.

    Attributes:
        x: `(1, token, channel)` its input.
        products: `(heads, query, key)` of late queries and keys, up to a factor.
        logits: `(heads, query, key)` of these before the softmax.
    """

    x: Tensor
    products: Tensor
    logits: Tensor


class _Reading(Watch):
    """Record inputs and outputs of every attention module inside this context."""

    def __init__(self, model: Any) -> None:
        super().__init__(layers_of(model))
        self.found: dict[nn.Module, Read] = {}
        self.x: Any = None
        self.products = torch.empty(0)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.module, self.x = module, states_of(args, kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in PRODUCTS and out.dim() == 4 and out.shape[-1] == out.shape[-2]:
            self.products = out[0, :, -LATE:].double()
        elif func in SOFTMAX and isinstance(self.x, Tensor):
            keys = self.products.shape[-1]  # without sinks
            logits = args[0][0, ..., -LATE:, :keys].double()
            if logits.shape == self.products.shape:
                read = Read(self.x.double(), self.products, logits)
                self.found.setdefault(self.module, read)
        return out


@torch.no_grad()
def profiles_in(model: Any, notes: Mapping[int, str]) -> list[Described]:
    """Return the biases of a small random model, if all layers have that of `inkling`.

    `notes` are of layers by number: what else they do.
    """
    weights = {module: [*_weights(module)] for module in layers_of(model)}
    if not weights or not all(weights.values()):
        return []
    every = [one for each in weights.values() for one in each]
    longest = max(one.profiles.shape[1] for one in every)
    draw = torch.Generator().manual_seed(4)
    rows = model.get_input_embeddings().num_embeddings
    ids = torch.randint(rows, (1, min(MOST, longest + LATE)), generator=draw)
    model.set_attn_implementation("eager")  # whose logits are seen
    linears = {one.linear for one in every}
    for linear in linears:
        linear.weight *= LARGER
    try:
        with _Reading(model) as reading:
            model(**given(model, ids))
        found = _matched(model, weights, reading.found)
    finally:
        for linear in linears:
            linear.weight /= LARGER
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, (variant, _) in found.items():
        groups[variant.label, notes.get(number, "")].append(number)
    return [
        Described(
            "all" if len(groups) == 1 else layers_text(tuple(numbers), model.config),
            "bias",
            {"reach": found[numbers[0]][0].options["reach"]},
            found[numbers[0]][0],
            max(found[number][1] for number in numbers),
            note=note,
        )
        for (_, note), numbers in groups.items()
    ]


def _weights(module: nn.Module) -> Iterator[Weights]:
    """Yield weights of an attention that could mix profiles."""
    linears = [part for part in module.modules() if isinstance(part, nn.Linear)]
    tables = [
        weight
        for part in module.modules()
        if not isinstance(part, nn.Linear | nn.Embedding)
        for weight in part.parameters(recurse=False)
        if weight.dim() == 2
    ]
    for profiles, linear in itertools.product(tables, linears):
        shape = linear.out_features // len(profiles), len(profiles)
        if math.prod(shape) == linear.out_features and linear.bias is None:
            scales = [one for one in tables if one.shape == shape]
            for scale in (linear.weight.new_ones(shape), *scales):
                yield Weights(linear, profiles, scale)


def _matched(
    model: Any, weights: dict[nn.Module, list[Weights]], reads: dict[nn.Module, Read]
) -> dict[int, tuple[Variant, float]]:
    """Return the variant of each layer, and how far it is off; none if one has none."""
    stated = model.config.to_dict().items()
    clips = {0.0, *(v for n, v in stated if "clip" in n and type(v) is float)}
    found: dict[int, tuple[Variant, float]] = {}
    for module, number in layers_of(model).items():
        tried = [
            (variant := _variant(one, clip), _off(variant, one, reads[module]))
            for one in (weights[module] if module in reads else ())
            for clip in sorted(clips)
        ]
        best = min(tried, key=lambda each: each[1], default=None)
        if best is None or not best[1] <= EXACT:
            return {}
        found[number] = best
    return found


def _variant(one: Weights, clip: float) -> Variant:
    rank, reach = one.profiles.shape
    return Variant("inkling", {"rank": rank, "reach": reach, "clip": clip})


def _off(variant: Variant, one: Weights, read: Read) -> float:
    """Return how far logits are from those of a scheme, in parts of its largest bias.

    Infinite if the scheme has other sizes.
    """
    heads, queries, keys = read.logits.shape
    width, rank = one.linear.in_features, len(one.profiles)
    if one.linear.out_features != heads * rank or read.x.shape[-1] != width:
        return float("inf")
    scheme: Any = variant.build(Geometry(width, heads, head_dim=1)).double()
    weight = one.linear.weight.unflatten(0, (heads, rank)) * one.scale[..., None]
    scheme.mix.weight.copy_(weight.flatten(0, 1))
    scheme.profiles.copy_(one.profiles)
    places, state = torch.arange(keys), scheme.token_state(read.x)
    none = read.x.new_zeros(1, heads, keys, 1)
    bias = attention_logits(
        none[:, :, -queries:],
        none,
        scheme=scheme,
        positions=places[-queries:],
        key_positions=places,
        state=state,
    )[0]
    seen = read.logits > HIDDEN
    bias, logits, products = (x[seen] for x in (bias, read.logits, read.products))
    left = logits - bias
    times = (left * products).sum() / products.square().sum()
    return float((left - times * products).abs().max() / bias.abs().max())
