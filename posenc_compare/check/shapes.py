"""Checks of declarations, shapes, sizes and cost: C01 to C08, C22 and C23."""

import json
import time
from typing import get_args, get_origin

import torch
from safetensors.torch import load, save
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.check.checks import check, count, dtype_name, expect
from posenc_compare.check.harness import DIM, HEADS, Layer, Subject, tokens
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.registry import NAME, SCHEMES
from posenc_compare.schemes.contract import opened
from posenc_compare.schemes.scheme import Scheme
from posenc_compare.variants import Variant, option_types, parse_variants

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
HALVES = (torch.float32, torch.bfloat16, torch.float16)
COST = 10.0  # seconds on one core that a call with 4096 positions may take


def _batch(rung: tuple[int, torch.dtype, int]) -> str:
    batch, dtype, cast = rung
    of = "" if cast else ", parameters in float32"
    return f"batch of {batch} in {dtype_name(dtype)}{of}"


@check(
    "C01",
    "builds with its defaults",
    8,
    512,
    say=lambda length: f"a length of {length}",
)
def _builds_with_defaults(subject: Subject, length: int) -> None:
    scheme = subject.build(length, noise=0)
    expect(isinstance(scheme, Scheme), "an instance of Scheme", type(scheme).__name__)
    start = scheme.query_init_gain(DIM)
    expect(0 < start <= 1, "query_init_gain in (0, 1]", start)
    product = start * scheme.scale(DIM)
    expect(0 < product <= 1, "a scale in (0, 1]", product)


@check("C02", "has a valid name, a docstring and a source")
def _is_declared(subject: Subject, _: None) -> None:
    name = subject.variant.name
    entry = SCHEMES.entry(name)
    expect(NAME.fullmatch(name), "a valid name", name)
    expect(subject.scheme.name == name, name, subject.scheme.name)
    expect(entry.summary.endswith("."), "a docstring of one sentence", entry.summary)
    expect(subject.scheme.source, "a source", "none")


@check("C03", "options survive the command line and JSON")
def _options_can_be_read_back(subject: Subject, _: None) -> None:
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
    say=_batch,
)
def _shapes_and_dtypes_are_kept(
    subject: Subject, rung: tuple[int, torch.dtype, int]
) -> None:
    batch, dtype, cast = rung
    name = dtype_name(dtype)
    scheme = subject.build(noise=0).to(dtype if cast else torch.float32)
    x, positions = tokens(5, batch=batch).to(dtype), subject.positions(5)
    layer = Layer(scheme)
    session, q = Session(scheme, positions), layer.heads(x, 0)
    call = session.call(0, q, q, x=x)
    for door, given in (("embed", x), ("query", q), ("key", q)):
        places = session.places if door == "embed" else call.q_positions
        got = opened(scheme, door, given, places, call=call)
        times = 1 if door == "embed" else scheme.facts.widens
        shape = (*given.shape[:-1], times * given.shape[-1])
        expect(tuple(got.shape) == shape, f"{door}: {shape}", tuple(got.shape))
        expect(
            got.dtype == dtype, f"{door}: {dtype_name(dtype)}", dtype_name(got.dtype)
        )
    out = layer(x, positions)
    expect(out.shape == q.shape, f"output of {tuple(q.shape)}", tuple(out.shape))
    expect(out.dtype == dtype, f"output of {name}", dtype_name(out.dtype))
    logits = layer.logits(x, positions)
    wide = torch.promote_types(dtype, torch.float32)
    expect(
        logits.dtype == wide, f"logits of {dtype_name(wide)}", dtype_name(logits.dtype)
    )
    future = torch.ones(5, 5).triu(1).bool().expand_as(logits)
    expect((logits.isneginf() == future).all(), "-inf in the future alone", "others")


@check("C05", "accepts sequences of zero tokens and of one token", 0, 1)
def _short_sequences_are_accepted(subject: Subject, length: int) -> None:
    layer = Layer(subject.build())
    x, positions = tokens(length), subject.positions(length)
    embedded = Session(layer.scheme, positions).embed(x)
    expect(embedded.shape == x.shape, count(length), tuple(embedded.shape))
    if not length:  # there is nothing to attend to
        return
    out = layer(x, positions)
    wanted = (2, HEADS, length, DIM)
    expect(out.shape == wanted, count(length, "output"), tuple(out.shape))
    expect(out.isfinite().all(), "finite outputs", "others")


@check("C06", "accepts every length it is built for", 2, 3, 7, 127, 128, 129, 1000)
def _every_length_is_accepted(subject: Subject, length: int) -> None:
    try:
        layer = Layer(subject.build(length))
    except ConfigError:  # too short to be built for
        return
    out = layer(tokens(length, batch=1), subject.positions(length, length=length))
    expect(out.shape[2] == length, count(length, "output"), out.shape[2])
    expect(out.isfinite().all(), "finite outputs", "others")


@check(
    "C07",
    "accepts odd head sizes and any number of heads, or refuses them",
    1,
    2,
    3,
    7,
    say=lambda size: f"heads of {count(size, 'channel')}",
)
def _every_head_size_is_accepted_or_refused(subject: Subject, size: int) -> None:
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


@check(
    "C08",
    "is finite wherever it is defined",
    (16, 4.0),  # large parameters, where a logarithm may fail
    (1000, 0.01),
    (131_072, 0.01),
    say=lambda rung: f"a length of {rung[0]}, parameters moved by {rung[1]:g}",
)
def _outputs_are_finite(subject: Subject, rung: tuple[int, float]) -> None:
    length, noise = rung
    for dtype in HALVES if noise < 1 else (torch.float64,):
        layer = Layer(
            subject.build(length, noise=noise, model_dim=64, heads=8).to(dtype)
        )
        x = tokens(4, batch=1, width=64).to(dtype)
        start = max(0, subject.limit(length, dtype) - 4)
        logits = layer.logits(x, subject.positions(4, start=start, length=length))
        expect(not logits.isnan().any(), f"no NaN in {dtype_name(dtype)}", "NaN")
        seen = logits[..., torch.ones(4, 4).tril().bool()]
        expect(seen.isfinite().all(), f"finite logits in {dtype_name(dtype)}", "others")


@check("C22", "is restored from its state dict", 9)
def _state_dict_restores_the_scheme(subject: Subject, length: int) -> None:
    one, other = subject.build(), subject.build(noise=0)
    x, positions = tokens(length), subject.positions(length)
    wanted = Layer(one)(x, positions)
    other.load_state_dict(load(save(dict(one.state_dict()))), strict=True)
    expect(
        torch.equal(Layer(other)(x, positions), wanted),
        "the same bits",
        "different ones",
    )
    names = {name for name, _ in one.named_parameters()}
    expect(set(one.state_dict()) == names, "parameters alone", set(one.state_dict()))


@check("C23", "handles 4096 positions in time", 4096)
def _long_sequences_are_fast(subject: Subject, length: int) -> None:
    layer = Layer(subject.build(length).float())
    x = tokens(length, batch=1).float()
    positions = subject.positions(length, length=length)
    took = _seconds(layer, x, positions)
    if took > COST:  # the machine may be busy
        took = min(took, _seconds(layer, x, positions))
    expect(took <= COST, f"at most {COST:g} s of one core", f"{took:.1f} s")


def _seconds(layer: Layer, x: Tensor, positions: Tensor) -> float:
    start = time.process_time()
    with torch.no_grad():
        out = layer(x, positions)
    took = time.process_time() - start
    expect(out.isfinite().all(), "finite outputs", "others")
    return took
