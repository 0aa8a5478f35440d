"""What the site needs beside Sphinx: pages made from the package, links, mathematics.

`pages.py` writes the pages that the package, the README and the results hold already to
`docs/site`, which git ignores. `links.py` points links between files of the repository
at the pages of the site. `formulas.py` sets formulas as MathML, which browsers draw
themselves.
"""

from collections.abc import Callable
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
    app.connect("html-page-context", _sharing(), priority=400)  # before the theme's
    return {"parallel_read_safe": True}


def _sharing() -> Callable[..., None]:
    """Return a listener that makes the menu of all pages of source in a folder once.

    They are not in the menu, so it differs by folder alone, and takes most of a build.
    """
    menus: dict[str, str] = {}

    def share(_: Sphinx, page: str, template: str, context: Any, tree: Any) -> None:
        if page.startswith("_modules/"):
            folder, make = page.rpartition("/")[0], context["toctree"]

            def shared(**given: Any) -> str:
                if folder not in menus:
                    menus[folder] = make(**given)
                return menus[folder]

            context["toctree"] = shared

    return share


def _relink(app: Sphinx, page: str, source: list[str]) -> None:
    """Point the links of a page that a person wrote at pages of the site."""
    docs = Path(app.srcdir)
    if not page.startswith("site/"):
        source[0] = relink(source[0], docs, docs, docs)
