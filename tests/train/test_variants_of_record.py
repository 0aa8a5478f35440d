"""Trained networks: the variants of record, and the policy for lengths."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.trainings import small

from posenc_compare.measures.extrapolation import extrapolation
from posenc_compare.settings.training import Training
from posenc_compare.train.progress import Progress
from posenc_compare.variants import labelled

# Each with the scheme that it would be if its option had no effect.
OF_RECORD = {
    "rope:base=128": "rope",
    "rope:base=256": "rope:base=128",
    "rope:fraction=0.25": "rope",
    "path:forget=true": "path",
    "fox:bias=5": "fox",
    "integer:normalised=false": "integer",
    "randomized:scheme=rope": "rope",
    "randomized:scheme=alibi": "alibi",
    "deberta:reach=4": "deberta",
    "mix:every=2": "mix",
}


@pytest.fixture
def setting(tmp_path: Path) -> Training:
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(32, 127)) * 200)
    more = {"layers": 2, "width": 32, "steps": 2, "longest": 8, "test_bytes": 128}
    return small(path, **more, learning_rate=1e-2)


def bits(label: str, setting: Training) -> torch.Tensor:
    result = extrapolation(labelled(label), setting, Progress())
    found = [row.value for row in result.rows if row.quantity == "bits_per_byte"]
    assert len(found) == 4
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("label", OF_RECORD)
def test_a_variant_of_record_trains_and_is_no_other(
    label: str, setting: Training
) -> None:
    if label != "mix:every=2":  # the parameters of a second layer are drawn after all
        setting = replace(setting, layers=1)
    got = bits(label, setting)
    assert got.isfinite().all()
    assert not torch.equal(got, bits(OF_RECORD[label], setting))


@pytest.mark.parametrize("name", ["t5_bias", "xpos", "rope"])
def test_the_network_has_schemes_of_its_policy(name: str, setting: Training) -> None:
    scaled = bits(name, setting)
    published = bits(name, replace(setting, lengths="published"))
    assert torch.equal(scaled, published) == (name == "rope")
