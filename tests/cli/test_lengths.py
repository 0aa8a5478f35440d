"""The policy for defaults that are numbers of positions, from flag to record."""

from pathlib import Path
from typing import Any

import pytest

import posenc_compare as pc
from posenc_compare.errors import ConfigError
from posenc_compare.records.load import load_records
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training

SCHEME = """
from posenc_compare.schemes import Scheme, register

@register("cli_lengths", family="none", source="nobody 2026")
class Refuses(Scheme):
    '''Refuse published lengths.'''
    def __init__(self, geometry):
        super().__init__(geometry)
        if geometry.lengths == "published":
            raise ValueError("published lengths")
"""


@pytest.mark.parametrize("setting", [ProbeSetting, Training])
def test_the_policy_is_in_the_specification(setting) -> None:
    assert setting().spec()["lengths"] == "scaled"
    spec = setting(lengths="published").spec()
    assert spec["lengths"] == "published"
    assert setting.of(spec, ("stdlib", "")) == setting(lengths="published")
    with pytest.raises(ConfigError, match="lengths must be scaled or published"):
        setting(lengths="paper")


def test_compare_gives_schemes_the_policy(tmp_path: Path) -> None:
    curves: dict[str, dict[str, object]] = {}
    for lengths in ("scaled", "published"):
        asked: dict[str, Any] = {"lengths": lengths, "positions": 128, "seeds": 1}
        results = pc.compare("t5_bias,rope", "distance_decay", out=tmp_path, **asked)
        curves[lengths] = {r.spec.scheme.name: r.rows for r in results.records}
    assert curves["scaled"]["rope"] == curves["published"]["rope"]
    assert curves["scaled"]["t5_bias"] != curves["published"]["t5_bias"]
    labels = {record.label for record in load_records(tmp_path)}
    assert "t5_bias [lengths=published]" in labels


def test_check_builds_schemes_under_the_policy(posenc, tmp_path: Path) -> None:
    path = tmp_path / "refuses.py"
    path.write_text(SCHEME)
    done = posenc("check", path, "--lengths", "published")
    assert done.returncode == 1
    assert "published lengths" in done.stdout
