"""Names, numbers and files that users give: what is taken, and what is suggested."""

import os
import socket
import string
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES, NAME, SCHEMES
from posenc_compare.schemes import Variant
from posenc_compare.schemes.rope import Rope
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.validate import hint, near, number, read_regular

LETTERS = string.ascii_lowercase + string.digits + "_"
HOSTILE = [
    *("", ".", "..", "../x", "/etc/x", "a/b", "C:\\x", "nul\0", "CON", "Rope", "ROPE"),
    *("x" * 65, "x" * 300, "-a", "_a", ".a", "a b", "a\n", "\na", "a\r", "a\x1b[31m"),
    *("é", "e\u0301", "\ufb01", "r\u03bfpe", "\U0001d42b", "٣", "a\u200b", "\udcff"),
    *("a,b", "a:b", "*"),
]


@pytest.mark.parametrize(
    ("typed", "meant", "registry"),
    [
        ("rpoe", "rope", SCHEMES),
        ("albi", "alibi", SCHEMES),
        ("sinusoidl_2b", "sinusoidal_2d", SCHEMES),
        ("smothnesss", "smoothness", MEASURES),
    ],
)
def test_slips_of_one_or_two_letters_are_understood(
    typed: str, meant: str, registry: Any
) -> None:
    found = near(typed, registry.entries())
    assert found[0] == meant
    assert len(found) <= 3
    with pytest.raises(ConfigError, match="unknown") as caught:
        registry.entry(typed)
    assert hint(typed, registry.entries()) in str(caught.value)


@pytest.mark.parametrize("word", ["xk7", "keyboard", "q_9zt04", "tokenizer"])
def test_another_word_suggests_nothing(word: str) -> None:
    assert hint(word, [*SCHEMES.entries(), *MEASURES.entries()]) == ""


def test_the_case_of_a_name_does_not_hide_it() -> None:
    assert near("ROPE", SCHEMES.entries())[0] == "rope"
    assert near("Uniqueness", MEASURES.entries()) == ["uniqueness"]


# --- registration -----------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_be_declared(
    name: str, tmp_path: Path, registered: Any
) -> None:
    path = tmp_path / "plugin.py"
    head = "from posenc_compare.schemes import Scheme, register\n"
    made = f"@register({name!a}, family='bias')\nclass Mine(Scheme): 'Mine.'\n"
    path.write_text(head + made)
    with pytest.raises(ConfigError, match="a name must be 1 to 64 of the characters"):
        registered(path)
    assert name not in SCHEMES.entries()


@given(st.text(max_size=70) | st.text(LETTERS + "ABC.-é/\\\0\n", max_size=70))
@settings(max_examples=1000)
def test_names_are_plain_or_refused(name: str) -> None:
    plain = name.isascii() and name == name.lower() and 0 < len(name) <= 64
    plain = plain and set(name) <= set(LETTERS + ".-") and name[0] not in "_.-"
    assert bool(NAME.fullmatch(name)) == plain
    # No two names are one to a file system that folds case or composes marks.
    if plain:
        assert unicodedata.normalize("NFC", name) == name.casefold() == name
        return
    with pytest.raises(ConfigError, match="a name must be 1 to 64") as caught:
        SCHEMES.add(name, Rope, Rope, {})
    assert len(str(caught.value)) < 500


# --- options ----------------------------------------------------------------------


def test_one_variant_has_one_label_however_it_is_written() -> None:
    assert Variant("rope", {"base": 500_000}) == Variant("rope", {"base": 500_000.0})
    assert Variant("rope", {"base": 500_000}).label == "rope:base=500000.0"
    assert Variant("rope", {"base": 10_000}) == Variant("rope")
    assert Variant("rope", {"fraction": -0.0}).label == "rope:fraction=0.0"
    mixed = Variant("rope", {"layout": "half", "base": 3})
    assert mixed.label == "rope:base=3.0;layout=half"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", int, 7),
        ("-7", int, -7),
        ("1_000", int, 1000),
        ("1_000", float, 1000.0),
        ("1e3", float, 1000.0),
        (".5", float, 0.5),
        ("1e400", float, float("inf")),  # refused by every range
        ("1e3", int, "1e3"),
        ("7.0", int, "7.0"),
        ("0x10", int, "0x10"),
        ("0x10", float, "0x10"),
        ("٣", int, "٣"),
        ("٣", float, "٣"),
        ("", int, ""),
        ("1__0", int, "1__0"),
        ("9" * 5000, int, "9" * 5000),
    ],
)
def test_numbers_from_text(text: str, kind: type, value: object) -> None:
    read = number(text, kind)
    assert (type(read), read) == (type(value), value)


# --- files and seeds --------------------------------------------------------------


def test_only_regular_files_of_a_fair_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "link"):
        assert read_regular(tmp_path / name, 4) == b"text"
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="no regular file"):
            read_regular(path, 4)
    with pytest.raises(ValueError, match="4 bytes, more than 3"):
        read_regular(tmp_path / "file", 3)
    for path in (tmp_path, tmp_path / "loop", tmp_path / "none"):
        with pytest.raises(OSError, match="Errno"):
            read_regular(path, 4)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_no_test_reaches_the_network() -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as outside:
            for connect in (outside.connect, outside.connect_ex):
                with pytest.raises(pytest.fail.Exception, match="a test connects to"):
                    connect(("127.0.0.1", 9))


def test_streams_of_different_purposes_never_share_a_seed() -> None:
    seeds = {
        stream_seed(purpose, seed, step)
        for purpose in ("batch", "positions", "scheme", "weights")
        for seed in range(25)
        for step in range(1000)
    }
    assert len(seeds) == 100_000
    assert all(0 <= seed < 1 << 63 for seed in seeds)
