"""What attention of a model of images or sound does with places, measured.

Each attention is given equal tokens. Its queries and keys then differ by a rotation
alone, and its logits by a bias alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posenc_compare.hf.biases import (
    BY_PLACE,
    CONTENT,
    SOFTMAX,
    above,
    alike,
    bias_of,
    described_bias,
)
from posenc_compare.hf.described import Described
from posenc_compare.hf.grids import bias_on_grid, decomposed_on_grid, rotation_of
from posenc_compare.hf.measure import EXACT, PRODUCTS, STATES, Watch
from posenc_compare.hf.rotary import layers_text
from posenc_compare.hf.senses import Inputs, read, readable

ELSEWHERE = ("encoder_hidden_states", "key_value_states", "key", "memory")
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
    """Give attention modules equal tokens, and see what they make of them."""

    def __init__(self, modules: dict[str, nn.Module], seed: int) -> None:
        super().__init__(modules.values())
        self.names = {module: name for name, module in modules.items()}
        self.draw = torch.Generator().manual_seed(seed)
        self.inside: list[str] = []
        self.found: dict[str, Seen] = {}
        for module in modules.values():
            hook = module.register_forward_hook(self._end, always_call=True)
            self.hooks.append(hook)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        elsewhere = any(kwargs.get(name) is not None for name in ELSEWHERE)
        name = "" if elsewhere else self.names[module]
        self.inside.append(name)
        own = [*args[:1], kwargs.get(STATES), *kwargs.values()]
        first = next((x for x in own if isinstance(x, Tensor) and x.dim() > 1), None)
        if first is None or not name or not first.is_floating_point():
            return None
        equal = torch.randn(first.shape[-1], generator=self.draw).to(first.dtype)
        equal = equal.expand(first.shape).contiguous()
        self.found.setdefault(name, Seen(width=first.shape[-1]))
        args = tuple(equal if x is first else x for x in args)
        return args, {n: equal if x is first else x for n, x in kwargs.items()}

    def _end(self, *_: Any) -> None:
        self.inside.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        seen = self.found.get(self.inside[-1]) if self.inside else None
        if seen is not None and func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask")
            given = dict(zip(names, args, strict=False)) | kwargs
            self._keep(seen, given["query"], given["key"], given.get("attn_mask"))
        elif seen is not None and func is F.multi_head_attention_forward:
            self._keep(seen, None, None, kwargs.get("attn_mask"))
        elif seen is not None and func in PRODUCTS and len(args) == 2:
            if all(isinstance(x, Tensor) and x.dim() > 2 for x in args):
                self._keep(seen, args[0], args[1].transpose(-1, -2), None)
        elif seen is not None and func in SOFTMAX:
            self._keep(seen, None, None, args[0])
        return func(*args, **kwargs)

    def _keep(self, seen: Seen, q: Any, k: Any, bias: Any) -> None:
        """Keep the first queries and keys, and the first bias or logits."""
        if seen.q is None and q is not None and q.shape[-1] == k.shape[-1]:
            seen.q, seen.k = (_heads(one) for one in (q, k))
        whole = isinstance(bias, Tensor) and bias.is_floating_point()
        if seen.bias is None and whole and bias.dim() > 1:
            if bias.shape[-1] == bias.shape[-2] > 1:
                bias = _heads(bias)
                seen.bias = bias.masked_fill(bias < MASKED, -torch.inf)


def _heads(x: Tensor) -> Tensor:
    """Return the first row of `(..., heads, token, channel)`, float64."""
    x = x.detach().double()
    return x.reshape(-1, *x.shape[-3:])[0] if x.dim() > 2 else x[None]


def attentions_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules of attention that have no other inside, by name."""
    named = {n: m for n, m in model.named_modules() if "Attention" in type(m).__name__}
    return {
        name: module
        for name, module in named.items()
        if not any(other.startswith(f"{name}.") for other in named)
    }


class _Softmax(TorchFunctionMode):
    """Notice what attention calls, in modules of whatever names."""

    found = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.found |= func in (*SOFTMAX, *WHOLE)
        return func(*args, **(kwargs or {}))


def attends(model: Any) -> bool:
    """Return whether a model that reads images or sound has attention, or may have."""
    if attentions_of(model):
        return True
    with _Softmax() as watch:
        read(model, readable(model))
    return watch.found


def placed_in(model: Any, given: Inputs) -> list[Described]:
    """Return what attention of a small random model does with places of tokens."""
    modules = attentions_of(model)
    passes = []
    for seed in (1, 2):
        with _Equal(modules, seed) as watch:
            read(model.train().eval(), given)  # what it keeps is from other weights
        passes.append(watch.found)
    rows: dict[Any, tuple[Described, list[str]]] = {}
    for name, seen in passes[0].items():
        other = passes[1][name]
        for row in _described(model, modules[name], seen, other):
            alike = (row.kind, row.label, row.note, row.text)
            rows.setdefault(alike, (row, []))[1].append(name)
    named = [names for _, names in rows.values()]
    alone = [len(one) for one in named] == [len(passes[0])]
    return [
        replace(row, layers="all" if alone else _place(names))
        for row, names in rows.values()
    ]


def _place(names: list[str]) -> str:
    """Return the module that contains modules of these names, with their numbers."""
    place = above(names)
    rest = [one.removeprefix(place).strip(".").partition(".")[0] for one in names]
    if len(names) == 1 or not all(map(str.isdecimal, rest)):
        return place
    return f"{place}.{layers_text(tuple(sorted({*map(int, rest)})), None)}"


def _described(
    model: Any, module: nn.Module, seen: Seen, other: Seen
) -> Iterator[Described]:
    """Yield what one attention does, from two passes with other equal tokens."""
    states = [one for each in (seen, other) for one in (each.q, each.k)]
    turned = [one for one in states if one is not None]
    alike_in_size = len({one.shape[1:] for one in turned}) == 1
    if len(turned) == len(states) and alike_in_size and _varies(turned[0]):
        yield rotation_of(model.config, turned)
        return
    if seen.bias is None or other.bias is None:
        return
    bias, second = bias_of(seen.bias), bias_of(other.bias)
    if bias is None or second is None:
        return
    by_content = not alike(bias, second)
    row = described_bias(bias, model.config, seen.width, by_content=by_content)
    if row.note == BY_PLACE:
        row = bias_on_grid(model, module, bias)
    elif row.note == CONTENT:
        row = decomposed_on_grid(module, bias, seen.q) or row
    yield row


def _varies(x: Tensor) -> bool:
    return bool((x - x[:, :1]).abs().max() > EXACT * x.abs().max())


def convolutions_in(model: nn.Module, given: Inputs) -> list[Described]:
    """Return the convolutions of stride 1, which see the order of tokens.

    A row for all that have the same kernel.
    """
    seen: dict[str, str] = {}

    def keep(name: str, module: Any) -> None:
        wide = any(side > 1 for side in module.kernel_size)
        if wide and all(step == 1 for step in module.stride):
            kernel = "x".join(map(str, module.kernel_size))
            seen[name] = f"{kernel} of {module.groups} groups"

    hooks = [
        module.register_forward_hook(lambda one, *_, name=name: keep(name, one))
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    ]
    read(model, given)
    for hook in hooks:
        hook.remove()
    names: dict[str, list[str]] = {}
    for name, kernel in seen.items():
        names.setdefault(kernel, []).append(name)
    return [
        Described(_place(each), "other", {"kernel": kernel}, note=CONVOLVED)
        for kernel, each in names.items()
    ]
