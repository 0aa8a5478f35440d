"""Runs that share a folder: their shares, and how they help each other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from posenc_compare.records.cells import Cell
from posenc_compare.records.store import Store
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.plan import shuffled
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting

CELL = Cell(Variant("rope"), "shift_error", ProbeSetting(), threads=1)


def test_each_run_has_an_order_of_its_own_seed_by_seed() -> None:
    probes = [replace(CELL.setting, seed=seed) for seed in (1, 0)]
    cells = [replace(CELL, setting=p, threads=n) for p in probes for n in range(1, 31)]
    one, other = shuffled(cells), shuffled(cells)
    assert one != other  # so that runs which share a folder help each other
    for found in (one, other):
        assert [cell.setting.seed for cell in found] == [0] * 30 + [1] * 30
        assert {cell.threads for cell in found[:30]} == {*range(1, 31)}


def test_a_shard_helps_with_what_has_no_record(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"positions": 8, "seeds": 1}
    names = "nope,rope,alibi,binary,integer,sinusoidal,xpos,cope,shaw,fox,fire,t5_bias"
    words = names, "smoothness"
    first = plan_comparison(*words, shard="1/2", **asked)
    assert 0 < len(first.cells) < 12 == len(first.keys)  # by hashes of code
    assert first.compute(Store(tmp_path), lambda event: None) == ""
    assert Store(tmp_path).keys() == set(first.keys)
    again = plan_comparison(*words, shard="1/2", overwrite=True, **asked)
    assert again.keys == [cell.key() for cell in first.cells]
