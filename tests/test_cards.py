"""A scheme's card: what its file says, read without running it, and its records."""

from pathlib import Path

import pytest
from support.records import HOSTILE, curve, fact, read, record, row

from posenc_compare.analysis.show.cards import cards_of
from posenc_compare.analysis.show.installed import installed
from posenc_compare.analysis.show.sections import anchors, scheme_of, sections_of
from posenc_compare.analysis.show.tables import display_tables
from posenc_compare.conformance import built_in
from posenc_compare.registry import add_plugin
from posenc_compare.schemes import DOORS, create
from posenc_compare.variants import option_types

PLUGIN = '''
"""A plugin of two schemes.

Formula: `x + 1`
goes on here.
Sign: none.
"""

from posenc_compare.schemes import Scheme, register

raise SystemExit("run")


@register("card_one", family="bias", source="Somebody 2020, arXiv:2104.09864")
class One(Scheme):
    """Add one."""

    def __init__(self, geometry, *, slope: float = 2.0):
        super().__init__(geometry)

    def embed(self, x, positions):
        return x + 1


@register("card_two", family="bias", source="nobody")
class Two(One):
    """Add two."""

    def acts_at(self, door):
        return door == "embed"

    def values(self, values, call):
        return values
'''


# Schemes inside another one with which all of its doors act.
AROUND = {"log_length": ["shaw", "rerope"]}


def test_doors_and_options_of_every_scheme_are_read_as_they_are() -> None:
    decided = set()
    for name in built_in():
        known = installed(name)
        assert known is not None, name
        scheme = create(name)
        acts = [door for door in DOORS if scheme.acts_at(door)]
        if known.decides:
            decided.add(name)
            for inside in AROUND.get(name, ()):
                other = create(name, options={"scheme": inside})
                acts += [door for door in DOORS if other.acts_at(door)]
            assert set(known.doors) <= set(acts), name
        else:
            assert list(known.doors) == acts, name
        assert [option for option, _, _ in known.options] == [*option_types(name)]
    assert {"mix", "shape", "randomized"} <= decided
    assert decided.isdisjoint({"rope", "alibi", "sinusoidal", "fox", "t5_bias"})


@pytest.mark.usefixtures("forgetful")
def test_a_plugin_is_read_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "card_plugin.py"
    path.write_text(PLUGIN)
    add_plugin(str(path))
    one, two = installed("card_one"), installed("card_two")
    assert one is not None
    assert two is not None
    assert (one.summary, one.formula) == ("Add one.", "`x + 1` goes on here.")
    assert one.options == two.options == [("slope", "float", "2.0")]
    assert (one.doors, one.decides) == (("embed",), False)
    assert (two.doors, two.decides) == (("embed", "values"), True)
    assert "Formula: `x + 1` goes on here.\nSign: none.\n\nAdd one." in one.text
    assert one.origin == str(path)
    assert installed("no_such_scheme") is None


def test_a_card_has_the_numbers_and_the_cost_of_its_scheme_alone() -> None:
    made = [curve("rope", [2.0, 3.0]), curve("alibi", [1.0, 1.5])]
    cost = record("rope", "cost", corpus_sha256="1", length=8)
    cost["quantities"] = {"gain": fact(["", None], title="seconds a step")}
    cost["rows"] = [row(0.5)]
    strange = record("rope:base=3", "shift_error", value=7.0)
    strange["spec"]["scheme"].update(name="rope", options={"base": 3.0})
    for one, seconds in zip((*made, cost, strange), (1.0, 2.0, 10.0, 0.0), strict=True):
        one["provenance"]["seconds"] = seconds
    records = [read(one) for one in (*made, cost, strange)]
    labels = {one.label for one in records}
    cards = cards_of(records, sections_of(display_tables(records), labels))
    found = {card.label: card for card in cards}
    assert [*found] == ["alibi", "rope", "rope:base=3"]
    rope = found["rope"]
    assert (rope.coverage, rope.seconds) == ("2 of 2 cells ok", "11")
    assert rope.costs == [("seconds a step", "0.500")]
    assert rope.papers == {"2104.09864": "https://arxiv.org/abs/2104.09864"}
    assert rope.bibtex[0].startswith("@misc{2104.09864,")
    numbers = [cell for row in rope.numbers for cell in row.cells]
    assert {("8", "2.000", False), ("16", "3.000", False)} <= {*numbers}
    assert "1.500" not in [text for _, text, _ in numbers]
    other = found["rope:base=3"]
    assert other.given == [("base", "3.0")]
    assert [cell for row in other.numbers for cell in row.cells] == [
        ("gain", "7.000", False)
    ]
    assert (other.seconds, other.costs) == ("", [])


def test_anchors_are_plain_and_different() -> None:
    names = [*HOSTILE, "a b", "a_b", "a_b-2", "A", "B", "x" * 64, "x" * 65]
    found = anchors(names)
    assert len(set(found.values())) == len(set(names)) == len(found)
    for word in found.values():
        assert word
        assert set(word) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
        assert not word.startswith(".")
        assert len(word) < 70
    assert anchors(["rope", "rope:base=3.0"])["rope"] == "rope"


def test_rows_with_a_case_are_of_their_scheme() -> None:
    labels = {"rope", "a + b", "rope:base=3"}
    for text, label in {
        "rope": "rope",
        "rope + yarn": "rope",
        "rope, as trained": "rope",
        "a + b": "a + b",
        "rope:base=3 + pi": "rope:base=3",
        "5-gram": None,
        "": None,
    }.items():
        assert scheme_of(text, labels) == label
