"""The policy for defaults that are numbers of positions, from flag to record."""

import json
from pathlib import Path

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
DRY = ["--dry-run", "--format", "json", "--schemes", "t5_bias", "--seeds", "1"]


def keys(done) -> set[str]:
    assert done.returncode == 0, done.stderr
    return {row["record"] for row in json.loads(done.stdout)}


@pytest.mark.parametrize("setting", [ProbeSetting, Training])
def test_the_policy_is_in_the_specification(setting) -> None:
    assert setting().spec()["lengths"] == "scaled"
    spec = setting(lengths="published").spec()
    assert spec["lengths"] == "published"
    assert setting.of(spec, ("stdlib", "")) == setting(lengths="published")
    with pytest.raises(ConfigError, match="lengths must be scaled or published"):
        setting(lengths="paper")


@pytest.mark.parametrize("measures", ["smoothness", "extrapolation"])
def test_flag_and_file_give_the_same_keys(
    posenc, tmp_path: Path, measures: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("lengths = 'published'")
    run = ["run", *DRY, "--measures", measures]
    scaled, published = (
        keys(posenc(*run, "--set", f"lengths={policy}"))
        for policy in ("scaled", "published")
    )
    assert scaled == keys(posenc(*run))
    assert published == keys(posenc(*run, "--config", path))
    assert not scaled & published


def test_measure_and_a_grid_take_it_too(posenc) -> None:
    for words in (
        ["measure", *DRY],
        ["measure", *DRY[:4], "alibi_2d", "--set", "grid=4x4"],
    ):
        made = [
            posenc(*words, "--set", f"lengths={p}") for p in ("scaled", "published")
        ]
        assert not keys(made[0]) & keys(made[1])


def test_compare_gives_schemes_the_policy(tmp_path: Path) -> None:
    curves: dict[str, dict[str, object]] = {}
    for lengths in ("scaled", "published"):
        results = pc.compare(
            "t5_bias,rope",
            "distance_decay",
            out=tmp_path,
            lengths=lengths,
            positions=128,
            seeds=1,
            workers=1,
        )
        curves[lengths] = {r.spec.scheme.name: r.rows for r in results.records}
    assert curves["scaled"]["rope"] == curves["published"]["rope"]
    assert curves["scaled"]["t5_bias"] != curves["published"]["t5_bias"]
    labels = {record.label for record in load_records(tmp_path)}
    assert "t5_bias [lengths=published]" in labels


def test_check_builds_schemes_under_the_policy(posenc, tmp_path: Path) -> None:
    path = tmp_path / "refuses.py"
    path.write_text(SCHEME)
    assert posenc("check", path).returncode == 0
    done = posenc("check", path, "--lengths", "published")
    assert done.returncode == 1
    assert "published lengths" in done.stdout
