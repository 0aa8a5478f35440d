"""A package that is missing, and records that this machine cannot compute."""

from pathlib import Path

import pytest
from support.processes import python


def without(
    package: str, folder: Path, *words: str | Path, where: str = "True"
) -> tuple[int, str]:
    """Run a command where a package is missing; return its code and stderr."""
    text = f"import sys\nif {where}:\n    sys.modules[{package!r}] = None\n"
    (folder / "sitecustomize.py").write_text(text)
    done = python("-m", "posenc_compare", *words, PYTHONPATH=str(folder))
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("package", "words"),
    [("pandas", ["table", "."]), ("einops", ["measure", "--schemes", "nope"])],
)
def test_a_package_that_a_command_lacks_is_one_line(
    package: str, words: list[str], tmp_path: Path
) -> None:
    said = f"error: {package} must be installed, and is not; `pip install {package}`\n"
    assert without(package, tmp_path, *words) == (2, said)


def test_a_worker_that_dies_at_import_says_why(tmp_path: Path) -> None:
    words = ["measure", "--schemes", "nope", "--measures", "smoothness"]
    words += ["--seeds=1", "--workers=1", "--out", str(tmp_path / "run")]
    workers = "sys.flags.safe_path"  # which start with -P
    code, said = without("einops", tmp_path, *words, where=workers)
    assert code == 1
    reason = "without an answer: ModuleNotFoundError: import of einops halted"
    assert f"lost: nope smoothness seed 0: exit: code 1 {reason}" in said
