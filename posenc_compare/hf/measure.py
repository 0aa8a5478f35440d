"""What a Hugging Face model does to its queries and keys at a position, measured.

Texts of one token are read at several positions. One token sees itself alone, so the
states are the same at all of them, and only queries and keys change. The products of
queries and keys are where both are met, whatever code made them.
"""

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posenc_compare.hf.places import ROTARY, WOULD_WORK, UnsupportedModelError

EXACT = 1e-5  # of a rotation, in parts of the queries
STEPS = (1, 5, 23, 101, 997)  # positions that are tried, and the last one
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.einsum)


@dataclass(frozen=True)
class Rotation:
    """What one layer does to its queries and keys.

    Attributes:
        layer: its number.
        width: channels of a head.
        pairs: of channels; the first turns towards the second.
        frequencies: `(pair,)` float64, radians per position, positive.
        factor: of the channels that are rotated; None if it cannot be measured.
        fault: why this is no rotation by fixed frequencies; empty if it is one.
    """

    layer: int
    width: int
    pairs: tuple[tuple[int, int], ...] = ()
    frequencies: Tensor | None = None
    factor: float | None = None
    fault: str = ""


def neutral(pair: Any) -> Any:
    """Return rotary tables that turn nothing, in the form of those of a model.

    Args:
        pair: cosines and sines, or complex numbers.

    Raises:
        UnsupportedModelError: if it is neither.
    """
    if isinstance(pair, Tensor) and pair.is_complex():
        return torch.ones_like(pair)
    if isinstance(pair, tuple) and len(pair) == 2:
        return torch.ones_like(pair[0]), torch.zeros_like(pair[1])
    raise UnsupportedModelError(
        f"{ROTARY} must be cosines and sines, given by name, got {type(pair).__name__}"
    )


class _Met(TorchFunctionMode):
    """The queries and keys that layers multiply, while this is entered."""

    def __init__(self, layers: dict[nn.Module, int], plain: bool) -> None:
        super().__init__()
        self.layers = layers
        self.plain = plain
        self.inside: list[int] = []
        self.found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self.replaced: set[int] = set()
        self._hooks: list[Any] = []

    def __enter__(self) -> Any:
        for module in self.layers:
            self._hooks += [
                module.register_forward_pre_hook(self._begin, with_kwargs=True),
                module.register_forward_hook(self._end, always_call=True),
            ]
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self.inside.append(self.layers[module])
        if not self.plain or kwargs.get(ROTARY) is None:
            return None
        self.replaced.add(self.layers[module])
        return args, {**kwargs, ROTARY: neutral(kwargs[ROTARY])}

    def _end(self, *_: Any) -> None:
        self.inside.pop()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.inside:
            operands = [one for one in args if isinstance(one, Tensor)]
            if func is F.scaled_dot_product_attention:
                named = {"query": None, "key": None, **(kwargs or {})}
                q, k = [*operands, named["query"], named["key"]][:2]
                self._keep(q, k)
            elif func in PRODUCTS and len(operands) == 2:
                first, second = operands
                if func is torch.einsum:
                    self._keep(first, second)
                elif first.dim() == second.dim() > 2:
                    self._keep(first, second.transpose(-1, -2))
        return func(*args, **(kwargs or {}))

    def _keep(self, q: Any, k: Any) -> None:
        """Keep queries and keys of one token, if these are such."""
        if not (isinstance(q, Tensor) and isinstance(k, Tensor)):
            return
        if q.dim() < 3 or q.shape[-1] != k.shape[-1] or q.shape[-1] < 2:
            return
        if q.shape[-2] != 1 or k.shape[-2] != 1 or q.requires_grad:
            return
        pair = (q.detach().double().cpu(), k.detach().double().cpu())
        self.found.setdefault(self.inside[-1], []).append(pair)


def layers_of(model: nn.Module) -> dict[nn.Module, int]:
    """Return the modules of attention, with the number of the layer of each."""
    found = {}
    for module in model.modules():
        layer = getattr(module, "layer_idx", None)
        if isinstance(layer, int) and "Attention" in type(module).__name__:
            found[module] = layer
    if not found:
        kinds = [m for m in model.modules() if type(m).__name__.endswith("Attention")]
        inner = [
            m for m in kinds if not any(k is not m for k in m.modules() if k in kinds)
        ]
        found = {module: number for number, module in enumerate(inner)}
    return found


def _met(
    model: Any, ids: Tensor, position: int, plain: bool = False, reach: int = 0
) -> _Met:
    """Return what layers multiply in texts of one token at a position.

    The last text, if there are several, is a token at the position `reach`: some
    models turn by what the longest text is.
    """
    met = _Met(layers_of(model), plain)
    places = torch.full_like(ids, position)
    if len(ids) > 1:
        places[-1] = reach
    with torch.no_grad(), met:
        model(input_ids=ids, position_ids=places, use_cache=False)
    return met


def rotating_layers(model: Any) -> list[int] | None:
    """Return the layers whose queries change with the position.

    Two texts of one token are read.

    Returns:
        Their numbers; None if there is none, or the model cannot be asked.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        ids = torch.ones((1, 1), dtype=torch.long, device=model.device)
        first, second = (_met(model, ids, position).found for position in (0, 1))
    except Exception:  # no weights, or a model that asks for more than tokens
        return None
    finally:
        for module, mode in modes.items():
            module.training = mode
    return [
        layer
        for layer, pairs in sorted(first.items())
        if layer not in second or not torch.equal(pairs[0][0], second[layer][0][0])
    ] or None


def rotations(model: Any, length: int, reach: int = 0) -> list[Rotation]:
    """Return what every layer with attention does to its queries and keys.

    Args:
        model: tiny, random, in evaluation mode.
        length: positions that are tried, from 0.
        reach: a position of the same text that is read beside them.

    Raises:
        UnsupportedModelError: if queries and keys cannot be met.
    """
    name = type(model).__name__
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise UnsupportedModelError(
            f"{name}: has no rotary positions that can be measured: it takes no "
            f"position_ids; {WOULD_WORK}"
        )
    draw = torch.Generator().manual_seed(1)
    count = model.get_input_embeddings().num_embeddings
    shapes = _met(model, torch.ones((2, 1), dtype=torch.long), 0, reach=reach).found
    widths = [q.shape[-1] for pairs in shapes.values() for q, _ in pairs]
    ids = torch.randint(
        min(2, count - 1), count, (max([0, *widths]) + 16, 1), generator=draw
    )
    steps = sorted({*(step for step in STEPS if step < length), length - 1} - {0})
    still = _met(model, ids, 0, reach=reach).found
    plain = _met(model, ids, steps[0], plain=True, reach=reach)
    moved = {step: _met(model, ids, step, reach=reach).found for step in steps}
    if not still:
        raise UnsupportedModelError(
            f"{name}: has no products of queries and keys that can be measured; "
            f"{WOULD_WORK}"
        )
    found = []
    for layer in sorted({*layers_of(model).values()}):
        if layer not in still:
            fault = "has no products of queries and keys"
            found.append(Rotation(layer, 0, fault=fault))
            continue
        counts = {len(one[layer]) for one in (still, plain.found, *moved.values())}
        made = [
            _rotation(
                layer,
                _pair(plain.found, layer, i) if layer in plain.replaced else None,
                _pair(still, layer, i),
                {step: _pair(one, layer, i) for step, one in moved.items()},
            )
            for i in range(min(counts))
        ]
        if len(counts) > 1 or not all(_same(made[0], one) for one in made):
            fault = "has several products of queries and keys, turned differently"
            made = [Rotation(layer, made[0].width, fault=fault)]
        found.append(made[0])
    return found


def _same(one: Rotation, other: Rotation) -> bool:
    """Return whether two products of a layer are turned alike."""
    if one.frequencies is None or other.frequencies is None:
        return one.fault == other.fault and one.pairs == other.pairs
    close = torch.allclose(one.frequencies, other.frequencies, rtol=EXACT, atol=0)
    return one.pairs == other.pairs and close


Pair = tuple[Tensor, Tensor]


def _pair(found: dict[int, list[Pair]], layer: int, number: int) -> Pair:
    """Return queries and keys of a layer, `(row, channel)`, without the last text."""
    q, k = found[layer][number]
    rows = [
        one.reshape(-1, *one.shape[-3:]) if one.dim() > 3 else one for one in (q, k)
    ]
    q, k = (one[:-1].reshape(-1, one.shape[-1]) for one in rows)
    return q, k


def _rotation(
    layer: int, plain: Pair | None, still: Pair, moved: dict[int, Pair]
) -> Rotation:
    """Return the rotation of one layer, from its queries and keys.

    Args:
        layer: its number.
        plain: with tables that turn nothing; None if it takes no tables.
        still: at position 0.
        moved: by position.
    """
    width = still[0].shape[-1]
    base = still if plain is None else plain
    if torch.linalg.matrix_rank(base[0]) < width:
        return Rotation(layer, width, fault="has queries that span too few channels")
    solved: dict[int, Tensor] = {}
    for step, (q, k) in {0: still, **moved}.items():
        made = torch.linalg.lstsq(base[0], q).solution
        for what, before, after in (("queries", base[0], q), ("keys", base[1], k)):
            off = (before @ made - after).abs().max() / after.abs().max()
            if not off < EXACT:
                fault = f"changes {what} with the position otherwise than by a rotation"
                return Rotation(layer, width, fault=fault)
        solved[step] = made.T
    at_start = solved[0] - solved[0].diag().diag()
    if plain is not None and at_start.abs().max() > EXACT:  # sines before cosines
        return _rotation(layer, None, still, moved)
    known = plain is not None
    eye = torch.eye(width, dtype=torch.float64)
    offdiag = sum((m - m.diag().diag()).abs() for s, m in solved.items() if s)
    assert isinstance(offdiag, Tensor)
    partner = offdiag.argmax(dim=1)
    turns = offdiag.amax(dim=1) > 1e-9
    turns &= turns[partner] & (partner[partner] == torch.arange(width))
    pairs = [(i, int(partner[i])) for i in range(width) if turns[i] and i < partner[i]]
    if not pairs:
        last = solved[max(solved)]
        if (last - eye).abs().max() > EXACT:
            return Rotation(layer, width, fault="scales queries by their position")
        return Rotation(layer, width, factor=1.0)
    rows = torch.tensor(pairs)
    first, second = rows.T
    factor = solved[0][first, first]
    frequencies = torch.zeros(len(pairs), dtype=torch.float64)
    for step in sorted(moved):
        m = solved[step]
        angle = torch.atan2(m[second, first], m[first, first])
        known_angle = frequencies * step
        turn = torch.round((known_angle - angle) / (2 * torch.pi))
        sure = torch.ones(len(pairs), dtype=torch.bool)
        if step != min(moved):  # what is known must tell which turn it is
            sure = (frequencies * step).abs() < 2e4
        found = (angle + 2 * torch.pi * turn) / step
        frequencies = torch.where(sure, found, frequencies)
    both = zip(pairs, frequencies, strict=True)
    pairs = [(a, b) if f > 0 else (b, a) for (a, b), f in both]
    made = Rotation(
        layer,
        width,
        tuple(pairs),
        frequencies.abs(),
        float(factor.mean()) if known else None,
    )
    if _holds(made, solved):
        return made
    return Rotation(layer, width, fault="turns queries by more than fixed frequencies")


def _holds(made: Rotation, solved: dict[int, Tensor]) -> bool:
    """Return whether a rotation gives what was measured at every position."""
    assert made.frequencies is not None
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
