"""Write what the code knows into the table of docs/schemes.md.

    python tools/schemes_doc.py

Of every built-in scheme it writes link, paper, family, hooks, number of parameters and
passed checks. What only a person knows stays: the formula behind the number, which
options change what is compared, identities, oracle, what it was checked against. A
scheme without a row gets one at the end.

Of every scheme with a default that depends on the training length, a second table has
the number of the paper and its multiples. There, the source is what stays.
"""

import re
from collections.abc import Callable
from pathlib import Path

from posenc_compare.check import CHECKS, built_in
from posenc_compare.references import ARXIV
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import HOOKS, Scheme, create

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schemes.md"
NAME = re.compile(r"`(\w+)`")
HEAD = re.compile(r"\| scheme \| paper \|.*\n\|[-|]*\n")
COLUMNS = 10
TIED = re.compile(r"\| scheme \| option \|.*\n\|[-|]*\n")
TIED_COLUMNS = 8
LENGTHS = 64, 128, 512  # of training, as in the head of that table
NONE = "\N{EN DASH}"


def row(name: str, written: list[str]) -> str:
    """Return the line of a scheme.

    `written` are the cells of its present line.
    """
    scheme = create(name)
    _, paper, _, _, parameters, options, identities, oracle, _, checked = written
    if found := ARXIV.findall(scheme.source):
        links = [f"[{scheme.source.partition(', arXiv')[0]}][{found[0]}]"]
        paper = ", ".join(links + [f"[{key}][{key}]" for key in found[1:]])
    hooks = [f"`{hook}`" for hook in HOOKS if scheme.acts_at(hook)]
    count = sum(parameter.numel() for parameter in scheme.parameters())
    layer = " each layer" if scheme.facts.per_layer and count else ""
    _, comma, formula = parameters.partition(",")
    cells = [
        f"[`{name}`](../posenc_compare/schemes/{name}.py)",
        paper,
        scheme.family,
        ", ".join(hooks) or NONE,
        f"{count}{layer}{comma}{formula}",
        options,
        identities,
        oracle,
        checks(scheme),
        checked,
    ]
    return f"| {' | '.join(cells)} |\n"


def checks(scheme: Scheme) -> str:
    """Return how many conformance checks pass, and why others do not.

    `tests/test_conformance.py` runs them: all pass but declared deviations, and the
    check that looks at one head alone, where heads are mixed.
    """
    faults, mixes = len(scheme.facts.known_faults), scheme.facts.mixes_heads
    said = [str(len(CHECKS) - faults - mixes)]
    said += [f"{faults} declared deviation{'s' * (faults > 1)}"] * bool(faults)
    said += ["1 does not apply"] * mixes
    return ", ".join(said)


def tied_row(name: str, option: str, written: list[str]) -> str:
    """Return the line of an option whose default depends on the training length.

    `written` are the cells of its present line.
    """
    scheme = SCHEMES.get(name)
    of = scheme.published[option]
    at = [scheme.defaults_at(length)[option] for length in LENGTHS]
    numbers = map(str, (of.positions, of.trained_at, *at))
    return f"| {' | '.join([f'`{name}`', f'`{option}`', *numbers, written[-1]])} |\n"


def page(text: str) -> str:
    """Return the text of the page with every row as the code has it."""
    text = filled(text, HEAD, COLUMNS, [(name,) for name in built_in()], row)
    tied = [
        (name, option) for name in built_in() for option in SCHEMES.get(name).published
    ]
    return filled(text, TIED, TIED_COLUMNS, tied, tied_row)


def filled(
    text: str,
    head: re.Pattern[str],
    columns: int,
    names: list[tuple[str, ...]],
    write: Callable[..., str],
) -> str:
    """Return the text with the body of one table written anew.

    `head` finds the head of the table. `names` are of its rows, in their first cells;
    new ones go to the end. `write` returns the line of a row, from its names and the
    present cells.
    """
    found = head.search(text)
    assert found is not None
    body, _, rest = text[found.end() :].partition("\n\n")
    lines = [line.strip("| ").split(" | ") for line in body.splitlines()]
    rows = {
        tuple(NAME.findall(" ".join(cells[: len(names[0])]))): cells for cells in lines
    }
    kept = [*(name for name in rows if name in names), *names]
    written = "".join(
        write(*name, rows.get(name, [NONE] * columns)) for name in dict.fromkeys(kept)
    )
    return f"{text[: found.end()]}{written}\n{rest}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
