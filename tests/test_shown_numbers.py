"""Every number and statement that commands print of records, against values by hand."""

import csv
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from scipy import stats
from support.records import curve, fact, record, row, stored, windowed
from support.shown import Show, Shown, shown_in

from posenc_compare.settings.canonical import spec_key
from posenc_compare.show.tables import PAIRED
from posenc_compare.stats.correlation import Correlation, correlation, holm
from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.pairs import adjusted_p, adjusted_p_of

RNG = np.random.default_rng(0)
UNEVEN = [0.1, 1.0, 0.2, 0.9, 0.15, 1.1]  # one sign, and a small t
Made = list[dict[str, Any]]

TESTED = (
    "* p ≤ 0.05: step-down max-T test against the baseline, adjusted for the schemes "
    "shown in a column, with at least 6 common seeds"
)


@pytest.fixture
def show(posenc: Command, tmp_path: Path) -> Show:
    """Return what a command prints of records, as tables."""
    count = itertools.count()

    def tables(records: Made, *words: str) -> list[Shown]:
        folder = stored(tmp_path / f"{next(count)}", records)
        done = posenc("table", folder, "--format", "md", *words)
        assert done.returncode == 0, done.stderr
        return shown_in(done.stdout)

    return tables


def trained(label: str, *curves: list[float], first: int = 0, **changes: Any) -> Made:
    """Return records of a scheme with a curve for each seed, from the first on."""
    return [
        curve(label, points, seed=seed, **changes)
        for seed, points in enumerate(curves, start=first)
    ]


def facts(records: Made, name: str = "gain", **changes: Any) -> Made:
    """Change the facts of a quantity in all records, or add it; return them."""
    for one in records:
        known = one["quantities"].get(name, fact())
        one["quantities"][name] = {**known, "name": name, **changes}
    return records


def steady(mean: float, seeds: int = 6, step: float = 0.001) -> list[list[float]]:
    """Return a curve of one point for each seed, of nearly the same value."""
    return [[mean + step * seed] for seed in range(seeds)]


def half(values: Any) -> float:
    """Return the half width of a mean by Student's t, with the quantile of scipy."""
    array = np.asarray(values, float)
    n = len(array)
    return stats.t.ppf(0.975, n - 1) * array.std(ddof=1) / math.sqrt(n)


def cell(values: Any) -> str:
    """Return the text of a mean of numbers from 0.001 to 10, over seeds."""
    return f"{np.mean(values):.3f} ± {half(values):.3f}"


# Headlines and columns.


def test_a_headline_shows_its_own_case_at_its_own_point(show: Show) -> None:
    made = []
    for label, bits, steps in itertools.product("ab", (2.0, 3.0), (10, 40)):
        if (bits == 2.0) == (label == "a"):
            one = record(label, corpus_sha256="1", steps=steps)
            one["rows"] = [
                row(bits + steps / 100 + lift * bits, case=case, x=x)
                for case, x, lift in (
                    ("other", 8, 2.0),
                    ("own", 4, 4.0),
                    ("own", 8, 0.0),
                    ("own", 16, 3.0),
                    ("zero", 8, 1.0),
                )
            ]
            made.append(one)
    facts(made, headline=["own", 8])
    short = [one for one in made if one["spec"]["setting"]["steps"] == 10]
    (table,) = show(short)
    assert table.rows == {"a": ["2.100"], "b": ["3.100"]}
    (table,) = show(short, "--baseline", "a")
    assert table.rows == {"b": ["1.000, 0/1"]}
    (table,) = show(made, "--by", "steps")
    assert table.rows["b"] == ["3.100", "3.400", "0.300"]


def test_each_column_has_its_own_direction_and_best(show: Show) -> None:
    better = {"low": "lower", "high": "higher", "none": "neither", "p": "lower"}
    better |= {"q": "lower"}
    made = []
    for place, label in enumerate("abc"):
        for seed in range(6):
            one = record(label, corpus_sha256="1", seed=seed)
            one["rows"] = [row(place + seed / 1000, quantity=name) for name in better]
            made.append(one)
    for name, end in better.items():
        facts(made, name, better=end, headline=["", None])
    for one in made:
        del one["quantities"]["gain"]
    first, second = show(made)
    assert first.head == ["high ↑", "low ↓", "none", "p ↓"]
    assert second.head == ["q ↓"]
    assert first.bold == {("c", "high ↑"), ("a", "low ↓"), ("a", "p ↓")}
    n = "(n = 6; 3 of 3 pairs differ)"
    assert first.lines == [
        f"high: c > b > a {n}",
        f"low: a < b < c {n}",
        f"p: a < b < c {n}",
    ]


@pytest.mark.parametrize("kind", ["curve", ["", 8]])
def test_what_is_not_trained_has_no_order(show: Show, kind: Any) -> None:
    made = [
        record(label, seed=seed) for label, seed in itertools.product("ab", range(6))
    ]
    for one in made:
        value = 1.0 + (one["label"] == "b") + one["spec"]["setting"]["seed"] / 1000
        one["rows"] = [row(value, x=8)]
    (table,) = show(facts(made, headline=kind))
    assert (table.lines, table.bold) == ([], set())


def test_titles_count_the_cells_seeds_and_documents_behind_them(show: Show) -> None:
    made = [*trained("a", [2.0], [2.5]), record("a", "smoothness", status="lost")]
    made += [record("a", "precision", status="unsupported")]
    made += trained("b", [3.0], status="failed")
    made.append(record("b", "cost", corpus_sha256="1", status="lost"))
    curves, costs, probes, rest = show(made)
    assert curves.title.endswith("2 seeds; 2 of 3 cells ok, 1 failed)")
    assert costs.title.endswith("(1 seed; 0 of 1 cells ok, 1 lost)")
    assert probes.title.endswith("0 of 2 cells ok, 1 lost, 1 unsupported)")
    assert rest.title.endswith("(2 of 6 cells ok, 1 failed, 2 lost, 1 unsupported)")
    grids = [record(k, width=16, grid=g) for k, g in (("a", "4x4"), ("b", "2x8"))]
    sizes = "width 16, 4 heads, 512 positions, sequences of 64 tokens, float64"
    for some, grid in ((grids[:1], ", grid 4x4"), (grids, "")):
        said = f"Measures without training ({sizes}{grid}; 1 seed; "
        assert show(some)[0].title.startswith(said)


# Means.


def test_csv_has_a_mean_for_each_task_case_and_point(
    posenc: Command, tmp_path: Path
) -> None:
    made = trained("a", [1.0, 5.0, 4.0], [2.0, 5.0, 4.0], [6.0, 5.0, 4.0])
    for seed, note in ((0, "early"), (1, "late")):
        made[seed]["rows"][1] |= {"value": None, "note": note}
    made += trained("a", [7.0], task="copy")
    for one in made:
        one["rows"].append(row(9.0, x=128, case="read"))
    folder = stored(tmp_path / "run", facts(made, unit="bits"))
    text = posenc("table", folder, "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    found = {
        (r["task"], r["case"], float(r["x"])): (
            r["mean"] and float(r["mean"]),
            r["half_width"] and float(r["half_width"]),
            int(r["n"]),
            r["note"],
            r["unit"],
        )
        for r in rows
    }
    (three_seeds,) = (r for r in rows if r["n"] == "3" and r["x"] == "8.0")
    assert three_seeds["records"].split() == sorted(
        spec_key(one["spec"]) for one in made[:3]
    )
    three = [1.0, 2.0, 6.0]
    assert list(found.items()) == [
        (("copy", "", 8), (7.0, "", 1, "", "bits")),
        (("copy", "read", 128), (9.0, "", 1, "", "bits")),
        (("language", "", 8), (3.0, pytest.approx(half(three)), 3, "", "bits")),
        (("language", "", 16), (5.0, "", 1, "early; late", "bits")),
        (("language", "", 32), (4.0, 0.0, 3, "", "bits")),
        (("language", "read", 128), (9.0, 0.0, 3, "", "bits")),
    ]


def test_a_seed_without_a_number_counts_nowhere(show: Show) -> None:
    made = trained("a", [1.0, 1.0], [2.0, 2.0], [6.0, 6.0])
    made[1]["rows"][0] |= {"value": None, "note": "not defined"}
    (table,) = show(made)
    assert table.rows["a"][0] == f"3.500 ± {half([1, 6]):.2f} (n = 2)"


def test_windows_belong_to_points_by_their_length_and_to_no_case(show: Show) -> None:
    scores = 3 + RNG.normal(size=(3, 2, 6)) + np.arange(6.0)
    made = windowed("a", scores, [0, 0, 0, 1, 1, 1])
    (plain,) = show(made)
    failed, _ = show([*made, *trained("b", [1.0], status="failed")])
    for table in (plain, failed):
        assert "over 3 seeds and 2 documents;" in table.title
    for seed, one in enumerate(made):
        one["rows"].reverse()
        one["rows"] += [row(5.0 + seed, x=x, case="read") for x in (4, 8, 16)]
    (table,) = show(made)
    assert table.rows["a"][1:] == plain.rows["a"]
    assert table.rows["a + read"] == [cell([5, 6, 7])] * 3
    (several,) = show([*made, *trained("b", [1.0, 2.0], [1.0, 2.0])])
    assert "documents" not in several.title


def test_a_difference_has_an_interval_over_documents(
    posenc: Command, tmp_path: Path
) -> None:
    owners, scores = [0, 0, 0, 1, 1, 1], 3 + RNG.normal(size=(2, 6, 2, 6))
    one, other = (windowed(*x, owners) for x in zip("ab", scores, strict=True))
    folder = stored(tmp_path / "run", [*one, *other])
    done = posenc("table", folder, "--baseline", "a", "--format", "json")
    found = {row["column"]: row for row in json.loads(done.stdout)}
    for place, x in enumerate(("8", "16")):
        gaps = scores[1, :, place] - scores[0, :, place]
        wanted = crossed_half_width(gaps, owners)
        assert found[x]["over_documents"] == pytest.approx(wanted, rel=1e-3)
        assert found[x]["half_width"] == pytest.approx(half([*gaps.mean(1)]), rel=1e-3)


def test_a_line_says_that_tests_pair_seeds_on_the_same_documents(show: Show) -> None:
    scores = 3 + RNG.normal(size=(6, 2, 6))
    made = [
        one
        for label in "ab"
        for one in windowed(label, scores + (label == "b"), [0, 0, 0, 1, 1, 1])
    ]
    (table,) = show(made)
    assert PAIRED in table.lines
    (table,) = show([*trained("a", *[[1.0]] * 6), *trained("b", *[[2.0]] * 6)])
    assert PAIRED not in table.lines


def test_as_trained_is_the_network_without_a_case(show: Show) -> None:
    made = trained("a", [3.0, 4.0, 5.0])
    made[0]["rows"] += [
        row(1.0, x=16, case="clean"),
        row(3.5, quantity="read", case="pi", x=16),
    ]
    facts(made, "read", headline={"cases_of": "gain"}, x="test length")
    *_, read = show(made)
    assert (read.head, read.rows) == (
        ["16"],
        {"a + pi": ["3.500"], "a, as trained": ["4.000"]},
    )


# Orders.


def test_groups_name_their_seeds_and_all_that_have_too_few(show: Show) -> None:
    made = [*trained("a", *steady(1.0, 8)), *trained("b", *steady(2.0, 7))]
    made += trained("c", *steady(3.0, 6))
    for label in "xy":
        made += trained(label, *steady(9.0 + (label == "y"), 2))
    (table,) = show(made)
    assert table.lines == [
        "8: a < b < c (n = 6 to 7; 3 of 3 pairs differ; without x, y: fewer than 6 "
        "seeds)"
    ]
    uneven = [*trained("a", *[[3.0, 3.0]] * 6), *trained("b", *[[2.0, 2.5]] * 6)]
    for one in uneven:
        seed = one["spec"]["setting"]["seed"]
        one["rows"] = [{**r, "value": r["value"] + seed / 1000} for r in one["rows"]]
        one["rows"] = one["rows"][: 1 + (seed < 3)]
    (table,) = show(uneven)
    assert [*table.rows] == ["b", "a"]
    assert table.lines == ["8: b < a (n = 6; 1 of 1 pairs differ)"]
    one_seed = [one for one in uneven if one["spec"]["setting"]["seed"] == 0]
    (table,) = show(one_seed)
    assert table.lines == ["no order: 1 seed, 6 are needed"]
    assert table.bold == set()


def test_inside_a_group_the_better_mean_is_first(show: Show) -> None:
    lift = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    values = {
        "a": lift,
        "b": [0.03 + v for v in lift[::-1]],
        "c": [v - 5 for v in lift],
    }
    made = [one for label, some in values.items() for one in stepped(label, some)]
    (table,) = show(facts(made, better="higher"))
    assert [*table.rows] == ["b", "a", "c"]
    assert table.lines == ["8: {b, a} > c (n = 6; 2 of 3 pairs differ)"]
    assert table.bold == {("a", "8"), ("b", "8")}
    for better, rows in (("lower", ["c", "a", "b"]), ("neither", ["a", "b", "c"])):
        (table,) = show(facts(made, better=better))
        assert [*table.rows] == rows


# Floors.


def floored(
    records: Made, *floors: Mapping[str, Sequence[float | None]], base: int = 0
) -> Made:
    """Add floors to records: of each point, values by case and seed."""
    for one in records:
        seed = one["spec"]["setting"]["seed"] - base
        one["rows"] += [
            row(values[seed], quantity="floor", case=case, x=8 << point)
            for point, of in enumerate(floors)
            for case, values in of.items()
        ]
    return facts(records, "floor", headline={"floor_of": "gain"}, x="test length")


BELOW = "not shown to be better than the"
FLAT = {"flat": [value for (value,) in steady(2.0)]}


@pytest.mark.parametrize("higher", [False, True])
def test_the_best_floor_of_each_point_is_to_be_beaten(show: Show, higher: bool) -> None:
    sign = -1 if higher else 1
    values: dict[str, list[float | None]] = {
        "good": [1.5, 3.5],
        "between": [2.2, 2.2],
        "equal": [2.0, 4.0],
        "lost": [1.5, None],
    }
    made = [
        one
        for label, points in values.items()
        for one in trained(label, *[[sign * v for v in points if v]] * 5)
    ]
    at = ({"a": 2.5, "b": 2.0}, {"0": None, "a": 4.0, "b": 5.0})
    floors = [{k: [v and sign * v] * 5 for k, v in of.items()} for of in at]
    for one in made[-5:]:
        one["rows"].append(row(None, x=16, note="not defined"))
    facts(floored(made, *floors), better="higher" if higher else "lower")
    (table,) = show(made)
    assert [line for line in table.lines if line.startswith(BELOW)] == [
        f"{BELOW} b at 8: between, equal",
        f"{BELOW} a at 16: equal",
    ]
    assert table.rows["lost"] == [f"{sign * 1.5:.3f}", "not defined"]
    assert table.rows["a"] == [f"{sign * 2.5:.3f}", f"{sign * 4:.3f}"]
    assert table.rows["b"] == [f"{sign * 2:.3f}", f"{sign * 5:.3f}"]


def test_a_floor_is_beaten_on_the_seeds_that_both_have(show: Show) -> None:
    floor = {"flat": [2.0, 2.0, 2.0, 3.0, 3.0]}
    made = floored(trained("early", *[[2.2]] * 3), floor)
    made += floored(trained("late", *[[2.7]] * 2, first=3), floor)
    (table,) = show(made)
    assert [line for line in table.lines if line.startswith(BELOW)] == [
        f"{BELOW} flat at 8: early"
    ]
    assert table.rows["flat"] == [cell([2, 2, 2, 3, 3])]


def test_schemes_are_tested_against_a_floor_together(show: Show) -> None:
    floor = {"flat": [5.0 + i / 1000 for i in range(6)]}
    noise = np.random.default_rng(1).normal(size=(4, 6))
    values = [np.array(floor["flat"]) - UNEVEN, *(5 + noise), floor["flat"]]
    alone = adjusted_p([values[0], values[-1]])[0, 1]
    together = adjusted_p(values)[0, -1]
    assert alone <= 0.05 < together
    made = [
        one
        for label, some in zip("abcde", values, strict=False)
        for one in floored(stepped(label, some), floor)
    ]
    (table,) = show(made)
    assert "no scheme is shown to be better than the flat at 8" in table.lines


def test_schemes_behind_a_floor_in_the_mean_do_not_score_better(show: Show) -> None:
    made = [*trained("a", *[[2.5]] * 2), *trained("b", *[[2.0]] * 2)]
    floored(made, {"flat": [2.0] * 2})
    (table,) = show(made)
    assert "no scheme scores better than the flat at 8" in table.lines
    made = [*trained("a", [2.5]), *trained("b", [1.0], first=1)]
    (table,) = show(floored(made, {"flat": [2.0, None]}))  # none of the seeds of b
    assert "no scheme scores better than the flat at 8" not in table.lines


def test_too_few_seeds_are_not_better_than_a_floor(show: Show) -> None:
    made = floored(
        [*trained("below", *steady(1.9)), *trained("few", *steady(1.9, 3))], FLAT
    )
    (table,) = show(made)
    assert f"{BELOW} flat at 8: few" in table.lines


def test_each_budget_has_its_own_floor(show: Show) -> None:
    made = floored(trained("a", *steady(1.95), steps=1), FLAT)
    made += floored(trained("b", *steady(2.05), steps=1), FLAT)
    low = {"flat": [value - 0.1 for value in FLAT["flat"]]}
    made += floored(trained("a", *steady(1.96), steps=4), low)
    (table,) = show(made)
    assert [line for line in table.lines if line.startswith(BELOW)] == [
        f"{BELOW} flat [steps=1] at 8: b [steps=1]",
        f"{BELOW} flat [steps=4] at 8: a [steps=4]",
    ]
    assert any(line.startswith("8: ") for line in table.lines)


@pytest.mark.parametrize(
    ("one", "other"),
    [({}, {"corpus_sha256": "2"}), ({"split": "test"}, {"split": "validation"})],
)
def test_scores_of_several_texts_have_no_order(
    show: Show, one: Any, other: Any
) -> None:
    made = floored(trained("a", *steady(1.95), **one), FLAT)
    made += floored(trained("b", *steady(1.8), **other), FLAT)
    (table,) = show(made)
    assert "no order: scores are of several texts" in table.lines
    assert not any(line.startswith("8: ") for line in table.lines)
    assert table.bold == set()


@pytest.mark.parametrize(
    "other",
    [{0: 9.0, 2: 2.0}, {0: 2.0, 1: 9.0}, {0: 9.0, 1: 2.0, 2: 2.0}],
)
def test_floors_are_one_where_all_schemes_and_seeds_agree(
    show: Show, other: dict[int, float]
) -> None:
    parts = (
        ("a", {"steps": 1, "width": 8}, {0: 2.0, 1: 2.0}),
        ("b", {"steps": 1, "width": 16}, {1: 2.0, 2: 2.0}),
        ("c", {"steps": 4, "width": 16}, other),
    )
    made = [
        one
        for label, setting, floor in parts
        for seed, value in floor.items()
        for one in floored(
            trained(label, [1.0], first=seed, **setting),
            {"flat": [value]},
            base=seed,
        )
    ]
    (table,) = show(made)
    assert {k for k in table.rows if k.startswith("flat")} == {
        "flat [steps=1]",
        "flat [steps=4, width=16]",
    }


def test_a_floor_stands_below_numbers_that_rank_no_scheme(show: Show) -> None:
    made = [floored([record("a", value=3.0)], {"flat": [2.0]})[0]]
    for headline, x in ((["", 8], 8), ("curve", 8), (["", 16], 16)):
        made[0]["rows"][0]["x"] = x
        (table,) = show(facts(made, better="neither", headline=headline))
        assert table.rows == {"a": ["3.000"]} | ({"flat": ["2.000"]} if x == 8 else {})
        assert not any(line.startswith(BELOW) for line in table.lines)


def test_a_curve_has_no_floor_of_another(show: Show) -> None:
    made = floored(trained("a", [1.0]), {"flat": [2.0]})
    made[0]["rows"] += [
        row(3.0, quantity="more", x=8),
        row(4.0, quantity="ground", case="deep", x=8),
    ]
    facts(made, "more", headline="curve", x="test length")
    facts(made, "ground", headline={"floor_of": "more"}, x="test length")
    first, second = show(made)
    assert [*first.rows] == ["a", "flat"]
    assert [*second.rows] == ["a", "deep"]


# Differences from a baseline.


def stepped(label: str, values: Any, first: int = 0, **changes: Any) -> Made:
    """Return records of a curve of one point."""
    return trained(label, *[[float(v)] for v in values], first=first, **changes)


def test_differences_are_paired_and_their_p_is_of_the_whole_family(show: Show) -> None:
    base = np.arange(6.0) / 10 + 3  # of the seeds 2 to 7
    gaps = {"a": -np.array(UNEVEN), "b": RNG.normal(size=6), "c": RNG.normal(size=6)}
    family = adjusted_p_of([*gaps.values()])
    (alone,) = adjusted_p_of([gaps["a"]])
    assert alone <= 0.05 < family[0]
    made = stepped("rope", base, first=2)
    for label, gap in gaps.items():
        made += stepped(label, [50.0, 60.0, *(base + gap)])  # two seeds of its own
    (table,) = show(made, "--baseline", "rope")
    for (label, gap), p in zip(gaps.items(), family, strict=True):
        wins = f"{(gap < 0).sum()}/6"
        star = " *" if p <= 0.05 else ""
        assert table.rows[label] == [f"{cell(gap)}, {wins}, p {p:.3f}{star}"]
    (table,) = show(facts(made, better="higher"), "--baseline", "rope")
    (text,) = table.rows["a"]
    assert ", 0/6, p " in text
    assert table.lines == [f"higher is better; {TESTED}"]


def test_seeds_of_each_column_and_scheme_decide_what_is_said_of_p(show: Show) -> None:
    made = trained("rope", *[[1.0, 1.0]] * 6)
    made += trained("a", *[[2.0 + i / 100, 2.0] for i in range(6)])
    made += trained("lost", [9.0, 9.0], status="failed")
    made += trained("later", *[[3.0, 3.0]] * 6, first=7)
    for one in made:
        seed = one["spec"]["setting"]["seed"]
        one["rows"] = one["rows"][: 1 + (seed < 4)]
        one["rows"] += [row(0.0, x=8, case="read")] * (one["status"] == "ok")
    (table,) = show(made, "--baseline", "rope")
    assert table.lines == [f"lower is better; {TESTED}"]
    assert [cell.startswith("failed") for cell in table.rows["lost"]] == [True, True]
    first, second = table.rows["a"]
    gaps = [1 + i / 100 for i in range(6)]
    assert first == f"{cell(gaps)}, 0/6, p 0.031 *"
    assert second == "1.000 ± 0.000, 0/4"


def test_a_task_without_a_text_and_other_tasks_leave_out_no_scheme(show: Show) -> None:
    made = [*stepped("rope", [1.0], task="copy"), *stepped("a", [2.0], task="copy")]
    for one in made:
        one["spec"]["setting"]["corpus_sha256"] = ""
    made += stepped("rope", [1.0]) + stepped("b", [3.0])
    other, copied = show(made, "--baseline", "rope")
    assert copied.title.startswith("copy: ")
    assert copied.rows == {"a": ["1.000, 0/1"]}
    assert other.rows == {"b": ["2.000, 0/1"]}


# Sensitivity.


def bits(records: Made, name: str = "bits_per_byte", **changes: Any) -> Made:
    """Rename the quantity of curves to the score of a task."""
    for one in records:
        one["quantities"][name] = {**one["quantities"].pop("gain"), "name": name}
        one["quantities"][name] |= {"title": "score", **changes}
        one["rows"] = [{**r, "quantity": name} for r in one["rows"]]
    return records


def budgets(of: dict[str, dict[int, Any]], **changes: Any) -> Made:
    """Return records of scores by scheme and number of steps."""
    return bits(
        [
            one
            for label, by in of.items()
            for steps, values in by.items()
            for one in stepped(label, values, steps=steps)
        ],
        **changes,
    )


@pytest.mark.parametrize("higher", [False, True])
def test_each_scheme_has_its_best_of_many_values(show: Show, higher: bool) -> None:
    sign = -1 if higher else 1
    best = {  # of two seeds each; at 1 the order is a, b, c, and at the best c, a, b
        "a": [0.3, 0.4, 0.25, 0.6, 0.7],
        "b": [0.4, 0.5, 0.6, 0.35, 0.7],
        "c": [0.5, 0.45, 0.6, 0.7, 0.1],
    }
    made = budgets(
        {
            label: {
                1 << i: [sign * (v - 0.01), sign * (v + 0.01)]
                for i, v in enumerate(values)
            }
            for label, values in best.items()
        },
        better="higher" if higher else "lower",
    )
    for one in made:
        setting = one["spec"]["setting"]
        if (one["label"], setting["steps"], setting["seed"]) == ("b", 2, 1):
            one["rows"] = []  # a mean over one seed is no half
    lone = [one for one in made if one["label"] != "c"]
    lone += budgets({"c": {1: [sign * 0.5] * 2, 16: [sign * 0.1] * 2}})
    for one in lone:
        one["quantities"]["bits_per_byte"]["better"] = "higher" if higher else "lower"
    (table,) = show(made, "--by", "steps")
    assert "over 2 seeds;" in table.title
    assert table.head == ["1", "own best", "at", "rank"]
    spread = f"± {half([0, 0.02]):.3f}"
    assert list(table.rows.items()) == [
        (label, [f"{sign * v:.3f} {spread}", f"{sign * own:.3f} {spread}", at, place])
        for label, v, own, at, place in (
            ("a", 0.3, 0.25, "4", "1 to 2 *"),
            ("b", 0.4, 0.35, "8", "2 to 3 *"),
            ("c", 0.5, 0.1, "16", "3 to 1 *"),
        )
    ]
    for one in lone:  # ahead of `a` at a value that `c` lacks
        if (one["label"], one["spec"]["setting"]["steps"]) == ("b", 8):
            one["rows"][0]["value"] -= sign * 0.11
    (table,) = show(lone, "--by", "steps")
    assert table.head[0] == "1"  # which all schemes have
    assert [cells[-1] for cells in table.rows.values()] == ["1 to 3 *", "2", "3 to 1 *"]


def test_four_values_stand_side_by_side_in_their_order(show: Show) -> None:
    made = budgets({"a": {s: [s / 10] for s in (2, 4, 8, 16)}})
    (table,) = show(made, "--by", "steps")
    assert (table.head, table.rows) == (
        ["2", "4", "8", "16"],
        {"a": ["0.200", "0.400", "0.800", "1.600"]},
    )


def test_a_change_is_of_common_seeds_and_means_are_of_all(show: Show) -> None:
    made = budgets({"a": {10: [9.0, 1.0, 2.0, 4.0], 40: [0.0, 2.0, 2.5, 5.5]}})
    made[4]["rows"] = []  # seed 0 has no number at 40 steps
    made += bits(stepped("a", [9.0], first=4, status="failed", steps=10))
    made += budgets({"b": {10: [1.0]}}) + bits(stepped("b", [2.0], 1, steps=40))
    for one in made[-2:]:
        one["rows"][0]["note"] = "of its own value"
    (table,) = show(made, "--by", "steps")
    assert table.rows["b"][2] == "n/a"
    assert table.rows["a"] == [
        f"{cell([9, 1, 2, 4])} (n = 4)",  # of five
        f"{cell([2, 2.5, 5.5])} (n = 3)",
        f"{cell([1, 0.5, 1.5])} (n = 3)",
    ]


def test_orders_and_pairs_are_of_schemes_that_all_values_have(show: Show) -> None:
    lift = np.arange(6) / 1000
    made = budgets(
        {
            "a": dict.fromkeys((2, 4, 8), 1 + lift),
            "b": {2: 2 + lift, 4: 0.5 + lift, 8: 2 + lift},
            "c": {2: 5 + lift, 4: 5 + lift},
        },
        better="higher",
    )
    (table,) = show(made, "--by", "steps")
    assert table.lines == [
        "2: c > b > a (n = 6; 3 of 3 pairs differ)",
        "4: c > a > b (n = 6; 3 of 3 pairs differ)",
        "8: b > a (n = 6; 1 of 1 pairs differ)",
        "means reversed in 1 of 1 pairs that differ under some value: a and b",
        "of these, significant in both orders: a and b",
    ]


def test_a_pair_is_reversed_if_a_value_claims_it_and_schemes_need_a_number(
    show: Show,
) -> None:
    gaps = np.array([1.0, 1.1, 1.2, 0.9, 1.3, -0.05])  # p = 2 / 32
    made = budgets({"a": {2: 0 * gaps, 4: 0 * gaps}, "b": {2: gaps, 4: -gaps}})
    lost = budgets({"lost": {2: [0.0], 4: [0.0]}})
    for one in lost:
        one["rows"][0] |= {"value": None, "note": "not defined"}
    (table,) = show(made + lost, "--by", "steps", "--by", "steps")
    n = "(n = 6; 0 of 1 pairs differ)"
    lines = [f"2: {{a, b}} {n}", f"4: {{b, a}} {n}", "without a number: lost"]
    assert table.lines == lines
    assert {*table.rows} == {"a", "b"}


def test_lengths_are_those_that_all_values_have(show: Show) -> None:
    made = bits(
        [
            *trained("a", [1.0, 9.0, 2.0, 3.0], steps=10),
            *trained("a", [1.5, 9.0, 2.5], steps=40),
        ]
    )
    found = show(made, "--by", "steps")
    assert [one.title.partition(" by")[0] for one in found] == [
        "score at 8",
        "score at 32",
    ]
    assert found[1].rows["a"] == ["2.000", "2.500", "0.500"]


# Predictions.

SCHEMES = [f"s{i}" for i in range(9)]
FAMILY = ["absolute", "bias", "rotary"] * 3
START, LAST, ONE, TWO = np.random.default_rng(4).uniform(1, 3, size=(4, 9))


def predicted() -> Made:
    """Return records of nine schemes over two seeds, with two measures."""
    found = []
    for i, label in enumerate(SCHEMES):
        for seed, lift in ((0, -0.4 * (i % 2)), (1, 0.4 * (i % 2))):
            points = [START[i] + lift, 9.0, LAST[i] - 3 * lift, 9.0]
            (one,) = bits(trained(label, points, first=seed))
            one["rows"][-1] |= {"value": None, "note": "not defined"}
            one["rows"].append(row(float(i), quantity="trained"))
            facts([one], "trained", headline=["", None], title="trained")
            probe = record(label, "perturbation", seed=seed)
            probe["rows"] = [
                row(value, quantity=name, case=case, x=x)
                for name, own in (("one", ONE[i] - 5 * lift), ("two", TWO[i]))
                for case, x, value in (
                    ("other", 4, float(-i)),
                    ("own", 4, own),
                    ("own", 8, float(i % 4)),
                    ("zero", 4, float(i)),
                )
            ]
            for name in ("one", "two"):
                facts([probe], name, headline=["own", 4], title=f"the {name}")
            found += [{**made, "family": FAMILY[i]} for made in (one, probe)]
    return found


def expected() -> dict[tuple[str, str], tuple[Correlation, float]]:
    """Return correlation and adjusted p by outcome and quantity."""
    absolute = np.array([family == "absolute" for family in FAMILY], float)
    outcomes = {"at 32": LAST, "at 32 minus at 8": LAST - START, "at 8": START}
    found = {}
    for name, y in outcomes.items():
        x = {"the one": ONE, "the two": TWO, "is absolute": absolute}
        x |= {"score at 8": START} if name != "at 8" else {}
        some = {k: correlation(v, y, absolute) for k, v in x.items()}
        known = {k: one for k, one in some.items() if one is not None}
        p = [*holm([known["the one"].p, known["the two"].p]), math.nan, math.nan]
        for (k, one), adjusted in zip(known.items(), p, strict=False):
            found[f"score {name}", k] = (one, float(adjusted))
    return found


def test_predictions_are_correlations_of_means_over_seeds(
    show: Show, posenc: Command, tmp_path: Path
) -> None:
    folder = stored(tmp_path / "json", predicted())
    rows = json.loads(posenc("table", folder, "--predict", "--format", "json").stdout)
    wanted = expected()
    assert [(r["outcome"], r["quantity"]) for r in rows] == [*wanted]
    tables = {
        one.title.partition(",")[0]: one for one in show(predicted(), "--predict")
    }
    assert not any(one.lines for one in tables.values())  # all have an interval
    for r, ((outcome, quantity), (c, p)) in zip(rows, wanted.items(), strict=True):
        control = quantity in ("is absolute", "score at 8")
        numbers = [c.rho, *c.over_schemes, c.given, c.p, p]
        names = "rho schemes_low schemes_high given_absolute p p_holm".split()
        assert (r["control"], r["n"]) == (control, 9)
        assert [math.nan if r[k] is None else r[k] for k in names] == pytest.approx(
            numbers, nan_ok=True
        )
        signed = ["n/a" if math.isnan(v) else f"{v:+.2f}" for v in numbers[:4]]
        rho, a, b, given = signed
        shares = ["n/a" if math.isnan(v) else f"{v:.4f}" for v in (c.p, p)]
        row_of = f"control: {quantity}" if control else quantity
        assert tables[outcome].rows[row_of] == [
            *("9", rho, f"{a} to {b}", given),
            *shares,
        ]


def test_a_curve_is_predicted_from_its_two_ends_without_cases(show: Show) -> None:
    made, ends = predicted(), predicted()
    for one, other in zip(made, ends, strict=True):
        if one["spec"]["measure"]["name"] == "extrapolation":
            one["rows"] += [
                row(RNG.normal(), quantity="bits_per_byte", case="read", x=x)
                for x in (8, 16, 32)
            ]
            other["rows"] = [r for r in other["rows"] if r["x"] != 16]
    plain, *found = (
        [one.rows for one in show(some, "--predict")]
        for some in (predicted(), made, ends)
    )
    assert found == [plain, plain]


def test_a_long_case_is_found_again_by_every_command(show: Show) -> None:
    case, made = "x" * 999, []
    for label, steps in itertools.product("ab", (10, 40)):
        one = record(label, corpus_sha256="1", steps=steps)
        one["rows"] = [row(2.0 + steps / 10, case=case)]
        made.append(one)
    facts(made, headline=[case, None])
    (table,) = show(made[::2])
    assert table.rows == {"a": ["3.000"], "b": ["3.000"]}
    (table,) = show(made[::2], "--baseline", "a")
    assert table.rows == {"b": ["0.000, 0/1"]}
    (table,) = show(made, "--by", "steps")
    assert table.rows["a"] == ["3.000", "6.000", "3.000"]


# Tasks, and training by the clock.


def test_ranks_have_the_interval_of_all_seeds_and_text_is_the_first_task(
    show: Show,
) -> None:
    scores = {"a": [0.9, 0.9, 0.1], "b": [0.5, 0.5, 0.5], "c": [0.1, 0.7, 0.9]}
    made = []
    for task, label in itertools.product(("copy", "language"), scores):
        for seed, value in enumerate(scores[label]):
            one = record(label, corpus_sha256="1", task=task, seed=seed)
            one["rows"] = [row(value, quantity="accuracy_area")]
            made += facts([one], "accuracy_area", headline=["", None], better="higher")
    (table,) = show(made)
    assert table.head == ["language", "copy", "mean reciprocal rank"]
    ranks = {"a": [1, 1, 1 / 3], "b": [1 / 2, 1 / 3, 1 / 2], "c": [1 / 3, 1 / 2, 1]}
    assert {k: cells[-1] for k, cells in table.rows.items()} == {
        k: cell(values) for k, values in ranks.items()
    }


# Texts of numbers.


def test_numbers_keep_their_size_and_sign(show: Show) -> None:
    texts = {
        0.0: "0.000",
        0.001: "0.001",
        0.00099: "9.9e-04",
        -12.345: "-12.35",
        9.9994: "9.999",
        10.0: "10.00",
        -999.94: "-999.9",
        9999.6: "10000",
        99999.0: "99999",
        100000.0: "1.0e+05",
    }
    made = [record(f"s{i}", value=value) for i, value in enumerate(texts)]
    (table,) = show(made)
    assert [*itertools.chain(*table.rows.values())] == [*texts.values()]
