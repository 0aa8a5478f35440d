"""Integer positions against a loop, and what LayerNorm leaves of them."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.reference import Case, EmbedTests
from schemes.tools import normal

from posenc_compare.schemes import create


class TestInteger(EmbedTests):
    name = "integer"
    sizes = {"model_dim": 5, "heads": 1, "length": 48}
    cases = [{}, {"normalised": True}, {"normalised": False}, Case(length=7)]
    half = Case(length=10_007)
    # Near 15 962 a bfloat16 is 1/64 of its size wide.
    half_places = [15_962, 16_090, 3]
    changes = [{"normalised": False}]
    errors = [({"normalised": 3}, "^.*normalised must be true or false, got 3")]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        whole = case.options.get("normalised", True)
        return [position / scheme.geometry.length if whole else float(position)] * 5


@pytest.mark.parametrize("normalised", [True, False])
def test_float64_keeps_close_positions_apart(normalised: bool) -> None:
    positions = torch.arange(15_900, 16_000)
    options = {"normalised": normalised}
    scheme = create("integer", options=options, model_dim=8, heads=1, length=10_007)
    code = scheme.embed(torch.zeros(1, 100, 8).double(), positions)[0, :, 0]
    assert code.unique().numel() == 100
    # On a zero token there is one rounding: the very number torch rounds to.
    rounded = scheme.embed(torch.zeros(1, 100, 8).bfloat16(), positions)[0, :, 0]
    assert torch.equal(rounded, code.bfloat16())


@pytest.mark.parametrize("normalised", [True, False])
def test_layer_norm_removes_the_whole_code(normalised: bool) -> None:
    x = normal(2, 8, 16)
    scheme = create(
        "integer", options={"normalised": normalised}, model_dim=16, heads=1, length=8
    )
    positions = torch.arange(8)
    changed = scheme.embed(x, positions)
    assert (changed - x).abs().max() > 0.8
    # Adding p <= 7 rounds each channel by at most 8 * 2**-53.
    norm = F.layer_norm(changed, (16,)), F.layer_norm(x, (16,))
    torch.testing.assert_close(*norm, rtol=0, atol=1e-13)
