"""Checks of gradients and rounding: C15 to C17."""

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_compare.attention import Session
from posenc_compare.check.checks import ContractError, check, expect, expect_close
from posenc_compare.check.harness import (
    DIM,
    HALVES,
    WIDTH,
    Layer,
    Subject,
    rounded_buffers,
    tokens,
)

LAST_POSITION = 16_384  # positions; bfloat16 rounds many of them to the same number
NUMBER = re.compile(r"input (\d+)")  # by which gradcheck names an input


class Narrow(TorchDispatchMode):
    """Record the operations that return numbers of some dtypes.

    `seen` holds their names and dtypes.
    """

    def __init__(self, *dtypes: torch.dtype) -> None:
        super().__init__()
        self.dtypes = dtypes
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for got in out if isinstance(out, tuple | list) else (out,):
            if isinstance(got, Tensor) and got.dtype in self.dtypes:
                self.seen.append(f"{func.__name__} in {got.dtype}")
        return out


@check("C15", "has gradients that equal finite differences", length=(3, 40))
def _gradients_equal_finite_differences(subject: Subject, length: int) -> None:
    scheme = subject.build()
    layer, positions = Layer(scheme), subject.positions(length)
    named = {f"`{n}`": p for n, p in scheme.named_parameters() if p.requires_grad}
    x = tokens(length, batch=1).requires_grad_()
    inputs = {"the tokens": x, **named}

    def output(x: Tensor, *_: Tensor) -> Tensor:
        return layer(x, positions)

    hidden = _unregistered_tensors(scheme)
    expect(not hidden, "trained tensors in nn.Parameter or ParameterList", hidden)
    found = torch.autograd.grad(output(x).sum(), [*inputs.values()], allow_unused=True)
    gradients = dict(zip(inputs, found, strict=True))
    for name, gradient in gradients.items():
        right = gradient is None or bool(gradient.isfinite().all())
        expect(right, f"a finite gradient of {name}", "NaN or infinity")
    try:
        torch.autograd.gradcheck(output, [*inputs.values()], fast_mode=True)
    except GradcheckError as error:
        place = NUMBER.search(str(error))
        name = [*inputs][int(place[1])] if place else "an input"
        with Narrow(torch.float32) as rounded, torch.no_grad():
            output(x)
        why = "; a hook computes in float32 here, and may round" if rounded.seen else ""
        if gradients.get(name) is None:
            why = "; no gradient reaches it: is it detached, or kept from another pass?"
        raise ContractError(
            f"expected the gradient of {name} that finite differences give, got "
            f"another{why}"
        ) from error


def _unregistered_tensors(scheme: nn.Module) -> list[str]:
    """Return the attributes with trained tensors that no optimiser gets."""
    known = {*scheme.parameters()}
    found = []
    for module in scheme.modules():
        for name, held in vars(module).items():
            parts = held.values() if isinstance(held, dict) else held
            for part in parts if isinstance(held, dict | list | tuple) else [held]:
                own = part.parameters() if isinstance(part, nn.Module) else [part]
                found += [name for x in own if _is_trained(x) and x not in known]
    return found


def _is_trained(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_leaf and x.requires_grad


@check("C16", "is accurate to rounding in float32", length=(1, 3, 24, 100))
def _float32_is_accurate(subject: Subject, length: int) -> None:
    x, positions = tokens(length).float().double(), subject.positions(length)
    exact = subject.build(noise=0.1)
    wide = exact.to(torch.float32).double()  # parameters that float32 can hold
    wanted = Layer(wide)(x, positions)
    got = Layer(wide.float())(x.float(), positions)
    # The bound allows for rounding of a few hundred operations of order one, and of
    # the angles.
    expect_close(got, wanted, 2e-5 + 8 * length * 2.0**-24, "output in float32")


@check("C17", "keeps positions exact in half precision", start=(300, 15_950))
def _half_precision_keeps_positions_exact(subject: Subject, start: int) -> None:
    # bfloat16 rounds 15962 and 15966 to the same number. Arithmetic on positions in
    # bfloat16 would give both the same code.
    layer, half = (Layer(subject.build(LAST_POSITION, noise=0)) for _ in range(2))
    half.scheme.bfloat16()
    with torch.no_grad():
        for wide, rounded in zip(
            layer.scheme.parameters(), half.scheme.parameters(), strict=True
        ):
            wide.copy_(rounded)
    start = max(0, min(start, subject.limit(layer, LAST_POSITION, torch.bfloat16) - 17))
    x = tokens(1).bfloat16().expand(2, 2, WIDTH)
    ids = (0, start, start + 12, start + 16)
    places = torch.cat(
        [subject.positions(1, start=i, length=LAST_POSITION) for i in ids]
    )
    _expect_no_half_precision(layer, places)
    why = rounded_buffers(half.scheme)
    if not why and any(True for _ in half.scheme.parameters()):
        why = " (call `.double()` on a parameter before you compute with it)"
    for pair in ([0, 1], [1, 2], [1, 3], [2, 3]):
        exact, session = (Session(one.scheme, places[pair]) for one in (layer, half))
        wanted = exact.embed(torch.zeros_like(x).double())
        got = session.embed(torch.zeros_like(x)).double()
        most = max(1.0, wanted.abs().max().item())
        expect_close(got, wanted, 2.0**-8 * most, f"code in bfloat16{why}")
        q, k = (layer.heads(x, role) for role in range(2))
        got = session.logits(0, q, k, x=x)
        wanted = exact.logits(0, q.double(), k.double(), x=x.double())
        # Queries and keys may be rounded once each after their hooks.
        size = q.double().norm(dim=-1).max() * k.double().norm(dim=-1).max()
        bound = 2.0**-6 * (size * layer.scheme.scale(DIM) + 1).item()
        offset = torch.tensor([ids[pair[0]] - ids[pair[1]]])
        what = f"logits in bfloat16{why}"
        bias, own = (one.scheme.offset_bias(offset) for one in (half, layer))
        if bias is not None and own is not None and bias.dtype in HALVES:
            if (bias.double() - own.double()).abs().max() > bound:
                what = "logits in bfloat16 (offset_bias is rounded; compute it from "
                what += "`offsets.double()`)"
        expect_close(got.double(), wanted, bound, what)


def _expect_no_half_precision(layer: Layer, positions: Tensor) -> None:
    """Expect no rounding to half precision if no input has half precision."""
    for dtype in (torch.float64, torch.float32):
        x = tokens(len(positions)).to(dtype)
        with Narrow(*HALVES) as halves:
            layer(x, positions)
            layer.logits(x, positions)
        expected = f"no half precision in a call in {dtype}"
        expect(not halves.seen, expected, ", ".join(dict.fromkeys(halves.seen)))
