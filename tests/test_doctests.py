"""The examples of docstrings, and of pages that have a prompt, print what they say."""

import doctest
import importlib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from conftest import ROOT

PACKAGE = ROOT / "posenc_compare"
SOURCES = [*PACKAGE.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
SHOWN = sorted(path for path in SOURCES if ">>> " in path.read_text("utf-8"))


def examples(path: Path) -> list[doctest.DocTest]:
    """Return the examples of a module, by docstring, or of a page."""
    if path.suffix == ".md":
        text = path.read_text("utf-8")
        return [doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)]
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("path", SHOWN, ids=lambda p: str(p.relative_to(ROOT)))
@pytest.mark.usefixtures("registered")
def test_examples_print_what_they_say(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "results/" in path.read_text("utf-8") and not (ROOT / "results").exists():
        pytest.skip("there is no results/")
    if (ROOT / "results").exists():
        (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    for test in examples(path):
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    plt.close("all")
    assert "".join(said) == ""
