"""Real position ids are served exactly, or refused by name."""

import math

import pytest
import torch
from schemes.tools import normal
from support.attention import ids_for, inputs, make
from torch import Tensor

from posenc_compare.attention import (
    Mask,
    Path,
    Session,
    attention,
    attention_logits,
    explain,
)
from posenc_compare.errors import ShapeError, UndefinedPositionError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Geometry, Scheme, Variant, create
from posenc_compare.schemes.scheme import Facts
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.wrapper import Wrapper

NAMES = [entry.name for entry in SCHEMES.built_in()]
TIMES = torch.tensor([-3.75, 0.0, 0.1, 0.125, 2.5, 2.75, 17.3, 1000.01]).double()
FAR = torch.tensor([-70_000, -3, 0, 1, 12, 80_000])


def session_of(scheme: Scheme, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return embedded tokens and the output of a layer."""
    x = normal(2, len(ids), scheme.geometry.model_dim)
    session = Session(scheme, ids)
    return session.embed(x), session.attend(0, **inputs(scheme, len(ids)), x=x)


@pytest.mark.parametrize("name", NAMES)
def test_ids_far_away_are_as_right_as_whole_ones_or_refused(name: str) -> None:
    scheme, steps = make(name, length=64), FAR
    if scheme.facts.axes > 1:
        steps = torch.stack([FAR, *[FAR.flip(0)] * (scheme.facts.axes - 1)], -1)
    if not scheme.facts.real:
        message = f"session: positions must be .* whole numbers for {name}, got torch"
        with pytest.raises(ShapeError, match=message):
            Session(scheme, steps.double())
        return
    for ids in (steps, ids_for(scheme, 6)):
        try:
            wanted = session_of(scheme, ids)
        except UndefinedPositionError:
            with pytest.raises(UndefinedPositionError):
                session_of(scheme, ids.double())
            continue
        for got, known in zip(session_of(scheme, ids.double()), wanted, strict=True):
            assert torch.allclose(got, known, rtol=1e-12, atol=1e-12)


def test_rotation_and_bias_follow_their_formulas() -> None:
    rope, alibi = make("rope"), make("alibi")
    q, k = (inputs(rope, len(TIMES))[part] for part in "qk")
    apart = TIMES - TIMES[:, None]
    speeds = 10_000.0 ** -(torch.arange(4).double() / 4)
    pairs = [x.unflatten(-1, (4, 2)).contiguous() for x in (q, k)]
    turned = [torch.view_as_complex(x) for x in pairs]
    phasor = torch.polar(torch.ones(8, 8, 4).double(), apart[..., None] * speeds)
    products = turned[0][..., :, None, :].conj() * turned[1][..., None, :, :] * phasor
    past = torch.ones(8, 8).tril().bool()
    got = attention_logits(q, k, scheme=rope, positions=TIMES)
    wanted = products.real.sum(dim=-1) / math.sqrt(8)
    assert torch.allclose(got[..., past], wanted[..., past], rtol=0, atol=1e-10)
    slopes = torch.tensor([2.0**-4, 2.0**-8]).double()[:, None, None]
    got = attention_logits(q, k, scheme=alibi, positions=TIMES)
    wanted = q @ k.mT / math.sqrt(8) - slopes * apart.abs()
    assert torch.allclose(got[..., past], wanted[..., past], rtol=0, atol=1e-12)


def test_float32_is_widened_and_rounded_no_further() -> None:
    scheme, ids = make("rope"), TIMES.float()
    given = inputs(scheme, len(ids))
    wanted = attention(**given, scheme=scheme, positions=ids.double())
    assert torch.equal(attention(**given, scheme=scheme, positions=ids), wanted)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch")
@pytest.mark.parametrize("name", ["rope", "alibi", "kerple_log", "grape_a"])
@pytest.mark.parametrize("causal", [True, False])
def test_all_paths_agree(name: str, causal: bool) -> None:
    scheme, ids = make(name), torch.stack([TIMES, TIMES.square()])
    given = {**inputs(scheme, len(TIMES)), "scheme": scheme, "positions": ids}
    given["mask"] = Mask(causal=causal)
    found = explain(**given)
    assert found.others.get("strided") == "positions are real numbers"
    paths: list[Path] = ["dense", "plain"]
    if not any(p.requires_grad for p in scheme.parameters()):
        paths.append("flex")
    wanted = attention(**given)
    for path in paths:
        got = attention(**given, path=path)
        assert torch.allclose(got, wanted, rtol=0, atol=1e-12)


def test_a_trained_bias_learns_the_same_over_blocks_of_queries() -> None:
    count = 600  # more queries than one block, and pairs than are asked at a time
    gradients = []
    for ids in (torch.arange(count), torch.arange(count).double()):
        scheme = make("kerple_power")
        out = attention(**inputs(scheme, count), scheme=scheme, positions=ids)
        out.square().sum().backward()
        gradients.append([p.grad for p in scheme.parameters()])
    for whole, real in zip(*gradients, strict=True):
        assert torch.allclose(whole, real, rtol=1e-9)


@pytest.mark.parametrize("name", ["rope", "alibi"])
def test_keys_of_another_text_have_them_too(name: str) -> None:
    """Check C19 is of rows and of decoding."""
    scheme, mask = make(name), Mask(causal=False)
    q, k, v = inputs(scheme, len(TIMES)).values()
    crossed = Session(scheme, TIMES[:3], key_positions=TIMES, mask=mask)
    full = attention(q, k, v, scheme=scheme, positions=TIMES, mask=mask)
    got = crossed.attend(0, q[:, :, :3], k, v)
    assert torch.allclose(got, full[:, :, :3], rtol=0, atol=1e-12)


def test_a_shift_of_real_ids_reaches_the_layers() -> None:
    shifted = make("shape", scheme="rope", reach=7).eval()
    assert torch.equal(Session(shifted, TIMES).ids, TIMES + 7)


def test_wrappers_serve_them_if_the_scheme_inside_does() -> None:
    sizes = Geometry(model_dim=16, heads=2)
    for label, real in [
        ("sink", True),
        ("sink:scheme=t5_bias", False),
        ("dape", True),
        ("dape:base=t5_bias", False),
        ("mix:second=t5_bias", False),
        ("randomized:scheme=rope", False),
        ("log_length:scheme=fox", True),
        ("tupe", False),  # its relative bias is that of nope, which reads no ids
    ]:
        name, _, options = label.partition(":")
        given = dict([options.split("=")]) if options else {}
        assert Variant(name, given).build(sizes).facts.real is real, label
    assert Wrapper(sizes, create("rope")).facts.real
    assert not Wrapper(sizes, create("t5_bias")).facts.real


class OnFourAxes(Rotation):
    """Rotate each pair by one of four coordinates."""

    facts = Facts(axes=4, real=True)

    def angles(self, positions: Tensor) -> Tensor:
        return positions.double() * torch.tensor([1.0, 0.5, 0.25, 0.125]).double()


def test_ids_may_have_four_axes() -> None:
    scheme = OnFourAxes(Geometry(model_dim=16, heads=2), 100.0, "half")
    ids = torch.stack([TIMES, TIMES.flip(0), TIMES.square(), -TIMES], -1)
    q, k = (inputs(scheme, len(ids))[part] for part in "qk")
    here = attention_logits(q, k, scheme=scheme, positions=ids)
    for axis in range(4):
        moved = ids.clone()
        moved[:, axis] += 0.5
        got = attention_logits(q, k, scheme=scheme, positions=moved)
        assert torch.allclose(got, here, rtol=0, atol=1e-10)
        moved[0, axis] += 0.5
        got = attention_logits(q, k, scheme=scheme, positions=moved)
        assert not torch.allclose(got, here, rtol=0, atol=1e-3)
    with pytest.raises(ShapeError, match=r"be \(8, 4\) or .* query, got \(8, 3\)"):
        attention_logits(q, k, scheme=scheme, positions=ids[:, :3])
