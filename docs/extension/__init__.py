"""What the site needs beside Sphinx: pages made from the package, links, mathematics.

`pages.py` writes the pages that the package, the README and the results hold already to
`docs/site`, which git ignores. `links.py` points links between files of the repository
at the pages of the site. `formulas.py` sets formulas as MathML, which browsers draw
themselves.
"""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from .formulas import visit_block, visit_inline
from .links import relink
from .pages import write_pages


def setup(app: Sphinx) -> dict[str, Any]:
    """Join the parts to the build."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    app.connect("source-read", _relink)
    return {"parallel_read_safe": True}


def _relink(app: Sphinx, page: str, source: list[str]) -> None:
    """Point the links of a page that a person wrote at pages of the site."""
    docs = Path(app.srcdir)
    if not page.startswith("site/"):
        source[0] = relink(source[0], docs, docs, docs)
