"""Parameters start as the released code draws them."""

import math
from typing import Any

import pytest
import torch

from posenc_compare.schemes import Geometry
from posenc_compare.variants import labelled

SIZES: dict[str, Any] = {"model_dim": 2000, "heads": 20, "head_dim": 100}
SIZES |= {"length": 300}
# Of normal numbers about 0: a label, a parameter, and its standard deviation.
NORMAL: list[tuple[str, str, float]] = [
    ("bilevel", "table", 0.02),
    ("fourier_learned:spread=variance", "waves.weight", 1 / 10),
    ("fourier_learned:spread=std", "waves.weight", 1 / 100),
    ("fourier_random", "frequencies", 10),
    ("fourier_random_2d", "frequencies", 1),
    ("fourier_random_2d:sigma=3", "frequencies", 3),
    ("grape_a", "direction", 1 / 10),  # 1 / sqrt(head_dim)
    ("grape_ap", "path.weight", 0.5 / math.sqrt(2000)),
    ("learned_axial:rows=60", "columns", 1),
    ("learned_axial:rows=60", "rows", 1),
    ("learned_axial:rows=60;std=0.1", "columns", 0.1),
    ("learned_axial:rows=60;std=0.1", "rows", 0.1),
    ("learned_hierarchical", "table", 0.02),
    ("layoutlm", "rows", 0.02),
    ("layoutlm", "columns", 0.02),
    ("mlp_bias:hidden=4000", "rise.weight", 0.02),
    ("mlp_bias:hidden=4000", "fall.weight", 0.02),
    ("time2vec", "frequency", 1),
    ("time2vec", "phase", 1),
    ("tisa:kernels=200", "centre", 5),
    ("tupe", "table", 0.02),
    ("tupe", "to_queries.weight", 0.02),
    ("tupe", "to_keys.weight", 0.02),
]
# Of numbers drawn from 0 to the last.
UNIFORM = [
    ("kerple_log", "steepness", 2.0),
    ("kerple_log", "rate", 1.0),
    ("kerple_power", "factor", 1.0),
    ("kerple_power", "exponent", 2.0),
    ("learned_axes", "rows", 1.0),
    ("learned_axes", "columns", 1.0),
    ("mep:kernels=trained", "steepness", 2.0),
    ("mep:kernels=trained", "rate", 1.0),
]
EQUAL = [
    ("erpe", "table", 0.0),
    ("grape_a", "steepness", math.log(math.expm1(1))),  # whose softplus is 1
    ("irpe", "tables.0", 0.0),
    ("levit", "table", 0.0),
    ("mlp_bias", "rise.bias", 0.0),
    ("sink", "logit", 0.0),
    ("sink:start=1", "logit", 1.0),
    ("tupe", "to_queries.bias", 0.0),
    ("tupe", "to_keys.bias", 0.0),
]


def start(label: str, name: str, **sizes: int) -> torch.Tensor:
    torch.manual_seed(0)
    scheme: Any = labelled(label).build(Geometry(**{**SIZES, **sizes}))
    return scheme.state_dict()[name]


@pytest.mark.parametrize(("label", "name", "std"), NORMAL)
def test_normal_numbers_have_their_spread(label: str, name: str, std: float) -> None:
    numbers = start(label, name)
    # Four standard errors of so many draws.
    error = 4 * std / math.sqrt(numbers.numel())
    assert numbers.std().item() == pytest.approx(std, abs=error)
    assert numbers.mean().item() == pytest.approx(0, abs=error)


@pytest.mark.parametrize(("label", "name", "most"), UNIFORM)
def test_uniform_numbers_reach_from_end_to_end(
    label: str, name: str, most: float
) -> None:
    numbers = start(label, name, heads=4000)
    assert 0 <= numbers.min() < 0.01
    assert most - 0.01 < numbers.max() <= most
    assert numbers.mean().item() == pytest.approx(most / 2, rel=0.05)


@pytest.mark.parametrize(("label", "name", "value"), EQUAL)
def test_other_numbers_are_equal(label: str, name: str, value: float) -> None:
    numbers = start(label, name)
    torch.testing.assert_close(numbers, torch.full_like(numbers, value))


@pytest.mark.parametrize("name", ["height", "sharpness"])
def test_bumps_start_nearly_equal(name: str) -> None:
    numbers = start("tisa:kernels=200", name)
    assert numbers.mean().item() == pytest.approx(0.1, abs=1e-3)
    assert numbers.std().item() == pytest.approx(0.01, abs=1e-3)
