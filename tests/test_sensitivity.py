"""What becomes of an order if a setting changes: from records to command and plot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from support.plots import drawn, titles
from support.records import HOSTILE, curve, fact, labelled, row, stored
from support.shown import refusal

from posenc_compare.records.load import load_by
from posenc_compare.registry import PLOTS
from posenc_compare.show.format import Table
from posenc_compare.show.sensitivity import sensitivity_tables

# Means at the training length by steps: a and b change places, c is always last.
MEANS = {"a": {10: 2.0, 40: 1.9}, "b": {10: 2.5, 40: 1.5}, "c": {10: 4.0, 40: 3.5}}
NOISE = np.random.default_rng(0).normal(0, 0.01, (3, 2, 6))


def trained(label: str, seed: int, bits: float, **setting: Any) -> dict[str, Any]:
    """Return a record of a training whose score at the length 8 is `bits`."""
    points = [bits, bits + 1]
    return curve(label, points, quantity="bits_per_byte", seed=seed, **setting)


def made(seeds: int = 6) -> list[dict[str, Any]]:
    return [
        trained(label, seed, bits + NOISE[i, j, seed], steps=steps)
        for i, (label, of) in enumerate(MEANS.items())
        for j, (steps, bits) in enumerate(of.items())
        for seed in range(seeds)
    ]


def tables(folder: Path, by: str = "steps") -> dict[str, Table]:
    """Return the tables of a folder by the first words of their titles."""
    found = sensitivity_tables(by, load_by([folder], by.split(","), print))
    return {table.title.partition(" by ")[0]: table for table in found}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("one") / "run", made())


def test_documents_are_no_part_of_the_intervals(run: Path, tmp_path: Path) -> None:
    records = made()
    for one in records:  # windows that lie far apart, with the mean of the record
        bits = np.array([[point["value"]] for point in one["rows"]])
        one["arrays"] = {
            "document_bits": (bits + np.arange(-1, 2)).tolist(),
            "window_documents": [0, 1, 2],
        }
    found = tables(stored(tmp_path / "run", records))["bits at 8"]
    assert found.body == tables(run)["bits at 8"].body


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_claim_turns_even_where_the_other_value_claims_nothing(
    tmp_path: Path, first: str
) -> None:
    records = made()
    for one in records:  # the difference at 40 steps is noise, and b is lower
        if one["label"] == "a" and one["spec"]["setting"]["steps"] == 40:
            seed = one["spec"]["setting"]["seed"]
            one["rows"][0]["value"] = 1.5 + (0.5 if seed % 2 else -0.45)
    if first == "b":
        for one in records:
            one["label"] = {"a": "b", "b": "a"}.get(one["label"], one["label"])
    lines = tables(stored(tmp_path / "run", records))["bits at 8"].lines
    assert ("{b, a" if first == "a" else "{a, b") in lines[1]
    assert lines[2:] == (
        "means reversed in 1 of 3 pairs that differ under some value: a and b",
        "of these, significant in both orders: none",
    )


def test_nothing_reversed_is_said_and_few_seeds_claim_nothing(tmp_path: Path) -> None:
    steady = [one for one in made() if one["label"] != "b"]
    for one in made():  # `d` is as `c`, but for noise
        if one["label"] == "c":
            seed, steps = (one["spec"]["setting"][k] for k in ("seed", "steps"))
            bits = one["rows"][0]["value"] + 0.01 * (-1) ** seed * (1 + seed)
            steady.append(trained("d", seed, bits, steps=steps))
    # One more seed of `a` alone, under one value, turns the plain means round.
    steady.append(trained("a", 6, 90.0, steps=10))
    lines = tables(stored(tmp_path / "steady", steady))["bits at 8"].lines
    assert lines[2] == "means reversed in none of 2 pairs that differ under some value"
    few = tables(stored(tmp_path / "few", made(5)))["bits at 8"].lines
    assert few == ("no order: 5 seeds, 6 are needed",)


def test_scores_of_several_texts_are_not_said_to_be_reversed(tmp_path: Path) -> None:
    records = made()
    for one in records:
        if one["label"] == "a":
            one["spec"]["setting"]["corpus_sha256"] = "2" * 64
    records += [trained("only", seed, 2.0, steps=10) for seed in range(6)]
    lines = tables(stored(tmp_path / "run", records))["bits at 8"].lines
    assert not [line for line in lines if "reversed" in line]
    assert "no order: scores are of several texts" in lines[0]
    assert lines[-1] == "under one value alone: only [corpus=1]"


def test_no_place_is_that_of_another_text(tmp_path: Path) -> None:
    records = [
        {**one, "corpus": {"name": f"text{i}"}}
        for i, bits in enumerate((3.0, 2.8, 2.6, 2.4, 1.0))
        for label in "ab"[i // 4 :]  # a is better on each text but was not on the last
        for seed in range(6)
        for one in [trained(label, seed, bits, corpus_sha256=str(i) * 64)]
    ]
    table = tables(stored(tmp_path / "run", records), "corpus")["bits at 8"]
    assert table.head == ["scheme", "text3", "own best", "at"]
    assert table.lines[0].startswith("scores are of several texts, so that ranks")


def test_what_is_absent_comes_before_what_is_there(tmp_path: Path) -> None:
    records = [trained("a", 0, 2.0, convolution=name) for name in ("canon", "none")]
    folder = stored(tmp_path / "run", records)
    assert [*load_by([folder], ["convolution"], print)] == ["none", "canon"]


def test_values_that_differ_in_a_late_digit_stay_apart(tmp_path: Path) -> None:
    rates = (4e-3, 4.000001e-3)
    records = [trained("a", 0, 2.0, learning_rate=rate) for rate in rates]
    found = load_by([stored(tmp_path / "run", records)], ["learning_rate"], print)
    assert {k: len(v) for k, v in found.items()} == {"0.004": 1, "0.004000001": 1}


def test_headlines_that_rank_are_shown_and_others_not(tmp_path: Path) -> None:
    records = made()
    for one in records:
        for name, better in (("reach", "higher"), ("kind", "neither")):
            one["quantities"][name] = {
                **fact(["", None], better=better, title=f"the {name}"),
                "name": name,
            }
            value = one["spec"]["setting"]["steps"] + one["spec"]["setting"]["seed"]
            one["rows"].append(row(float(value), quantity=name))
    found = tables(stored(tmp_path / "run", records))
    assert list(found) == ["bits at 8", "bits at 16", "the reach"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--by step", "by 'step': must be a setting; did you mean steps?"),
        ("--by seed", "by 'seed': must be a setting"),
        ("--by length", "by length: must have two values or more in the records of"),
        ("--by steps --predict", "must have one of --baseline, --by, --predict, got"),
        ("--by steps --baseline a", "got --baseline and --by; --baseline alone would"),
        ("--by steps --measures nope", "no record has the measure 'nope'"),
    ],
)
def test_views_that_cannot_be_shown_are_refused_in_one_line(
    posenc: Command, run: Path, words: str, message: str
) -> None:
    assert message in refusal(posenc("table", run, *words.split()))


def test_what_is_shown_is_written_and_no_mean_over_values(
    posenc: Command, run: Path, tmp_path: Path
) -> None:
    words = ["--by", "steps", "--schemes", "a,c", "--format", "md"]
    done = posenc("table", run, *words, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "| a " in done.stdout
    assert "| b " not in done.stdout
    assert (tmp_path / "out" / "table.md").read_text() == done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"table.md", "table.tex", "table.csv"}
    numbers = posenc("table", run, *words[:-1], "csv").stdout
    assert (tmp_path / "out" / "table.csv").read_text() == numbers


def test_the_plot_has_a_panel_for_each_scheme_of_several_rates() -> None:
    records = [
        trained(label, seed, 2.0 + rate, learning_rate=rate, scheme_rate=multiple)
        for label in ("a", "b")
        for rate in (1.0, 2.0)
        for multiple in ((0.0, 3.0) if label == "a" else (0.0,))
        for seed in range(2)
    ]
    for one in records:  # at the longest test, all are alike
        one["rows"][1]["value"] = 9.0
    figure = drawn("sensitivity", labelled(records))
    assert titles(figure) == ["a", "b"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 1]
    assert figure.axes[1].lines[0].get_ydata() == pytest.approx([0, 1])
    some = [r for r in records if r["spec"]["setting"]["learning_rate"] == 1.0]
    assert PLOTS.get("sensitivity")(labelled(some)) is None
    assert PLOTS.get("sensitivity")([]) is None


def test_a_panel_holds_one_setting_but_for_the_rates() -> None:
    records = [
        trained("a", 0, 2.0 + rate, learning_rate=rate, scheme_rate=0.0, steps=steps)
        for rate in (1.0, 2.0)
        for steps in (10, 40)
    ]
    undefined = trained("b", 0, 2.0, learning_rate=1.0, scheme_rate=0.0, steps=10)
    for point in undefined["rows"]:
        point |= {"value": None, "note": "not defined beyond 4"}
    figure = drawn("sensitivity", labelled([*records, undefined]))
    assert titles(figure) == ["a [steps=10]", "a [steps=40]"]


def test_a_hostile_name_is_drawn_as_text() -> None:
    records = [
        trained(text, 0, 2.0, learning_rate=rate)
        for text in HOSTILE[-13:]  # what a plot may take for more than text
        for rate in (1.0, 2.0)
    ]
    drawn("sensitivity", labelled(records))


def test_values_are_compared_with_all_other_settings_equal(
    posenc: Command, tmp_path: Path
) -> None:
    records = made()
    for one in records:
        setting = one["spec"]["setting"]
        if setting["steps"] == 40:
            setting["width"] = 64
    folder = stored(tmp_path / "run", records)
    said = refusal(posenc("table", folder, "--by", "steps"))
    assert "with all other settings equal, got a [width=32], a [width=64]" in said


def test_texts_of_one_name_have_columns_of_their_own(tmp_path: Path) -> None:
    records = []
    for bits, (name, sha256) in enumerate((("a", "1"), ("b", "2"), ("b", "3"))):
        one = trained("rope", 0, float(bits))
        one["spec"]["setting"]["corpus_sha256"] = sha256 * 64
        records.append(one | {"corpus": {"name": name}, "key": sha256 * 32})
    table = tables(stored(tmp_path / "run", records), "corpus")["bits at 8"]
    assert table.head == ["scheme", "a", "b 22222222", "b 33333333"]
    assert table.body == [["rope", "0.000", "1.000", "2.000"]]


def test_a_scheme_that_failed_under_one_value_says_so(tmp_path: Path) -> None:
    records = made()
    for one in records:
        if one["label"] == "b" and one["spec"]["setting"]["steps"] == 40:
            one |= {"status": "failed", "error": "boom", "rows": []}
    for steps in (10, 40):
        lost = {"status": "lost", "error": "exit", "rows": []}
        records.append({**trained("d", 0, 1.0, steps=steps), **lost})
    table = tables(stored(tmp_path / "run", records))["bits at 8"]
    assert table.lines[-1] == "without a number: d"
    (row_of_b,) = [cells for cells in table.body if cells[0] == "b"]
    assert row_of_b[2:] == ["failed: boom", "n/a"]
    assert table.lines[:2] == (
        "10: a < b < c (n = 6; 3 of 3 pairs differ)",
        "40: a < c (n = 6; 1 of 1 pairs differ)",
    )


def test_without_a_value_that_all_schemes_have_no_places_are_compared(
    tmp_path: Path,
) -> None:
    rates = {"a": (1e-3, 2e-3, 3e-3), "b": (4e-3, 5e-3, 6e-3)}
    records = [
        trained(label, 0, 2.0 - rate, learning_rate=rate, steps=10)
        for label, some in rates.items()
        for rate in some
    ]
    found = tables(stored(tmp_path / "run", records), "learning_rate,steps")
    table = found["bits at 8"]
    assert table.head == ["scheme", "own best", "at"]
    assert table.body == [["a", "1.997", "0.003, 10"], ["b", "1.994", "0.006, 10"]]
    assert table.lines[0].startswith("no value has all schemes")


def test_seeds_are_those_of_the_schemes_shown(tmp_path: Path) -> None:
    records = [trained("a", 0, 2.0, steps=steps) for steps in (10, 40)]
    records += [trained("b", seed, 2.0, steps=10) for seed in range(6)]
    table = tables(stored(tmp_path / "run", records))["bits at 8"]
    assert table.title == "bits at 8 by steps (1 seed; 2 of 2 cells ok)"


def test_a_value_under_which_all_failed_hides_no_score(tmp_path: Path) -> None:
    records = made()
    for one in records:
        if one["spec"]["setting"]["steps"] == 40:
            one |= {"status": "failed", "error": "boom", "rows": []}
    found = tables(stored(tmp_path / "run", records))
    assert list(found) == ["bits at 8", "bits at 16"]
    assert {cells[2] for cells in found["bits at 8"].body} == {"failed: boom"}


def test_budgets_of_two_processors_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = made()
    for one in records:
        of = "X" if one["spec"]["setting"]["steps"] == 10 else "Y"
        one["provenance"]["arithmetic"] = of
    folder = stored(tmp_path / "two", records)
    table = tables(folder)["bits at 8"]
    assert [cells[0] for cells in table.rows] == ["a", "b", "c"]
    assert "X made a, b, c; Y made a, b, c" in capsys.readouterr().out
    records[-1]["provenance"]["arithmetic"] = "X"  # a seed of one mean, which is none
    table = tables(stored(tmp_path / "mixed", records))["bits at 8"]
    assert [cells[0] for cells in table.rows] == ["a", "b"]
