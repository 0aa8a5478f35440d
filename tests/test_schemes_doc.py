"""The table of schemes says what the code does."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.references import ARXIV
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import HOOKS, create
from posenc_compare.variants import option_types

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
schemes_doc: Any = importlib.import_module("schemes_doc")
TEXT = (ROOT / "docs" / "schemes.md").read_text(encoding="utf-8")
HEAD = (
    "| scheme | paper | family | hooks | parameters | options | identities | oracle |"
)
BUILT_IN = [entry.name for entry in SCHEMES.built_in()]


def table() -> list[list[str]]:
    """Return the cells of the rows under the head."""
    lines = TEXT[TEXT.index(HEAD) :].splitlines()[2:]
    rows = lines[: lines.index("")]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


ROWS = {re.findall(r"`(\w+)`", row[0])[0]: row for row in table()}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_scheme_has_one_row() -> None:
    assert len(table()) == len(ROWS)
    assert sorted(ROWS) == sorted(BUILT_IN)
    assert {len(row) for row in ROWS.values()} == {10}


def test_rows_are_those_of_the_code() -> None:
    assert schemes_doc.page(TEXT) == TEXT, "run `python tools/schemes_doc.py`"


@pytest.mark.parametrize("name", BUILT_IN)
def test_options_of_a_row_are_those_of_the_scheme(name: str) -> None:
    assert set(quoted(ROWS[name][5])) <= set(option_types(name))


@pytest.mark.parametrize("name", BUILT_IN)
def test_row_admits_what_the_header_admits(name: str) -> None:
    source = (ROOT / "posenc_compare" / "schemes" / f"{name}.py").read_text("utf-8")
    header = " ".join(source.split('"""')[1].split())
    assert ("unverified" in ROWS[name][-1]) == ("unverified" in header.lower())
    assert not re.search("(was|not) opened", header)  # the table alone says so


def test_links_are_defined_and_used() -> None:
    body, *links = re.split(r"^\[([^]]+)\]: ", TEXT, flags=re.MULTILINE)
    assert set(links[::2]) == set(re.findall(r"\]\[([^]]+)\]", body))
    for key, target in zip(links[::2], links[1::2], strict=True):
        if ARXIV.fullmatch(key):
            assert target.strip() == f"https://arxiv.org/abs/{key}"


def test_the_page_on_the_hook_names_schemes_that_use_each_hook() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", text, flags=re.MULTILINE)
    named = {hook: quoted(schemes) for hook, schemes in rows if hook in HOOKS}
    assert set(named) == set(HOOKS)
    for hook, schemes in named.items():
        assert schemes
        for name in schemes:
            assert create(name).acts_at(hook), (hook, name)
