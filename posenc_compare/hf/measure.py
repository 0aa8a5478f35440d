"""What a Hugging Face model does to its queries and keys at a position, measured.

Texts of one token are read at several positions. One token sees itself alone, so the
states are the same at all of them, and only queries and keys change. The products of
queries and keys are where both are met, whatever code made them.
"""

import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posenc_compare.hf.places import ROTARY, WOULD_WORK, UnsupportedModelError

EXACT = 1e-5  # of a rotation, in parts of the queries
STEPS = (1, 5, 23, 101, 997)  # positions that are tried, and the last one
LONGEST = 32  # tokens of a text that is read to reach a position
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.einsum)
ADDED = (torch.baddbmm, Tensor.baddbmm)  # to a first operand
SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
NAMED = ("batch1", "batch2")  # their other operands, if they are given by name
STATES = "hidden_states"  # what attention is given first
SCALED = "scales queries by their position"
OTHERWISE = "with the position otherwise than by a rotation"
UNMET = "has no products of queries and keys that can be measured"  # linear attention
KINDS = ("Attention", "MLA")  # in the names of classes of attention
PLACES = ("self_attn", "attn", "attention")  # where layers have it
STILL = torch.empty(0)  # frequencies of what rotates no pair

Pair = tuple[Tensor, Tensor]  # queries and keys
Products = dict[int, list[Pair]]  # by layer, in the order of calls
States = dict[nn.Module, list[Tensor]]  # in the order of calls


@dataclass(frozen=True)
class Rotation:
    """What one layer does to its queries and keys.

    `factor` is that of the channels that are rotated, and `scale` that of scores before
    the softmax, in parts of 1/sqrt(width); None if they cannot be measured.
    """

    layer: int  # its number
    width: int  # channels of a head
    pairs: tuple[tuple[int, int], ...] = ()  # the first rotates towards the second
    frequencies: Tensor = STILL  # (pair,) float64, radians per position, positive
    factor: float | None = None
    scale: float | None = None
    fault: str = ""  # why this is no rotation by fixed frequencies
    note: str = ""  # what else the layer does to its queries


def neutral(pair: Any) -> Any:
    """Return rotary tables without rotation, in the form of cosines and sines given."""
    if isinstance(pair, Tensor) and pair.is_complex():
        return torch.ones_like(pair)
    if isinstance(pair, tuple) and len(pair) == 2:
        return torch.ones_like(pair[0]), torch.zeros_like(pair[1])
    raise UnsupportedModelError(
        f"{ROTARY} must be cosines and sines, given by name, got {type(pair).__name__}"
    )


class Watch(TorchFunctionMode):
    """See the calls of torch inside some modules, while this is entered.

    `inside` has the names of the modules that are called, the innermost last.
    """

    def __init__(self, names: Mapping[nn.Module, Any]) -> None:
        super().__init__()
        self.names = names
        self.inside: list[Any] = []
        self.hooks: list[Any] = []
        for one in names:
            self.hooks += [
                one.register_forward_pre_hook(self._begin, with_kwargs=True),
                one.register_forward_hook(self._end, always_call=True),
            ]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self.hooks:
            hook.remove()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.see(func, args, kwargs)
        return func(*args, **kwargs)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self.inside.append(self.names[module])
        return self.enter(module, args, kwargs)

    def _end(self, *_: Any) -> None:
        self.inside.pop()

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Return other arguments for a module, or None for those it is given."""

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Look at a call of torch, before it is made."""


def multiplied(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return what a call of torch multiplies as queries and keys; None if nothing."""
    if func is F.scaled_dot_product_attention:
        given = dict(zip(("query", "key"), args, strict=False)) | kwargs
        return given["query"], given["key"]
    operands = [one for one in args if isinstance(one, Tensor)]
    operands += [kwargs[name] for name in NAMED if name in kwargs]
    if func in ADDED:
        operands = operands[1:]
    if func not in (*PRODUCTS, *ADDED) or len(operands) != 2:
        return None, None
    first, second = operands
    if func is torch.einsum:
        return first, second
    fits = first.dim() == second.dim() > 2
    return (first, second.transpose(-1, -2)) if fits else (None, None)


def states_of(args: Any, kwargs: Any) -> Any:
    """Return the states that attention is given, from the arguments of its call."""
    return args[0] if args else kwargs.get(STATES)


class _Met(Watch):
    """Record the queries and keys that layers multiply, while this is entered.

    Rotary tables are neutral if `plain`. `states` replace those of
    the modules that they belong to, which are recorded. Of `tokens`, only the last is
    recorded.
    """

    def __init__(
        self,
        layers: dict[nn.Module, int],
        plain: bool,
        states: States | None = None,
        tokens: int = 1,
    ) -> None:
        parts = {part for module in layers for part in module.modules()}
        indexers = {p: -1 for p in parts if "Indexer" in type(p).__name__}
        super().__init__({**layers, **indexers})  # which choose keys
        self.tokens = tokens
        self.plain = plain
        self.given = states or {}
        self.states: States = {}
        self.found: Products = {}
        self.scales: dict[int, float] = {}
        self.scores: dict[int, Tensor] = {}  # before the softmax, of the last call
        self.replaced: set[int] = set()
        self.tables: list[tuple[Tensor, ...]] = []

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self.inside[-1] < 0:
            return None
        own = states_of(args, kwargs)
        calls = self.states.setdefault(module, [])
        if isinstance(own, Tensor):
            calls.append(own)
        given = self.given.get(module, [])[len(calls) - 1 : len(calls)]
        if self.tokens > 1:
            given = [one.expand(-1, self.tokens, -1).contiguous() for one in given]
        if given and args:
            args = (*given, *args[1:])
        elif given:
            kwargs = {**kwargs, STATES: given[0]}
        tables = kwargs.get(ROTARY)
        if isinstance(tables, tuple) and len(tables) == 2:  # cosines and sines
            self.tables.append(tables)
        if self.plain and isinstance(tables, Tensor | tuple):
            self.replaced.add(self.inside[-1])
            kwargs = {**kwargs, ROTARY: neutral(tables)}
        return args, kwargs

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if not self.inside or self.inside[-1] < 0:
            return
        q, k = multiplied(func, args, kwargs)
        self._keep(q, k)
        scale = kwargs.get("scale")
        if isinstance(q, Tensor) and isinstance(scale, float):
            self.scales[self.inside[-1]] = scale * math.sqrt(q.shape[-1])
        scores = None
        if func is F.scaled_dot_product_attention and q.dim() == 4:
            k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
        elif func in SOFTMAX:
            scores = args[0] if args else kwargs.get("input")
        if isinstance(scores, Tensor):
            self.scores[self.inside[-1]] = scores.detach().double().cpu().flatten()

    def _keep(self, q: Any, k: Any) -> None:
        """Keep queries and keys of the last token, if the arguments are such."""
        if not (isinstance(q, Tensor) and isinstance(k, Tensor)):
            return
        if q.dim() < 3 or q.shape[-1] != k.shape[-1] or q.shape[-1] < 2:
            return
        if k.shape[-2] != self.tokens or q.requires_grad:
            return
        if self.tokens > 1:
            if q.shape[-2] != self.tokens:
                return
            q, k = q[..., -1:, :], k[..., -1:, :]
        # Of one token, heads may stand in the place of queries.
        pair = (q.detach().double().cpu(), k.detach().double().cpu())
        self.found.setdefault(self.inside[-1], []).append(pair)


def layers_of(model: nn.Module) -> dict[nn.Module, int]:
    """Return the modules of attention, with the number of the layer of each.

    Attention of a port may have any class, which inherits from one that is called
    attention, or stands where a model has its attention.
    """
    found = {
        module: layer
        for path, module in model.named_modules()
        if isinstance(layer := getattr(module, "layer_idx", None), int)
        and layer >= 0
        and (path.rpartition(".")[2] in PLACES or _is_attention(type(module)))
    }
    return found or {m: i for i, m in enumerate(attentions_of(model).values())}


def attentions_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules that are called attention and have none inside, by name."""
    named = {
        name: module
        for name, module in model.named_modules()
        if any(kind in type(module).__name__ for kind in KINDS)
    }
    return {
        name: module
        for name, module in named.items()
        if not any(other.startswith(f"{name}.") for other in named)
    }


def _is_attention(kind: type) -> bool:
    """Return whether a class, or one that it inherits from, is called attention."""
    names = [one.__name__ for one in kind.__mro__]
    return any(word in name for word in KINDS for name in names)


def meet(
    model: Any,
    ids: Tensor,
    position: int,
    plain: bool = False,
    reach: int = 0,
    states: States | None = None,
    along: Tensor | None = None,
) -> _Met:
    """Return what layers multiply in texts of one token at a position.

    The last text, if there are several, is a token at the position `reach`: some
    models rotate by the length of the longest text. Layers are given the states that
    they had elsewhere, if these are known, so that each of them is measured alone. Of
    several axes, ids are the position times each number of `along`.

    A model that takes no position ids reads a text of equal tokens up to the position.
    """
    given: dict[str, Any] = {"input_ids": ids}
    if takes_positions(model):
        positions = torch.full_like(ids, position)
        if len(ids) > 1:
            positions[-1] = reach
        if along is not None:
            positions = along[:, None, None] * positions
        given["position_ids"] = positions
    else:
        given["input_ids"] = ids.expand(-1, position + 1)
    tokens = given["input_ids"].shape[1]
    met = _Met(layers_of(model), plain, states, tokens)
    parameters = inspect.signature(model.forward).parameters
    if any(
        p.name == "use_cache" or p.kind == p.VAR_KEYWORD for p in parameters.values()
    ):
        given["use_cache"] = False
    with torch.no_grad(), met:
        model(**given)
    return met


def takes_positions(model: Any) -> bool:
    """Return whether a model names position ids among its arguments."""
    return "position_ids" in inspect.signature(model.forward).parameters


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode, and restore the mode of each module on exit."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in training.items():
            module.training = mode


def rotating_layers(model: Any) -> list[int] | None:
    """Return the layers whose queries change with the position of a token.

    None if no layer rotates, or the model cannot be run on tokens alone.
    """
    ids = torch.ones((1, 1), dtype=torch.long, device=model.device)
    try:
        with evaluating(model):
            still = meet(model, ids, 0)
            second = meet(model, ids, 1, states=still.states).found
    except Exception:  # no weights, or a model that asks for more than tokens
        return None
    return [
        layer
        for layer, pairs in sorted(still.found.items())
        if layer not in second or not torch.equal(pairs[0][0], second[layer][0][0])
    ] or None


def rotations(
    model: Any, length: int, reach: int = 0, along: Tensor | None = None
) -> list[Rotation]:
    """Return what every layer with attention does to its queries and keys.

    Positions from 0 to `length` are tried, with a text at `reach` beside them. Ids of
    several axes are those positions times each number of `along`.
    """
    name = type(model).__name__
    if not layers_of(model):
        raise UnsupportedModelError(
            f"{name}: has no attention that can be read, and so no rotary positions "
            f"that can be measured; {WOULD_WORK}"
        )
    draw = torch.Generator().manual_seed(1)
    count = model.get_input_embeddings().num_embeddings
    steps = sorted({*(step for step in STEPS if step < length), length - 1} - {0})
    if not takes_positions(model):
        steps = [step for step in steps if step < LONGEST]
    read = partial(meet, model, reach=reach, along=along)
    few = torch.ones((2, 1), dtype=torch.long)
    start = read(few, 0)
    if not start.found:
        raise UnsupportedModelError(f"{name}: {UNMET}; {WOULD_WORK}")
    queries = [q for pairs in start.found.values() for q, _ in pairs]
    # Twice as many rows, one for each head, as a head has channels.
    rows = max([0, *(4 * q.shape[-1] ** 2 // q.numel() for q in queries)]) + 16
    least = min(2, count - 1)
    tokens = least + torch.randperm(count - least, generator=draw)
    ids = tokens[torch.arange(rows) % len(tokens), None]
    start = read(ids, 0)
    still, states = start.found, start.states
    plain = read(ids, steps[0], plain=True, states=states)
    moved = {step: read(ids, step, states=states).found for step in steps}
    found = []
    for layer in sorted({*layers_of(model).values()}):
        if layer not in still:
            found.append(Rotation(layer, 0, fault=UNMET))
            continue
        counts = {len(one[layer]) for one in (still, plain.found, *moved.values())}
        made = [
            _rotation(
                layer,
                _pair(plain.found[layer][i], rows) if layer in plain.replaced else None,
                _pair(still[layer][i], rows),
                {step: _pair(one[layer][i], rows) for step, one in moved.items()},
            )
            for i in range(min(counts))
        ]
        if len(counts) > 1 or not all(alike(made[0], one) for one in made):
            fault = "has several products of queries and keys, rotated differently"
            made = [Rotation(layer, made[0].width, fault=fault)]
        found.append(replace(made[0], scale=start.scales.get(layer)))
    return found


def alike(one: Rotation, other: Rotation) -> bool:
    """Return whether two rotations are the same, of whatever layers."""
    first, second = ((r.pairs, r.width, r.fault, r.note) for r in (one, other))
    if first != second or not one.pairs:
        return first == second
    factors = [each.factor or 0.0 for each in (one, other)]
    return math.isclose(*factors, rel_tol=EXACT) and torch.allclose(
        one.frequencies, other.frequencies, rtol=EXACT, atol=1e-8
    )


def _pair(found: Pair, texts: int) -> Pair:
    """Return queries and keys, `(row, channel)`, without those of the last text."""
    q, k = (one.reshape(texts, -1, one.shape[-1])[:-1].flatten(0, 1) for one in found)
    return q, k


def _rotation(
    layer: int, plain: Pair | None, still: Pair, moved: dict[int, Pair]
) -> Rotation:
    """Return the rotation of one layer, from its queries and keys by position.

    `plain` are those under neutral tables; None if the layer takes no tables.
    """
    width = still[0].shape[-1]
    base = still if plain is None else plain
    few = Rotation(layer, width, fault="has queries that span too few channels")
    if not base[0].isfinite().all():
        return few
    span, mixed = torch.linalg.qr(base[0])
    if len(base[0]) <= width or torch.linalg.matrix_rank(mixed) < width:
        return few
    inverse = torch.linalg.inv(mixed)
    spread = inverse.norm(dim=1)  # of what is solved, for queries off by 1
    noise = torch.zeros(width, width, dtype=torch.float64)
    solved: dict[int, Tensor] = {}
    for step, (q, k) in {0: still, **moved}.items():
        made = inverse @ (span.T @ q)
        free = len(q) - width
        left = (base[0] @ made - q).square().sum(0).div(free).sqrt()
        noise = torch.maximum(noise, left[:, None] * spread)
        for what, before, after in (("queries", base[0], q), ("keys", base[1], k)):
            would = before @ made
            size = (would * after).sum() / would.square().sum()
            if not _off(would, after) < EXACT:
                fault = f"changes {what} {OTHERWISE}"
                if _off(size * would, after) < EXACT:  # as keys, up to a factor
                    fault = SCALED
                return Rotation(layer, width, fault=fault)
        solved[step] = made.T
    at_start = solved[0] - solved[0].diag().diag()
    if plain is not None and at_start.abs().max() > EXACT:  # sines before cosines
        return _rotation(layer, None, still, moved)
    eye = torch.eye(width, dtype=torch.float64)
    offdiag = sum((m - m.diag().diag()).abs() for s, m in solved.items() if s)
    assert isinstance(offdiag, Tensor)
    partner = offdiag.argmax(dim=1)
    own = torch.arange(width)
    turns = offdiag[own, partner] > 1e-9 + 8 * len(solved) * noise[own, partner]
    turns &= turns[partner] & (partner[partner] == own)
    pairs = [(i, int(partner[i])) for i in range(width) if turns[i] and i < partner[i]]
    if not pairs:
        last = solved[max(solved)]
        if (last - eye).abs().max() > EXACT:
            return Rotation(layer, width, fault=SCALED)
        return Rotation(layer, width, factor=1.0)
    rows = torch.tensor(pairs)
    first, second = rows.T
    factor = None if plain is None else float(solved[0][first, first].mean())
    frequencies = torch.zeros(len(pairs), dtype=torch.float64)
    for step in sorted(moved):
        m = solved[step]
        angle = torch.atan2(m[second, first], m[first, first])
        known_angle = frequencies * step
        turn = torch.round((known_angle - angle) / (2 * torch.pi))
        sure = known_angle.abs() < 2e4  # so that it tells which turn it is
        found = (angle + 2 * torch.pi * turn) / step
        frequencies = torch.where(sure, found, frequencies)
    both = zip(pairs, frequencies, strict=True)
    pairs = [(a, b) if f > 0 else (b, a) for (a, b), f in both]
    made = Rotation(layer, width, tuple(pairs), frequencies.abs(), factor)
    if _holds(made, solved):
        return made
    fault = f"does not rotate by fixed frequencies up to position {max(moved)}"
    return Rotation(layer, width, fault=fault)


def _off(made: Tensor, own: Tensor) -> float:
    """Return the largest difference, in parts of the largest value."""
    return float((made - own).abs().max() / own.abs().max())


def _holds(made: Rotation, solved: dict[int, Tensor]) -> bool:
    """Return whether a rotation gives what was measured at every position."""
    size = made.factor or 1.0
    first, second = torch.tensor(made.pairs).T
    for step, matrix in solved.items():
        own = torch.eye(made.width, dtype=torch.float64)
        angle = made.frequencies * step
        own[first, first] = own[second, second] = size * angle.cos()
        own[second, first], own[first, second] = size * angle.sin(), -size * angle.sin()
        # Angles are products in float32.
        if (own - matrix).abs().max() > EXACT + 2**-21 * step:
            return False
    return True
