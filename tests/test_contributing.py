"""The recipes of CONTRIBUTING.md work to the letter, in a copy of the package."""

import json
import re
import shutil
import textwrap
from pathlib import Path

import pytest
from support.processes import python

ROOT = Path(__file__).parent.parent
SMALL = "steps=2,layers=1,width=16,heads=2,length=8,longest=2,batch=2,test_bytes=64"
MEASURE = "measure --schemes integer --measures code_mean --set positions=3,width=4"
TASK = f"run --schemes nope --tasks previous --measures extrapolation --set {SMALL}"
# Of each section "Add a ...", a command that uses what its recipe adds, and its output.
CASES = {
    "scheme": ("check sqrt_bias", "sqrt_bias: 24 checks: 24 passed"),
    "measure": (MEASURE, "integer 0.333"),  # positions 0, 1 and 2 of 3
    "task": (f"{TASK} --seeds 1", "previous: accuracy"),
    "plot": ("plot OUT/measure --plots code_mean --out OUT/plot", "code_mean.png"),
    "command": ("source sqrt_bias", "own example"),
}


def blocks() -> dict[str, str]:
    """Return the Python blocks of the page by the file that each names."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    found = {}
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", page, re.DOTALL | re.M):
        first, _, code = textwrap.dedent(block).partition("\n")
        found[first.removeprefix("# ")] = code
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the package and what tests of schemes import, and follow all recipes."""
    root = tmp_path_factory.mktemp("copy")
    for name in ("posenc_compare", "tests/schemes", "tests/support"):
        ignored = shutil.ignore_patterns("__pycache__", "test_*")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    for path, code in blocks().items():
        assert not (root / path).exists()
        (root / path).write_text(code)
    app = root / "posenc_compare" / "cli" / "app.py"
    line = "from posenc_compare.cli.source import source\n"
    text = re.sub(r"(for command in \()", rf"{line}\1source, ", app.read_text())
    app.write_text(text)
    return root


COMMANDS = """
import contextlib, io, json, pytest, sys
from posenc_compare.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["posenc-compare", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code, (words, out.getvalue())
    print(json.dumps(out.getvalue()))
options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
sys.exit(pytest.main([*options, "tests/schemes/test_sqrt_bias.py"]))
"""


def test_every_kind_has_a_recipe() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert re.findall(r"^## Add a (\w+)$", page, re.MULTILINE) == list(CASES)


def test_the_registries_find_the_new_files_and_the_recipes_work(copy: Path) -> None:
    commands = ["list --format json"]
    for kind, (words, _) in CASES.items():
        more = f" --out OUT/{kind}" if kind in ("measure", "task") else ""
        commands.append(words + more)
    asked = [words.replace("OUT", str(copy / "out")).split() for words in commands]
    words = ("-c", COMMANDS, json.dumps(asked))
    done = python(*words, cwd=copy, PYTHONPATH=str(copy))
    assert done.returncode == 0, done.stdout + done.stderr  # of the test, too
    lines = done.stdout.splitlines()
    listed, *printed = map(json.loads, lines[: len(commands)])
    kinds = {(row["name"], row["kind"]) for row in json.loads(listed)}
    new = {("sqrt_bias", "bias"), ("code_mean", "measure"), ("code_mean", "plot")}
    assert kinds >= {*new, ("previous", "task")}
    for (_, wanted), text in zip(CASES.values(), printed, strict=True):
        assert wanted in re.sub(r" +", " ", text)
    assert re.search(r"\d+ passed", lines[-1])
