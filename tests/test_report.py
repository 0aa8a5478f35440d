"""The report: one page, from records alone, whatever they say."""

import random
from pathlib import Path
from typing import Any

import pytest
from support.pages import Page
from support.records import (
    HOSTILE,
    PORTRAIT,
    curve,
    hostile,
    labelled,
    read,
    record,
    stored,
    trained,
)

from posenc_compare.errors import StoreError
from posenc_compare.records.load import load_records, sound
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.registry import MEASURES, PLOTS
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show import report
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.report import report_html, warnings_of, write_report
from posenc_compare.stats.level import FEWEST

PIECES = [*HOSTILE, "</style><style>", "<svg/onload=x>", "javascript:x", "&#60;script>"]
PIECES += ["]]>", "--><script src=//example.org>", "\x00<", "`${x}`", "%3Cscript%3E"]


def page(records: list[dict[str, Any]], title: str = "title") -> Page:
    return Page(report_html(labelled(records), title))


def some_records(texts: list[str]) -> list[dict[str, Any]]:
    made = [hostile(text, i, curve=i % 4 > 1) for i, text in enumerate(texts)]
    for one in made[::2]:
        one.update(status="failed", rows=[])
    return made


def test_many_hostile_texts_add_no_element() -> None:
    rng = random.Random(0)
    benign = page(some_records([f"word{i}" for i in range(50)]))
    benign.check()
    for _ in range(3):
        texts: dict[str, str] = {}
        while len(texts) < 50:
            text = "".join(rng.choices(PIECES, k=rng.randint(1, 3)))
            texts[clean(text, SHORT)] = text
        found = page(some_records([*texts.values()]), title=rng.choice(PIECES))
        found.check()
        assert found.elements == benign.elements


def test_hostile_texts_are_there_to_be_read() -> None:
    text = "<script>alert('1')</script>&amp;"
    assert text in page([hostile(text)]).text
    assert text in page([record()], title=text).text


def test_half_of_a_grid_failed() -> None:
    records = [record("a", seed=seed, value=1.0) for seed in range(2)]
    records += [record("b", seed=0)]
    records += [record("b", seed=1, status="lost", error="killed twice")]
    records += [
        record("c", seed=seed, status="failed", error=f"E{seed}") for seed in (0, 1)
    ]
    records += [record("d", seed=seed, status="unsupported") for seed in (0, 1)]
    text = page(records).words
    assert "title 3 of 8 cells ok, 2 failed, 1 lost, 2 unsupported" in text
    assert "b 1.500 (n = 1)" in text
    assert "c failed: E0; failed: E1" in text
    assert "d unsupported: boom" in text
    assert "b shift_error 1 lost killed twice" in text
    assert "None: every cell has its result." not in text
    assert "None: every cell has its result." in page(records[:2]).text


def test_nothing_but_failures_still_gives_a_report() -> None:
    bare = {**record("a", status="lost", error="killed"), "quantities": {}}
    text = page([bare]).text
    assert "0 of 1 cells ok, 1 lost" in text
    assert "killed" in text


def test_trainings_on_language_begin_with_the_scorecard() -> None:
    text = page([*trained("rope", 2.0, 2.4), record("rope")]).words
    assert "Results Scorecard scheme at L 2 L change level" in text
    assert "rope 2.00 2.40 +0.40±0.01 loses" in text
    assert "Scorecard" not in page([record("rope")]).words


def test_it_says_what_the_numbers_mean_and_what_they_were_made_with() -> None:
    records = [
        record(seed=seed, package=p) for seed in range(9) for p in ("1.0", "2.0")
    ]
    text = page([*records, curve("rope", [2.0])]).words
    for part in (
        "shift_error 1 gain logit lower nothing",
        "rope [package=1.0] rotary arXiv:2104.09864 9 of 9 cells ok",
        "numbers 1 threads 1 torch 2.13",
        "package 1.0 (9 of 18 cells), 2.0 (9 of 18 cells)",
        "started 2026-01-01 to 2026-01-09 (9 different values)",
        "seed 0 to 8 (9 different values)",
        "python 3.11.7",
    ):
        assert part in text


def test_a_report_of_a_folder_leaves_the_folder_alone(tmp_path: Path) -> None:
    bodies = [record(), record("alibi"), {**record("odd"), "rows": "none"}]
    folder = stored(tmp_path / "run", bodies)

    def written() -> dict[Path, tuple[int, int]]:  # reading alone may set st_atime
        stats = {path: path.stat() for path in folder.rglob("*")}
        return {path: (s.st_ctime_ns, s.st_size) for path, s in stats.items()}

    before = written()
    lines: list[str] = []
    records = load_records(folder, lines.append)
    assert len(records) == 2
    assert len(lines) == 1
    assert "record.rows is missing or not what it must be" in lines[0]
    path = tmp_path / "report.html"
    write_report(records, "title", path, plots=False)
    first = path.read_bytes()
    write_report(records, "title", path, plots=False)
    assert path.read_bytes() == first
    link = tmp_path / "link.html"
    link.symlink_to(path)
    write_report(records, "other", link, plots=False)
    assert path.read_bytes() == first
    assert written() == before
    with pytest.raises(StoreError, match="must take a report"):
        write_report(records, "title", path / "below", plots=False)


def test_plots_are_inside_the_page_and_one_that_fails_is_named(tmp_path: Path) -> None:
    odd = {**record("odd", "portrait"), "arrays": {"bias_map": [[1.0], [1.0, 2.0]]}}
    fine = {**record("fine", "portrait"), "arrays": PORTRAIT}
    lines: list[str] = []
    write_report(sound([odd, fine]), "title", tmp_path / "a.html", lines.append)
    (line,) = lines
    assert line.startswith("plot bias_maps: not drawn: ValueError: ")
    found = Page((tmp_path / "a.html").read_text())
    found.check()
    assert found.elements["img"] == found.elements["figure"] == 2
    assert PLOTS.entry("codes").facts["caption"] in found.text
    assert PLOTS.entry("bias_maps").facts["caption"] not in found.text


def test_plots_stand_below_the_last_table_of_their_measure() -> None:
    sections = [
        report.Section("a", Table("first", [], [], measures=frozenset({"a", "b"}))),
        report.Section("b", Table("second", [], [], measures=frozenset({"a"}))),
        report.Section("c", Table("third", [], [])),
    ]
    plates = [
        report.Plate(f"{i}{measure}", "caption", measure, b"")
        for i, measure in enumerate(("a", "b", "a", "c", ""))
    ]
    rest = report.place(plates, sections)
    assert [plate.name for plate in rest] == ["3c", "4"]
    below = [[plate.name for plate in section.plates] for section in sections]
    assert below == [["1b"], ["0a", "2a"], []]
    assert report.place(plates, []) == plates


@pytest.mark.parametrize("seeds", [FEWEST - 1, FEWEST])
def test_the_best_are_named_from_so_many_seeds_on(seeds: int) -> None:
    made = [
        curve(label, [1.0 + 0.001 * seed, bits + 0.001 * seed], seed=seed)
        for label, bits in (("good", 1.0), ("bad", 2.0))
        for seed in range(seeds)
    ]
    words = page(made).words
    enough = seeds == FEWEST
    none = "No scheme is significantly better than all others."
    assert (none in words) == (not enough)
    best = "good is significantly better than all other schemes in"
    assert (best in words) == enough


def test_the_best_of_the_last_column_that_has_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = {
        "a": [Cell(1.0, best=True), Cell(2.0, best=True)],
        "b": [Cell(1.5), Cell(2.1, best=True)],
        "lost": [Cell(note="failed"), Cell(note="failed")],
    }

    def best() -> str:
        rows: list[list[str | Cell]] = [[name, *some] for name, some in cells.items()]
        below = {1: ("no better at 64: a",), 2: ("no better at 128: b",)}
        table = Table("t", ["scheme", "64", "128 ↓"], rows, below=below)
        monkeypatch.setattr(report, "display_tables", lambda records: [table])
        words = page([record()]).words
        return words.partition("Nothing was trained")[0].partition("ok;")[2]

    rest = "significantly better than all other schemes in t , column"
    assert f" a , b are each {rest} 128 ↓. No better at 128: b." in best()
    cells["a"][1] = cells["b"][1] = Cell(2.0)
    assert f" a is {rest} 64. No better at 64: a." in best()
    cells["a"][0] = Cell(1.0)
    assert "No scheme is significantly better than all others." in best()


def test_every_reason_to_claim_less_is_listed() -> None:
    quick = PRESETS["quick"].training.steps
    assert "Nothing was trained" in " ".join(warnings_of([read(record())]))

    def listed(seeds: int, steps: int, **more: str) -> str:
        made = [
            curve(label, [1.0], seed=seed, steps=steps, **more)
            for label, first in (("a", 0), ("b", 1))
            for seed in range(first, first + seeds)
        ]
        return " ".join(warnings_of(map(read, made)))

    most = FEWEST + 1  # seeds of either scheme, of which it has one alone
    assert listed(most, quick + 1) == ""
    few = listed(FEWEST, quick + 1)
    assert few.startswith("No two schemes have more than 5 seeds in common, and a")
    assert listed(1, quick + 1).startswith("No two schemes have more than 0 seeds")
    apart = [
        record(label, measure, seed=first + seed, corpus_sha256="1")
        for measure, firsts in (("extrapolation", (0, 3)), ("inside", (3, 0)))
        for label, first in zip("ab", firsts, strict=True)
        for seed in range(3)
    ]
    assert "more than 0 seeds" in " ".join(warnings_of(map(read, apart)))
    assert listed(most, quick).startswith(f"At most {quick} training steps; ")
    mixed = [curve("a", [1.0], seed=s, steps=quick + s) for s in range(FEWEST)]
    assert warnings_of(map(read, mixed)) == []
    lost = listed(most, quick + 1, status="lost")
    assert lost == "14 of 14 cells failed or were lost, and are in no mean."


def test_every_plot_stands_beside_a_measure_that_there_is() -> None:
    stated = {entry.facts.get("measure", "") for entry in PLOTS.entries().values()}
    of_hf = {"checkpoint", "retrieval"}  # which that package registers
    assert stated - {""} <= {*MEASURES.entries(), *of_hf}
    assert "extrapolation" in stated
