"""The tour for students: it runs, and every number on its page was printed by it."""

import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from conftest import Command

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
tour: Any = importlib.import_module("tour")
TEXT = tour.PAGE.read_text("utf-8")
BLOCKS = tour.blocks(TEXT)
SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (\[.+\]\(#[a-z-]+\)) \|$", re.MULTILINE)
CODE = re.compile(r"```.*?```", re.DOTALL)
# Not numbers of the page: names of code, links, rows of tables.
NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|^\|.*$", re.MULTILINE)


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw without a window, and leave threads and settings as they were."""
    threads, backend = torch.get_num_threads(), mpl.get_backend()
    mpl.use("Agg")
    monkeypatch.chdir(tour.DOCS)
    yield
    plt.close("all")
    mpl.use(backend)
    torch.set_num_threads(threads)


def test_the_notebook_prints_and_draws_what_the_page_shows(
    drawing: None, posenc: Command
) -> None:
    """The cells of the notebook run in order, and agree but for a last digit."""
    book = json.loads(tour.NOTEBOOK.read_text("utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == len(BLOCKS) > 20
    names: dict[str, Any] = {"__name__": "tour"}
    for cell in cells:
        code = "".join(cell["source"])
        printed, images = "", []
        for command in re.findall("^!posenc-compare (.*)", code, re.MULTILINE):
            text = posenc(*shlex.split(command)).stdout.rstrip()
            printed += "".join(f"{row.rstrip()}\n" for row in text.split("\n"))
        if not code.startswith("!"):
            printed, images = tour.Block("python", code, "", "").run(names)
        shown = [
            "".join(out["text"])
            for out in cell["outputs"]
            if out.get("name") == "stdout"
        ]
        assert tour.alike("".join(shown), printed), f"{code}\nprints\n{printed}"
        assert len(images) == sum("data" in out for out in cell["outputs"]), code


def test_the_notebook_is_the_page() -> None:
    """`python tools/tour.py` writes both."""
    assert tour.NOTEBOOK.read_text("utf-8") == tour.as_json(tour.notebook(TEXT))


def test_no_code_of_the_page_is_left_out() -> None:
    assert len(re.findall(r"^```(?:python|sh)$", TEXT, re.MULTILINE)) == len(BLOCKS)
    assert len(re.findall(r"^```text$", TEXT, re.MULTILINE)) == sum(
        bool(block.printed) for block in BLOCKS
    )


def test_every_figure_is_shown() -> None:
    shown = [block.file for block in BLOCKS if block.image]
    assert sorted(shown) == sorted(tour.FIGURES.iterdir())
    assert len(re.findall(r"^!\[", TEXT, re.MULTILINE)) == len(shown)


def numbers(text: str) -> set[float]:
    """Return the numbers of a text, `10_000` as well as `10000`."""
    found = re.findall(r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?", text)
    return {abs(float(number.replace("_", ""))) for number in found}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.partition("\n")[0])
def test_every_number_of_the_text_stands_in_code_or_output(section: str) -> None:
    code = "".join(CODE.findall(section))
    prose = NAMES.sub("", CODE.sub("", section))
    assert numbers(prose) <= numbers(code)


def test_every_claim_is_answered_in_a_section() -> None:
    rows = ROW.findall(TEXT)
    titles = [section.partition("\n")[0].lower() for section in SECTIONS[1:]]
    places = {title.replace(" ", "-") for title in titles}
    assert [int(number) for number, *_ in rows] == [*range(1, 47)]
    linked = {place for *_, links in rows for place in re.findall(r"#([a-z-]+)", links)}
    assert linked == places - {"the-claims"}
    assert not any("missing" in answer for _, _, answer, _ in rows)
