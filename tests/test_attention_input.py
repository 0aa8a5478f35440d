"""What comes into attention: kinds of ids, sizes, dtypes and empty batches."""

from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import ids_for, make
from torch import Tensor

from posenc_compare.attention import Path, Session, attention
from posenc_compare.check.fresh_process import built_in
from posenc_compare.errors import HookError, ShapeError
from posenc_compare.schemes import Scheme, create
from posenc_compare.variants import option_types

NAMES = sorted(built_in())
LENGTH, WIDTH = 9, 8
PAIRED = [
    name
    for name in NAMES
    if "half" in str(option_types(name).get("layout"))  # pairs of channels turn
]


def arguments(scheme: Scheme, heads: int = 2, width: int = WIDTH) -> dict[str, Any]:
    q, k, v = normal(3, 2, heads, LENGTH, width)
    state = scheme.token_state(normal(2, LENGTH, scheme.geometry.model_dim))
    ids = ids_for(scheme, LENGTH, columns=3)
    given = {"scheme": scheme, "positions": ids, "state": state}
    return {"q": q, "k": k, "v": v, **given}


# --- position ids -------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_hooks_refuse_ids_that_are_no_tensor(name: str) -> None:
    """`test_attention_refusals.py` has those of attention itself."""
    scheme = make(name)
    x, ids = normal(2, LENGTH, scheme.geometry.model_dim), list(range(LENGTH))
    message = f"^{name}: positions must be a tensor of whole numbers, got list$"
    if scheme.acts_at("embed"):
        with pytest.raises(ShapeError, match=message):
            scheme.embed(x, ids)  # pyright: ignore[reportArgumentType]
    if scheme.acts_at("positions"):
        with pytest.raises(ShapeError, match=message):
            scheme.positions(ids)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_any_whole_dtype(name: str) -> None:
    scheme = make(name)
    given, x = arguments(scheme), normal(2, LENGTH, scheme.geometry.model_dim)

    def read(ids: Tensor) -> tuple[Tensor, Tensor]:
        session = Session(scheme, ids, generator=torch.Generator().manual_seed(1))
        embedded = [scheme.embed(x, ids), session.embed(x)]
        out = session.attend(0, given["q"], given["k"], given["v"], x=x)
        alone = attention(**{**given, "positions": ids})
        return torch.cat(embedded), torch.cat([out, alone])

    ids = ids_for(scheme, LENGTH, columns=3)
    expected = read(ids)
    for kind in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert all(map(torch.equal, read(ids.to(kind)), expected))


# Each head has numbers of its own.
BY_HEAD = {"fire", "swin", "alibi", "alibi_2d", "fox", "pope", "deberta", "path"}
BY_HEAD |= {"transformer_xl", "fope", "dape"}


# --- sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in NAMES),
        ("rope_2d", {"kind": "mixed"}),
        ("randomized", {"scheme": "alibi"}),
    ],
)
def test_heads_other_than_the_scheme_was_built_for(
    name: str, options: dict[str, Any]
) -> None:
    """Either they are refused, or they make no difference."""
    for built, given in ((3, 2), (1, 2), (2, 3)):
        scheme = make(name, heads=built, **options)
        message = (
            f"{name}: q must have the heads that the scheme was built for, {built}, "
            f"got {given}; one built with heads={given} would work"
        )
        other = make(name, heads=given, **options)
        expected, refused = attention(**arguments(other, given)), ""
        try:
            got = attention(**arguments(scheme, given))
        except ShapeError as error:
            got, refused = expected, str(error)
        assert torch.equal(got, expected)
        assert refused == message or not (refused or options or name in BY_HEAD)


@pytest.mark.parametrize("name", NAMES)
def test_head_dim_other_than_the_scheme_was_built_for(name: str) -> None:
    scheme = make(name)
    for width in (4, 16):
        given = arguments(scheme, width=width)
        if scheme.family not in ("rotary", "contextual"):
            assert attention(**given).isfinite().all()
            continue
        message = f"^{name}: q must have the head_dim .* built for, 8, got {width}; "
        with pytest.raises(ShapeError, match=message):
            attention(**given)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_of_another_width_are_refused(name: str) -> None:
    scheme, odd = make(name), 2 * WIDTH + 1
    if not scheme.acts_at("embed") or name in ("binary", "integer"):  # of any width
        return
    said = rf"the width must be ({2 * WIDTH}, .*|even|divisible by 4), got {odd}$"
    with pytest.raises(ShapeError, match=rf"^({name}|sinusoidal): {said}"):
        scheme.embed(normal(2, LENGTH, odd), ids_for(scheme, LENGTH, columns=3))


# --- empty batches and mixed dtypes ---------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in NAMES), *((name, {"layout": "half"}) for name in PAIRED)],
)
def test_an_empty_batch_comes_out_empty(name: str, options: dict[str, Any]) -> None:
    scheme = make(name, **options)
    given = arguments(scheme)
    state = given["state"]
    q, k, v = (given[each][:0].requires_grad_() for each in "qkv")
    given.update(q=q, k=k, v=v, state=None if state is None else state[:0])
    out = attention(**given)
    assert out.shape == (0, 2, LENGTH, WIDTH)
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.shape == q.shape


@pytest.mark.parametrize("path", ["auto", "plain"])
@pytest.mark.parametrize("name", ["xpos", "randomized"])
def test_what_the_dtype_of_the_values_cannot_hold_is_refused(
    name: str, path: Path
) -> None:
    options: dict[str, Any] = {"scale_base": 512.0}
    if name == "randomized":
        options = {"scheme": "xpos:scale_base=512"}
    scheme = create(name, options=options, model_dim=16, heads=2, length=16)
    q, k, v = normal(3, 2, 2, 6, WIDTH).float()

    def read(first: int, values: Tensor) -> Tensor:
        ids = torch.arange(first, first + 6)
        return attention(q, k, values, scheme=scheme, positions=ids, path=path)

    far, near = read(20_000, v), read(0, v)
    torch.testing.assert_close(far, near, rtol=0, atol=1e-4)
    with pytest.raises(
        HookError,
        match=rf"^{name}: queries and keys must fit into the dtype of v, "
        r"torch\.float16, got numbers up to .*e\+\d\d; v in torch\.float32 would work$",
    ):
        read(20_000, v.half())
    for first in (0, 2000):
        torch.testing.assert_close(
            read(first, v.half()).float(), near, rtol=0, atol=0.03
        )
