"""Attention in one graph of torch.compile: every scheme without a break, and equal."""

import logging
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import ids_for
from support.attention import make as build
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.check.fresh_process import built_in
from posenc_compare.schemes import HOOKS, Scheme
from posenc_compare.schemes.shared.rotation import Rotation

pytestmark = [  # what torch does itself, to functions and between two graphs
    pytest.mark.filterwarnings("ignore:.*should not be instantiated"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
]

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 8, 36
# Without anything of the ids, and four that use `distinct`.
SEVERAL = ("alibi", "dape", "deberta", "transformer_xl", "wavelet")
Read = Callable[..., tuple[Tensor, Tensor]]


def make(name: str) -> Scheme:
    return build(name, heads=HEADS, width=WIDTH).float()


def session_of(scheme: Scheme) -> Session:
    return Session(scheme, ids_for(scheme, LENGTH, columns=6))


def tensors(length: int = LENGTH) -> tuple[Tensor, ...]:
    x = normal(BATCH, length, HEADS * WIDTH).float()
    return x, *normal(3, BATCH, HEADS, length, WIDTH, seed=1).float()


def read(session: Session, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """Return tokens as they are embedded, and the output of a layer."""
    x = session.embed(x)
    return x, session.attend(0, q, k, v, x=x)


def read_layers(session: Session, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """Return the output of two layers."""
    v = session.attend(0, q, k, v, x=x)
    return session.attend(1, q, k, v, x=x)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    logging.disable()  # torch writes traces while anyone listens
    yield
    logging.disable(logging.NOTSET)
    # An error inside a graph leaves autocast entered, and its cache of weights stale.
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


def single_hook(scheme: Scheme) -> Callable[..., Any] | None:
    """Return the hook that is all a pass runs of a scheme, if there is one.

    What else such a pass runs is what `sinusoidal`, `alibi` or `rope` run.
    """
    if scheme.name in ("sinusoidal", "alibi", "rope"):
        return None
    if isinstance(scheme, Rotation) and not {"query", "key"} & {*vars(type(scheme))}:
        return scheme.angles
    acts = [hook for hook in HOOKS if scheme.acts_at(hook)]
    hooks = [hook for hook in acts if hook not in ("positions", "scale")]
    return getattr(scheme, hooks[0]) if hooks in (["embed"], ["offset_bias"]) else None


@pytest.mark.parametrize("name", sorted({*built_in()} - {*SEVERAL}))
def test_a_pass_is_one_graph_and_equal(name: str) -> None:
    scheme = make(name)
    if hook := single_hook(scheme):
        x, ids = tensors()[0], session_of(scheme).ids
        given = (x, ids) if hook == scheme.embed else (ids,)
        compiled: Any = torch.compile(hook, backend="eager", fullgraph=True)
        assert torch.equal(compiled(*given), hook(*given))
        return
    whole: Read = torch.compile(read, backend="eager", fullgraph=True)
    got = whole(session_of(scheme), *tensors())
    expected = read(session_of(scheme), *tensors())
    assert all(map(torch.equal, got, expected))


@pytest.mark.parametrize("name", SEVERAL)
def test_passes_of_new_sessions_are_one_graph_and_equal(name: str) -> None:
    from torch._dynamo.testing import CompileCounter

    scheme, counter = make(name), CompileCounter()
    whole: Read = torch.compile(read, backend=counter, fullgraph=True)
    ids = torch.arange(LENGTH)
    gaps = [ids] * 2 if name == "alibi" else [ids**2, ids // 2 + 5]
    for places in (ids, *gaps):
        got = whole(Session(scheme, places), *tensors())
        expected = read(Session(scheme, places), *tensors())
        atol = 0 if places is ids else 1e-5
        torch.testing.assert_close(got, expected, rtol=0, atol=atol)
    assert counter.frame_count == 1


def test_gradients_and_other_lengths_stay_in_one_graph() -> None:
    schemes = [make("t5_bias"), make("rope")]
    whole: Any = torch.compile(read_layers, backend="aot_eager", fullgraph=True)
    for length in (LENGTH, LENGTH + 9):
        found = []
        for run in (whole, read_layers):
            given = [x.requires_grad_() for x in tensors(length)]
            mask = Mask(window=(None, 8))
            out = run(Session(schemes, torch.arange(length), mask=mask), *given)
            leaves = [*given[1:], *schemes[0].parameters()]
            found.append((out, *torch.autograd.grad(out.sin().sum(), leaves)))
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-5)


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
def test_inductor_compiles_a_number_of_distances_that_depends_on_ids() -> None:
    scheme = make("deberta")
    whole: Any = torch.compile(read, fullgraph=True)
    for ids in (torch.arange(LENGTH), torch.zeros(LENGTH).long()):
        found = []
        for run in (whole, read):
            given = [x.requires_grad_() for x in tensors()]
            _, out = run(Session(scheme, ids), *given)
            leaves = [*given[1:], *scheme.parameters()]
            found.append((out, *torch.autograd.grad(out.sin().sum(), leaves)))
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["binary", "learned"])
def test_positions_out_of_range_are_refused_in_a_graph(name: str) -> None:
    scheme = make(name)

    def embed(session: Session, x: Tensor) -> Tensor:
        return session.embed(x)

    whole: Any = torch.compile(embed, backend="eager", fullgraph=True)
    x = torch.zeros(BATCH, 3, HEADS * WIDTH)
    whole(Session(scheme, torch.tensor([0, 5, 63])), x)
    for last in (64, -1):
        session = Session(scheme, torch.tensor([0, 5, last]))
        with pytest.raises(RuntimeError, match=f"{name}: positions must be from 0 to"):
            whole(session, x)


def test_distances_beyond_a_table_are_refused_in_a_graph() -> None:
    scheme, x = make("erpe"), torch.zeros(BATCH, HEADS, 2, WIDTH)

    def read(session: Session) -> Tensor:
        return session.attend(0, x, x, x)

    whole: Any = torch.compile(read, backend="eager", fullgraph=True)
    whole(Session(scheme, torch.tensor([5, 68])))
    with pytest.raises(RuntimeError, match="erpe: distances must be below the length"):
        whole(Session(scheme, torch.tensor([5, 69])))


TIMES = torch.linspace(-3.75, 40, LENGTH).double()
SESSIONS: dict[str, dict[str, Any]] = {
    "real positions": {"positions": TIMES},
    "tokens without a position": {"placed": torch.arange(LENGTH) > 2},
    "keys of another text": {
        "key_positions": torch.arange(LENGTH) + 5,
        "mask": Mask(False, segments=torch.ones(BATCH, LENGTH).long().triu(9)),
    },
}


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_of_every_kind_is_one_graph(kind: str) -> None:
    schemes, asked = [make("rope"), make("alibi")], SESSIONS[kind]
    ids = torch.arange(LENGTH)

    def started() -> Session:
        return Session(schemes, **{"positions": ids, **asked})

    whole: Any = torch.compile(read_layers, backend="eager", fullgraph=True)
    assert torch.equal(whole(started(), *tensors()), read_layers(started(), *tensors()))


def test_what_is_refused_is_refused_in_a_graph() -> None:
    scheme, ids, (_, *parts) = make("rope"), torch.arange(LENGTH), tensors()
    whole: Any = torch.compile(attention, backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="are not those of the last keys"):
        whole(*parts, scheme=scheme, positions=ids, key_positions=ids + 5)
    several = torch.tensor([1, 2]).repeat_interleave(LENGTH // 2).expand(BATCH, -1)
    mask = Mask(causal=False, segments=several)
    session = Session(scheme, ids, key_positions=ids, mask=mask)
    whole = torch.compile(session.attend, backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="another text have several numbers"):
        whole(0, *parts)


def test_a_session_may_begin_inside_the_graph() -> None:
    scheme = make("rope")

    def attend(ids: Tensor, *parts: Tensor) -> Tensor:
        other = ids + 5
        mask = Mask(causal=False)
        session = Session(scheme, ids, key_positions=other, mask=mask)
        return session.attend(0, *parts) + Session(scheme, ids).attend(0, *parts)

    _, *parts = tensors()
    whole: Any = torch.compile(attend, backend="eager", fullgraph=True)
    ids = torch.arange(LENGTH)
    assert torch.equal(whole(ids, *parts), attend(ids, *parts))
