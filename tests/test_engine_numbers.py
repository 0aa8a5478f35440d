"""Numbers and choices of plan, estimate, records and orders, by hand."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.records import curve, fact, labelled, row
from support.records import record as made

from posenc_compare.errors import ConfigError
from posenc_compare.measures.measure import Result, Row
from posenc_compare.records.cells import Cell
from posenc_compare.records.diff import difference, paired
from posenc_compare.records.load import sound
from posenc_compare.records.record import Record
from posenc_compare.records.selection import Selection, newest
from posenc_compare.registry import MEASURES
from posenc_compare.reproduce.orders import (
    Claim,
    Outcome,
    PublishedOrder,
    Score,
    order_table,
    outcomes,
)
from posenc_compare.run.choices import Settings
from posenc_compare.run.compute import compute
from posenc_compare.run.estimate import seconds_of
from posenc_compare.run.plan import in_shard, plan
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import adjusted_p_of
from posenc_compare.train.progress import Progress

PROBE = ProbeSetting(positions=32, width=16, heads=2, tokens=16)
CELL = Cell(Variant("rope"), "shift_error", PROBE, threads=1)


# --- plan ----------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [(0, 1, 2), (5, 7)])
def test_a_measure_of_one_seed_has_the_first_that_is_asked_for(
    seeds: Sequence[int],
) -> None:
    settings = Settings(PROBE, (), tuple(seeds))
    asked = [Variant("rope")], ["portrait", "shift_error"], settings, 1
    cells = plan(*asked, many=1 + len(seeds))
    found = [(cell.measure, cell.setting.seed) for cell in cells]
    wanted = [("portrait", seeds[0]), *(("shift_error", seed) for seed in seeds)]
    assert sorted(found) == wanted
    with pytest.raises(ConfigError, match=f"at most {len(seeds)} cells, got"):
        plan(*asked, many=len(seeds))


class Numbered(Cell):
    """A cell whose key takes no file to be read."""

    def key(self) -> str:
        return hashlib.sha256(str(self.threads).encode()).hexdigest()[:32]


@pytest.mark.parametrize("count", [1, 3, 40, 300])
def test_many_shards_hold_each_cell_once(count: int) -> None:
    threads = range(1, 10 * count + 1)
    cells: list[Cell] = [Numbered(CELL.variant, "", PROBE, n) for n in threads]
    shards = [in_shard(cells, f"{i + 1}/{count}") for i in range(count)]
    assert sorted(cell.threads for shard in shards for cell in shard) == [*threads]
    assert all(shards)


def timed(seconds: float, label: str = "rope", **changes: Any) -> Record:
    one = made(label, **changes)
    one["provenance"]["seconds"] = seconds
    return Record.from_json(one)


@pytest.mark.parametrize(
    ("records", "cells", "workers", "seconds"),
    [
        # The median of a scheme's own records, and not of all of the measure.
        ([timed(2), timed(3), timed(10), timed(99, "alibi")], 4, 1, 12.0),
        ([timed(3)], 4, 2, 6.0),
        ([timed(3)], 4, 100, 3.0),  # no less than one cell
        ([timed(1, "alibi"), timed(5, "nope")], 1, 1, 3.0),  # of another scheme
        ([timed(3), timed(90, status="failed"), timed(0)], 1, 1, 3.0),
        ([timed(3, measure="smoothness")], 1, 1, 0.0),
    ],
)
def test_cells_take_the_median_time_of_their_like(
    records: list[Record], cells: int, workers: int, seconds: float
) -> None:
    assert seconds_of([CELL] * cells, records, workers) == seconds
    other = replace(CELL, measure="portrait")
    assert seconds_of([CELL, other], records, workers) == 0


def test_a_training_takes_time_by_its_steps_and_its_task() -> None:
    def trained(seconds: float, task: str, steps: int) -> Record:
        name = "extrapolation"
        facts = {"corpus_sha256": "1", "task": task, "steps": steps}
        return timed(seconds, measure=name, **facts)

    records = [trained(20, "copy", 10), trained(700, "language", 100)]
    for task, seconds in (("copy", 60.0), ("language", 210.0), ("sort", 0.0)):
        setting = Training(task=task, steps=30, corpus_sha256="1")
        cell = Cell(Variant("rope"), "extrapolation", setting, 1)
        assert seconds_of([cell], records, 1) == seconds


# --- compute -------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_overflow_is_a_finding_in_both_half_types_alone(
    dtype: Any, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("shift_error", value, 1, "plain"), Row("shift_error", 2.0, 8, "plain")]
    rows.append(Row("shift_error", 3.0, 8, "other"))
    measure = MEASURES.get("shift_error")
    arrays = {"a": [[1.234567, torch.inf], [None, -torch.nan]]}
    changed = replace(measure, compute=lambda *_: Result(rows, arrays))
    monkeypatch.setattr(MEASURES, "get", lambda name: changed)
    record = compute(replace(CELL, setting=replace(PROBE, dtype=dtype)), Progress())
    if dtype in ("float64", "float32"):
        assert record.status == "failed"
        assert record.error == f"non-finite: shift_error plain came out as {value}"
        return
    assert [one.value for one in record.rows] == [None, 2, 3]
    assert record.rows[0].note == f"not finite: {value}"
    assert record.arrays == {"a": [[1.2346, None], [None, None]]}


# --- records -------------------------------------------------------------------------


def coded(day: int, **changes: Any) -> dict[str, Any]:
    """Return a record of a day, whose code and versions may be others."""
    code, measured = changes.pop("code", "0"), changes.pop("measured", "0")
    graphics = changes.pop("graphics", "")
    one = made(**changes)
    one["spec"]["graphics"] = graphics
    one["spec"]["scheme"]["code"] = code * 64
    one["spec"]["measure"]["code"] = measured * 64
    one["provenance"]["started"] = f"2026-01-0{day}"
    one["key"] = f"{day}{one['key'][1:]}"
    return one


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"code": "a"}, 1),
        ({"measured": "a"}, 1),
        ({"version": 2}, 1),
        ({"numbers": 2}, 1),
        ({"modified": "a"}, 1),
        ({"code": "a", "seed": 1}, 1),
        ({"code": "a", "threads": 2}, 2),
        ({"code": "a", "graphics": "a card"}, 2),
        ({"code": "a", "width": 64}, 2),
        ({"code": "a", "label": "alibi"}, 2),
        ({"code": "a", "measure": "smoothness"}, 2),
    ],
)
def test_the_last_code_of_one_row_is_shown(
    changes: dict[str, Any], kept: int, reverse: bool
) -> None:
    records = [coded(1), coded(2, **changes)]
    read = sound(records[::-1] if reverse else records)
    found = newest(read)
    assert len(found) == kept
    assert read[0 if reverse else 1] in found


def test_patterns_add_up_in_the_order_of_the_records() -> None:
    records = sound([made("rope"), made("alibi"), made("nope")])
    found = Selection(schemes="nope,r*").of(records, print)
    assert [one.label for one in found] == ["rope", "nope"]


@pytest.mark.parametrize(
    ("labels", "more"), [("abcdefg", ", and 2 more"), ("abcde", "")]
)
def test_records_that_are_hidden_are_counted(labels: str, more: str) -> None:
    others = labels[1:]
    records = [coded(1, label=label) for label in labels]
    records += [coded(2, label=label, code="a") for label in others] + [
        coded(2, label="a", code="a", seed=seed) for seed in (1, 2, 3)
    ]
    lines: list[str] = []
    Selection().of(sound(records), lines.append)
    (line,) = lines
    assert line.startswith(
        f"{len(labels)} records of older code are not shown: a, b, c, d, e{more}; "
    )


def test_numbers_of_all_cases_and_places_are_compared() -> None:
    def of(*values: float) -> Record:
        one = made()
        places = (("p", 1.0), ("p", 2.0), ("q", 1.0))
        one["rows"] = [
            row(value, case=case, x=x)
            for value, (case, x) in zip(values, places, strict=True)
        ]
        return Record.from_json(one)

    said = difference(of(1, 2, 3), of(1.5, 2.2, 3))
    assert said == ["2 numbers, by up to 3.3e-01 relative (gain p 1.0)"]
    assert difference(of(1, 2, 3), of(1, 2, 4))[0].endswith(
        "2.5e-01 relative (gain q 1.0)"
    )


def test_options_make_another_question() -> None:
    one, other = made(), made()
    other["spec"]["scheme"]["options"] = {"base": 5.0}
    other["key"] = "f" * 32
    pairs = paired([Record.from_json(one)], [Record.from_json(other)])
    assert sorted((a is None, b is None) for a, b in pairs) == [
        (False, True),
        (True, False),
    ]


# --- published orders ----------------------------------------------------------------

GAPS = {  # by seed; in their p values one claim, two and all three differ
    "b": [0.6, 0.2, 0.3, 0.0, -0.1, 0.8, 0.8],
    "c": [1.0, 0.0, 1.2, 0.3, 1.2, 0.2],
    "d": [-0.1, 0.4, 0.8, 0.4, 0.0, -0.4, -0.4],
}


def of_gaps() -> list[Record]:
    """Return records of `a` and others that are worse by so many bits, by seed."""
    bodies = []
    for label, gaps in {"a": [0.0] * 8, **GAPS}.items():
        for seed, gap in enumerate(gaps):
            one = curve(label, [], seed=seed)
            one["quantities"] = {"bits_per_byte": fact("curve", x="x")}
            one["quantities"]["bits_per_byte"]["name"] = "bits_per_byte"
            one["rows"] = [
                row(2 + gap + more, quantity="bits_per_byte", x=8 * times, case=case)
                for times, case, more in ((1, "", 0), (2, "", 50 * (label == "a")))
            ]
            one["rows"].append(row(99 - gap, quantity="bits_per_byte", x=8, case="z"))
            bodies.append(one)
    return labelled(bodies)


def test_an_order_tests_its_claims_of_better_alone_and_seeds_of_both() -> None:
    a, b, c, d = map(Score, "abcd")
    claims = (Claim(a, b), Claim(a, d, "alike", 0.1), Claim(a, c))
    claims += (Claim(a, d, "no worse", 0.1),)
    found = outcomes(PublishedOrder("a says", "a paper", "a", claims), of_gaps())
    gaps = [np.array(GAPS[label]) for label in "bdcd"]
    for outcome, gap in zip(found, gaps, strict=True):
        assert outcome.differences == pytest.approx(gap)
        assert outcome.mean == pytest.approx(gap.mean())
        assert outcome.half_width == pytest.approx(half_width(gap))
    table = np.full((2, 7), np.nan)
    table[0], table[1, :6] = gaps[0], gaps[2]
    together = adjusted_p_of(table)
    assert [found[0].p, found[2].p] == pytest.approx(together.tolist())
    assert np.isnan([found[1].p, found[3].p]).all()
    assert found[2].p > adjusted_p_of(table[1:])[0]
    shown = order_table("name", PublishedOrder("", "", "a", claims), found)
    assert shown.title.startswith("name (7 seeds")


def test_each_score_has_its_own_task_and_ranks_are_over_all() -> None:
    areas = {"copy": (0.0, 0.5, 0.2), "language": (0.9, 0.5, 0.1)}
    bodies = []
    for task, seed in itertools.product(areas, range(6)):
        for label, area in zip("abc", areas[task], strict=True):
            one = made(label, corpus_sha256="1", task=task, seed=seed, length=8)
            one["quantities"] = {"accuracy_area": fact(["", None], better="higher")}
            one["quantities"]["accuracy_area"]["name"] = "accuracy_area"
            one["rows"] = [row(area, quantity="accuracy_area")]
            bodies.append(one)
    one, other = (Score(label, "reciprocal_rank") for label in "ba")
    here, there = (Score("a", "accuracy_area", 0, task=task) for task in areas)
    claims = Claim(one, other), Claim(here, there)
    order = PublishedOrder("", "", "a,b", claims)
    found = outcomes(order, labelled(bodies))
    # Ranks of b are 1 and 2, those of a 3 and 1.
    for outcome, gap in zip(found, (3 / 4 - 2 / 3, 0.0 - 0.9), strict=True):
        assert outcome.differences == pytest.approx([gap] * 6)


SPREAD = np.array([-1.0, 1.0, -2.0, 2.0, -3.0, 3.0])
EDGE = float(half_width(SPREAD))


@pytest.mark.parametrize(
    ("mean", "margin", "alike", "no_worse"),
    [
        (0.0, EDGE, "agrees", "agrees"),  # up to the margin, and not below it
        (0.0, 0.99 * EDGE, "not separable", "not separable"),
        (3 * EDGE, EDGE, "disagrees", "agrees"),
        (-3 * EDGE, EDGE, "disagrees", "disagrees"),
        (1.5 * EDGE, EDGE, "not separable", "agrees"),
        (-1.5 * EDGE, EDGE, "not separable", "not separable"),
    ],
)
def test_an_interval_may_reach_the_margin(
    mean: float, margin: float, alike: str, no_worse: str
) -> None:
    pair = Score("a"), Score("b")
    found = [
        Outcome(Claim(*pair, kind, margin), SPREAD + mean, np.nan).verdict
        for kind in ("alike", "no worse")
    ]
    assert found == [alike, no_worse]


@pytest.mark.parametrize("kind", ["alike", "no worse"])
def test_an_interval_that_ends_at_the_margin_does_not_disagree(kind: Any) -> None:
    margin = 9 - half_width(SPREAD - 9)
    claim = Claim(Score("a"), Score("b"), kind, margin)
    assert Outcome(claim, SPREAD - 9, np.nan).verdict == "not separable"


@pytest.mark.parametrize(
    ("p", "mean", "verdict"),
    [
        (0.05, 1.0, "agrees"),
        (0.05, -1.0, "disagrees"),
        (0.0501, 1.0, "not separable"),
        (0.0501, -1.0, "not separable"),
    ],
)
def test_a_claim_of_better_goes_by_its_p_value(
    p: float, mean: float, verdict: str
) -> None:
    claim = Claim(Score("a"), Score("b"))
    outcome = Outcome(claim, SPREAD + mean, p)
    assert (outcome.mean, outcome.verdict) == (pytest.approx(mean), verdict)
