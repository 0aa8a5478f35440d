"""The tables of schemes match the code."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import HOOKS, create

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
schemes_doc: Any = importlib.import_module("schemes_doc")
BUILT_IN = [entry.name for entry in SCHEMES.built_in()]


def test_what_is_made_from_the_schemes_is_up_to_date() -> None:
    new = schemes_doc.pages()
    same = all(path.read_text("utf-8") == text for path, text in new.items())
    same = same and schemes_doc.has_pins()
    assert same, "run `python tools/schemes_doc.py`"


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_table_alone_says_what_was_not_checked(name: str) -> None:
    source = (ROOT / "posenc_compare" / "schemes" / f"{name}.py").read_text("utf-8")
    header = " ".join(source.split('"""')[1].split()).lower()
    assert not re.search("(was|not) opened|unverified", header)


def test_the_page_on_the_hook_names_schemes_that_use_each_hook() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", text, flags=re.MULTILINE)
    named = {
        hook: re.findall("`([^`]+)`", cell) for hook, cell in rows if hook in HOOKS
    }
    assert set(named) == set(HOOKS)
    for hook, schemes in named.items():
        assert schemes
        for name in schemes:
            assert create(name).acts_at(hook), (hook, name)
