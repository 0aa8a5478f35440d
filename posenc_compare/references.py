"""The papers of the schemes, as BibTeX.

`schemes/references.bib` holds one entry, under its arXiv id, for each paper that a
header in `schemes/` cites.
"""

import re
from pathlib import Path

ENTRY = re.compile(r"^@\w+\{([^,]+),\n.*?^\}$", re.DOTALL | re.MULTILINE)
ARXIV = re.compile(r"\d{4}\.\d{4,5}")


def entries() -> dict[str, str]:
    """Return the text of all entries by arXiv id."""
    path = Path(__file__).parent / "schemes" / "references.bib"
    text = path.read_text(encoding="utf-8")
    return {found[1]: found[0] for found in ENTRY.finditer(text)}


def find_bibtex(text: str) -> list[str]:
    """Return the entries of the papers whose arXiv ids are in a text, each once."""
    known = entries()
    keys = dict.fromkeys(ARXIV.findall(text))
    return [known[key] for key in keys if key in known]
