"""Cost of attention: time and memory of one layer by length, beside the bare kernel.

A text of n tokens goes through what a scheme does in one layer of a model: the plan of
the pass, the code added to tokens, rotations or biases, and attention. In the same
rounds runs torch's causal kernel, to which nothing is added. Both meet the same noise,
so the ratio says more than the time. Nothing else computes beside them.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention import Explanation, Session, explain
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.measures.measure import (
    Curve,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.memory import peak_memory
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.train.progress import Progress

SHORTER = (16, 4, 1)  # the lengths are `positions` divided by these
ROUNDS, LEAST, ENOUGH = 9, 3, 4.0  # rounds; after so many, so many seconds are enough
X = "length n, in tokens"
RATIO = "ratio to causal attention to which nothing is added"
NOTHING = "the whole takes no time"


def _time(name: str, title: str) -> tuple[Quantity, Quantity]:
    """Return the quantities of a median time and of its ratio to the kernel."""
    facts = {"better": "lower", "zero": NOTHING, "x": X, "repeatable": False}
    return (
        Quantity(f"{name}_ms", "milliseconds", **facts, title=f"{title}, ms"),
        Quantity(f"{name}_ratio", RATIO, **facts, title=f"{title} / kernel"),
    )


def _memory(name: str, title: str) -> Quantity:
    zero = "no tensor is made beside the input"
    facts = {"better": "lower", "zero": zero, "x": X, "repeatable": False}
    return Quantity(f"{name}_mib", "MiB", **facts, title=f"{title}, MiB")


FORWARD = _time("forward", "attention forward")
GRADIENT = _time("gradient", "attention with gradient")
DECODE = _time("decode", "decoding step after n - 1 tokens")
FORWARD_MEMORY = _memory("forward", "attention forward")
GRADIENT_MEMORY = _memory("gradient", "attention with gradient")
PARAMETERS = Quantity(
    "parameters",
    unit="numbers",
    better="lower",
    zero="the scheme learns nothing",
    title="parameters in one layer",
)
QUANTITIES = (*FORWARD, *GRADIENT, *DECODE, FORWARD_MEMORY, GRADIENT_MEMORY, PARAMETERS)


@dataclass(frozen=True)
class Inputs:
    """What one layer is given: tokens, and their queries, keys and values."""

    x: Tensor  # (1, n, width)
    q: Tensor  # (1, heads, n, head_dim)
    k: Tensor  # the same
    v: Tensor  # the same

    @classmethod
    def of(cls, probe: Probe, count: int) -> "Inputs":
        """Return random inputs of so many tokens."""
        shape = (1, probe.heads, count, probe.geometry.head_dim)
        heads = (probe.normal(purpose, *shape) for purpose in ("query", "key", "value"))
        return cls(probe.normal("tokens", 1, count, probe.width), *heads)

    def with_gradient(self) -> "Inputs":
        """Return copies that take a gradient."""
        parts = (self.x, self.q, self.k, self.v)
        return Inputs(*(part.clone().requires_grad_() for part in parts))


@register_measure(
    "attention_cost",
    quantities=QUANTITIES,
    views=(
        Curve(FORWARD[1]),
        Curve(GRADIENT[1]),
        Curve(DECODE[1]),
        Curve(GRADIENT_MEMORY),
        Headline(PARAMETERS),
    ),
    once=True,
    exclusive=True,
    extra=True,
)
def attention_cost(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Time and memory of attention forward, with gradient and in decoding, by length.

    The scheme is built for `positions`; the lengths are a sixteenth of that, a quarter,
    and all of it. The dtype, width and heads are those of the probe.

    Returns:
        Rows by length: medians in milliseconds, their ratios to the kernel in the same
        rounds, and the most MiB of tensors. A forward row notes the path that was
        taken, and why no faster one was. A decoding step rotates all keys again, as a
        session without a cache does.
    """
    if probe.grid:
        x, note = probe.positions, "measured in a sequence only"
        return Result([Row(q.name, None, x, note=note) for q in QUANTITIES])
    scheme = probe.build(variant, trains=True)
    trained = (p.numel() for p in scheme.parameters() if p.requires_grad)
    rows = [Row(PARAMETERS.name, sum(trained))]
    for part in SHORTER:
        count = probe.positions // part
        if count > 1:
            rows += _rows(scheme, probe, count)
    return Result(rows)


def _rows(scheme: Scheme, probe: Probe, count: int) -> Iterator[Row]:
    """Yield the numbers of one length."""
    inputs = Inputs.of(probe, count)
    trained = inputs.with_gradient()

    def forward() -> None:
        with torch.no_grad():
            _attended(scheme, probe, inputs)

    def gradient() -> None:
        _attended(scheme, probe, trained).sum().backward()

    def kernel() -> None:
        with torch.no_grad():
            _kernel(inputs)

    def kernel_gradient() -> None:
        _kernel(trained).sum().backward()

    try:
        path = _path(_explained(scheme, probe, inputs))
    except UndefinedPositionError as error:
        note = f"not defined beyond {error.limit}"
        timed = (*FORWARD, *GRADIENT, *DECODE, FORWARD_MEMORY, GRADIENT_MEMORY)
        yield from (Row(quantity.name, None, count, note=note) for quantity in timed)
        return
    last = inputs.q[:, :, -1:]
    pairs = {
        FORWARD: (lambda: forward, kernel),
        GRADIENT: (lambda: gradient, kernel_gradient),
        DECODE: (
            lambda: _decoding(scheme, probe, inputs),
            lambda: F.scaled_dot_product_attention(last, inputs.k, inputs.v),
        ),
    }
    for (ms, ratio), (prepared, floor) in pairs.items():
        own, bare = _timed(prepared, floor, probe.device)
        note = path if ms is FORWARD[0] else ""
        yield Row(ms.name, 1e3 * own, count, note=note)
        yield Row(ratio.name, own / bare, count)
    for quantity, run in ((FORWARD_MEMORY, forward), (GRADIENT_MEMORY, gradient)):
        yield Row(quantity.name, peak_memory(run, probe.device) / 2**20, count)


def _attended(scheme: Scheme, probe: Probe, inputs: Inputs) -> Tensor:
    """Return the output of one layer, `(1, heads, n, head_dim)`."""
    session = _session(scheme, probe, inputs.x.shape[1])
    x = session.embed(inputs.x)
    return session.attend(0, inputs.q, inputs.k, inputs.v, x=x)


def _decoding(scheme: Scheme, probe: Probe, inputs: Inputs) -> Callable[[], object]:
    """Return what feeds the last token, where all before it have been fed."""
    count = inputs.x.shape[1]
    session = _session(scheme, probe, count, count - 1)
    with torch.no_grad():
        x = session.embed(inputs.x[:, :-1])
        q, k = (part[:, :, :-1] for part in (inputs.q, inputs.k))
        session.call(0, q, k, x=x)  # which keeps token states
    last, q = inputs.x[:, -1:], inputs.q[:, :, -1:]

    def step() -> None:
        with torch.no_grad():
            session.extend()
            session.attend(0, q, inputs.k, inputs.v, x=session.embed(last))

    return step


def _session(
    scheme: Scheme, probe: Probe, count: int, fed: int | None = None
) -> Session:
    return probe.session(scheme, probe.arange(count), causal=True, fed=fed)


def _kernel(inputs: Inputs) -> Tensor:
    return F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, is_causal=True)


def _explained(scheme: Scheme, probe: Probe, inputs: Inputs) -> Explanation:
    session = _session(scheme, probe, inputs.x.shape[1])
    with torch.no_grad():
        x = session.embed(inputs.x)
        state = session.call(0, inputs.q, inputs.k, x=x).state
        return explain(
            inputs.q,
            inputs.k,
            inputs.v,
            scheme=scheme,
            positions=session.ids,
            state=state,
        )


def _path(found: Explanation) -> str:
    """Return which path is taken, and why none of those that are faster."""
    reasons = [f"{name}: {found.others[name]}" for name in found.faster]
    return "; ".join([f"path {found.path}", *reasons])


def _timed(
    prepared: Callable[[], Callable[[], object]],
    floor: Callable[[], object],
    device: str,
) -> tuple[float, float]:
    """Return the median seconds of a run and of its floor, in turn in every round.

    `prepared` returns a new run; what it does itself is not timed.
    """
    taken: list[tuple[float, float]] = []
    while len(taken) < ROUNDS + 1:
        taken.append((_seconds(prepared(), device), _seconds(floor, device)))
        if len(taken) > LEAST and np.sum(taken) > ENOUGH:
            break
    own, bare = np.median(taken[1:], axis=0)
    return float(own), float(bare)


def _seconds(run: Callable[[], object], device: str) -> float:
    """Return the seconds of a run, until the device has done all of it."""
    if device != "cpu":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    run()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
