"""What is shown of records of retrieval: tables, plots, and which rule to take."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.plots import drawn, titles
from support.records import read
from support.records import record as body

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import Quantity, Row
from posenc_compare.records.record import Record
from posenc_compare.registry import PLOTS
from posenc_compare.show.frame import Frame, Numbers
from posenc_compare.show.retrieval import (
    advice,
    retrieval_rows,
    retrieval_tables,
    scores,
)
from posenc_compare.show.tables import display_tables

QUANTITIES = {
    "retrieval": Quantity("retrieval", "share", "higher", "none", x="length"),
    "needles": Quantity("needles", "needles", "neither", "none", x="length"),
    "text_bits_per_byte": Quantity("text_bits_per_byte", "bits", "lower", "", x="x"),
}


def record(rule: str, length: int, seed: int, found: int, bits: float) -> Record:
    """Return a record of a rule that finds some of 30 needles, the first ones first."""
    setting = {"kind": "retrieval", "model": "small", "trained": 1024, "needles": 1}
    setting |= {"read_length": length, "fillers": "text,noise", "seed": seed}
    one = body("rope", "retrieval", **setting)
    if rule != "as trained":
        one["label"] = f"rope:scaling={rule}"
        one["spec"]["scheme"]["options"] = {"scaling": rule, "factor": 2.0}
    counts = (np.arange(30) < found).astype(float).reshape(2, 3, 5)
    values = {"retrieval": found / 30, "needles": 30, "text_bits_per_byte": bits}
    return replace(
        read(one),
        key=f"{rule} {length} {seed}",
        quantities=QUANTITIES,
        rows=tuple(Row(name, value, length) for name, value in values.items()),
        arrays={"found": counts.tolist(), "asked": np.ones((2, 3, 5)).tolist()},
    )


def made(seeds: int = 6, pi: int = 10, yarn: int = 25) -> list[Record]:
    """Return records in which pi has fewer bits than yarn, and finds other needles."""
    return [
        record(rule, length, seed, found, bits + seed / 10)
        for seed in range(seeds)
        for length in (1024, 2048)
        for rule, found, bits in (
            ("as trained", 12 if length == 1024 else 5, 1.0 + (length == 2048)),
            ("pi", pi, 1.1),
            ("yarn", yarn, 1.2),
        )
    ]


def scores_of(records: list[Record]) -> Frame:
    return scores(retrieval_rows(records))


def test_the_table_has_wilson_intervals() -> None:
    table = display_tables(Numbers(made()))[-1]
    assert table.name == "retrieval beside bits per byte"
    row = next(row for row in table.body if row[:2] == ["yarn", "2048"])
    assert row[2:5] == ["180", "0.83", "0.77 to 0.88"]
    assert row[5].startswith("1.450 ± ")
    assert "chance 0.20" in table.title
    assert retrieval_tables([]) == []


def test_texts_differ_in_needles_and_some_have_no_bits() -> None:
    changed = []
    for one in made(2):
        more = one.spec.seed == 1  # needles, and no bits
        setting = {**one.spec.setting, "needles": 1 + more}
        rows = one.rows[: 2 if more else None]
        changed.append(replace(one, spec=replace(one.spec, setting=setting), rows=rows))
    assert "chance 0.10 to 0.20" in retrieval_tables(changed)[0].note
    (table,) = retrieval_tables([one for one in changed if one.spec.seed])
    assert "chance 0.10;" in table.note
    lacking = [one for one in changed if one.spec.seed or "yarn" not in one.label]
    (table,) = retrieval_tables(lacking)
    assert [row[-1] for row in table.rows if row[0] == "yarn"] == ["", ""]


def noisy() -> list[Record]:
    """Return records of the same means, in which yarn is ahead in every other seed."""
    found = []
    for one in made():
        noise = 0.5 * (-1) ** one.spec.seed if "yarn" in one.label else 0.0
        values = [replace(r, value=(r.value or 0) + noise) for r in one.rows[2:]]
        found.append(replace(one, rows=(*one.rows[:2], *values)))
    return found


def test_maps_have_a_panel_for_each_rule() -> None:
    figure = drawn("retrieval", made())
    *panels, bar = figure.axes
    assert titles(figure)[:3] == ["as trained", "pi", "yarn"]
    # 25 of 30, row by row of five: all but the last kind of the last filler.
    yarn: Any = panels[2].collections[0].get_array()
    assert yarn.shape == (5, 2)
    np.testing.assert_allclose(yarn, 5 / 6)
    assert bar.get_ylim() == (0, 1)
    assert PLOTS.get("retrieval")([]) is None


@pytest.mark.parametrize(
    "records",
    [noisy(), [one for one in made() if "yarn" not in one.label or one.spec.seed < 2]],
)
def test_points_lie_above_the_rule_with_the_fewest_bits_on_common_texts(
    records: list[Record],
) -> None:
    figure = drawn("retrieval_bits", records)
    _, long = figure.axes
    assert titles(figure) == ["text, 1024 tokens", "text, 2048 tokens"]
    points = {
        round(float(line.get_xdata()[0]), 3): float(line.get_ydata()[0])  # type: ignore[index]
        for line in long.lines
        if len(line.get_xdata()) == 1  # type: ignore[arg-type]
    }
    # Of the text alone, whose first 15 needles each finds before those of noise.
    assert points == {0.9: pytest.approx(5 / 15), 0.0: pytest.approx(10 / 15), 0.1: 1.0}
    assert PLOTS.get("retrieval_bits")([]) is None


def test_needles_decide_before_bits() -> None:
    found = advice(made(), 2048)
    assert found.rules == ("yarn",)
    assert found.verdict == "yarn"
    assert found.reasons[0] == "found: yarn before the others"
    shorter = [record("pi", 512, seed, 10, 9.0) for seed in range(6)]
    assert advice([*made(), *shorter], 2048).rows == found.rows
    about = "small, trained at 1024 tokens; found and bits per byte beyond at 2048, "
    assert found.about.startswith(f"{about}within at 1024 tokens; factor 2; 6 texts")
    rows = {row["rule"]: row for row in found.rows}
    assert [*rows] == ["yarn", "pi", "as trained"]  # the one that finds most first
    above = {rule: row["above chance"] for rule, row in rows.items()}
    assert above == {"yarn": True, "pi": True, "as trained": False}
    assert found.reasons[-2:] == (
        "not better than chance, 0.2: as trained",
        "yarn costs 0.200 ± 0.000 bits per byte at 1024 tokens",
    )
    assert rows["as trained"]["found within"] == pytest.approx(12 / 30)
    assert rows["yarn"]["found"] == pytest.approx(25 / 30)
    assert rows["as trained"]["bits beyond"] == pytest.approx(2.25)
    assert rows["pi"]["bits within"] == pytest.approx(1.35)


def test_bits_decide_among_rules_that_find_alike() -> None:
    found = advice(made(pi=25), 2048)
    assert found.rules == ("pi",)
    assert found.reasons == (
        "found: pi, yarn before the others",
        "bits beyond: pi before the others",
        "bits within: one rule is left",
        "not better than chance, 0.2: as trained",
        "pi costs 0.100 ± 0.000 bits per byte at 1024 tokens",
    )


def test_no_difference_is_seen_with_few_seeds() -> None:
    found = advice(made(5), 2048)
    assert found.verdict == "not tested, too few seeds: yarn, pi, as trained"
    assert found.reasons[0] == "found: 5 seeds, 6 are needed"
    alone = advice(made(1), 2048)
    assert alone.reasons[0] == "found: 1 seed, 6 are needed"
    assert "; 1 text of each filler; " in alone.about


def test_rules_without_common_seeds_are_not_tested() -> None:
    every = [one for one in made(12) if "pi" not in one.label]
    apart = [one for one in every if (one.spec.seed < 6) == ("yarn" in one.label)]
    found = advice(apart, 2048)
    assert found.verdict == "not tested, too few seeds: yarn, as trained"
    assert not any("nan" in reason for reason in found.reasons)


def test_evidence_is_of_two_rules_beyond_the_trained_length() -> None:
    short = [one for one in made() if one.spec.setting["read_length"] == 1024]
    for records, said in ((short, "reach beyond the 1024 tokens"), ([], "got 0 check")):
        with pytest.raises(ConfigError, match=f"evidence must .*{said}"):
            advice(records, 2048)
    one_rule = [one for one in made() if "yarn" in one.label]
    with pytest.raises(ConfigError, match="must hold two rules or more at 2048 tokens"):
        advice(one_rule, 2048)


def with_factor(one: Record, factor: float) -> Record:
    options = {**one.spec.scheme.options, "factor": factor}
    scheme = replace(one.spec.scheme, options=options)
    return replace(one, spec=replace(one.spec, scheme=scheme))


def test_rules_of_several_factors_are_apart() -> None:
    wide = [with_factor(record("yarn", 1024, seed, 2, 2.0), 8.0) for seed in range(6)]
    share = scores_of([*made(), *wide])["share"]
    assert share[1024, "yarn, factor 2"] == pytest.approx(25 / 30)
    assert share[1024, "yarn, factor 8"] == pytest.approx(2 / 30)
    one, other = advice([*made(), *wide], 2048), advice([*wide, *made()], 2048)
    assert one.rules == other.rules == ("yarn",)
    within = {row["rule"]: row["bits within"] for row in one.rows}
    assert within["yarn"] == pytest.approx(1.45)
    assert within == {row["rule"]: row["bits within"] for row in other.rows}


def test_evidence_near_the_length_that_was_asked_for_decides() -> None:
    longer = [
        with_factor(record(rule, 4096, seed, found, bits), 4.0)
        for rule, found, bits in (("ntk", 0, 4.0), ("pi", 28, 1.0), ("yarn", 3, 2.0))
        for seed in range(6)
    ]
    every = [*made(), *longer]
    for asked, rule, at in ((2048, "yarn", 2048), (8192, "pi", 4096)):
        found = advice(every, asked)
        assert found.rules == (rule,)
        assert f"beyond at {at}" in found.about
        assert f"factor {at // 1024}" in found.about
        said = f"evidence at {at} tokens, none at {asked}" in found.reasons
        assert said == (asked != at)


def test_a_factor_counts_if_records_of_the_length_have_it() -> None:
    wide = [
        with_factor(record(rule, 4096, seed, found, 1.0), 8.0)
        for rule, found in (("pi", 28), ("yarn", 3))
        for seed in range(6)
    ]
    found = advice([*made(), *wide], 3072)  # nearer to 4096, and to the factor 2
    assert found.rules == ("pi",)
    assert "factor 8" in found.about


def test_rules_of_several_settings_are_not_compared() -> None:
    mixed = [replace(one, settings=("fillers=noise",)) for one in made()[:6]]
    with pytest.raises(ConfigError, match="must be of one setting, got fillers=noise"):
        advice([*made()[6:], *mixed], 2048)


def test_a_rule_with_few_seeds_is_not_behind() -> None:
    few = [record("ntk", 2048, seed, 30, 1.0) for seed in range(2)]
    found = advice([*made(yarn=20), *few], 2048)
    assert found.rules == ("ntk", "yarn")
    assert found.reasons[0] == (
        "found: yarn before the others; with fewer than 6 seeds: ntk"
    )


def without_bits(records: list[Record], rules: tuple[str, ...]) -> list[Record]:
    """Return records whose bits of these rules are not finite."""
    return [
        replace(
            one,
            rows=tuple(
                replace(row, value=None)
                if any(rule in one.label for rule in rules)
                and row.quantity.endswith("bits_per_byte")
                else row
                for row in one.rows
            ),
        )
        for one in records
    ]


def test_bits_that_are_missing_are_no_bits() -> None:
    bits = scores_of(without_bits(made(), ("pi",)))["text_bits_per_byte"]
    assert np.isnan(bits[2048, "pi"])


@pytest.mark.parametrize("name", ["retrieval", "needles"])
def test_a_share_that_was_not_measured_is_not_0(name: str) -> None:
    one, *others = made()
    rows = [replace(r, value=None) if r.quantity == name else r for r in one.rows]
    known = scores_of([replace(one, rows=tuple(rows)), *others])
    pd.testing.assert_frame_equal(known, scores_of(others))


def test_without_bits_more_than_one_rule_is_left() -> None:
    every = ("as trained", "pi", "yarn")
    found = advice(without_bits(made(pi=25), every), 2048)
    assert found.reasons[1] == "bits beyond: recorded for 0 of 2 rules"
