"""Several tasks in one run: from choices to cells, tables, pages, plot and report."""

import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.pages import Page
from support.plots import drawn, titles
from support.records import HOSTILE, curve, fact, labelled, record, row, stored

from posenc_compare.errors import ConfigError
from posenc_compare.records.load import load_records
from posenc_compare.records.record import Record
from posenc_compare.registry import PLOTS, TASKS
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.plan import settle
from posenc_compare.settings.canonical import spec_key
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show.frame import Numbers
from posenc_compare.show.ranking import twins
from posenc_compare.show.report import report_html
from posenc_compare.show.tables import display_tables, write_tables
from posenc_compare.show.tasks import by_task, reciprocal_ranks

AREAS = {  # by task, scheme and seed; None for a cell that failed
    "copy": {"a": [0.9, 0.8], "b": [0.5, 0.8], "c": [0.1, None]},
    "sort": {"a": [0.2, 0.3], "b": [0.4, 0.3], "c": [0.3, 0.3]},
}


def trained(
    label: str,
    task: str,
    seed: int,
    area: float | None,
    at_first: float = 0.95,
    **more: Any,
) -> dict[str, Any]:
    """Return a record of a network on a task, with an accuracy at two lengths."""
    status = "failed" if area is None else "ok"
    facts = {"corpus_sha256": "", "length": 8, "task": task, **more}
    made = record(label, "extrapolation", seed=seed, status=status, **facts)
    if area is None:
        return made
    made["quantities"] = {
        "accuracy": {**fact("curve", x="test length"), "title": "accuracy"},
        "floor_accuracy": fact({"floor_of": "accuracy"}, x="test length"),
        "accuracy_area": {**fact(["", None]), "title": "area"},
    }
    for name, facts in made["quantities"].items():
        facts |= {"name": name, "better": "higher"}
    made["rows"] = [row(area, quantity="accuracy_area")]
    for x, value in ((8, at_first), (16, area)):
        made["rows"].append(row(value, quantity="accuracy", x=x))
        made["rows"].append(row(0.05, quantity="floor_accuracy", case="constant", x=x))
    return made


def records(seeds: int = 2) -> list[dict[str, Any]]:
    return [
        trained(label, task, seed, area)
        for task, of in AREAS.items()
        for label, areas in of.items()
        for seed, area in enumerate((areas * seeds)[:seeds])
    ]


def slow_ranks(label: str, seed: int) -> float:
    """Return the mean reciprocal rank by counting who is ahead, in exact fractions."""
    total = Fraction(0)
    for of in AREAS.values():
        own = of[label][seed]
        if own is None:
            continue
        others = [areas[seed] for name, areas in of.items() if name != label]
        ahead = sum(other is not None and other > own for other in others)
        level = sum(other == own for other in others)
        total += 1 / (1 + ahead + Fraction(level, 2))
    return float(total / len(AREAS))


def ranks(made: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean reciprocal ranks by scheme."""
    numbers = Numbers(labelled(made))
    found = reciprocal_ranks(numbers, by_task(numbers))
    return {mean.scheme: mean for mean in found.itertuples()}


def areas(made: list[dict[str, Any]]) -> Any:
    """Return the table of areas by task."""
    (table,) = [t for t in display_tables(Numbers(labelled(made))) if "area" in t.title]
    return table


def test_a_measure_without_a_column_by_task_keeps_its_tables() -> None:
    """Only what lies side by side by task is left to `--tasks`."""
    facts = {"corpus_sha256": "", "length": 8, "task": "copy"}
    tables = display_tables(
        Numbers(labelled([*records(), record("a", "cost", **facts)]))
    )
    assert [table.head for table in tables if "copy: " in table.title] == [
        ["scheme", "gain ↓"]
    ]
    assert all("sort: " not in table.title for table in tables)


def test_ranks_share_ties_and_count_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(AREAS["sort"], "c", [None, 0.3])
    costs = []  # another measure of the same networks, which has no say
    for one in records():
        cost = record(one["label"], "cost", **one["spec"]["setting"])
        costs.append({**cost, "quantities": {}, "rows": []})
    found = ranks([*records(), *costs])
    assert set(found) == {"a", "b", "c"}
    for label, mean in found.items():
        for seed in (0, 1):
            assert mean.values[seed] == pytest.approx(slow_ranks(label, seed))
    assert found["c"].note == "2 cells without a result"
    assert found["a"].note == ""


def test_a_scheme_that_is_shown_as_another_takes_no_rank() -> None:
    made = records()
    twins = [{**one, "label": "a2"} for one in records() if one["label"] == "a"]
    for one in twins:
        one["spec"] = {**one["spec"], "scheme": {**one["spec"]["scheme"], "name": "a2"}}
        one["key"] = spec_key(one["spec"])
    tables = (areas([*made, *twins]), areas(made))
    shown, before = ({row[0]: row[-1] for row in table.body} for table in tables)
    assert shown == before | {"a2": before["a"]}
    of = ranks([*made, *twins])
    assert of["a2"].values == of["a"].values
    assert of["a2"].values[0] == pytest.approx(slow_ranks("a", 0))
    assert set(of["a2"].records) == {one["key"] for one in twins}


def repeatable(records: list[Record]) -> list[Record]:
    return [replace(one, rows=tuple(one.repeatable_rows)) for one in records]


def test_twins_have_the_same_numbers_everywhere_but_for_times() -> None:
    made = []
    values = {"a": 2.0, "b": 2.0, "later": 2.0, "other": 2.5, "full": 1.0, "max": 1.0}
    for label, second in values.items():
        for seed in range(2):
            one = curve(label, [1.0, second], seed=seed)
            one["source"] = {"a": "no year", "b": "2021"}.get(label, "2025")
            one["quantities"]["seconds"] = {**fact(), "name": "seconds"}
            one["quantities"]["seconds"]["repeatable"] = False
            one["rows"].append(row(float(len(made)), quantity="seconds"))
            made.append(one)
    found = labelled(made)
    assert twins(Numbers(found).means) == {}
    assert twins(Numbers(repeatable(found)).means) == {"a": "b", "later": "b"}
    made[4]["rows"][0]["value"] = 1.5  # one seed of the later one
    found = labelled(made)
    assert twins(Numbers(repeatable(found)).means) == {"a": "b"}
    made += [curve(k, [v, 2.0], task="copy") for k, v in (("a", 8.0), ("b", 9.0))]
    found = labelled(made)
    assert twins(Numbers(repeatable(found)).means) == {}


def test_small_scores_that_differ_are_no_twins() -> None:
    made = [
        curve(label, [0.0068 * factor, 0.0072 * factor], seed=seed)
        for label, factor in (("a", 1.0), ("b", 1.01), ("c", 1 + 1e-7))
        for seed in range(2)
    ]
    assert {*twins(Numbers(labelled(made)).means).items()} == {("c", "a")}


def test_areas_that_rounding_alone_distinguishes_share_a_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(AREAS["sort"], "a", [27 / 80, 0.3])
    monkeypatch.setitem(AREAS["sort"], "b", [27 / 80, 0.3])
    shared = {label: slow_ranks(label, 0) for label in "ab"}
    monkeypatch.setitem(AREAS["sort"], "b", [27 / 80 * (1 + 1e-15), 0.3])
    found = ranks(records())
    for label, rank in shared.items():
        assert found[label].values[0] == pytest.approx(rank)


def test_a_seed_that_one_scheme_lacks_on_a_task_ranks_nobody() -> None:
    left_out = trained("b", "sort", 1, 0.3)["key"]
    made = [one for one in records() if one["key"] != left_out]
    found = ranks(made)
    assert {tuple(mean.values) for mean in found.values()} == {(0,)}
    for label, mean in found.items():
        assert mean.values[0] == pytest.approx(slow_ranks(label, 0))


def test_one_scheme_alone_has_no_rank() -> None:
    made = [
        r
        for r in records()
        if r["label"] == "a" or r["spec"]["setting"]["task"] == "copy"
    ]
    assert "mean reciprocal rank" not in areas(made).head
    assert ranks(made) == {}


def test_tasks_of_no_text_and_one_of_a_text_have_an_order() -> None:
    made = [
        trained(label, task, seed, area + seed / 1000)
        for label, area in (("a", 0.2), ("b", 0.9))
        for task in ("copy", "sort")
        for seed in range(6)
    ]
    for one in made:
        if one["spec"]["setting"]["task"] == "sort":
            one["spec"]["setting"]["corpus_sha256"] = "1"
            one["key"] = spec_key(one["spec"])
    table = display_tables(Numbers(labelled(made)))[0]
    assert any(line.startswith("copy: b > a") for line in table.lines)
    assert "mean reciprocal rank: b > a (n = 6; 1 of 1 pairs differ)" in table.lines


def test_a_scheme_without_a_task_has_no_rank_and_bits_are_left_out() -> None:
    made = [*records(), *(trained(label, "copy", 0, 1.0) for label in "de")]
    made.append(record("a", "extrapolation", corpus_sha256="1", task="language"))
    found = ranks(made)
    assert set(found) == {"a", "b", "c"}
    assert found["a"].values[0] == pytest.approx(slow_ranks("a", 0))
    assert reciprocal_ranks(Numbers([]), {}).empty
    scored = [one for one in made if one["spec"]["setting"]["task"] != "sort"]
    assert areas(scored).head == ["scheme", "copy"]


def test_a_task_that_no_scheme_solves_is_not_in_the_mean_of_ranks() -> None:
    hard = [
        trained(label, "hard", seed, 0.1 * (3 - i), 0.8 + 0.3 * (label == "a") * seed)
        for i, label in enumerate("abc")
        for seed in range(2)
    ]
    table, without = areas([*records(), *hard]), areas(records())
    assert table.head == ["scheme", "copy", "hard", "sort", "mean reciprocal rank"]
    ranks = ({row[0]: row[-1] for row in one.body} for one in (table, without))
    assert next(ranks) != next(ranks)  # "a" has 0.95 on average, and solves it
    for one in hard:
        one["rows"][1]["value"] = 0.85
    table = areas([*records(), *hard])
    ranks = ({row[0]: row[-1] for row in one.body} for one in (table, without))
    assert next(ranks) == next(ranks)
    assert table.lines[-1] == (
        "mean reciprocal rank: over 2 of 3 tasks, those in which some scheme has an "
        "accuracy of 0.9 at the training length"
    )


def test_tasks_stand_side_by_side() -> None:
    found = labelled(records())
    (table,) = display_tables(Numbers(found))
    assert table.title.startswith("area ↑, by task (")
    assert table.head == ["scheme", "copy", "sort", "mean reciprocal rank"]
    assert {first: rest[0] for first, *rest in table.body}["c"] == "0.100 (n = 1)"


def test_one_task_has_its_tables_at_once() -> None:
    copied = [one for one in records() if one["spec"]["setting"]["task"] == "copy"]
    curve, headlines = display_tables(Numbers(labelled(copied)))
    assert curve.title.startswith("copy: accuracy ↑ by test length")
    assert curve.body[-1][0] == "constant"
    assert headlines.title.startswith("copy: Measures with training (mean")


def test_the_code_of_another_task_is_no_other_code() -> None:
    made = [trained("a", task, 0, 0.5) for task in ("copy", "sort", "sort")]
    made[2] = trained("b", "sort", 0, 0.5)
    for one, code in zip(made, "xyz", strict=True):
        one["spec"]["measure"]["code"] = code * 64
    labels = [one.label for one in labelled(made)]
    assert labels == ["a", "a [measure_code=yyyyyyyy]", "b [measure_code=zzzzzzzz]"]


def test_sizes_may_differ_from_task_to_task_and_not_within() -> None:
    sizes = (("copy", 10), ("sort", 40))
    made = [trained("a", task, 0, 0.5, steps=steps) for task, steps in sizes]
    assert {one.label for one in labelled(made)} == {"a"}
    made.append(trained("a", "sort", 1, 0.5, steps=80))
    labels = [one.label for one in labelled(made)]
    assert labels == ["a", "a [steps=40]", "a [steps=80]"]


def test_hostile_tasks_are_shown_as_text(tmp_path: Path) -> None:
    made = [trained("a", text, 0, 0.5) for text in HOSTILE[::3]]
    found = load_records(stored(tmp_path / "run", made), print)
    write_tables(Numbers(found), tmp_path / "out")
    Page(report_html(found, "title")).check()
    drawn("tasks", found)


def test_the_plot_has_a_panel_for_each_task() -> None:
    figure = drawn("tasks", labelled(records()))
    assert titles(figure) == ["copy", "sort"]
    assert [len(axes.lines) for axes in figure.axes] == [4, 4]  # with the floor
    assert figure.axes[0].lines[1].get_xdata() == pytest.approx([1, 2])
    assert PLOTS.get("tasks")([]) is None
    assert PLOTS.get("extrapolation")(labelled(records())) is None


def test_each_curve_of_the_plot_counts_in_its_own_training_length() -> None:
    made = [one for one in records() if one["spec"]["setting"]["task"] == "copy"]
    longer = copy.deepcopy(made)
    for body in longer:
        body["spec"]["setting"]["length"] *= 4
        for one in body["rows"]:
            one["x"] = one["x"] and one["x"] * 4
            one["value"] = one["value"] and one["value"] / 2
    (axes,) = drawn("tasks", labelled([*made, *longer])).axes
    assert len(axes.lines) == 6  # no floor, of which there are two
    for line in axes.lines:
        assert line.get_xdata() == pytest.approx([1, 2])


def test_a_task_without_accuracy_has_tables_beside_those_of_others() -> None:
    text = [curve("a", [2.0, 3.0], task="language", corpus_sha256="1")]
    titles = [
        one.title for one in display_tables(Numbers(labelled([*records(), *text])))
    ]
    assert [title.partition(" ")[0] for title in titles] == ["area", "bits"]


# --- choices and plan ---------------------------------------------------------------


def test_a_task_states_sizes_for_claims_alone(tmp_path: Path) -> None:
    facts = TASKS.entry("copy").facts
    standard = PRESETS["standard"].training
    quick, chosen, given = (
        settle({"tasks": "copy", **more}, "cpu").trainings[0]
        for more in ({}, {"preset": "standard"}, {"preset": "standard", "length": 64})
    )
    assert quick.length == PRESETS["quick"].training.length
    assert (chosen.length, chosen.width) == (facts["length"], standard.width)
    assert (given.length, given.steps) == (64, facts["steps"])


def test_schemes_of_two_axes_join_a_task_of_two() -> None:
    asked: dict[str, Any] = {"tasks": "copy,grid_lookup", "seeds": 1}
    planned = plan_comparison("rope,rope_2d", "extrapolation", **asked)
    assert {(c.variant.name, c.setting.spec()["task"]) for c in planned.cells} == {
        ("rope", "copy"),
        ("rope", "grid_lookup"),
        ("rope_2d", "grid_lookup"),
    }
    assert planned.remarks == ()
    with pytest.raises(ConfigError, match="schemes must have positions of 1 axis"):
        plan_comparison("rope_2d", "extrapolation", tasks="copy")


@pytest.mark.parametrize("which", ["corpus", "test_corpus"])
def test_a_text_that_no_task_reads_is_refused(which: str) -> None:
    with pytest.raises(
        ConfigError, match=f"{which} must be left out .* copy, sort, got"
    ):
        settle({"tasks": "copy,sort", which: "book.txt"}, "cpu")
    settings = settle({"tasks": "copy,language", which: "book.txt"}, "cpu")
    assert [one.task for one in settings.trainings] == ["copy", "language"]
    assert settle({"tasks": "copy", "corpus": "stdlib"}, "cpu").trainings
