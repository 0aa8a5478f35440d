"""What is said of schemes before anything is computed."""

from pathlib import Path

import pytest
import torch

from posenc_compare.errors import ConfigError
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.trial import misspelt, try_options
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.variants import parse_variants

PLUGIN = '''
"""Untrusted schemes."""
from posenc_compare.schemes import Scheme, register

@register("trial_wrong", family="bias")
class Wrong(Scheme):
    "Misspell a hook."
    def offset_bais(self, offsets):
        raise SystemExit("code of a plugin must not run here")

@register("trial_right", family="bias")
class Right(Scheme):
    "Name a helper like a hook."
    def offset_bias(self, offsets):
        return self.offset_bais(offsets)
    def offset_bais(self, offsets):
        return -offsets.abs()[None].float()

@register("trial_heir", family="bias")
class Heir(Right):
    "Take the hook of another."
    def offset_biass(self, offsets):
        return None
'''
SETTINGS = [ProbeSetting(), Training()]


def test_options_that_can_be_used_are_tried_and_no_random_number_is_drawn() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    try_options(parse_variants("rope:base=500,learned,rope_2d:kind=mixed"), SETTINGS)
    assert torch.equal(torch.rand(1), wanted)


def test_sizes_that_a_scheme_refuses_are_left_to_its_cells() -> None:
    narrow = ProbeSetting(width=6, heads=2)  # 3 channels a head are no pairs
    try_options(parse_variants("rope:base=500"), [narrow])
    with pytest.raises(ConfigError):
        try_options(parse_variants("rope:base=-500"), SETTINGS)
    quarter = parse_variants("rope:fraction=0.25")
    small = ProbeSetting(width=8, heads=2)  # a quarter of 4 channels is no pair
    try_options(quarter, [small, ProbeSetting()])
    with pytest.raises(ConfigError, match="fraction"):
        try_options(quarter, [small])


def test_a_misspelt_hook_is_named_and_its_code_does_not_run(
    tmp_path: Path, forgetful: None
) -> None:
    path = tmp_path / "strange.py"
    path.write_text(PLUGIN)
    planned = plan_comparison(
        "trial_wrong,trial_right,trial_heir,nope", "uniqueness", plugins=[path]
    )
    assert planned.remarks == (
        "trial_wrong overrides no hook, and so does nothing; `offset_bais` looks "
        "like `offset_bias`",
    )
    assert not list(misspelt(parse_variants("nope,alibi")))
