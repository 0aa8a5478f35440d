"""What edits of this package add to the keys of records.

Keys hold no hash of the code that the package shares; `NUMBERS` identifies that code.
So an edit of shared code, in a clone or an installed copy, must change the keys. Files
are compared with the checked-out commit, or with the RECORD of the wheel. If there is
neither, nothing is added. `own_code` covers the files of schemes, measures and tasks.
Layout, comments, docstrings and error messages make no difference.
"""

import ast
import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from posenc_compare.source.files import OURS, remembered, tree_of
from posenc_compare.source.forms import (
    Form,
    form,
    is_registered,
    without_texts,
)

PACKAGE = Path(__file__).parent.parent
IMPORT = ast.Import | ast.ImportFrom
Texts = dict[Path, bytes]


@remembered
def shared_edits() -> str:
    """Return the hash of what was edited in shared files; "" for nothing."""
    before, after = map(_forms, edited())
    gone = {f"without {one}" for one in before - after}
    found = sorted(gone | (after - before))
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else ""


@remembered
def edited() -> tuple[Texts, Texts]:
    """Return the texts of edited files before, where they are known, and now."""
    return _since_commit() or _since_install()


def _since_commit() -> tuple[Texts, Texts] | None:
    """Return the texts of edited files at the commit and now; None without git."""
    try:
        _git("ls-files", "--error-unmatch", "--", "__init__.py")
        listed = "--name-only", "--no-renames", "-z", "--relative"
        changed = _git("diff", "HEAD", *listed, "--", ".")
        new = _git("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
        names = [n for n in (changed + new).decode().split("\0") if n.endswith(".py")]
        known = _git("ls-tree", "-r", "-z", "--name-only", "HEAD", "--", ".")
        was = set(known.decode().split("\0")).intersection(names)
        before = {PACKAGE / n: _git("show", f"HEAD:./{n}") for n in was}
    except (OSError, subprocess.CalledProcessError):
        return None
    return before, _texts(PACKAGE / name for name in names)


def _git(*command: str) -> bytes:
    """Return what git prints; it takes no lock and no repository from elsewhere."""
    own = {n: v for n, v in os.environ.items() if not n.startswith("GIT_")}
    whole = ["git", "--no-optional-locks", "-C", str(PACKAGE), *command]
    return subprocess.run(whole, capture_output=True, check=True, env=own).stdout


def _since_install() -> tuple[Texts, Texts]:
    """Return no earlier text, which is unknown, of edited files, and that of now."""
    try:
        listed = importlib.metadata.files(OURS.replace("_", "-")) or []
    except importlib.metadata.PackageNotFoundError:
        return {}, {}
    installed = {Path(str(one.locate())).resolve(): one.hash for one in listed}
    if PACKAGE.resolve() / "__init__.py" not in installed:
        return {}, {}
    found = _texts(PACKAGE.resolve().rglob("*.py"))
    now = {
        PACKAGE / path.relative_to(PACKAGE.resolve()): text
        for path, text in found.items()
        if (known := installed.get(path)) is None or _digest(text) != known.value
    }
    return dict.fromkeys(now, b""), now


def _digest(text: bytes) -> str:
    """Return a hash as RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest())
    return digest.rstrip(b"=").decode()


def _texts(paths: Iterable[Path]) -> Texts:
    return {path: path.read_bytes() for path in paths if path.is_file()}


def _forms(texts: Texts) -> set[str]:
    """Return the hashes of files that register nothing, without texts and layout."""
    trees = [tree_of(text) for text in texts.values()]
    shared = [tree for tree in trees if not any(map(is_registered, tree.body))]
    forms = [json.dumps(form(tree, _as_written)) for tree in shared]
    return {hashlib.sha256(one.encode()).hexdigest() for one in forms}


def imports(text: bytes) -> list[str]:
    """Return the imports of a file, sorted."""
    nodes = ast.walk(tree_of(text))
    return sorted(ast.unparse(one) for one in nodes if isinstance(one, IMPORT))


def _as_written(node: ast.AST) -> Form:
    """Leave every name as it is written."""
    if isinstance(node, IMPORT):
        return ast.unparse(node)
    return without_texts(node, _as_written)
