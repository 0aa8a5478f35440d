"""Source is read once: what is listed, counted and run is one text."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc_compare import sources


@pytest.fixture(autouse=True)
def text_of_files() -> Iterator[None]:
    """Read all source anew after a test."""
    yield
    for path in list(sources._texts):
        sources._kept.discard(path)
        sources.forget(path)


def test_a_file_is_read_once_until_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert sources.read(path) == b"x = 1\n"
    path.write_text("x = 2\n")
    assert sources.read(path) == b"x = 1\n"
    sources.forget(path)
    assert sources.read(path) == b"x = 2\n"


def test_given_text_is_never_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    sources.keep({str(path): "x = 2\n"})
    sources.forget(path)
    assert sources.read(path) == b"x = 2\n"


def test_given_text_is_what_runs(tmp_path: Path) -> None:
    """Whatever the file holds, and though it is gone."""
    path = tmp_path / "posenc_test_given.py"
    path.write_text("x = 'file'\n")
    finder = sources.PlannedFinder({"posenc_test_given": path})
    sources.keep({str(path): "x = 'given'\n"})
    path.unlink()
    sys.meta_path.insert(0, finder)
    try:
        import posenc_test_given  # type: ignore[import-not-found]

        assert posenc_test_given.x == "given"
        assert finder.others() == []
        del posenc_test_given.__loader__
        assert finder.others() == ["posenc_test_given"]
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop("posenc_test_given", None)


def test_bytes_of_any_kind_travel(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(bytes(range(256)))
    sources.read(path)
    sent = {name: text for name, text in sources.texts().items() if name == str(path)}
    sources.keep(sent)
    path.unlink()
    assert sources.read(path) == bytes(range(256))
