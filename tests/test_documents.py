"""What the README promises is what is there."""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from conftest import ROOT
from support.processes import python

import posenc_compare
from posenc_compare.registry import MEASURES

FIRST_PAGES = ("README.md", "docs/start.md")
INSTALL = "python3.11 -m venv .venv && .venv/bin/pip install -q {}-c constraints.txt -e"


def commands(root: Path) -> list[str]:
    text = (root / "README.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("python3.11 -m venv")]


def test_readme_has_two_commands_that_set_all_up(root: Path) -> None:
    run, test = commands(root)
    install = INSTALL.format("--no-compile ")  # which is faster
    assert run == f"{install} . && .venv/bin/posenc-compare run --schemes all"
    assert test == f"{INSTALL.format('')} '.[test]' && .venv/bin/pytest"


def test_ci_runs_the_test_command_word_for_word(root: Path) -> None:
    lines = (root / ".ci" / "run").read_text().splitlines()
    assert commands(root)[1] in lines


def test_python_of_the_first_pages_runs(root: Path, tmp_path: Path) -> None:
    text = "".join((root / page).read_text("utf-8") for page in FIRST_PAGES)
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) > 3
    (own,) = (block for block in blocks if "@register" in block)
    (tmp_path / "my_scheme.py").write_text(own)
    blocks.remove(own)  # which another imports
    paths = [tmp_path / f"block{i}.py" for i in range(len(blocks))]
    for path, block in zip(paths, blocks, strict=True):
        path.write_text(block)
    # Each has names of its own, in one process.
    code = "import runpy, sys; [*map(runpy.run_path, sys.argv[1:])]"
    done = python("-c", code, *paths, cwd=root)
    assert done.returncode == 0, done.stderr


def test_readme_shows_what_its_example_prints(root: Path, posenc) -> None:
    text = (root / "README.md").read_text("utf-8")
    example = r"```\nposenc-compare (show .+)\n```\n\n```text\n(.*?)```"
    ((command, shown),) = re.findall(example, text, flags=re.DOTALL)
    printed = posenc(*command.split()).stdout.splitlines()
    assert [line.rstrip() for line in printed if line.strip()] == shown.splitlines()


def test_a_table_of_a_page_keeps_a_line_for_each_row(root: Path) -> None:
    rule = re.compile(r"\|(?: ?:?-{3,}:? ?\|)+")
    for page in [*root.glob("*.md"), *root.glob("docs/*.md")]:
        for line in page.read_text("utf-8").splitlines():
            assert rule.fullmatch(line.strip()) or not rule.search(line), (
                page.name,
                line,
            )


def test_links_in_documents_lead_somewhere(root: Path) -> None:
    # Folders that begin with a dot belong to tools: their pages are not ours.
    for document in [*root.glob("*.md"), *root.glob("[!.]*/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), (document.name, target)


def test_paths_in_documents_are_there(root: Path) -> None:
    # Paths of the package may be written without its name, as in `schemes/NAME.py`.
    package = root / "posenc_compare"
    rooms = "|".join(folder.name for folder in package.iterdir() if folder.is_dir())
    # Pages of the site are made when it is built.
    files = rf"(?:posenc_compare|tests)/[\w./-]*\w|(?:{rooms})/[\w/-]+\.\w+"
    pattern = rf"(?<!site/)(?<!results/)\b({files})"
    named = 0
    for document in [*root.glob("*.md"), *root.glob("[!.]*/*.md")]:
        text = document.read_text("utf-8")
        new = re.findall(r"^ +# (\S+\.py)$", text, re.MULTILINE)  # that a recipe adds
        for path in re.findall(pattern, text):
            if "NAME" not in path and path not in new:
                named += 1
                there = (root / path).exists() or (package / path).exists()
                assert there, (document.name, path)
    assert named > 20


def test_file_names_of_the_architecture_are_there(root: Path) -> None:
    folders = ("posenc_compare", "docs", "tests", "tools", "examples")
    names = {path.name for folder in folders for path in (root / folder).rglob("*")}
    text = (root / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"\b([a-z]\w*\.(?:py|bib))\b", text))
    assert len(named) > 20
    assert named - names == set()


def test_the_page_of_first_steps_names_every_built_in_measure(root: Path) -> None:
    text = (root / "docs" / "start.md").read_text("utf-8")
    for entry in MEASURES.built_in():
        assert f"`{entry.name}`" in text, entry.name


def test_version_is_in_changelog_and_citation(root: Path) -> None:
    version = posenc_compare.__version__
    assert f"\n## {version}" in (root / "CHANGELOG.md").read_text()
    assert f"version: {version}" in (root / "CITATION.cff").read_text()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["posenc-compare"] == "posenc_compare.cli:main"


# --- examples of docstrings and pages print what they say -------------------------

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
