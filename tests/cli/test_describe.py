"""What `describe` says of every scheme, and the papers behind it."""

import ast
import re
from pathlib import Path

import pytest

from posenc_compare import schemes
from posenc_compare.references import ARXIV, entries, find_bibtex
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.schemes import Scheme, register

BUILT_IN = [entry.name for entry in SCHEMES.built_in()]
SOURCES = {name: SCHEMES.entry(name).facts["source"] for name in BUILT_IN}
FILES = sorted(Path(schemes.__file__).parent.rglob("*.py"))


def docstrings(path: Path) -> str:
    """Return all docstrings of a file, that of the module first."""
    found = ""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found += (ast.get_docstring(node) or "") + "\n"
    return found


NAMED = {path.stem: ARXIV.findall(docstrings(path)) for path in FILES}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scheme_is_described_with_its_papers(name: str, posenc) -> None:
    text = posenc("describe", name).stdout
    for line in ("Acts at: ", "Depends on: ", "Axes of a position: ", "Parameters: "):
        assert f"\n{line}" in text
    assert "\n    geometry: " not in text  # no option of a user
    keys = list(dict.fromkeys(ARXIV.findall(SOURCES[name]) + NAMED[name]))
    assert re.findall(r"^@misc\{(.*),$", text, re.MULTILINE) == keys
    for key in keys:
        assert entries()[key] in text


@pytest.mark.parametrize("name", [entry.name for entry in MEASURES.built_in()])
def test_of_a_measure_only_what_it_returns_is_described(name: str, posenc) -> None:
    text = posenc("describe", name).stdout
    assert "\nArgs:" not in text
    assert "variant: " not in text
    own = MEASURES.get(name).compute.__doc__ or ""
    assert ("\nReturns:\n    " in text) == ("Returns:" in own)


def test_entries_are_those_of_the_papers_named() -> None:
    keys = {key for named in NAMED.values() for key in named}
    keys |= {key for source in SOURCES.values() for key in ARXIV.findall(source)}
    assert "2309.00071" in keys
    assert set(entries()) == keys, "write them into schemes/references.bib"


@pytest.mark.parametrize("key", entries())
def test_entry_is_whole_and_ascii(key: str) -> None:
    entry = entries()[key]
    assert entry.isascii()
    assert entry.count("{") == entry.count("}")
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
    assert list(fields) == ["author", "title", "year", "eprint", "archivePrefix"]
    assert all(fields.values())
    assert fields["eprint"] == key
    assert fields["year"] == f"20{key[:2]}"


@pytest.mark.parametrize("name", [n for n in BUILT_IN if ARXIV.search(SOURCES[n])])
def test_first_author_is_that_of_the_source(name: str) -> None:
    (entry,) = find_bibtex(SOURCES[name])
    plain = entry.replace(r"{\'e}", "é")
    assert f"author = {{{SOURCES[name].split()[0]}, " in plain


def test_a_paper_is_cited_once_if_it_is_known() -> None:
    rope, yarn = entries()["2104.09864"], entries()["2309.00071"]
    assert find_bibtex("2104.09864, 2309.00071 and 2104.09864") == [rope, yarn]
    assert find_bibtex("no primary source") == find_bibtex("arXiv:0000.00000") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rope", "Acts at: query, key"),
        ("rope", "adjacent | half"),
        ("rope", "10000.0"),
        ("nope", "Acts at: no hook"),
        ("nope", "Depends on: nothing"),
        ("nope", "Parameters: none\n"),
        ("shape", "Acts at: positions, embed"),
        ("shape", "Depends on: the positions themselves"),
        ("rope_2d", "Depends on: differences of positions\n"),
        ("rope_2d", "Axes of a position: 2\n"),
        ("rope_2d", "Real positions: yes\n"),
        ("rope_2d", "Tokens without a position: yes\n"),
        (
            "fox",
            "the order of the tokens, not their position ids; usually what the tokens "
            "are\n",
        ),
        ("fox", "Causal only: yes\n"),
        (
            "fox",
            "Parameters: 4104 trained in each layer, with the default sizes: model_dim "
            "512, 8 heads, length 512\n",
        ),
        ("dape", "usually what the tokens are; all heads at once\n"),
        ("erpe", "Depends on: differences of positions; usually what the tokens are\n"),
        ("fope", "Parameters: 4096 fixed in each layer"),
        ("learned", "Parameters: 262144 trained for all layers together"),
        ("none", "none (1 scheme): nope"),
        ("rotary", " schemes): bilevel, com_rope, "),
        ("distinct_share", "uniqueness (measure, "),  # of a quantity, its measure
        ("t5_bias:buckets=16", "t5_bias:buckets=16 (bias)\n"),
        ("t5_bias:buckets=16", "Parameters: 128 trained"),
    ],
)
def test_what_is_said_of(name: str, said: str, posenc) -> None:
    assert said in posenc("describe", name).stdout


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("t5_bias", "max_distance 128 512 32 32 128"),
        ("randomized", "longest 2048 40 3277 6554 26214"),
        ("fire", "threshold 512 2048 16 32 128"),
    ],
)
def test_defaults_by_training_length(name: str, row: str, posenc) -> None:
    lines = [
        " ".join(line.split()) for line in posenc("describe", name).stdout.splitlines()
    ]
    head = lines.index("Defaults by training length, with lengths=scaled")
    said = "option published trained at at 64 at 128 at 512"
    assert lines[head + 1 : head + 4] == [said, row, ""]
    assert "Defaults by training length" not in posenc("describe", "rope").stdout


def test_a_scheme_that_cannot_be_built_is_still_described(posenc) -> None:

    @register("refuses", family="bias", source="own test")
    class Refuses(Scheme):
        """Refuse every size."""

        def __init__(self, geometry: object) -> None:
            raise ValueError("too\nlarge")

    text = posenc("describe", "refuses").stdout
    assert "Cannot be built: ValueError: too large\n" in text
    assert "Comes from: " in text


def test_a_network_of_two_schemes_is_not_described_as_one(
    posenc, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "Layers may have different schemes; what follows describes layer 1:"
    assert told in posenc("describe", "mix:first=fire;second=nope").stdout
    assert told not in posenc("describe", "mix:second=nope").stdout
    monkeypatch.setattr("posenc_compare.check.CHECKS", {})  # which take seconds
    done = posenc("check", "mix:first=alibi;second=nope", "--format", "csv")
    assert "only layer 1; check the schemes inside separately" in done.stderr
