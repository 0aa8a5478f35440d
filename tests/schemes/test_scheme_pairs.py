"""Every scheme inside every other, against what the pair means.

A pair equals the scheme inside under the mask, ids or queries that the outer
scheme stands for, or it is refused in one line.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.tools import close, normal, perturbed, seeded
from support.schemes import SEQUENCE
from torch import Tensor

from posenc_compare.attention import Mask, Session
from posenc_compare.check import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import HOOKS, Geometry, Scheme
from posenc_compare.schemes.shared.rotation import rotation_angles
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant, labelled, option_types

LENGTH, HEADS, WIDTH, FED, WINDOW, REACH, LONGEST = 9, 4, 8, 5, 3, 40, 60
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS, length=64)
RUN = torch.arange(LENGTH)
TOKENS = normal(2, LENGTH, GEOMETRY.model_dim)
WEIGHTS = normal(3, GEOMETRY.model_dim, GEOMETRY.model_dim, seed=1) / 6
PADDED = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0] * 7 + [1] * 2])
MASKS = [  # beside `WINDOW`, one window is wider and one narrower
    Mask(window=5),
    Mask(segments=PADDED, window=2),
    Mask(causal=False),
    Mask(prefix=3, window=4),
]
ALL = slice(None)


def built(variant: Variant, layer: int = 0) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scheme = variant.build(replace(GEOMETRY, layer=layer, layers=4))
    return perturbed(scheme.double().requires_grad_(False), 0.3).train()


def run(
    scheme: Scheme,
    mask: Mask,
    *,
    ids: Tensor = RUN,
    draws: torch.Generator | None = None,
    grown: Tensor | None = None,
    decode: bool = False,
    logits: bool = False,
) -> Tensor:
    """Return the output of one layer, or its logits."""
    fed = FED if decode else LENGTH
    session = Session(scheme, ids, mask=mask, generator=draws, fed=fed, cache=decode)
    found = []
    for part in (slice(0, FED), slice(FED, LENGTH)) if decode else (ALL,):
        if part.start:
            session.extend(LENGTH - FED)
        x = session.embed(TOKENS[:, part])
        projected = (x @ weights for weights in WEIGHTS)
        q, k, v = (y.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for y in projected)
        q = q if grown is None else q * grown[:, :, part]
        if logits:
            found.append(session.logits(0, q, k, x=x))
        else:
            found.append(session.attend(0, q, k, v, x=x))
    return torch.cat(found, dim=2)


def width_of(mask: Mask) -> int:
    return mask.window if isinstance(mask.window, int) else LENGTH


def seen(mask: Mask, scheme: Scheme) -> Tensor:
    """Return which keys each query sees, `(batch, 1, query, key)`, one by one."""
    width = min(width_of(mask), scheme.facts.window or LENGTH)
    keep = torch.zeros(2, 1, LENGTH, LENGTH, dtype=torch.bool)
    for b, _, i, j in torch.cartesian_prod(*map(torch.arange, keep.shape)).tolist():
        may = (abs(i - j) < width and (j <= i or not mask.causal)) or j < int(
            mask.prefix
        )
        same = mask.segments is None or mask.segments[b, i] == mask.segments[b, j]
        keep[b, 0, i, j] = may and bool(same)
    return keep


# --- What a pair means ---------------------------------------------------------------


def in_a_window(outer: Any, mask: Mask) -> Tensor:
    mask = replace(mask, window=min(width_of(mask), WINDOW))
    return run(outer.inner, mask, draws=seeded())


def by_the_logarithm_of_keys(outer: Any, mask: Mask) -> Tensor:
    factor = seen(mask, outer).sum(dim=-1).double().log() * outer.steepness[:, None]
    return run(outer.inner, mask, draws=seeded(), grown=factor[..., None])


def by_the_logarithm_of_the_position(outer: Any, mask: Mask) -> Tensor:
    ids = Session(outer, RUN, generator=seeded()).ids
    factor = (1 + ids.clamp(min=0)).double().log() / torch.tensor(64.0).double().log()
    factor = factor.clamp(min=1).expand(2, HEADS, LENGTH)[..., None]
    return run(outer.inner, mask, draws=seeded(), grown=factor)


def with_a_sink(outer: Any, mask: Mask) -> Tensor:
    logits = run(outer.inner, mask, draws=seeded(), logits=True)
    total = logits.logsumexp(dim=-1, keepdim=True)
    share = (total - outer.logit[:, None, None]).sigmoid()
    return share * run(outer.inner, mask, draws=seeded())


def of_the_layer(outer: Any, mask: Mask) -> Tensor:
    return run(outer.inner, mask, draws=seeded())


def at_shifted_ids(outer: Any, mask: Mask) -> Tensor:
    draws = seeded()
    offset = torch.randint(REACH, (1,), generator=draws)
    return run(outer.inner, mask, ids=RUN + offset, draws=draws)


def at_skipped_ids(outer: Any, mask: Mask) -> Tensor:
    draws = seeded()
    first = int(torch.randint(1, (LENGTH + 1) // 2 + 1, (1,), generator=draws))
    skip = torch.randint(0, LONGEST - LENGTH + 1, (1,), generator=draws)
    ids = torch.where(first > RUN, RUN, RUN + skip)
    return run(outer.inner, mask, ids=ids, draws=draws)


def at_random_ids(outer: Any, mask: Mask) -> Tensor:
    draws = seeded()
    ids = torch.randperm(LONGEST, generator=draws)[:LENGTH].sort().values
    return run(outer.inner, mask, ids=ids, draws=draws)


def at_random_distances(outer: Any, mask: Mask) -> Tensor:
    steps = torch.randperm(LONGEST - 1, generator=seeded())[: LENGTH - 1] + 1
    far = torch.cat([torch.zeros(1).long(), steps.sort().values])
    offsets = RUN - RUN[:, None]
    bias = outer.inner.offset_bias((offsets.sign() * far[offsets.abs()]).flatten())
    logits, _, v = plain(mask, outer)
    return (logits + bias.view(1, HEADS, LENGTH, LENGTH)).softmax(dim=-1) @ v


def beside_positions(outer: Any, mask: Mask) -> Tensor:
    logits, _, v = plain(mask, outer)
    places = outer.norm(outer.table[:LENGTH])
    one, other = (
        layer(places).unflatten(-1, (HEADS, WIDTH)).transpose(0, 1)
        for layer in (outer.to_queries, outer.to_keys)
    )
    logits = logits + one @ other.mT * outer.scale(WIDTH)
    if outer.offsets.acts_at("offset_bias"):
        bias = outer.offsets.offset_bias((RUN - RUN[:, None]).flatten())
        logits = logits + bias.view(1, HEADS, LENGTH, LENGTH)
    return logits.softmax(dim=-1) @ v


def corrected(outer: Any, mask: Mask) -> Tensor:
    logits, keep, v = plain(mask, outer)
    whole = run(outer.base, mask, draws=seeded(), logits=True)
    bias = torch.where(keep, whole - logits, 0.0)
    both = torch.cat([torch.where(keep, logits, 0.0), bias], dim=1).movedim(1, -1)
    more = outer.out(F.leaky_relu(outer.hidden(both))).movedim(-1, 1)
    return (logits + bias + more).softmax(dim=-1) @ v


def plain(mask: Mask, outer: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return scaled products under a mask, the mask, and values."""
    q, k, v = (
        (TOKENS @ weights).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        for weights in WEIGHTS
    )
    keep = seen(mask, outer)
    products = q @ k.mT * outer.scale(WIDTH)
    return products.masked_fill(~keep, -torch.inf), keep, v


Meaning = Callable[[Any, Mask], Tensor]
# A name, the outer scheme with `{}` for the one inside, its layer, and the meaning.
COLUMNS: dict[str, tuple[str, int, Meaning]] = {
    "dape": ("dape:base={}", 0, corrected),
    "log_length": ("log_length:scheme={}", 0, by_the_logarithm_of_keys),
    "log": ("log_length:rule=log;scheme={}", 0, by_the_logarithm_of_the_position),
    "mix, first": ("mix:first={}", 3, of_the_layer),
    "mix, second": ("mix:second={}", 0, of_the_layer),
    "pose": (f"pose:target={LONGEST};scheme={{}}", 0, at_skipped_ids),
    "randomized": (f"randomized:longest={LONGEST};scheme={{}}", 0, at_random_ids),
    "distance": (
        f"randomized_distance:longest={LONGEST};scheme={{}}",
        0,
        at_random_distances,
    ),
    "shape": (f"shape:reach={REACH};scheme={{}}", 0, at_shifted_ids),
    "sink": ("sink:scheme={}", 0, with_a_sink),
    "tupe": ("tupe:relative={}", 0, beside_positions),
    "window": (f"mix:window={WINDOW};second={{}}", 0, in_a_window),
}


def built_or_refused(label: str, layer: int) -> tuple[Scheme | None, str]:
    try:
        return built(labelled(label), layer), ""
    except ConfigError as error:
        return None, str(error)


def outcome(column: str, inside: str) -> str:
    """Return `=` if a pair is what it means, or `x` if it is refused."""
    text, layer, meaning = COLUMNS[column]
    label = text.format(f"({inside})" if ":" in inside else inside)
    outer, why = built_or_refused(label, layer)
    if outer is None:
        assert "\n" not in why
        assert why.split(":")[0] in label
        return "x"
    for mask in masks(outer):
        got = run(outer, mask, draws=seeded())
        wanted = meaning(outer, mask)
        close(got, wanted, 1e-11)
        if mask.causal:
            close(run(outer, mask, draws=seeded(), decode=True), wanted, 1e-11)
    return "="


def masks(scheme: Scheme) -> list[Mask]:
    """Return the masks that a scheme serves; draws go by all ids of a row."""
    ahead = not scheme.facts.causal_only
    draws = scheme.acts_at("positions") or scheme.acts_at("draw")
    found = [m for m in MASKS if ahead or (m.causal and not m.prefix)]
    return [m for m in found if m.segments is None or not draws]


# A row for each column, and a letter for each column inside it with `alibi` in the
# middle.
NESTED = {
    "dape": "xxxx=xxxxx==",
    "log_length": "============",
    "log": "============",
    "mix, first": "=====xxxx===",
    "mix, second": "=====xxxx===",
    "pose": "============",
    "randomized": "============",
    "distance": "xxxxxxxxxxxx",
    "shape": "============",
    "sink": "=========x==",
    "tupe": "xxxx=xxxxxx=",
    "window": "=====xxxx===",
}


def expected(name: str) -> str:
    """Return a letter for each column, by the hooks of a scheme and its scale.

    `=` equals what the pair means, a slow reference for dape, log_length, log,
    distance, sink and tupe; `x` is refused.
    """
    scheme = built(Variant(name))
    if scheme.facts.axes > 1:
        return "x" * len(COLUMNS)
    hooks = {hook for hook in HOOKS if scheme.acts_at(hook)}
    before = hooks & {"positions", "draw", "embed"}
    biases = hooks & {"offset_bias", "pair_bias"}
    refused = set()
    if before:
        refused |= {"mix, first", "mix, second", "window"}
    if not hooks - biases <= {"scale"} or not biases:
        refused |= {"dape"}
    if "dape" in refused or "pair_bias" in biases or scheme.facts.per_layer:
        refused |= {"distance"}
    if "weights" in hooks:
        refused |= {"sink"}
    if hooks - {"offset_bias", "scale"}:
        refused |= {"tupe"}
    return "".join("x" if column in refused else "=" for column in COLUMNS)


@pytest.mark.parametrize("name", built_in())
def test_a_scheme_inside_another(name: str) -> None:
    assert "".join(outcome(column, name) for column in COLUMNS) == expected(name)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_scheme_inside_another_inside_a_third(column: str) -> None:
    inside = (text.format("alibi") for text, _, _ in COLUMNS.values())
    assert "".join(outcome(column, name) for name in inside) == NESTED[column]


def test_every_option_that_takes_a_scheme_is_a_column() -> None:
    taken = {
        f"{name}:{option}"
        for name in built_in()
        for option, (kind, _) in option_types(name).items()
        if kind is Variant
    }
    given = {
        f"{text.split(':')[0]}:{part.removesuffix('={}')}"
        for text, _, _ in COLUMNS.values()
        for part in text.split(":", 1)[1].split(";")
        if part.endswith("={}")
    }
    assert given == taken


# --- A wrapper that changes nothing is the scheme inside it --------------------------


@pytest.mark.parametrize("name", SEQUENCE)
def test_facts_are_those_of_the_scheme_inside(name: str) -> None:
    inner = built(Variant(name)).eval()
    outer = Wrapper(GEOMETRY, inner)
    assert outer.facts == inner.facts
    assert [outer.acts_at(d) for d in HOOKS] == [inner.acts_at(d) for d in HOOKS]
    assert outer.scale(8) == inner.scale(8)
    assert outer.query_init_gain(8) == inner.query_init_gain(8)
    angles, expected = (rotation_angles(s, torch.arange(5)) for s in (outer, inner))
    assert (angles is None) == (expected is None)
    if angles is not None and expected is not None:
        assert torch.equal(angles, expected)


def test_facts_belong_to_the_instance() -> None:
    Wrapper(GEOMETRY, built(Variant("pope")))
    assert not Wrapper(GEOMETRY, built(Variant("rope"))).facts.per_layer
    assert not Wrapper.facts.per_layer


def test_readers_at_a_length_are_wrapped_and_share_nothing() -> None:
    outer = Wrapper(GEOMETRY, built(Variant("rope")))
    inside = outer.inner
    readers = outer.schemes_for_length(256)
    assert readers.keys() == inside.schemes_for_length(256).keys() != set()
    q = normal(1, HEADS, 3, WIDTH)
    for name, reader in readers.items():
        assert isinstance(reader, Wrapper)
        expected = inside.schemes_for_length(256)[name].query(q, torch.arange(3) * 50)
        assert torch.equal(reader.query(q, torch.arange(3) * 50), expected)
    assert outer.inner is inside


@pytest.mark.parametrize("name", ["randomized", "shape"])
def test_new_ids_are_read_as_they_are(name: str) -> None:
    scheme = Variant(name, {"scheme": "rope"}).build(GEOMETRY)
    assert scheme.schemes_for_length(10 * GEOMETRY.length) == {}
