"""The scorecard of a run, and the rank of one scheme among others."""

import copy
from typing import Any

import numpy as np
import pytest
from support.records import fact, record, row, trained

from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import sound
from posenc_compare.records.quantities import NEAR, ONE_LAYER
from posenc_compare.show.differences import at_the_end, rank_table
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import Numbers, cell_table
from posenc_compare.show.plots.rank import draw_rank
from posenc_compare.show.scorecard import HEAD, scorecard


def measured(label: str, measure: str, quantity: str, **rows: Any) -> dict[str, Any]:
    one = record(label, measure)
    one["quantities"] = {quantity: {**fact(["", None]), "name": quantity}}
    one["rows"] = [row(rows.pop("value"), quantity=quantity, **rows)]
    return one


def table_of(bodies: list[dict[str, Any]]) -> Table:
    table = scorecard(Numbers(sound(bodies)))
    assert table is not None
    return table


def card(bodies: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    table, none = table_of(bodies), dict.fromkeys(HEAD[1:], "")
    head = [name if name in HEAD else "16 L" for name in table.head[1:]]
    return {
        str(line[0]): {**none, **dict(zip(head, line[1:], strict=True))}
        for line in table.body
    }


def test_scores_of_a_card_are_numbers_in_other_formats() -> None:
    table = table_of(trained("rope", 2.0, 2.04))
    rows = cell_table([table]).set_index("column")
    assert rows.loc["change", "value"] == pytest.approx(0.04)
    assert rows.loc["change", "half_width"] == pytest.approx(0.0148, abs=1e-4)
    assert rows.loc["level", "note"] == "unclear"
    assert [*rows.index] == table.head[1:]
    (shown,) = table.body
    assert "+0.04±0.01" in shown
    assert "L: training length, 8 bytes; scores in bits per byte" in table.lines
    (shown,) = table_of(trained("rope", 2.0, 1.999)).body
    assert "+0.00±0.01" in shown  # and not -0.00


@pytest.mark.parametrize(
    ("last", "level"),
    [
        (2.03, "holds"),  # 0.03 + 0.0148 is below 0.05
        (2.04, "unclear"),  # 0.0548 is not, and 0.0252 is not above it
        (2.06, "unclear"),
        (2.07, "loses"),  # 0.07 - 0.0148 is above
        (None, "undefined"),
    ],
)
def test_a_level_is_held_or_lost_by_the_interval_of_its_change(
    last: float | None, level: str
) -> None:
    assert card(trained("rope", 2.0, last))["rope"]["level"] == level


@pytest.mark.parametrize(("third", "behind"), [(1.9, True), (2.1, False)])
def test_networks_that_an_n_gram_beats_are_named(third: float, behind: bool) -> None:
    bodies = [*trained("rope", 2.0, 2.0), *trained("nope", 2.5, 2.5)]
    for one in bodies:
        name = "floor_bits_per_byte"
        one["quantities"][name] = {**one["quantities"]["bits_per_byte"], "name": name}
        first = one["rows"][0]
        floors = [("1-gram", 5.0), ("2-gram", 2.4), ("3-gram", third)]
        one["rows"] += [
            {**first, "quantity": name, "case": case, "value": value}
            for case, value in floors
        ]
    lines = table_of(bodies).lines
    (line,) = (x for x in lines if "2-gram" in x)
    assert line.endswith("their level says little: nope")
    assert any("better at L than a 3-gram model" in x for x in lines) is behind


def test_a_star_marks_the_best_and_what_does_not_differ_from_it() -> None:
    near = trained("near", 2.0, 3.0)
    for seed, body in enumerate(near):  # ahead in the first seed alone
        for one in body["rows"]:
            one["value"] += (-0.3, 0.9, 0.1, 0.9, 0.1, 0.9)[seed]
    bodies = [*trained("best", 2.0, 3.0), *near, *trained("worse", 2.5, 3.5)]
    found = card(bodies)
    stars = {name: (row["at L"], row["16 L"]) for name, row in found.items()}
    assert stars == {
        "best": ("2.00*", "3.00*"),
        "near": ("2.43*", "3.43*"),
        "worse": ("2.50", "3.50"),
    }
    few = [*bodies[:5], *bodies[6:11], *bodies[12:17]]  # five seeds of each
    assert not any("*" in row["at L"] for row in card(few).values())


def test_one_scheme_far_behind_has_no_star_among_many() -> None:
    draw = np.random.default_rng(0)
    levels = {f"s{i}": 2 + 0.02 * draw.normal(size=6) for i in range(20)}
    levels["behind"] = 3 + 0.35 * draw.normal(size=6)
    bodies = []
    for label, level in levels.items():
        for body, value in zip(trained(label, 0.0, 0.0), level, strict=True):
            for one in body["rows"]:
                one["value"] = float(value)
            bodies.append(body)
    found = card(bodies)
    assert "*" not in found["behind"]["16 L"]
    assert sum("*" in row["16 L"] for row in found.values()) >= 19


def test_scores_of_several_texts_and_fewer_seeds_are_said() -> None:
    bodies = [*trained("best", 2.0, 3.0), *trained("worse", 2.5, 3.5)]
    for own in (bodies[1:], bodies):
        assert any("*" in row["at L"] for row in card(own).values()) == (own is bodies)
    for body in bodies[6:]:
        body["spec"]["setting"]["corpus_sha256"] = "2"
    assert not any("*" in row["at L"] for row in card(bodies).values())
    assert "no *: scores are of several texts" in table_of(bodies).lines


def test_columns_without_texts_are_not_explained() -> None:
    bodies = trained("rope", 2.0, 2.0)
    for own, there in ((bodies, False), ([*bodies, one_measured()], True)):
        lines = table_of(own).lines
        assert any(line.startswith("unique:") for line in lines) == there
        assert not any(line.startswith(("time:", "shift:")) for line in lines)


def test_several_training_lengths_or_one_test_length_have_no_card() -> None:
    bodies = trained("rope", 2.0, 2.5)
    assert table_of([*bodies, one_measured()]).name == "Scorecard"
    for body in trained("rope", 1.5, 4.5):
        body["spec"]["setting"]["length"] = 16
        bodies.append(body)
    assert scorecard(Numbers(sound(bodies))) is None
    assert scorecard(Numbers(sound([one_measured()]))) is None
    for body in bodies:
        body["rows"] = body["rows"][:1]
    assert scorecard(Numbers(sound(bodies[:6]))) is None


def one_measured(x: float = 2048.0) -> dict[str, Any]:
    return measured("rope", *UNIQUE, value=1.0, x=x)


def test_a_setting_in_a_label_is_never_cut() -> None:
    names = ("transformer_xl [steps=1500]", "rope:scaling=yarn;factor=4")
    bodies = [body for name in names for body in trained(name, 2.0, 2.5)]
    assert {*card(bodies)} == {*names}


@pytest.mark.parametrize(("seeds", "lacking"), [(5, ["at L", "2 L"]), (6, ["2 L"])])
def test_a_column_without_stars_says_why(seeds: int, lacking: list[str]) -> None:
    short = trained("short", 2.0, 2.5)[:seeds]
    short[0]["rows"][1]["value"] = None
    lines = table_of([*trained("rope", 2.0, 3.0), *short]).lines
    assert [line.partition(":")[0] for line in lines if "no *" in line] == lacking


def test_scores_of_another_length_are_not_compared() -> None:
    short = trained("short", 1.0, 1.0)
    for body in short:  # whose longest test is shorter
        body["rows"][1]["x"] *= 0.75
    found = card([*short, *trained("best", 2.0, 3.0), *trained("worse", 2.5, 3.5)])
    assert (found["short"]["at L"], found["short"]["16 L"]) == ("1.00*", "")
    assert (found["short"]["change"], found["best"]["16 L"]) == ("", "3.00*")


def test_seeds_without_a_change_of_their_own_have_no_level() -> None:
    first, last, one = trained("rope", 2.0, 2.5)[:3]
    found = card([one])["rope"]
    assert (found["change"], found["level"]) == ("+0.50", "one seed")
    steady = trained("rope", 2.0, 2.5)
    for seed, body in enumerate(steady):
        for point in body["rows"]:
            point["value"] += seed
    assert card(steady)["rope"]["change"] == "+0.50±0.01"
    first["rows"][1]["value"] = last["rows"][0]["value"] = None
    assert card([first, last])["rope"]["level"] == ""
    line = "no level: no seed has a score at both lengths: rope"
    assert table_of([first, last]).lines[-1] == line


def test_a_scheme_that_fails_is_named_and_so_are_missing_seeds() -> None:
    failed = trained("alibi", 2.0, 2.0)
    for body in failed:
        body |= {"status": "failed", "error": "boom", "rows": []}
    part = trained("part", 2.0, 2.0)
    for body in part[2:]:
        body["rows"][1]["value"] = None  # of two lengths, one is there
    bodies = [*trained("rope", 2.0, 2.0), *trained("shaw", 2.0, 2.0)[:4], *part]
    bodies += failed
    assert card(bodies)["alibi"]["level"] == "failed"
    last = table_of(bodies).lines[-1]
    assert last == "fewer seeds than 6: part (2), shaw (4)"


def test_stars_by_the_seeds_that_both_have_say_so() -> None:
    bodies = []
    for label, last, first in (("rope", 2.5, 0), ("alibi", 2.4, 1)):
        made = trained(label, 2.0, last)
        for seed, body in enumerate([*made, copy.deepcopy(made[0])], first):
            body["spec"]["setting"]["seed"] = seed
            bodies.append(body)
    lines = table_of(bodies).lines
    assert "stars go by the seeds that every scheme has" in lines
    assert not any(line.startswith("fewer seeds") for line in lines)


def test_seeds_that_all_schemes_lost_are_named() -> None:
    bodies = trained("rope", 2.0, 2.0)
    for body in bodies[2:]:
        body["rows"][1]["value"] = None
    assert table_of(bodies).lines[-1] == "fewer seeds than 6: rope (2)"


def test_what_was_not_tested_at_both_lengths_has_no_level() -> None:
    other = trained("tape", 2.0, 2.0)
    for body in other:
        body |= {"status": "unsupported", "error": "no text", "rows": []}
    short = trained("short", 1.0, 1.0)
    for body in short:
        body["rows"] = body["rows"][:1]
    empty = trained("empty", 1.0, None)
    for body in empty:
        body["rows"][0]["value"] = None
    bodies = [*trained("rope", 2.0, 2.0), *short, *empty, *other]
    assert card(bodies)["tape"]["level"] == "n/a"
    failed = [*bodies[:-1], {**other[-1], "status": "failed", "error": "boom"}]
    assert card(failed)["tape"]["level"] == "failed"
    line = "no level: no seed has a score at both lengths: empty, short"
    assert table_of(bodies).lines[-1] == line


def test_rows_of_several_settings_share_what_does_not_depend_on_them() -> None:
    bodies = []
    for label, step in (("rope", 1.5), ("nope", 1.0)):
        bodies.append(measured(label, *UNIQUE, value=1.0, x=512.0))
        bodies.append(measured(label, "cost", "step_ratio", value=step))
        for norm in ("rms", "layer"):
            for body in trained(label, 2.0, 2.0):
                body["spec"]["setting"]["norm"] = norm
                bodies.append(body)

    def shown() -> dict[str, tuple[str, str]]:
        table = scorecard(Numbers(label_settings(sound(bodies), lambda line: None)))
        assert table is not None
        columns = [table.head.index(name) for name in ("unique", "time")]
        unique, time = ([str(row[i]) for row in table.body] for i in columns)
        names = [str(row[0]) for row in table.body]
        return dict(zip(names, zip(unique, time, strict=True), strict=True))

    assert shown() == {
        f"{label} [norm={norm}]": ("512", time)
        for label, time in (("rope", "1.5"), ("nope", "1.0"))
        for norm in ("layer", "rms")
    }
    for body in bodies:  # of one norm alone
        if "step_ratio" in body["quantities"]:
            body["spec"]["setting"] = bodies[2]["spec"]["setting"]
    times = {name: time for name, (_, time) in shown().items() if "rope" in name}
    assert times == {"rope [norm=rms]": "1.5", "rope [norm=layer]": ""}


@pytest.mark.parametrize(
    ("trainings", "measures", "unique"),
    [
        ([{"norm": "rms"}], [{"modified": "edited"}], [""]),
        ([{"modified": "edited"}], [{}], [""]),
        ([{}], [{"positions": 512}, {"positions": 64}], [""]),
        ([{"code": "a"}, {"code": "b"}], [{"code": "c"}], ["512", "512"]),
    ],
)
def test_a_measure_under_other_settings_is_in_no_row(
    trainings: list[dict[str, Any]], measures: list[dict[str, Any]], unique: list[str]
) -> None:
    bodies = []
    for setting in trainings:
        bodies += [under(body, setting) for body in trained("rope", 2.0, 2.0)]
    bodies += [under(one_measured(512.0), setting) for setting in measures]
    other = [*trained("nope", 2.0, 2.0), measured("nope", *UNIQUE, value=1.0, x=64.0)]
    table = scorecard(
        Numbers(label_settings(sound([*bodies, *other]), lambda line: None))
    )
    assert table is not None
    column = table.head.index("unique")
    rows = [row for row in table.rows if "rope" in str(row[0])]
    assert [str(row[column]) for row in rows] == unique
    line = f"blank where measured under other settings: {rows[0][0]}"
    assert (line in table.lines) == (unique == [""])


def under(body: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Change the setting of a record, the code of its measure, or its package."""
    spec = body["spec"]
    for name, value in changes.items():
        if name == "code":
            spec["measure"]["code"] = value * 64
        elif name == "modified":
            spec["modified"] = value
        else:
            spec["setting"][name] = value
    return body


def test_schemes_that_hold_come_first_and_the_best_of_them_on_top() -> None:
    bodies = [
        *trained("learned", 1.0, None),
        *trained("rope", 1.0, 2.0),
        *trained("nope", 1.5, 1.9),
        *trained("alibi", 2.5, 2.5),
        *trained("shaw", 1.9, 1.9),
        *trained("shaw", 9.0, 9.0),
    ]
    for body in bodies[-6:]:  # of another task
        body["spec"]["setting"]["task"] = "masked"
    assert list(card(bodies)) == ["shaw", "alibi", "nope", "rope", "learned"]


def test_a_long_label_is_cut_unless_two_would_be_the_same() -> None:
    labels = ["scheme_of_a_long_name_1", "scheme_of_a_long_name_2"]
    other = "another_scheme_of_a_long_name"
    bodies = [body for label in [*labels, other] for body in trained(label, 2.0, 2.0)]
    assert card(bodies).keys() == {*labels, "another_scheme_of_…"}


LINEAR = ("shift_linearity", "linear_residual")
UNIQUE = ("uniqueness", "distinct_positions_in_bfloat16")
DISTANCES = ("uniqueness", "distinct_distances_in_float32")
BEFORE = ("uniqueness", "distinct_share_in_bfloat16")  # up to version 4


@pytest.mark.parametrize(
    ("quantity", "rows", "column", "text"),
    [
        (LINEAR, {"value": 1e-14, "x": 1.0}, "shift", "linear"),
        (LINEAR, {"value": 0.25, "x": 1.0}, "shift", "0.2"),
        (("shift_error",) * 2, {"value": 0.0, "case": "plain"}, "shift", "relative"),
        (
            ("shift_error",) * 2,
            {"value": 0.0, "case": "plain", "note": f"a; {NEAR}"},
            "shift",
            "0",
        ),
        (
            ("perturbation", "relative_size"),
            {"value": 0.7071, "case": "N(0, 1)"},
            "added",
            "0.71",
        ),
        (
            ("perturbation", "relative_size"),
            {"value": 0.0031, "case": "N(0, 1)"},
            "added",
            "3e-03",
        ),
        (UNIQUE, {"value": 1.0, "x": 2048.0}, "unique", "2048"),
        (UNIQUE, {"value": 1.0, "x": 2048.0, "note": f"{ONE_LAYER}; b"}, "unique", ""),
        (UNIQUE, {"value": 0.5, "x": 512.0}, "unique", "256/512"),
        (UNIQUE, {"value": 0.9998, "x": 2048.0}, "unique", "2047/2048"),
        (DISTANCES, {"value": 1.0, "x": 2048.0}, "unique", "2048"),
        (DISTANCES, {"value": 0.5, "x": 512.0}, "unique", "256/512"),
    ],
)
def test_measures_without_training_are_words_and_short_numbers(
    quantity: tuple[str, str], rows: dict[str, Any], column: str, text: str
) -> None:
    bodies = [*trained("rope", 2.0, 2.0), measured("rope", *quantity, **rows)]
    assert card(bodies)["rope"][column] == text


@pytest.mark.parametrize(
    ("quantity", "points", "column", "text"),
    [
        (LINEAR, {1.0: 0.3, 2.0: 0.1}, "shift", "0.3"),
        (UNIQUE, {512.0: 1.0, 1024.0: 1.0, 2048.0: 0.5}, "unique", "1024"),
        (UNIQUE, {512.0: 0.75, 1024.0: 0.5}, "unique", "384/512"),
    ],
)
def test_a_curve_has_one_number_in_a_card(
    quantity: tuple[str, str], points: dict[float, float], column: str, text: str
) -> None:
    one = measured("rope", *quantity, value=0.0)
    one["rows"] = [row(v, quantity=quantity[1], x=x) for x, v in points.items()]
    assert card([*trained("rope", 2.0, 2.0), one])["rope"][column] == text


@pytest.mark.parametrize(("of", "text"), [("positions", "384/512"), ("distances", "")])
def test_bfloat16_counts_for_positions_alone(of: str, text: str) -> None:
    one = measured("rope", *BEFORE, value=0.75, x=512.0)
    one["quantities"]["distinct_share"] = fact(name="distinct_share")
    kind = {"case": "float32", "note": f"over {of}", "quantity": "distinct_share"}
    one["rows"].append(row(1.0, **kind))
    assert card([*trained("rope", 2.0, 2.0), one])["rope"]["unique"] == text


def test_one_shift_beyond_the_probe_makes_no_relative_scheme() -> None:
    one = measured("rope", *("shift_error",) * 2, value=0.0, case="plain", x=1.0)
    one["rows"].append({**one["rows"][0], "x": 64.0, "note": NEAR})
    assert card([*trained("rope", 2.0, 2.0), one])["rope"]["shift"] == "0"


def test_the_time_of_a_step_is_relative_to_that_of_nope() -> None:
    trainings = trained("rope", 2.0, 2.0)
    cost = measured("rope", "cost", "step_ratio", value=1.46)
    assert card([*trainings, cost])["rope"]["time"] == "1.5"
    cost["rows"][0]["value"] = None
    table = table_of([*trainings, cost])
    assert table.head == ["scheme", "at L", "2 L", "change", "level"]
    assert not any(line.startswith("fewer seeds") for line in table.lines)


def test_differences_are_paired_and_tested_as_one_family() -> None:
    bodies = [
        *trained("rope", 2.0, 2.5),
        *trained("alibi", 2.25, 2.0),
        *trained("nope", 2.0, 2.5),
    ]
    for body in bodies:  # which counts nowhere
        body["rows"].append({**body["rows"][1], "case": "read", "value": 9.0})
    table = rank_table(sound(bodies), "rope")
    rows = {line[1]: line for line in table.rows}
    assert [line[1] for line in table.rows] == ["alibi", "nope", "rope"]
    assert table.title.startswith("rope: rank 3 of 3")
    first, last = rows["alibi"][3], rows["alibi"][5]
    assert isinstance(first, Cell)
    assert isinstance(last, Cell)
    assert (first.mean, last.mean) == (pytest.approx(0.25), pytest.approx(-0.5))
    assert last.half_width == pytest.approx(0, abs=1e-12)  # every seed by as much
    assert (last.wins, last.p, table.body[0][5][-2:]) == (None, 1 / 32, " *")
    assert rows["rope"][3] == ""
    assert "better than 1 of 2, worse than 0; no" in table.lines[0]
    assert "better than 0 of 2, worse than 1; no" in table.lines[1]


def test_neighbours_are_five_on_either_side() -> None:
    bodies = [body for i in range(20) for body in trained(f"s{i:02}", 1, 1 + i / 10)]
    names = [line[1] for line in rank_table(sound(bodies), "s10").rows]
    assert names == [f"s{i:02}" for i in range(5, 16)]


def test_ranks_go_by_the_seeds_that_both_schemes_have() -> None:
    one, other = trained("rope", 2.0, 2.505), trained("alibi", 2.0, 2.5)
    # Over its last two seeds, rope has 0.015 more than over all six.
    table = rank_table(sound([*one[4:], *other]), "alibi")
    assert [line[1] for line in table.rows] == ["alibi", "rope"]
    table = rank_table(sound([*one[:2], *other]), "alibi")
    assert [line[1] for line in table.rows] == ["alibi", "rope"]  # by means, rope first
    table = rank_table(sound([*one[:2], *other]), "rope")
    assert [line[1] for line in table.rows] == ["alibi", "rope"]


def test_schemes_without_a_common_seed_are_in_no_order() -> None:
    other = trained("other", 2.0, 2.4)
    for seed, body in enumerate(other, 6):
        body["spec"]["setting"]["seed"] = seed
    bodies = [*trained("rope", 2.0, 2.5), *other]
    table = rank_table(sound(bodies), "rope")
    assert table.title.startswith("rope: no rank by bits per byte at 16")
    assert [row[:2] for row in table.rows] == [["", "rope"], ["", "other"]]
    assert table.body[1][-1] == "n/a"
    table = rank_table(sound([*bodies, *trained("alibi", 2.0, 2.6)]), "rope")
    assert table.title.startswith("rope: rank 1 of 2 by")


def test_ranks_are_those_of_schemes_with_a_score_at_the_end() -> None:
    unplaced = trained("learned", 1.0, 1.0)
    for body in unplaced:
        body["rows"][1] |= {"value": None, "note": "not defined beyond 1"}
    records = [*unplaced, *trained("rope", 2.0, 2.5), *trained("alibi", 2.0, 2.0)]
    table = rank_table(sound(records), "rope")
    assert table.title.startswith("rope: rank 2 of 2 by")
    assert [row[:2] for row in table.rows] == [
        ["1", "alibi"],
        ["2", "rope"],
        ["", "learned"],
    ]
    assert "without a score at 16: learned" in table.lines


def test_schemes_of_equal_scores_are_in_the_order_of_names() -> None:
    records = sound([*trained("zz", 2.0, 2.5), *trained("alibi", 2.0, 2.5)])
    names = [row[1] for row in rank_table(records, "zz").rows]
    figure = draw_rank("zz", at_the_end(records, "zz")[1], "bits")
    drawn = [text.get_text()[3:] for text in figure.axes[0].get_yticklabels()]
    assert names == drawn == ["alibi", "zz"]


@pytest.mark.parametrize(
    ("first", "place", "tested"),
    [(2.0, "rank 1 of 2", "significantly better than 1"), (None, "no rank", "no")],
)
def test_a_scheme_is_compared_at_the_longest_test_where_it_has_scores(
    first: float | None, place: str, tested: str
) -> None:
    ended = trained("ended", 2.0, None)
    for body in ended:
        body["rows"][0]["value"] = first
        body["rows"][1]["note"] = "not defined beyond 8"
    records = sound([*ended, *trained("rope", 2.5, 3.0)])
    x, compared = at_the_end(records, "ended")
    table, end = rank_table(records, "ended"), 8 if first else 16
    assert x == end
    assert table.title.startswith(f"ended: {place} by bits per byte at {end}")
    assert any(line.startswith(f"at {end}: {tested}") for line in table.lines)
    why = "ranks go by 8: ended has no score beyond (not defined beyond 8)"
    assert (why in table.lines) == bool(first)
    if first:
        assert compared["rope"].mean == pytest.approx(0.5)
        assert table.head == ["", "scheme", "at 8", "difference"]
