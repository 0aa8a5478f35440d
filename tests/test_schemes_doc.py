"""The table of schemes says what the code does."""

import ast
import importlib
import re
import sys
from functools import cache
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
# The functions of `test_oracles.py` that import them.
PACKAGES = {
    "timm": "timm",
    "models": "transformers",
    "x_transformers": "x-transformers",
    "rotary_embedding": "rotary-embedding-torch",
    "attn_gym": "attn-gym",
    "positional_encodings": "positional-encodings",
}


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


@cache
def oracles() -> dict[str, set[str]]:
    """Return by scheme the packages that it is compared with, from the tests."""
    body = ast.parse((ROOT / "tests" / "test_oracles.py").read_text("utf-8")).body
    tables = {ast.unparse(n.targets[0]): n for n in body if isinstance(n, ast.Assign)}
    tables |= {ast.unparse(n.target): n for n in body if isinstance(n, ast.AnnAssign)}
    found: dict[str, set[str]] = {name: set() for name in BUILT_IN}
    for test in body:
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        named = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        parts = [test, *(tables[name] for name in named & tables.keys())]
        nodes = [node for part in parts for node in ast.walk(part)]
        words = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        for name in found.keys() & words:
            found[name] |= {PACKAGES[one] for one in named & PACKAGES.keys()}
    return found


@pytest.mark.parametrize("name", BUILT_IN)
def test_row_names_the_packages_it_is_compared_with(name: str) -> None:
    packages = re.findall(r"([a-z-]+) (?:0|\de-\d+)\b", ROWS[name][7])
    assert set(packages) == oracles()[name]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scheme_has_a_class_of_tests(name: str) -> None:
    files = (ROOT / "tests" / "schemes").glob("test_*.py")
    stated = rf'^    name\b[^=]*= "{name}"'
    assert any(re.search(stated, f.read_text("utf-8"), re.MULTILINE) for f in files)


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
