"""The command that prints which scheme to take in one of six cases."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import show, show_tables, tell
from posenc_compare.errors import ConfigError
from posenc_compare.validate import near

CASES = {
    "language": "A new language model",
    "extend": "Extending a model",
    "domain": "A small model for one domain",
    "grid": "Images and grids",
    "algorithms": "Algorithms",
    "streaming": "Streaming",
}
"""Heading on the page of each case, by its name on the command line."""
SHORT = 3  # letters of words that name no case
LARGE = "What transfers to a model of a billion parameters"


def recommend(
    case: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(CASES)}; extend is for longer texts, domain for a "
            "small model for one domain. Without a case, the first choice for each."
        ),
    ] = "",
) -> None:
    """Recommend a scheme for one of six cases, with the evidence.

    Print a section of docs/which-one.md. Below it are the scores, with the preset
    `quick`, of the schemes that the section names, if the package has their records.
    """
    sections = sections_of(page())
    if not case:
        choices = [
            [name, heading, first_choice(sections[heading])]
            for name, heading in CASES.items()
        ]
        show("First choices", ["case", "for", "take"], choices)
        print_markdown(sections[LARGE])
        return
    if case not in CASES:
        meant = " or ".join(_cases_near(case))
        raise ConfigError(
            f"case must be one of {', '.join(CASES)}, got {case[:40]!r}"
            + (f"; did you mean {meant}?" if meant else "")
        )
    from posenc_compare.cli.rank import reference_records
    from posenc_compare.show.frame import Numbers
    from posenc_compare.show.scorecard import scorecard

    text = sections[CASES[case]]
    print_markdown(text)
    known = reference_records("quick")
    labels = {record.label for record in known}
    words = set(re.findall(r"`(\w+)`", text)) & labels
    first = set(re.findall(r"`([^`]+)`", text.split("**")[1]))
    if first & labels:  # `nope` stands beside them: times are relative to it
        named = [record for record in known if record.label in words | {"nope"}]
        tell("Scores in the preset quick: networks of 64 channels, 32 bytes of text.")
        tell("The advice rests on longer training and published work, not on these.")
        show_tables(filter(None, [scorecard(Numbers(named))]), "table")
        names = {record.spec.scheme.name for record in known}
        if lacking := [x for x in first - labels if x.partition(":")[0] in names]:
            tell(f"The preset quick has no record of {', '.join(sorted(lacking))}.")


def _cases_near(word: str) -> list[str]:
    """Return the cases whose names or headings have a similar word."""
    named: dict[str, list[str]] = {}
    for name, heading in CASES.items():
        for one in (*heading.lower().split(), name):
            if len(one) > SHORT:
                named.setdefault(one, []).append(name)
    found = (name for one in near(word, named) for name in named[one])
    return list(dict.fromkeys(found))


def print_markdown(text: str) -> None:
    """Print a part of the page, with the addresses of its links."""
    from rich.console import Console
    from rich.markdown import Markdown

    links = "\n".join(re.findall(r"^\[.+?\]: .+$", page(), re.MULTILINE))
    text = re.sub(r"\]\((?=[\w-]+\.md)", "](docs/", text)  # pages beside this one
    console = Console(highlight=False)
    console.print(Markdown(f"{text}\n\n{links}", hyperlinks=False))
    console.print()


def page() -> str:
    """Return the text of docs/which-one.md, which a wheel holds beside its records."""
    package = Path(str(files("posenc_compare")))
    inside = package / "reference" / "which-one.md"
    beside = package.parent / "docs" / "which-one.md"
    return (inside if inside.is_file() else beside).read_text("utf-8")


def sections_of(text: str) -> dict[str, str]:
    """Return the text under each heading of the page."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def first_choice(section: str) -> str:
    """Return the first choice of a case: the bold sentences that open its section."""
    found = re.match(r"\*\*(.+?)\*\*", section, re.DOTALL)
    return re.sub(r"\s+", " ", found[1]).replace("`", "") if found else ""
