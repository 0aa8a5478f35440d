"""A report in a browser: sorted, filtered and followed, and nothing is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import Browser, browser, found
from support.records import PORTRAIT, curve, labelled, record

from posenc_compare.show.report import write_report

pytestmark = pytest.mark.skipif(found() is None, reason="Chromium is not installed")
views = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
widths = pytest.mark.parametrize("width", [1280, 390])
BITS = {"rope": 3.0, "alibi": 1.0, "sinusoidal": 2.0, "nope": 4.0}
FAMILIES = {"rope": "rotary", "alibi": "bias", "sinusoidal": "absolute", "nope": "none"}
TABLE = "table[aria-labelledby=table-0]"
ROWS = f"[...document.querySelectorAll('{TABLE} tbody tr')]"
NAMES = f"{ROWS}.map(r => r.cells[0].textContent)"
TAB, ENTER = ("Tab", 9), ("Enter", 13)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = [
        curve(label, [bits + 0.1 * i + 0.01 * seed for i in range(6)], seed=seed)
        for label, bits in BITS.items()
        for seed in range(6)
    ]
    made += [{**record(label, "portrait"), "arrays": PORTRAIT} for label in BITS]
    made.append(curve("alibi + lost", [], status="lost"))
    for one in made:
        one["family"] = FAMILIES.get(one["label"], "bias")
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(labelled(made), "A report", path)
    return path


def quiet(tab: Browser, path: Path) -> None:
    """Fail if a page asked for anything but itself, or the browser found a fault."""
    asked = [url for url in tab.requests() if not url.startswith("data:image/")]
    assert asked == [path.resolve().as_uri()]
    assert tab.complaints() == []


@widths
@views
def test_it_fits_the_window_and_loads_nothing(
    tab: Browser, page: Path, width: int, dark: bool
) -> None:
    tab.open(page, width=width, dark=dark)
    assert tab.value("document.documentElement.scrollWidth") == width
    images = tab.value("[...document.images].map(i => i.naturalWidth > 50)")
    assert len(images) >= 2
    assert all(images)
    style = "getComputedStyle(document.body).backgroundColor"
    assert tab.value(style) == ("rgb(23, 24, 26)" if dark else "rgb(255, 255, 255)")
    assert tab.value("document.querySelector('.best-of b').textContent") == "alibi"
    quiet(tab, page)


@widths
def test_a_click_on_a_heading_sorts_and_the_third_undoes_it(
    tab: Browser, page: Path, width: int
) -> None:
    tab.open(page, width=width)
    written = tab.value(NAMES)
    lost = "alibi + lost"
    assert written == ["alibi", "sinusoidal", "rope", "nope", lost]
    head = f"{TABLE} thead th:last-child"
    sorts = f"document.querySelector('{head}').ariaSort"
    assert tab.value(sorts) == "none"
    tab.click(f"{head} button")
    assert (tab.value(sorts), tab.value(NAMES)) == ("ascending", written)
    tab.click(f"{head} button")
    turned = ["nope", "rope", "sinusoidal", "alibi", lost]
    assert (tab.value(sorts), tab.value(NAMES)) == ("descending", turned)
    tab.click(f"{head} button")
    assert (tab.value(sorts), tab.value(NAMES)) == ("none", written)
    tab.click(f"{TABLE} thead th:first-child button")
    assert tab.value(NAMES) == ["alibi", lost, "nope", "rope", "sinusoidal"]
    quiet(tab, page)


def test_the_first_column_stays_where_a_phone_scrolls_a_table(
    tab: Browser, page: Path
) -> None:
    tab.open(page, width=390)
    first, last = (
        f"document.querySelector('{TABLE} tbody tr > :{which}-child')"
        ".getBoundingClientRect().left"
        for which in ("first", "last")
    )
    before = tab.value(f"[{first}, {last}]")
    tab.value(f"document.querySelector('.wide:has({TABLE})').scrollLeft = 200")
    after = tab.value(f"[{first}, {last}]")
    assert after[0] == before[0]
    assert after[1] == before[1] - 200


def test_the_keyboard_alone_reaches_and_sorts(tab: Browser, page: Path) -> None:
    tab.open(page)
    for _ in range(60):
        if tab.value("document.activeElement.closest('th') !== null"):
            break
        tab.press(*TAB)
    assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press(*ENTER)
    assert tab.value("document.activeElement.closest('th').ariaSort") == "ascending"


def test_all_is_there_without_a_script(tab: Browser, page: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(page)
        assert tab.value("document.querySelectorAll('th button').length") == 0
        assert len(tab.value(NAMES)) == len(BITS) + 1
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_strange_script_does_not_run(
    tab: Browser, page: Path, tmp_path: Path
) -> None:
    text = page.read_text()
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("</footer>", "</footer><script>window.x = 1</script>"))
    tab.open(bad)
    assert tab.value("window.x === undefined")
    assert "script-src" in "".join(tab.complaints())
