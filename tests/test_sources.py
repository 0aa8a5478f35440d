"""Source is read once, until it is forgotten."""

from pathlib import Path

from posenc_compare import sources


def test_a_file_is_read_once_until_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert sources.read(path) == b"x = 1\n"
    path.write_text("x = 2\n")
    assert sources.read(path) == b"x = 1\n"
    sources.forget()
    assert sources.read(path) == b"x = 2\n"


def test_what_was_found_in_files_is_forgotten_with_them(tmp_path: Path) -> None:
    path, asked = tmp_path / "a.py", []

    @sources.remembered
    def length(place: Path) -> int:
        asked.append(place)
        return len(sources.parse(place).body)

    path.write_text("x = 1\n")
    assert (length(path), length(path)) == (1, 1)
    path.write_text("x = 1\ny = 2\n")
    sources.forget()
    assert length(path) == 2
    assert asked == [path, path]
