"""Conformance: what every scheme must do, its own or a newcomer's, by what it declares.

Twenty-four checks, each on the smallest input that can show a fault: a check goes up
a ladder of sizes, and a failure names the first rung that shows it. Parameters are
moved away from their start, because a check at initialisation alone misses real
faults. No check knows any scheme by name.
"""

import functools
import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import torch
from safetensors.torch import load, save
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.errors import ConfigError, ShapeError, UndefinedPositionError
from posenc_compare.registry import NAME, SCHEMES
from posenc_compare.schemes.base import Geometry, Scheme
from posenc_compare.variants import Variant, option_types, parse_variants

EXACT = 1e-10  # of float64, on values of order one
HEADS, DIM = 2, 8
WIDTH = HEADS * DIM
SHIFTS = (1, 64, 4096)
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
ACTS = {"subprocess.Popen", "os.fork", "os.system", "socket.connect", "socket.bind"}
ELSEWHERE = """
import json, sys
request = json.loads(sys.argv[1])
sys.path[:] = request["path"]
from posenc_compare.conformance import look_from_inside
print(json.dumps(look_from_inside(request)))
"""
COST = 10.0  # seconds of one core that one call over 4096 positions may take
IMPORT = 2.0  # seconds that the scheme's own import may take


class ContractError(AssertionError):
    """What was expected, what came."""


@dataclass(frozen=True)
class Subject:
    """A scheme under check.

    Attributes:
        variant: the scheme with its options.
        plugin: where it was given from, for a process of its own; or nothing.
    """

    variant: Variant
    plugin: str = ""

    @property
    def scheme(self) -> type[Scheme]:
        """Return the class."""
        return SCHEMES.get(self.variant.name)

    def build(self, length: int = 256, *, noise: float = 0.5, **sizes: int) -> Scheme:
        """Return a scheme in float64, its parameters moved by noise of that size."""
        geometry = Geometry(
            **{"model_dim": WIDTH, "heads": HEADS, "length": length, **sizes}
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            scheme = self.variant.build(geometry).double().eval()
        with torch.no_grad():
            for number, parameter in enumerate(scheme.parameters()):
                parameter += noise * normal(*parameter.shape, seed=100 + number)
        return scheme

    def limit(self, length: int, dtype: torch.dtype) -> int:
        """Return how many positions a scheme built for `length` defines, at most that.

        A scheme that defines fewer says so by `UndefinedPositionError`.
        """
        layer = Layer(self.build(length, noise=0, model_dim=64, heads=8).to(dtype))
        last = self.positions(1, start=length - 1, length=length)
        try:
            layer(tokens(1, width=64).to(dtype), last)
        except UndefinedPositionError as error:
            return error.limit
        return length

    def elsewhere(self) -> dict[str, Any]:
        """Return what a process of its own finds out about this scheme."""
        return elsewhere(self.plugin, self.variant.label)[self.variant.label]

    def positions(self, count: int, *, start: int = 0, length: int = 256) -> Tensor:
        """Return positions of a sequence; of several axes, those of a square's rows."""
        steps = torch.arange(start, start + count)
        if self.scheme.axes == 1:
            return steps
        side = math.isqrt(length - 1) + 1
        places = [steps // side, *[steps % side] * (self.scheme.axes - 1)]
        return torch.stack(places, -1)


@dataclass(frozen=True)
class Layer:
    """One attention layer over a scheme: embed, project, attend; weights are fixed."""

    scheme: Scheme

    def heads(self, x: Tensor, role: int) -> Tensor:
        """Project `(batch, seq, width)` to `(batch, heads, seq, head_dim)`."""
        heads = self.scheme.geometry.heads
        weight = normal(x.shape[-1], x.shape[-1], seed=10 + role) / x.shape[-1] ** 0.5
        return (x @ weight.to(x.dtype)).unflatten(-1, (heads, -1)).transpose(1, 2)

    def ids(self, positions: Tensor) -> Tensor:
        """Return the position ids that the scheme makes of these, drawing none."""
        return self.scheme.positions(positions)

    def __call__(
        self,
        x: Tensor,
        positions: Tensor,
        segments: Tensor | None = None,
        causal: bool = True,
    ) -> Tensor:
        """Return `(batch, heads, seq, head_dim)`."""
        ids = self.ids(positions)
        x = self.scheme.embed(x, ids)
        return attention(
            *(self.heads(x, role) for role in range(3)),
            scheme=self.scheme,
            positions=ids,
            segments=segments,
            causal=causal,
            state=self.scheme.token_state(x),
        )

    def logits(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return logits `(batch, heads, seq, seq)`."""
        ids = self.ids(positions)
        x = self.scheme.embed(x, ids)
        return attention_logits(
            self.heads(x, 0),
            self.heads(x, 1),
            scheme=self.scheme,
            positions=ids,
            state=self.scheme.token_state(x),
        )

    def decode(
        self, x: Tensor, positions: Tensor, steps: list[int], segments: Tensor | None
    ) -> Tensor:
        """Feed the tokens in pieces, keeping raw keys, values, positions and state."""
        ids = self.ids(positions)
        embedded = self.scheme.embed(x, ids)
        axis = ids.dim() - (1 if self.scheme.axes == 1 else 2)
        keys, values, state, outs, start = [], [], None, [], 0
        for step in steps:
            end = start + step
            piece = embedded[:, start:end]
            keys.append(self.heads(piece, 1))
            values.append(self.heads(piece, 2))
            state = self.scheme.token_state(piece, state)
            outs.append(
                attention(
                    self.heads(piece, 0),
                    torch.cat(keys, 2),
                    torch.cat(values, 2),
                    scheme=self.scheme,
                    positions=ids.narrow(axis, start, step),
                    key_positions=ids.narrow(axis, 0, end),
                    segments=None if segments is None else segments[:, :end],
                    state=state,
                )
            )
            start = end
        return torch.cat(outs, 2)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Return standard normal numbers in float64, a function of the seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def tokens(count: int, *, batch: int = 2, seed: int = 0, width: int = WIDTH) -> Tensor:
    """Return token vectors `(batch, count, width)`, a prefix of those of more."""
    drawn = normal(batch, 128, width, seed=seed)
    return drawn.repeat(1, math.ceil(count / 128) or 1, 1)[:, :count].clone()


def expect(condition: Any, expected: str, got: Any) -> None:
    """Raise `ContractError` unless the condition holds."""
    if not condition:
        raise ContractError(f"expected {expected}, got {got}")


def expect_close(got: Tensor, wanted: Tensor, bound: float, what: str) -> None:
    """Raise `ContractError` unless two tensors agree within an absolute bound."""
    expect(got.shape == wanted.shape, f"{what} of {tuple(wanted.shape)}", got.shape)
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    apart = torch.where(same, 0.0, (got.double() - wanted.double()).abs())
    worst = apart.max().item() if apart.numel() else 0.0
    expect(worst <= bound, f"{what} within {bound:.1e}", f"{worst:.1e} apart")


@dataclass(frozen=True)
class Check:
    """One thing that every scheme must do.

    Attributes:
        code: C01 to C24.
        title: what is checked.
        run: `(subject, rung)`; raises an error where it does not hold.
        ladder: rungs from the smallest input up.
        not_for: returns why a scheme is exempt by what it declares, or nothing.
    """

    code: str
    title: str
    run: Callable[[Subject, Any], None]
    ladder: tuple[Any, ...]
    not_for: Callable[[type[Scheme]], str]


@dataclass(frozen=True)
class Outcome:
    """What a check found: passed, failed, expected to fail, or not applicable."""

    check: Check
    state: str
    detail: str = ""


CHECKS: dict[str, Check] = {}


def check(
    code: str,
    title: str,
    *ladder: Any,
    not_for: Callable[[type[Scheme]], str] = lambda scheme: "",
) -> Callable[[Callable[[Subject, Any], None]], Callable[[Subject, Any], None]]:
    """File a check under its code."""

    def file(run: Callable[[Subject, Any], None]) -> Callable[[Subject, Any], None]:
        CHECKS[code] = Check(code, title, run, ladder or (None,), not_for)
        return run

    return file


def run_check(subject: Subject, code: str) -> Outcome:
    """Run one check; the first rung that fails is the smallest that shows the fault."""
    found = CHECKS[code]
    if reason := found.not_for(subject.scheme):
        return Outcome(found, "not applicable", reason)
    known = subject.scheme.known_faults.get(code, "")
    for rung in found.ladder:
        try:
            found.run(subject, rung)
        except Exception as fault:
            name = (
                "" if isinstance(fault, ContractError) else f"{type(fault).__name__}: "
            )
            where = "" if rung is None else f" (smallest input: {rung})"
            detail = f"{name}{fault}{where}"
            if known:
                return Outcome(found, "expected to fail", f"{known}: {detail}")
            return Outcome(found, "failed", detail)
    if known:
        return Outcome(found, "failed", f"expected to fail ({known}), and passes")
    return Outcome(found, "passed")


@check("C01", "builds with its defaults", 8, 512)
def _builds(subject: Subject, length: int) -> None:
    scheme = subject.build(length, noise=0)
    expect(isinstance(scheme, Scheme), "an instance of Scheme", type(scheme).__name__)
    start = scheme.query_start(DIM)
    expect(0 < start <= 1, "query_start in (0, 1]", start)
    product = start * scheme.scale(DIM)
    expect(0 < product <= 1, "a scale in (0, 1]", product)


@check("C02", "has a valid name, declared once, with its facts")
def _named(subject: Subject, _: None) -> None:
    name = subject.variant.name
    entry = SCHEMES.entry(name)
    expect(NAME.fullmatch(name), "a valid name", name)
    expect(subject.scheme.name == name, name, subject.scheme.name)
    expect(entry.summary.endswith("."), "a docstring of one sentence", entry.summary)
    expect(subject.scheme.source, "a source", "none")


@check("C03", "options can be typed, read back and kept as JSON")
def _options(subject: Subject, _: None) -> None:
    name = subject.variant.name
    for key, (kind, default) in option_types(name).items():
        expect(isinstance(default, bool | int | float | str), "a default", default)
        for value in get_args(kind) if get_origin(kind) else (default,):
            variant = Variant(name, {key: value})
            (read,) = parse_variants(variant.label)
            options = {} if value == default else {key: value}
            expect(read.options == options, f"{key}={value} read back", read.options)
            expect(json.loads(json.dumps(options)) == options, "JSON", options)
            if get_origin(kind):
                try:
                    Subject(variant).build()
                except ConfigError:
                    continue


@check(
    "C04",
    "keeps shapes and dtypes",
    *((batch, dtype, cast) for batch in (1, 3) for dtype in DTYPES for cast in (0, 1)),
)
def _shapes(subject: Subject, rung: tuple[int, torch.dtype, int]) -> None:
    batch, dtype, cast = rung
    scheme = subject.build(noise=0).to(dtype if cast else torch.float32)
    x, positions = tokens(5, batch=batch).to(dtype), subject.positions(5)
    layer = Layer(scheme)
    ids = layer.ids(positions)
    q = layer.heads(x, 0)
    for door, given in (("embed", x), ("query", q), ("key", q)):
        got = getattr(scheme, door)(given, ids)
        expect(got.shape == given.shape, f"{door}: {tuple(given.shape)}", got.shape)
        expect(got.dtype == dtype, f"{door}: {dtype}", got.dtype)
    out = layer(x, positions)
    expect(out.shape == q.shape, f"output of {tuple(q.shape)}", tuple(out.shape))
    expect(out.dtype == dtype, f"output of {dtype}", out.dtype)
    logits = layer.logits(x, positions)
    wide = torch.promote_types(dtype, torch.float32)
    expect(logits.dtype == wide, f"logits of {wide}", logits.dtype)
    future = torch.ones(5, 5).triu(1).bool().expand_as(logits)
    expect((logits.isneginf() == future).all(), "-inf in the future alone", "other")


@check("C05", "takes sequences of no token and of one", 0, 1)
def _short(subject: Subject, length: int) -> None:
    layer = Layer(subject.build())
    x, positions = tokens(length), subject.positions(length)
    embedded = layer.scheme.embed(x, positions)
    expect(embedded.shape == x.shape, f"{length} tokens", tuple(embedded.shape))
    if not length:  # there is nothing to attend to
        return
    out = layer(x, positions)
    expect(out.shape == (2, HEADS, length, DIM), f"{length} outputs", tuple(out.shape))
    expect(out.isfinite().all(), "finite outputs", "others")


@check("C06", "takes any length it is built for", 2, 3, 7, 127, 128, 129, 1000)
def _lengths(subject: Subject, length: int) -> None:
    try:
        layer = Layer(subject.build(length))
    except ConfigError:  # too short to be built for
        return
    out = layer(tokens(length, batch=1), subject.positions(length, length=length))
    expect(out.shape[2] == length, f"{length} outputs", out.shape[2])
    expect(out.isfinite().all(), "finite outputs", "others")


@check(
    "C07", "is right for an odd head size and any head count, or refuses", 1, 2, 3, 7
)
def _sizes(subject: Subject, size: int) -> None:
    for heads, head_dim in ((1, size), (3, size), (12, 8)):
        width = heads * head_dim
        try:
            scheme = subject.build(
                model_dim=width, heads=heads, head_dim=head_dim, noise=0.1
            )
            x = tokens(6, width=width)
            out = Layer(scheme)(x, subject.positions(6))
        except (ConfigError, ShapeError):
            continue
        expect(out.shape == (2, heads, 6, head_dim), "its shape", tuple(out.shape))
        expect(out.isfinite().all(), "finite outputs", "others")


@check("C08", "is finite as far as it is defined", 1000, 131_072)
def _far(subject: Subject, length: int) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        layer = Layer(
            subject.build(length, noise=0.01, model_dim=64, heads=8).to(dtype)
        )
        x = tokens(4, batch=1, width=64).to(dtype)
        start = max(0, subject.limit(length, dtype) - 4)
        logits = layer.logits(x, subject.positions(4, start=start, length=length))
        expect(not logits.isnan().any(), f"no NaN in {dtype}", "NaN")
        seen = logits[..., torch.ones(4, 4).tril().bool()]
        expect(seen.isfinite().all(), f"finite logits in {dtype}", "others")


@check("C09", "gives the same bits twice, also in another process")
def _repeats(subject: Subject, _: None) -> None:
    first, second = digest(subject), digest(subject)
    expect(first == second, "the same bits", "others")
    facts = subject.elsewhere()
    expect(facts["digest"] == first, "the same bits in another process", "others")


@check("C10", "leaves the process as it found it")
def _clean(subject: Subject, _: None) -> None:
    scheme = subject.build()
    before = process_state()
    _use(subject, scheme)
    after = process_state()
    changed = [name for name in before if before[name] != after[name]]
    expect(not changed, "no change of the process", ", ".join(changed))


@check("C11", "leaves its inputs as they were", False, True)
def _inputs(subject: Subject, segmented: bool) -> None:
    scheme = subject.build()
    layer = Layer(scheme)
    x, positions = tokens(6), subject.positions(6)
    segments = torch.tensor([[0, 0, 1, 1, 1, 2]] * 2) if segmented else None
    given = [x, positions, *scheme.parameters(), *([segments] if segmented else [])]
    before = [tensor.detach().clone() for tensor in given if tensor is not None]
    layer(x, positions, segments)
    layer.logits(x, positions)
    for tensor, old in zip([t for t in given if t is not None], before, strict=True):
        expect(torch.equal(tensor.detach(), old), "unchanged inputs", "changed ones")


@check("C12", "does not care how its inputs lie in memory")
def _strides(subject: Subject, _: None) -> None:
    layer = Layer(subject.build())
    wide = normal(9, 2, 2 * WIDTH)
    x = wide.transpose(0, 1)[..., ::2]
    positions = subject.positions(18)[::2]
    got = layer(x, positions)
    tidy = layer(x.contiguous(), positions.contiguous())
    expect_close(got, tidy, EXACT, "output of strided input")


@check("C13", "treats every row of a batch alone", 1, 2, 9)
def _batches(subject: Subject, length: int) -> None:
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        layer = Layer(subject.build().to(dtype))
        x = tokens(length, batch=3).to(dtype)
        rows = [subject.positions(length, start=start) for start in (0, 5, 100)]
        whole = layer(x, torch.stack(rows))
        for row, positions in enumerate(rows):
            alone = layer(x[row : row + 1], positions)
            expect_close(whole[row : row + 1], alone, bound, f"row {row}")


@check(
    "C14",
    "keeps its heads apart",
    2,
    5,
    not_for=lambda scheme: "mixes heads" if scheme.mixes_heads else "",
)
def _heads(subject: Subject, length: int) -> None:
    scheme = subject.build()
    q, k, v = (normal(1, HEADS, length, DIM, seed=seed) for seed in range(3))
    positions = Layer(scheme).ids(subject.positions(length))
    state = scheme.token_state(tokens(length, batch=1))
    before = attention(q, k, v, scheme=scheme, positions=positions, state=state)
    other = q.clone()
    other[:, 1] += 1
    after = attention(other, k, v, scheme=scheme, positions=positions, state=state)
    expect_close(after[:, 0], before[:, 0], 1e-12, "output of an untouched head")


@check("C15", "has the gradient of what it computes", 3)
def _gradients(subject: Subject, length: int) -> None:
    scheme = subject.build()
    layer, positions = Layer(scheme), subject.positions(length)
    trained = [p for p in scheme.parameters() if p.requires_grad]
    x = tokens(length, batch=1).requires_grad_()

    def output(x: Tensor, *_: Tensor) -> Tensor:
        return layer(x, positions)

    torch.autograd.gradcheck(output, (x, *trained), fast_mode=True)


@check("C16", "is as right in float32 as float32 allows", 1, 3, 24, 100)
def _single(subject: Subject, length: int) -> None:
    x, positions = tokens(length).float().double(), subject.positions(length)
    exact = subject.build(noise=0.1)
    wide = exact.to(torch.float32).double()  # parameters that float32 can hold
    wanted = Layer(wide)(x, positions)
    got = Layer(wide.float())(x.float(), positions)
    # Rounding of a few hundred sums and products of order one, and of angles.
    expect_close(got, wanted, 2e-5 + 8 * length * 2.0**-24, "output in float32")


@check("C17", "keeps positions exact in half precision", 300, 15_950)
def _half(subject: Subject, start: int) -> None:
    # 15962 and 15966 are one number in bfloat16: arithmetic on positions in it would
    # give both the same code.
    layer = Layer(subject.build(16_384, noise=0))
    start = min(start, subject.limit(16_384, torch.bfloat16) - 17)
    x = tokens(1).bfloat16().expand(2, 2, WIDTH)
    ids = torch.cat(
        [subject.positions(1, start=start + n, length=16_384) for n in (0, 12, 16)]
    )
    for pair in ([0, 1], [0, 2], [1, 2]):
        positions = layer.ids(ids[pair])
        wide = layer.scheme.embed(torch.zeros_like(x).double(), positions)
        half = layer.scheme.embed(torch.zeros_like(x), positions)
        most = max(1.0, wide.abs().max().item())
        expect_close(half.double(), wide, 2.0**-8 * most, "code in bfloat16")
        q, k = (layer.heads(x, role) for role in range(2))
        sent = {"scheme": layer.scheme, "positions": positions}
        state = layer.scheme.token_state(x)
        got = attention_logits(q, k, **sent, state=state)
        state = layer.scheme.token_state(x.double())
        wanted = attention_logits(q.double(), k.double(), **sent, state=state)
        # Queries and keys may be rounded once each after their doors.
        size = q.double().norm(dim=-1).max() * k.double().norm(dim=-1).max()
        bound = 2.0**-6 * (size * layer.scheme.scale(DIM) + 1).item()
        expect_close(got.double(), wanted, bound, "logits in bfloat16")


@check("C18", "gives a prefix the outputs it has in the whole", 1, 2, 3, 7, 64)
def _prefix(subject: Subject, length: int) -> None:
    layer = Layer(subject.build())
    x, positions = tokens(65), subject.positions(65)
    got = layer(x[:, :length], positions[:length])
    expect_close(got, layer(x, positions)[:, :, :length], 1e-11, "output of a prefix")


@check("C19", "takes positions as they are given", 1, 2, 7)
def _given(subject: Subject, length: int) -> None:
    layer = Layer(subject.build())
    x = tokens(length)
    positions = 2 * subject.positions(length) + 1
    shared = layer(x, positions)
    rows = layer(x, positions.expand(2, *positions.shape))
    expect_close(rows, shared, 1e-12, "output of a row of positions each")
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0))
    mixed = layer(x, torch.stack([positions[order], positions]))
    expect_close(mixed[1:], shared[1:], 1e-12, "output of a row beside another order")


@check(
    "C20",
    "decodes with a cache as in one pass",
    *((steps, noise) for steps in ([1, 1], [3, 4, 4], [1] * 11) for noise in (0, 1)),
)
def _decoding(subject: Subject, rung: tuple[list[int], float]) -> None:
    steps, noise = rung
    layer = Layer(subject.build(noise=noise))
    length = sum(steps)
    x, positions = tokens(length), subject.positions(length)
    whole = layer(x, positions)
    expect_close(layer.decode(x, positions, steps, None), whole, EXACT, "decoding")
    segments = torch.tensor([[0] * (length // 2) + [1] * (length - length // 2)] * 2)
    whole = layer(x, positions, segments)
    got = layer.decode(x, positions, steps, segments)
    expect_close(got, whole, EXACT, "decoding of packed documents")


@check("C21", "is related to positions and tokens as it declares", 2, 9)
def _relations(subject: Subject, length: int) -> None:
    scheme = subject.build(8192)
    layer = Layer(scheme)
    x, positions = tokens(length), subject.positions(length)
    here = layer.logits(x, positions)
    seen = here.isfinite()
    if scheme.relative:
        for shift in SHIFTS:
            moved = layer.logits(x, positions + shift)
            expect_close(moved, here, EXACT, f"logits after a shift by {shift}")
    else:
        change = (layer.logits(x, positions + 4096) - here)[seen].abs().max().item()
        expect(change > 1e-6, "logits that a shift changes (or `relative`)", change)
    spread = (layer.logits(x, 2 * positions) - here)[seen].abs().max().item()
    blind = scheme.family == "none" or scheme.by_order
    expect(blind or spread > 1e-6, "logits that the distance changes", spread)
    other = x.clone()
    other[:, -1] += 1
    before, after = layer(x, positions), layer(other, positions)
    expect_close(after[:, :, :-1], before[:, :, :-1], 0, "output before a later token")
    change = (after - before)[:, :, -1].abs().max().item()
    expect(change > 1e-6, "an output that its own token changes", change)
    _documents(layer, subject, length)
    if not scheme.causal_only:
        free = layer(x, positions, causal=False)
        expect(free.isfinite().all(), "finite outputs without a mask", "others")
        expect_close(free[:, :, -1], before[:, :, -1], EXACT, "output that sees all")


def _documents(layer: Layer, subject: Subject, length: int) -> None:
    """Padding before a document, and documents beside it, change nothing."""
    x, positions = tokens(length), subject.positions(length)
    alone = layer(x, positions)
    padding = 5 * tokens(3, seed=8)
    both = torch.cat([padding, x], 1)
    segments = torch.tensor([[0] * 3 + [1] * length] * 2)
    for before in (torch.zeros_like(subject.positions(3)), subject.positions(3)):
        padded = layer(both, torch.cat([before, positions]), segments)
        expect_close(padded[:, :, 3:], alone, EXACT, "output after padding")


@check("C22", "is kept whole by its state", 9)
def _state(subject: Subject, length: int) -> None:
    one, other = subject.build(), subject.build(noise=0)
    x, positions = tokens(length), subject.positions(length)
    wanted = Layer(one)(x, positions)
    other.load_state_dict(load(save(dict(one.state_dict()))), strict=True)
    expect(torch.equal(Layer(other)(x, positions), wanted), "the same bits", "others")
    names = {name for name, _ in one.named_parameters()}
    expect(set(one.state_dict()) == names, "parameters alone", set(one.state_dict()))


@check("C23", "answers for 4096 positions in time", 4096)
def _cost(subject: Subject, length: int) -> None:
    layer = Layer(subject.build(length).float())
    x = tokens(length, batch=1).float()
    positions = subject.positions(length, length=length)
    start = time.process_time()
    with torch.no_grad():
        out = layer(x, positions)
    took = time.process_time() - start
    expect(out.isfinite().all(), "finite outputs", "others")
    expect(took <= COST, f"at most {COST:g} s of one core", f"{took:.1f} s")


@check("C24", "is imported quickly and without a trace")
def _import(subject: Subject, _: None) -> None:
    facts = subject.elsewhere()
    expect(facts["seconds"] <= IMPORT, f"at most {IMPORT:g} s", facts["seconds"])
    expect(not facts["acts"], "no file, process or connection", facts["acts"])
    expect(facts["threads"] == 1, "one thread", facts["threads"])


def digest(subject: Subject) -> str:
    """Return a hash of what the scheme computes."""
    layer = Layer(subject.build())
    x, positions = tokens(9), subject.positions(9)
    parts = (layer(x, positions), layer.logits(x, positions))
    whole = b"".join(part.detach().numpy().tobytes() for part in parts)
    return hashlib.sha256(whole).hexdigest()


@functools.cache
def elsewhere(plugin: str, label: str) -> dict[str, dict[str, Any]]:
    """Import schemes in a fresh process, the built-in ones together.

    Returns:
        By label: seconds and acts of the import, threads after it, and a digest.
    """
    names = [label] if plugin else dict.fromkeys([*built_in(), label])
    request = json.dumps({"path": sys.path, "plugin": plugin, "labels": [*names]})
    done = subprocess.run(
        [sys.executable, "-B", "-c", ELSEWHERE, request],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=False,
    )
    expect(done.returncode == 0, "a process that ends well", done.stderr[-300:])
    return json.loads(done.stdout.splitlines()[-1])


def built_in() -> list[str]:
    """Return the names of this package's own schemes."""
    package = f"{SCHEMES.package}."
    entries = SCHEMES.entries()
    return [name for name, e in entries.items() if e.module.startswith(package)]


def look_from_inside(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Import schemes here, watching what that does; the other end of `elsewhere`."""
    acts: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and set(str(arguments[1] or "r")) & set("wax+")
        if writes or event in ACTS:
            acts.append(event)

    sys.addaudithook(watch)
    if request["plugin"]:
        SCHEMES.add_plugin(request["plugin"])
    found = {}
    for label in request["labels"]:
        (variant,) = parse_variants(label)
        acts.clear()
        start = time.monotonic()
        SCHEMES.get(variant.name)
        found[label] = {
            "seconds": time.monotonic() - start,
            "acts": list(acts),
            "threads": threading.active_count(),
            "digest": digest(Subject(variant)),
        }
    return found


def process_state() -> dict[str, Any]:
    """Return what a scheme must not change."""
    return {
        "random numbers": torch.get_rng_state().numpy().tobytes(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads of torch": torch.get_num_threads(),
        "gradient mode": torch.is_grad_enabled(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
        "working folder": Path.cwd(),
        "environment": dict(os.environ),
        "search path": list(sys.path),
        "threads": threading.active_count(),
    }


def _use(subject: Subject, scheme: Scheme) -> None:
    layer = Layer(scheme)
    x, positions = tokens(6), subject.positions(6)
    layer(x, positions)
    layer.logits(x, positions)
    layer.decode(x, positions, [4, 1, 1], None)
