"""Checks of declarations, shapes, sizes and cost: C01 to C08, C22 and C23."""

import json
import time
from contextlib import suppress
from typing import get_args, get_origin

import torch
from safetensors.torch import load, save
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.check.checks import check, expect, expect_equal, expect_finite
from posenc_compare.check.harness import (
    DIM,
    HALVES,
    HEADS,
    Layer,
    Subject,
    rounded_buffers,
    tokens,
)
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.registry import SCHEMES, VALID_NAME
from posenc_compare.schemes.contract import call_hook
from posenc_compare.schemes.scheme import Scheme
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.variants import Variant, option_types, parse_variants

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
NARROW = (torch.float32, *HALVES)
COST = 10.0  # seconds on one core that a call with 4096 positions may take


@check("C01", "builds with its defaults", length=(8, 512))
def _builds_with_defaults(subject: Subject, length: int) -> None:
    scheme = subject.build(length, noise=0)
    expect(isinstance(scheme, Scheme), "an instance of Scheme", type(scheme).__name__)
    start = scheme.query_init_gain(DIM)
    expect(0 < start <= 1, "query_init_gain in (0, 1]", start)
    product = start * scheme.scale(DIM)
    expect(0 < product <= 1, "a scale in (0, 1]", product)


@check("C02", "has a valid name, a docstring and a source")
def _is_declared(subject: Subject) -> None:
    name = subject.variant.name
    entry = SCHEMES.entry(name)
    expect(VALID_NAME.fullmatch(name), "a valid name", name)
    expect_equal(subject.scheme.name, name, "name")
    expect(
        entry.summary.endswith("."),
        "a docstring whose first line ends with a full stop",
        entry.summary or "none",
    )
    expect(subject.scheme.source, "a source", "none")


@check("C03", "options survive the command line and JSON")
def _options_can_be_read_back(subject: Subject) -> None:
    name = subject.variant.name
    for key, (kind, default) in option_types(name).items():
        expect(isinstance(default, bool | int | float | str), "a default", default)
        choices = get_args(kind) if get_origin(kind) else ()
        for value in choices or (default,):
            variant = Variant(name, {key: value})
            (read,) = parse_variants(variant.label)
            options = {} if value == default else {key: value}
            expect_equal(read.options, options, "options read back")
            expect_equal(json.loads(json.dumps(options)), options, "JSON")
            if choices:
                with suppress(ConfigError):
                    Subject(variant).build()


@check(
    "C04",
    "keeps shapes and dtypes",
    batch=(1, 3),
    dtype=DTYPES,
    parameters=("float32", "the same"),
)
def _shapes_and_dtypes_are_kept(
    subject: Subject, batch: int, dtype: torch.dtype, parameters: str
) -> None:
    scheme = subject.build(noise=0)
    scheme = scheme.to(torch.float32 if parameters == "float32" else dtype)
    x, positions = tokens(5, batch=batch).to(dtype), subject.positions(5)
    if isinstance(scheme, Rotation):
        got = scheme.angles(positions).dtype
        expect_equal(got, torch.float64, "dtype of angles")
    layer = Layer(scheme)
    session, q = Session(scheme, positions), layer.heads(x, 0)
    call = session.call(0, q, q, x=x)
    for hook, given in (("embed", x), ("query", q), ("key", q)):
        places = session.places if hook == "embed" else call.q_positions
        got = call_hook(scheme, hook, given, places, call=call)
        times = 1 if hook == "embed" else scheme.facts.widens
        shape = (*given.shape[:-1], times * given.shape[-1])
        expect_equal(got.shape, shape, f"shape of {hook}")
        expect_equal(got.dtype, dtype, f"dtype of {hook}")

    out, logits = layer(x, positions), layer.logits(x, positions)
    expect_equal(out.shape, q.shape, "shape of the output")
    expect_equal(out.dtype, dtype, "dtype of the output")
    wide = torch.promote_types(dtype, torch.float32)
    expect_equal(logits.dtype, wide, "dtype of the logits")
    future = torch.ones(5, 5).triu(1).bool().expand_as(logits)
    expect((logits.isneginf() == future).all(), "-inf in the future alone", "others")


@check("C05", "accepts sequences of zero tokens and of one token", length=(0, 1))
def _short_sequences_are_accepted(subject: Subject, length: int) -> None:
    layer = Layer(subject.build())
    x, positions = tokens(length), subject.positions(length)
    embedded = Session(layer.scheme, positions).embed(x)
    expect_equal(embedded.shape, x.shape, "shape of embedded tokens")
    if length:  # else there is nothing to attend to
        out = layer(x, positions)
        expect_equal(out.shape, (2, HEADS, length, DIM), "shape of the output")
        expect_finite(out)


@check(
    "C06",
    "accepts every length it is built for",
    length=(2, 3, 7, 127, 128, 129, 1000),
)
def _every_length_is_accepted(subject: Subject, length: int) -> None:
    try:
        layer = Layer(subject.build(length))
    except ConfigError:  # too short to be built for
        return
    out = layer(tokens(length, batch=1), subject.positions(length, length=length))
    expect_equal(out.shape[2], length, "tokens of the output")
    expect_finite(out)


@check(
    "C07",
    "accepts odd head sizes and any number of heads, or refuses them",
    head_dim=(1, 2, 3, 7, 8),
    heads=(1, 3, 12),
)
def _every_head_size_is_accepted_or_refused(
    subject: Subject, head_dim: int, heads: int
) -> None:
    width = heads * head_dim
    sizes = {"model_dim": width, "heads": heads, "head_dim": head_dim}
    with suppress(ConfigError, ShapeError):
        scheme = subject.build(**sizes, noise=0.1)
        out = Layer(scheme)(tokens(6, width=width), subject.positions(6))
        expect_equal(out.shape, (2, heads, 6, head_dim), "shape of the output")
        expect_finite(out)


@check("C08", "is finite wherever it is defined", length=(16, 1000, 131_072))
def _outputs_are_finite(subject: Subject, length: int) -> None:
    # Large parameters, where a logarithm may fail, at the shortest length.
    noise, dtypes = (4.0, DTYPES[:1]) if length == 16 else (0.01, NARROW)
    for dtype in dtypes:
        scheme = subject.build(length, noise=noise, model_dim=64, heads=8)
        layer = Layer(scheme.to(dtype))
        x = tokens(4, batch=1, width=64).to(dtype)
        start = max(0, subject.limit(layer, length, dtype) - 4)
        logits = layer.logits(x, subject.positions(4, start=start, length=length))
        where = f"{dtype}{rounded_buffers(scheme)}"
        expect(not logits.isnan().any(), f"no NaN in {where}", "NaN")
        seen = logits[..., torch.ones(4, 4).tril().bool()]
        expect_finite(seen, f"finite logits in {where}")


@check("C22", "is restored from its state dict", length=(9,))
def _state_dict_restores_the_scheme(subject: Subject, length: int) -> None:
    one, other = subject.build(), subject.build(noise=0)
    x, positions = tokens(length), subject.positions(length)
    wanted = Layer(one)(x, positions)
    other.load_state_dict(load(save(dict(one.state_dict()))), strict=True)
    got = Layer(other)(x, positions)
    expect(torch.equal(got, wanted), "the same bits", "different ones")
    names = {name for name, _ in one.named_parameters()}
    buffers = ", ".join(sorted(set(one.state_dict()) - names))
    kept = f"buffers, too: {buffers}; compute them in the hook"
    expect(not buffers, "parameters alone", kept)


@check("C23", "handles 4096 positions in time", length=(4096,))
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
    expect_finite(out)
    return took
