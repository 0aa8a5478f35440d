"""Write what the code knows into the table of docs/schemes.md.

    python tools/schemes_doc.py

Of every built-in scheme it writes link, paper, family, doors, number of parameters and
passed checks. What only a person knows stays: the formula behind the number, which
options change what is compared, identities, oracle, definition. A scheme without a row
gets one at the end.
"""

import re
from pathlib import Path

from posenc_compare.conformance import CHECKS, built_in
from posenc_compare.references import ARXIV
from posenc_compare.schemes import DOORS, Scheme, create

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schemes.md"
HEAD = re.compile(r"\| scheme \| paper \|.*\n\|[-|]*\n")
COLUMNS = 10
NONE = "\N{EN DASH}"


def row(name: str, written: list[str]) -> str:
    """Return the line of a scheme.

    Args:
        name: of the scheme.
        written: cells of its present line.
    """
    scheme = create(name)
    _, paper, _, _, parameters, options, identities, oracle, _, definition = written
    if found := ARXIV.findall(scheme.source):
        links = [f"[{scheme.source.partition(', arXiv')[0]}][{found[0]}]"]
        paper = ", ".join(links + [f"[{key}][{key}]" for key in found[1:]])
    doors = [f"`{door}`" for door in DOORS if scheme.acts_at(door)]
    count = sum(parameter.numel() for parameter in scheme.parameters())
    layer = " each layer" if scheme.facts.per_layer and count else ""
    _, comma, formula = parameters.partition(",")
    cells = [
        f"[`{name}`](../posenc_compare/schemes/{name}.py)",
        paper,
        scheme.family,
        ", ".join(doors) or NONE,
        f"{count}{layer}{comma}{formula}",
        options,
        identities,
        oracle,
        checks(scheme),
        definition,
    ]
    return f"| {' | '.join(cells)} |\n"


def checks(scheme: Scheme) -> str:
    """Return how many conformance checks pass, and why others do not.

    `tests/test_conformance.py` runs them: all pass but known faults, and the check that
    looks at one head alone, where heads are mixed.
    """
    faults, mixes = len(scheme.facts.known_faults), scheme.facts.mixes_heads
    said = [str(len(CHECKS) - faults - mixes)]
    said += [f"{faults} known fault"] * bool(faults)
    said += ["1 does not apply"] * mixes
    return ", ".join(said)


def page(text: str) -> str:
    """Return the text of the page with every row as the code has it."""
    head = HEAD.search(text)
    assert head is not None
    body, _, rest = text[head.end() :].partition("\n\n")
    lines = [line.strip("| ").split(" | ") for line in body.splitlines()]
    rows = {re.findall(r"`(\w+)`", cells[0])[0]: cells for cells in lines}
    names = [*(name for name in rows if name in built_in()), *built_in()]
    written = "".join(
        row(name, rows.get(name, [NONE] * COLUMNS)) for name in dict.fromkeys(names)
    )
    return f"{text[: head.end()]}{written}\n{rest}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
