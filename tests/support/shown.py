"""What commands print in Markdown, read back as numbers' texts."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shown:
    """A printed table.

    Attributes:
        title: above it.
        head: headings, the first column's left out.
        rows: cells by the text of the first column.
        bold: first column and heading of every bold cell.
        lines: beneath it.
    """

    title: str
    head: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    bold: set[tuple[str, str]] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)


def refusal(done: Any, code: int = 2) -> str:
    """Return the one line of a command that refuses what it was given."""
    assert (done.returncode, done.stdout) == (code, ""), done
    (line,) = done.stderr.split("\n")[:-1]
    assert line.startswith("error: ")
    assert line.isprintable()
    assert len(line) <= 2010
    return line


Show = Callable[..., list[Shown]]


def shown_in(text: str) -> list[Shown]:
    """Return the tables that a Markdown text holds, in their order."""
    found: list[Shown] = []
    for line in filter(None, (html.unescape(one) for one in text.splitlines())):
        if title := re.fullmatch(r"\*\*(.*)\*\*", line):
            found.append(Shown(title[1]))
        elif not line.startswith("|"):
            found[-1].lines.append(line.replace("\\", ""))
        elif not line.startswith("|-"):
            first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if not found[-1].head:
                found[-1].head = cells
                continue
            found[-1].rows[first] = [re.sub(r"^\*\*(.*)\*\*$", r"\1", c) for c in cells]
            found[-1].bold |= {
                (first, heading)
                for heading, cell in zip(found[-1].head, cells, strict=True)
                if cell.startswith("**")
            }
    return found
