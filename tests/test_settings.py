"""One table of settings, which every surface reads."""

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import posenc_compare as pc
from posenc_compare.errors import ConfigError
from posenc_compare.records.load import load_records
from posenc_compare.run import comparison
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import TABLE, type_text
from posenc_compare.settings.training import Training

WRONG = {int: 0.5, float: "x", bool: 1, str: 7}  # by type
OPTIONS = 25  # at most, with --help
PLUGIN = Path(__file__).parent.parent / "examples" / "my_scheme.py"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record the arguments of comparisons instead of planning them."""
    found: list[dict[str, Any]] = []

    def plan(schemes: str, **choices: Any) -> None:
        found.append(choices)
        raise ConfigError("recorded")

    monkeypatch.setattr(comparison, "plan_comparison", plan)
    return found


def example(name: str) -> Any:
    """Return a value of a setting that is not its default, where there are several."""
    one = TABLE[name]
    if one.type is bool:
        return not one.default
    if kinds := get_args(one.type):
        return 3 if int in kinds else kinds[-1]
    return one.metadata["example"]


@pytest.mark.parametrize("name", TABLE)
def test_every_surface_takes_a_setting(
    name: str, posenc, tmp_path: Path, asked: list[dict[str, Any]]
) -> None:
    value = example(name)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    config = tmp_path / "x.toml"
    config.write_text(f"{name.replace('_', '-')} = {json.dumps(value)}")
    for words in (["--set", f"{name}={text}"], ["--config", config]):
        assert "recorded" in posenc("run", *words).stderr
    wanted = text if name == "seeds" else value
    assert [one[name] for one in asked] == [wanted, value]
    assert isinstance(asked[0][name], type(wanted))


@pytest.mark.parametrize("name", TABLE)
def test_compare_checks_a_setting(name: str) -> None:
    kind = TABLE[name].type
    wrong: dict[str, Any] = {name: WRONG.get(kind, "wrong")}
    with pytest.raises(ConfigError, match=rf"^{name} must be ") as error:
        comparison.compare("rope", "smoothness", **wrong)
    assert error.value.field == name


def test_editors_see_the_arguments_of_compare() -> None:
    typed = {one.name for one in fields(comparison.Arguments)}
    own = inspect.signature(comparison.compare).parameters.keys() - {"choices"}
    assert typed == own | TABLE.keys()


def test_every_setting_is_described_in_80_columns(posenc) -> None:
    described = posenc("describe", "settings").stdout
    assert max(map(len, described.splitlines())) <= 80
    text = " ".join(described.split())
    for name, one in TABLE.items():
        assert f"\n  {name}: {type_text(one)}\n" in described
        assert one.metadata["sentence"][:40] in text
    assert "steps: whole number Optimiser steps. [quick 300, survey 1500," in text
    assert "[quick 6, survey 6, standard 6, gpu 10]" in text


def test_a_file_takes_the_options_of_the_command(posenc, tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.write_text(
        f"plugin = [{json.dumps(str(PLUGIN))}]\nschemes = 'log_bias'\n"
        f"out = {json.dumps(str(tmp_path / 'out'))}\nformat = 'json'\ndry-run = true\n"
        "measures = 'smoothness'\nseeds = 1\nworkers = 1\nthreads = 2\n"
    )
    for command in ("run", "measure"):
        done = posenc(command, "--config", config)
        assert [cell["scheme"] for cell in json.loads(done.stdout)] == ["log_bias"]
    assert posenc("run", "--config", config, "--format", "csv").stdout.startswith("sch")
    flagged = posenc("run", "--config", config, "--schemes", "alibi")
    assert [cell["scheme"] for cell in json.loads(flagged.stdout)] == ["alibi"]
    (tmp_path / "out").touch()
    done = posenc("run", "--config", config)
    assert done.returncode == 3
    assert f"{tmp_path / 'out'}: must be a folder" in done.stderr
    config.write_text("\ndry_run = 1\n")
    done = posenc("measure", "--config", config)
    assert "x.toml:2: dry_run must be true or false, got 1" in done.stderr


def test_run_has_few_options_in_groups(posenc) -> None:
    lines = posenc("run", "--help").stdout.splitlines()
    assert 20 < sum(line.startswith("│ --") for line in lines) <= OPTIONS
    titles = [line.split()[1] for line in lines if line.startswith("╭")]
    assert titles == ["Options", "Comparison", "Settings", "Output", "Execution"]


# --- lengths, scaled or published ---------------------------------------------------


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
