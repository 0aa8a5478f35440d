"""Checks of determinism and side effects: C09 to C12 and C24."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.check.checks import EXACT, check, expect, expect_close
from posenc_compare.check.fresh_process import digest, elsewhere
from posenc_compare.check.global_state import changes, process_state
from posenc_compare.check.harness import HEADS, WIDTH, Layer, Subject, normal, tokens
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes.scheme import Geometry

IMPORT = 2.0  # seconds that importing the scheme may take
BUILT = 64  # length of the scheme that is called with later positions


@check("C09", "is deterministic, also in another process")
def _results_are_deterministic(subject: Subject) -> None:
    first, second = digest(subject), digest(subject)
    expect(first == second, "the same bits", "different ones")
    x, positions = tokens(9), subject.positions(9, length=BUILT)
    wanted = Layer(subject.build(BUILT))(x, positions)
    texts = {"in float32": (x.float(), positions)}
    for start, count in ((0, 100), (200, 9), (5000, 9), (50_000, 9)):
        beyond = subject.positions(count, start=start, length=start + count)
        texts[f"that ends at position {start + count - 1}"] = tokens(count), beyond
    training = [Layer(subject.build(BUILT).train()) for _ in range(2)]
    drawn = [layer(x, positions, generator=_generator()) for layer in training]
    said = "the same bits of one seed (by `generator` alone)"
    expect(drawn[0].equal(drawn[1]), said, "others")
    for said, text in texts.items():
        layer = Layer(subject.build(BUILT))
        with suppress(UndefinedPositionError):
            layer(*text)
        got = layer(x, positions)
        expect(
            got.equal(wanted), f"the same bits after a text {said}", "different ones"
        )
    facts = elsewhere(subject)
    expect(facts["digest"] == first, "the same bits in another process", "different")


@check("C10", "leaves the global state of the process unchanged")
def _global_state_is_unchanged(subject: Subject) -> None:
    # Advance every generator, so that seeding one again changes its state.
    for draw in (torch.rand, random.randbytes, np.random.bytes):
        draw(1)
    before = process_state()
    _build_plainly(subject)
    # Parameters may be drawn when a scheme is built.
    changed = changes(before, "random numbers of torch")
    expect(not changed, "no change of the process by building", ", ".join(changed))
    drawn = [_draw_after_building(subject, seed) for seed in (1, 2)]
    expect(not torch.equal(*drawn), "building to leave the seed of torch", "a new seed")
    layer = Layer(subject.build())
    before = process_state()
    x, positions = tokens(6), subject.positions(6)
    layer(x, positions)
    layer.logits(x, positions)
    layer.decode(x, positions, [4, 1, 1])
    Layer(layer.scheme.train())(x, positions, generator=_generator())
    changed = changes(before)
    expect(not changed, "no change of the process", ", ".join(changed))


def _generator() -> torch.Generator:
    """Return a generator of what schemes draw for a pass."""
    return torch.Generator().manual_seed(1)


def _draw_after_building(subject: Subject, seed: int) -> Tensor:
    torch.manual_seed(seed)
    _build_plainly(subject)
    return torch.rand(4)


def _build_plainly(subject: Subject) -> None:
    """Build the scheme as anyone would, with the random state that there is."""
    subject.variant.build(Geometry(model_dim=WIDTH, heads=HEADS))


@check(
    "C11",
    "does not modify its inputs",
    past=(0, 4),
    packed=(False, True),
    training=(False, True),
)
def _inputs_are_not_modified(
    subject: Subject, past: int, packed: bool, training: bool
) -> None:
    # With gradients torch itself refuses many changes in place.
    scheme = subject.build().train(training).requires_grad_(False)
    layer = Layer(scheme)
    x, positions = tokens(7), subject.positions(7)
    with _expect_unchanged({"x": x, "positions": positions}):
        drawing = _generator() if training else None
        session = Session(scheme, positions, generator=drawing)
        embedded, ids = session.embed(x).clone(), session.ids.clone()
    earlier = scheme.token_state(embedded[:, :past]) if past else None
    with _expect_unchanged({"x": embedded, "past": earlier}):
        state = scheme.token_state(embedded[:, past:], earlier)
    q, k, v = (layer.heads(embedded, role) for role in range(3))
    q, q_ids = q[:, :, past:], ids[past:].clone()
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2) if packed else None
    given = {"q": q, "k": k, "v": v, "positions": q_ids, "key_positions": ids}
    given |= {"segments": segments, "state": state, **dict(scheme.named_parameters())}
    with _expect_unchanged(given):
        attention(
            q,
            k,
            v,
            scheme=scheme,
            positions=q_ids,
            key_positions=ids,
            mask=Mask(segments=segments),
            state=state,
        )
    if not past:
        with _expect_unchanged(given):
            attention_logits(q, k, scheme=scheme, positions=q_ids, state=state)


@contextmanager
def _expect_unchanged(given: dict[str, Tensor | None]) -> Iterator[None]:
    there = {name: tensor for name, tensor in given.items() if tensor is not None}
    before = {name: tensor.clone() for name, tensor in there.items()}
    yield
    changed = [name for name, old in before.items() if not there[name].equal(old)]
    expect(not changed, "unchanged inputs", f"others in {', '.join(changed)}")


@check("C12", "is independent of the memory layout of its inputs")
def _memory_layout_has_no_effect(subject: Subject) -> None:
    layer = Layer(subject.build())
    wide = normal(9, 2, 2 * WIDTH)
    x = wide.transpose(0, 1)[..., ::2]
    positions = subject.positions(18)[::2]
    got = layer(x, positions)
    tidy = layer(x.contiguous(), positions.contiguous())
    expect_close(got, tidy, EXACT, "output of strided input")


@check("C24", "is imported quickly and without side effects")
def _import_has_no_side_effects(subject: Subject) -> None:
    facts = elsewhere(subject)
    expect(facts["seconds"] <= IMPORT, f"at most {IMPORT:g} s", facts["seconds"])
    expect(not facts["acts"], "no file, process or connection", facts["acts"])
    expect(facts["threads"] == 1, "one thread", facts["threads"])
    for step, parts in (("import", facts["imported"]), ("build", facts["built"])):
        changed = ", ".join(parts)
        expect(not changed, f"no change of the process by its {step}", changed)
