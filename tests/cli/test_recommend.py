"""The command that prints the page on which scheme to take."""

import pytest

from posenc_compare.cli.recommend import CASES, LARGE, first_choice, page, sections_of


def test_every_section_of_the_page_is_a_case() -> None:
    sections = sections_of(page())
    assert [*sections] == [*CASES.values(), LARGE]
    for heading in CASES.values():
        assert first_choice(sections[heading]).endswith(".")
        for note in ("*Elsewhere.*", "*Here.*", "*Not known.*"):
            assert sections[heading].count(note) == 1


def test_without_a_case_all_first_choices_are_printed(posenc) -> None:
    text = posenc("recommend").stdout
    starts = [line.split()[:1] for line in text.splitlines()]
    assert all([case] in starts for case in CASES)
    assert "compute them for a model of your size" in " ".join(text.split())


def test_a_case_has_its_notes_sources_and_figures(posenc) -> None:
    text = " ".join(posenc("recommend", "domain").stdout.split())
    assert text.startswith("Take alibi if inputs may be longer")
    assert "https://arxiv.org/abs/2108.12409" in text
    assert "(docs/findings.md)" in text
    assert "Not known. Whether these rankings hold in larger models" in text
    rows = text.partition("Scorecard")[2]
    for scheme in ("alibi", "t5_bias", "nope"):
        assert f" {scheme} " in rows
    assert " fire " not in rows
    assert " 16 L change time level " in rows
    assert "time: of a step, relative to nope" in rows


@pytest.mark.parametrize("case", ["extend", "grid"])
def test_first_choices_without_records_have_no_figures(posenc, case: str) -> None:
    assert "Scorecard" not in posenc("recommend", case).stdout
