"""Checks of invariance and equivariance: C13, C14 and C18 to C21."""

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor

from posenc_compare.attention import Mask, Session
from posenc_compare.check.checks import EXACT, check, expect, expect_close
from posenc_compare.check.harness import DIM, Layer, Subject, normal, tokens
from posenc_compare.errors import ConfigError, PosencError, UndefinedPositionError
from posenc_compare.schemes.contract import misspelt_hook
from posenc_compare.schemes.scheme import HOOKS, Scheme

SHIFTS = (1, 63, 64, 4096, 50_000)
FAR = [0, 1, 2, 5, 9, 17, 40, 100, 200, 300]
BUILD_LENGTH = 8192  # that a scheme is built for; windows may be a share of it
APART = BUILD_LENGTH // FAR[-1]  # times as far, and still within that
MANY_HEADS = 5
REAL = 1e-12  # error at whole positions given as real numbers, in float64


@check("C13", "treats the rows of a batch independently", length=(1, 2, 9))
def _batch_rows_are_independent(subject: Subject, length: int) -> None:
    positions, segments = subject.rows(length)
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        layer = Layer(subject.build(600).to(dtype))
        x = tokens(length, batch=3).to(dtype)
        for packed in (None, segments) if _packs(layer, positions) else (None,):
            whole = layer(x, positions, Mask(segments=packed))
            for row in range(3):
                own = None if packed is None else packed[row : row + 1]
                alone = layer(x[row : row + 1], positions[row], Mask(segments=own))
                said = f"row {row}" + ("" if packed is None else " of packed documents")
                expect_close(whole[row : row + 1], alone, bound, said)


@check(
    "C14",
    "treats the heads independently",
    length=(2, 5),
    not_for=lambda facts: "mixes heads" if facts.mixes_heads else "",
)
def _heads_are_independent(subject: Subject, length: int) -> None:
    width = 3 * DIM
    scheme = subject.build(model_dim=width, heads=3)
    given = [normal(1, 3, length, DIM, seed=seed) for seed in range(3)]
    session = Session(scheme, subject.positions(length))
    x = session.embed(tokens(length, batch=1, width=width))

    def output(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return session.attend(0, q, k, v, x=x)

    before = output(*(tensor.clone() for tensor in given))
    for role, name in enumerate(("queries", "keys", "values")):
        for head in range(3):
            other = [tensor.clone() for tensor in given]
            other[role][:, head] += 1
            rest = [h for h in range(3) if h != head]
            said = f"output of other heads than {head}, whose {name} changed,"
            expect_close(output(*other)[:, rest], before[:, rest], 1e-12, said)


@check(
    "C18",
    "gives a prefix the same outputs as the whole sequence",
    length=(1, 2, 3, 7, 64, 129, 300),
    built=(600, 64),  # with 64, texts are longer than the scheme is built for
)
def _prefix_has_the_same_outputs(subject: Subject, length: int, built: int) -> None:
    total = 65 if length < 65 else 600
    layer = Layer(subject.build(built))
    x, positions = tokens(total, batch=1), subject.positions(total, length=600)
    undefined = (UndefinedPositionError,) if total > built else ()
    with torch.no_grad(), suppress(*undefined):
        whole = layer(x, positions)
        got = layer(x[:, :length], positions[:length])
        expect_close(got, whole[:, :, :length], 1e-11, "output of a prefix")


@check("C19", "uses the given positions, not the indices", length=(1, 2, 7, 40))
def _given_positions_are_used(subject: Subject, length: int) -> None:
    layer = Layer(subject.build(4096))
    x = tokens(length)
    positions = 2 * subject.positions(length, length=600) + 1
    shared = layer(x, positions)
    rows = layer(x, positions.expand(2, *positions.shape))
    expect_close(rows, shared, 1e-12, "output of a row of positions each")
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0))
    mixed = layer(x, torch.stack([positions[order], positions]))
    expect_close(mixed[1:], shared[1:], 1e-12, "output of a row beside another order")
    first = Layer(subject.build(4096))(x[:1], positions[order])
    expect_close(mixed[:1], first, 1e-12, "output of other positions before")
    if layer.scheme.facts.real:
        _expect_real_positions(subject, layer, positions)
    if not _depends_on_tokens_between(layer.scheme):
        left = [index for index in range(length) if index % 10 not in (1, 2, 3)]
        got = layer.logits(x[:, left], positions[left])
        wanted = layer.logits(x, positions)[:, :, left][..., left]
        expect_close(got, wanted, EXACT, "logits of the tokens left of a text")


def _expect_real_positions(subject: Subject, layer: Layer, positions: Tensor) -> None:
    """Expect whole ids to be the same as real ones, and no real one to be rounded."""
    length, scheme = len(positions), layer.scheme
    x, halves = tokens(length), positions.double() / 2
    for dtype in (torch.float32, torch.float64):
        got, wanted = layer(x, positions.to(dtype)), layer(x, positions)
        expect_close(got, wanted, REAL, f"output at whole positions in {dtype}")
    if scheme.facts.relative:
        said = "logits after a shift by a half"
        expect_close(
            layer.logits(x, halves + 0.5), layer.logits(x, halves), EXACT, said
        )
    with torch.no_grad():
        whole, got = layer(x, halves), layer.decode(x, halves, [1] * length)
    expect_close(got, whole, EXACT, "decoding at real positions")
    rows = layer(x, torch.stack([halves, positions.double()]))
    expect_close(rows[:1], whole[:1], EXACT, "output of a row of real positions")
    if length == 1 or scheme.family == "none" or scheme.facts.by_order:
        return
    # Equal tokens at 0, 1/2 and 1: a rounded position would be that of a neighbour.
    near = subject.positions(3).double() / 2
    logits = layer.logits(tokens(1).expand(-1, 3, -1), near)[:, :, 2]
    moved = logits.diff(dim=-1).abs().amax(dim=(0, 1)).min().item()
    expect(moved > 1e-6, "logits that half a position changes", moved)


def _depends_on_tokens_between(scheme: Scheme) -> bool:
    """Return whether a logit may depend on the tokens between query and key."""
    parts = [part for part in scheme.modules() if isinstance(part, Scheme)]
    return any(part.family == "contextual" or part.facts.by_order for part in parts)


@check(
    "C20",
    "gives the same outputs with a cache as in one pass",
    # The last two are rows of one block, and of two.
    steps=([1, 1], [3, 4, 4], [1] * 11, [490, 1, 9], [590, 1, 9]),
    noise=(0, 1),
)
def _cached_decoding_equals_one_pass(
    subject: Subject, steps: list[int], noise: float
) -> None:
    length = sum(steps)
    if not noise and length >= 500:
        return  # with initial parameters, short sequences are enough
    layer, batch = Layer(subject.build(600, noise=noise)), 3 if length < 500 else 1
    x, (positions, segments) = tokens(length, batch=batch), subject.rows(length, batch)
    with torch.no_grad():
        whole = layer(x, positions[0])
        got = layer.decode(x, positions[0], steps)
        expect_close(got, whole, EXACT, "decoding")
        if not _packs(layer, positions):
            return
        packed = Mask(segments=segments)
        whole = layer(x, positions, packed)
        got = layer.decode(x, positions, steps, packed)
        expect_close(got, whole, EXACT, "decoding of packed documents")


def _packs(layer: Layer, positions: Tensor) -> bool:
    """Return whether a scheme takes two documents in a row; C21 expects it to."""
    segments = torch.arange(positions.shape[1]) >= 1
    try:
        Session(layer.scheme, positions, mask=Mask(segments=1 + segments[None].long()))
    except ConfigError:
        return False
    return True


NOT_RELATIVE = (
    "; is a hook missing, or do `query` and `key` differ? A scheme that is not "
    "relative sets `facts = Facts(relative=False)`"
)


@check("C21", "depends on positions and tokens as it declares", reach=(2, 9, 300))
def _declared_relations_hold(subject: Subject, reach: int) -> None:
    steps = torch.tensor(FAR) if reach > 9 else torch.arange(reach)
    scheme = subject.build(BUILD_LENGTH, model_dim=MANY_HEADS * DIM, heads=MANY_HEADS)
    _expect_an_overridden_hook(scheme)
    layer = Layer(scheme)
    x, positions = tokens(len(steps), width=MANY_HEADS * DIM), subject.places(steps)
    here = layer.logits(x, positions)
    seen = here.isfinite()
    shifts = list(_shifts(subject, x, positions))
    if scheme.facts.relative:
        with suppress(PosencError):
            shifts.append(
                ("logits after a shift by -20", layer.logits(x, positions - 20), here)
            )
        for said, moved, rested in shifts:
            expect_close(moved, rested, EXACT, said, NOT_RELATIVE)
    elif reach > 9:  # a window may cover short distances
        shifts += _shifts(subject, x, APART * positions)
        changes = [(moved - rested)[seen] for _, moved, rested in shifts]
        change = max(x.nan_to_num(0.0).abs().max().item() for x in changes)
        expect(
            change > 1e-6, "logits that a shift changes (or `relative=True`)", change
        )
    if scheme.facts.by_order:
        other = layer.logits(x, 3 * positions + 11)
        expect_close(other, here, 0, "logits at other ids (`by_order`)")
    elif scheme.family != "none" and reach > 9:
        spreads = []
        for apart in (2, APART):
            with suppress(UndefinedPositionError):
                moved = layer.logits(x, apart * positions)
                spreads.append((moved - here)[seen].abs().max().item())
        spread = max(spreads, default=0.0)
        expect(spread > 1e-6, "logits that the distance changes", spread)
    other = x.clone()
    other[:, -1] += 1
    before, after = layer(x, positions), layer(other, positions)
    expect_close(after[:, :, :-1], before[:, :, :-1], 0, "output before a later token")
    change = (after - before)[:, :, -1].abs().max().item()
    expect(change > 1e-6, "an output that its own token changes", change)
    _expect_documents_to_be_independent(layer, subject, x, positions)
    _expect_a_window_to_hide_tokens(layer, x, positions)
    if reach > 9:
        _expect_layers_to_be_alike(subject)
    if not scheme.facts.causal_only:
        _expect_full_attention_without_mask(layer, x, 2 * positions)


def _expect_an_overridden_hook(scheme: Scheme) -> None:
    """Expect an overridden hook, and suggest one for a method with a similar name."""
    if scheme.family == "none" or any(scheme.acts_at(hook) for hook in HOOKS):
        return
    meant = misspelt_hook(type(scheme))
    expect(False, "a hook to be overridden", f"none; {meant}" if meant else "none")


def _shifts(
    subject: Subject, x: Tensor, positions: Tensor
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield a description, and the logits after and before a shift.

    A fault may begin only beyond the length of a scheme, or only within it. So one
    scheme has a short length and one a long length. Undefined shifts are skipped.
    """
    for length in (64, BUILD_LENGTH):
        scheme = subject.build(length, model_dim=MANY_HEADS * DIM, heads=MANY_HEADS)
        layer = Layer(scheme)
        axes = torch.arange(1, scheme.facts.axes + 1)  # each moves by another shift
        with suppress(UndefinedPositionError):
            rested = layer.logits(x, positions)
            for shift in SHIFTS:
                with suppress(UndefinedPositionError):
                    moved = layer.logits(x, positions + shift * axes)
                    said = f"logits of a scheme built for {length} after a shift by"
                    yield f"{said} {shift}", moved, rested


def _expect_documents_to_be_independent(
    layer: Layer, subject: Subject, x: Tensor, positions: Tensor
) -> None:
    """Expect equal outputs after padding and beside another document."""
    alone = layer(x, positions)
    both = torch.cat([5 * tokens(3, seed=8, width=x.shape[-1]), x], 1)
    segments = torch.tensor([[0] * 3 + [1] * x.shape[1]] * 2)
    for before in (torch.zeros_like(subject.positions(3)), subject.positions(3)):
        places = torch.cat([before, positions])
        padded = layer(both, places, Mask(segments=segments))
        expect_close(padded[:, :, 3:], alone, EXACT, "output after padding")


def _expect_a_window_to_hide_tokens(layer: Layer, x: Tensor, positions: Tensor) -> None:
    """Expect tokens outside of a window to change no output, if no other token does."""
    if _depends_on_tokens_between(layer.scheme):
        return
    window, other = Mask(window=4), x.clone()
    other[:, :4] += 1
    before, after = layer(x, positions, window), layer(other, positions, window)
    expect_close(after[:, :, 7:], before[:, :, 7:], 0, "output beyond a window")


def _expect_layers_to_be_alike(subject: Subject) -> None:
    """Expect the same of all layers from a scheme that is built once for all."""
    first, second = (subject.build(layer=layer, layers=2) for layer in range(2))
    if first.facts.per_layer or first.facts.mixed:
        return
    x, positions = tokens(9), subject.positions(9)
    said = "output of layer 1 (or `per_layer=True`)"
    expect_close(Layer(second)(x, positions), Layer(first)(x, positions), 0, said)


def _expect_full_attention_without_mask(
    layer: Layer, x: Tensor, positions: Tensor
) -> None:
    """Expect a query to attend to all of its document, and to no other."""
    length, unmasked = x.shape[1], Mask(causal=False)
    whole = layer(x, positions, unmasked)
    masked = layer(x, positions)
    expect_close(whole[:, :, -1], masked[:, :, -1], EXACT, "output that sees all")
    prefix = layer(x, positions, Mask(prefix=length))
    expect_close(prefix, whole, EXACT, "output of a prefix that sees all of itself")
    for start in (length // 2, length - 1):
        some = layer.last(x, positions, start, unmasked)
        said = "output of the last queries without a mask"
        expect_close(some, whole[:, :, start:], EXACT, said)
    cuts = (max(1, length // 3), length // 2)
    segments = torch.stack([torch.arange(length) >= cut for cut in cuts]).long()
    packed, half = Mask(causal=False, segments=segments), length // 2
    both = layer(x, positions, packed)
    some = layer.last(x, positions, half, packed)
    said = "output of the last queries of packed documents without a mask"
    expect_close(some, both[:, :, half:], EXACT, said)
    for row, cut in enumerate(cuts):
        for part in (slice(0, cut), slice(cut, length)):
            alone = layer(x[row : row + 1, part], positions[part], unmasked)
            said = "output of a packed document without a mask"
            expect_close(both[row : row + 1, :, part], alone, EXACT, said)
