"""What attention of a model does with places of tokens, measured.

Each attention is given equal tokens. Its queries and keys then differ by a rotation
alone, and its logits by a bias alone. A text of equal tokens has them from the model.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.hf.biases import (
    BY_PLACE,
    CONTENT,
    above,
    alike,
    bias_of,
    described_bias,
)
from posenc_compare.hf.described import Described
from posenc_compare.hf.grids import bias_on_grid, decomposed_on_grid, rotation_of
from posenc_compare.hf.measure import EXACT, STATES, Watch, attentions_of, multiplied
from posenc_compare.hf.rotary import layers_text
from posenc_compare.hf.senses import Inputs, read, readable

ELSEWHERE = ("encoder_hidden_states", "key_value_states", "key", "memory")
SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax)
WHOLE = (F.scaled_dot_product_attention, F.multi_head_attention_forward)
MASKED = -50.0  # logits below are hidden, as between regions of Swin's windows
CONVOLVED = "convolutions, which see the order of tokens"


@dataclass
class Seen:
    """What one attention made of equal tokens: queries, keys and logits.

    `q` and `k` are `(heads, token, channel)`, `bias` is `(heads, query, key)`.
    """

    q: Tensor | None = None
    k: Tensor | None = None
    bias: Tensor | None = None
    width: int = 0


class _Equal(Watch):
    """See what attention makes of equal tokens, which a seed gives to each.

    Without a seed, attention that a model gives equal tokens is seen.
    """

    def __init__(self, model: nn.Module, seed: int | None = None) -> None:
        super().__init__({m: name for name, m in attentions_of(model).items()})
        self.draw = None if seed is None else torch.Generator().manual_seed(seed)
        self.found: dict[str, Seen] = {}

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        name, self.inside[-1] = self.inside[-1], ""
        own = [*args[:1], kwargs.get(STATES), *kwargs.values()]
        first = next((x for x in own if isinstance(x, Tensor) and x.dim() > 1), None)
        elsewhere = any(kwargs.get(one) is not None for one in ELSEWHERE)
        if first is None or elsewhere or not first.is_floating_point():
            return None
        if self.draw is None and _varies(first):
            return None
        self.inside[-1] = name
        self.found.setdefault(name, Seen(width=first.shape[-1]))
        if self.draw is None:
            return None
        equal = torch.randn(first.shape[-1], generator=self.draw).to(first.dtype)
        equal = equal.expand(first.shape).contiguous()
        args = tuple(equal if x is first else x for x in args)
        return args, {n: equal if x is first else x for n, x in kwargs.items()}

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        seen = self.found.get(self.inside[-1]) if self.inside else None
        if seen is None:
            return
        bias = args[0] if func in SOFTMAX else None
        if func in WHOLE:
            bias = kwargs.get("attn_mask")
        _keep(seen, *multiplied(func, args, kwargs), bias)


def _keep(seen: Seen, q: Any, k: Any, bias: Any) -> None:
    """Keep the first queries and keys, and the first bias or logits."""
    if seen.q is None and q is not None and q.shape[-1] == k.shape[-1]:
        seen.q, seen.k = (_heads(one) for one in (q, k))
    whole = isinstance(bias, Tensor) and bias.is_floating_point()
    if seen.bias is None and whole and bias.dim() > 1:
        if bias.shape[-1] == bias.shape[-2] > 1:
            seen.bias = _heads(bias)


def _heads(x: Tensor) -> Tensor:
    """Return the first row of `(..., heads, token, channel)`, float64."""
    x = x.detach().double()
    return x.reshape(-1, *x.shape[-3:])[0] if x.dim() > 2 else x[None]


def _varies(x: Tensor) -> bool:
    """Return whether tokens of `(..., token, channel)` differ."""
    apart = (x - x[..., :1, :]).abs().max()
    return bool(apart > EXACT * x.abs().max())


class _Softmax(Watch):
    """Notice what attention calls, in modules of whatever names."""

    found = False

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.found |= func in (*SOFTMAX, *WHOLE)


def attends(model: Any) -> bool:
    """Return whether a model that reads images or sound has attention, or may have."""
    if attentions_of(model):
        return True
    with _Softmax({}) as watch:
        read(model, readable(model))
    return watch.found


def placed_in(model: Any, given: Inputs) -> list[Described]:
    """Return what attention of a small random model does with places of tokens."""
    passes = []
    for seed in (1, 2):
        with _Equal(model, seed) as watch:
            read(model.train().eval(), given)  # what it keeps is from other weights
        passes.append(watch.found)
    first, second = passes
    rows = (
        (name, row)
        for name, seen in first.items()
        for row in _described(model, name, seen, second[name])
    )
    return _grouped(rows, _place, len(first))


def biases_in(model: Any, given: Inputs) -> list[Described]:
    """Return the biases by position of a model of text, a row for all that are alike.

    The model evaluates tokens that are all 0, and then the equal ones that are given: a
    bias that differs depends on their content.
    """
    model.set_attn_implementation("eager")  # whose softmax is seen
    plain, full = (_biases(one, given) for one in (_without_content(model), model))
    found = plain or full
    # In deeper layers tokens may be unequal; these are taken to be as the others.
    same = found is plain and all(
        name not in full or alike(one, full[name]) for name, one in plain.items()
    )
    width = model.config.get_text_config().hidden_size
    rows = (
        (name, described_bias(one, model.config, width, by_content=not same))
        for name, one in found.items()
    )
    return _grouped(rows, above, len(found))


@torch.no_grad()
def _biases(model: Any, given: Inputs) -> dict[str, Tensor]:
    """Return the biases of all attention that sees equal tokens, by name."""
    with _Equal(model) as watch:
        model(**given)
    count, found = given["input_ids"].shape[1], dict[str, Tensor]()
    for name, seen in watch.found.items():
        if seen.bias is not None:
            bias = bias_of(seen.bias[..., -count:, -count:])  # without a prompt
            found |= {} if bias is None else {name: bias}
    return found


def _without_content(model: Any) -> Any:
    """Return a copy of a model whose tokens are all 0."""
    model = copy.deepcopy(model)
    width = model.config.get_text_config().hidden_size
    for part in model.modules():
        if isinstance(part, nn.Embedding) and part.embedding_dim == width:
            part.weight.data.zero_()
    return model


def _grouped(
    rows: Iterable[tuple[str, Described]], place: Callable[[list[str]], str], whole: int
) -> list[Described]:
    """Return each row once, with the place of all modules that have it.

    If a row is of a `whole` number of modules, its place is `all`.
    """
    found: dict[Any, tuple[Described, list[str]]] = {}
    for name, row in rows:
        same = (row.kind, row.label, row.note, row.text)
        found.setdefault(same, (row, []))[1].append(name)
    alone = [len(names) for _, names in found.values()] == [whole]
    return [
        replace(row, layers="all" if alone else place(names))
        for row, names in found.values()
    ]


def _place(names: list[str]) -> str:
    """Return the module that contains modules of these names, with their numbers."""
    place = above(names)
    rest = [one.removeprefix(place).strip(".").partition(".")[0] for one in names]
    if len(names) == 1 or not all(map(str.isdecimal, rest)):
        return place
    return f"{place}.{layers_text(tuple(sorted({*map(int, rest)})), None)}"


def _described(model: Any, name: str, seen: Seen, other: Seen) -> Iterator[Described]:
    """Yield what one attention does, from two passes with other equal tokens."""
    states = [one for each in (seen, other) for one in (each.q, each.k)]
    turned = [one for one in states if one is not None]
    alike_in_size = len({one.shape[1:] for one in turned}) == 1
    if len(turned) == len(states) and alike_in_size and _varies(turned[0]):
        yield rotation_of(model.config, turned)
        return
    if seen.bias is None or other.bias is None:
        return
    module = model.get_submodule(name)
    bias, second = bias_of(seen.bias, MASKED), bias_of(other.bias, MASKED)
    if bias is None or second is None:
        return
    by_content = not alike(bias, second)
    row = described_bias(bias, model.config, seen.width, by_content=by_content)
    if row.note == BY_PLACE:
        row = bias_on_grid(model, module, bias)
    elif row.note == CONTENT:
        row = decomposed_on_grid(module, bias, seen.q) or row
    yield row


def convolutions_in(model: nn.Module, given: Inputs) -> list[Described]:
    """Return the convolutions of stride 1, which see the order of tokens.

    A row for all that have the same kernel.
    """
    seen: dict[str, Described] = {}

    def keep(name: str, module: Any) -> None:
        wide = any(side > 1 for side in module.kernel_size)
        if wide and all(step == 1 for step in module.stride):
            sides = "x".join(map(str, module.kernel_size))
            kernel = {"kernel": f"{sides} of {module.groups} groups"}
            seen[name] = Described(name, "other", kernel, note=CONVOLVED)

    hooks = [
        module.register_forward_hook(lambda one, *_, name=name: keep(name, one))
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    ]
    read(model, given)
    for hook in hooks:
        hook.remove()
    return _grouped(seen.items(), _place, 0)
