"""Links between files of the repository, as links between pages of the site."""

import os
import re
from pathlib import Path

from posenc_compare.registry import REGISTRIES

# The end of a link or an image, or the definition of one, to a file or a folder.
TARGET = re.compile(r"(\]\(|^\[[^]]+\]: )(?!\w+:|#)([^)#\s]+)", re.MULTILINE)
HOMES = {
    "README.md": "guide.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "results": "results/index.md",
    "results/README.md": "results/index.md",
    "posenc_compare/schemes": "schemes/index.md",
}
"""Where in `docs/site` a file or a folder of the repository is shown."""


def relink(text: str, docs: Path, origin: Path, place: Path) -> str:
    """Return Markdown whose links lead to pages of the site, or to files beside it.

    Args:
        text: of a page.
        docs: the folder of documents.
        origin: the folder that its links start from.
        place: the folder of the page that has them on the site.
    """

    def at(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(origin / found[2]))
        return found[1] + os.path.relpath(_home(target, docs), place)

    return TARGET.sub(at, text)


def page_of_results(folder: Path) -> str:
    """Return the name of the page of a folder of results."""
    return f"{folder.parent.name}-{folder.name}"


def _home(target: Path, docs: Path) -> Path:
    """Return the page that shows a file of the repository, or the file itself."""
    path = target.relative_to(docs.parent).as_posix()
    if path in HOMES:
        return docs / "site" / HOMES[path]
    if target.is_dir() and path.count("/") == 2 and path.startswith("results/"):
        return docs / "site" / "results" / f"{page_of_results(target)}.md"
    if path.startswith("results/") and path.endswith("/table.md"):
        return docs / "site" / "results" / f"{page_of_results(target.parent)}.md"
    if path.startswith("examples/"):
        return docs / "site" / "examples.md"
    for registry in REGISTRIES:
        for entry in registry.entries().values():
            if f"{entry.module.replace('.', '/')}.py" == path:
                return docs / "site" / f"{registry.kind}s" / f"{entry.name}.md"
    return target
