"""What edits of this package add to the keys of records.

Keys hold no hash of the code that the package shares; `NUMBERS` identifies that code.
So an edit of shared code, in a clone or an installed copy, must change the keys. Files
are compared with the checked-out commit, or with the RECORD of the wheel. If there is
neither, nothing is added. `built_in` covers the files of schemes, measures and tasks.
Layout, comments, docstrings, error messages and places of files make no difference. An
import of a name of this package counts by the definition of that name.
"""

import ast
import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from posenc_compare.source.files import OURS, read, source_cache, tree_of
from posenc_compare.source.forms import (
    Form,
    defines,
    form,
    is_registered,
    is_silent,
    nameless,
    without_texts,
)

PACKAGE = Path(__file__).parent.parent
Texts = dict[Path, bytes]


@source_cache
def shared_edits() -> str:
    """Return the hash of what was edited in shared files; "" for nothing."""
    before, after = map(_statements, changed_texts())
    gone = {f"without {one}" for one in (before - after).elements()}
    found = sorted(gone | {*(after - before).elements()})
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else ""


@source_cache
def changed_texts() -> tuple[Texts, Texts]:
    """Return the texts of edited files before, where they are known, and now."""
    return _since_commit() or _since_install()


def _since_commit() -> tuple[Texts, Texts] | None:
    """Return the texts of edited files at the commit and now; None without git."""
    try:
        git("ls-files", "--error-unmatch", "--", "__init__.py")
        listed = "--name-only", "--no-renames", "-z", "--relative"
        changed = git("diff", "HEAD", *listed, "--", ".")
        new = git("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
        names = [n for n in (changed + new).decode().split("\0") if n.endswith(".py")]
        known = git("ls-tree", "-r", "-z", "--name-only", "HEAD", "--", ".")
        was = set(known.decode().split("\0")).intersection(names)
        before = {PACKAGE / n: git("show", f"HEAD:./{n}") for n in was}
    except (OSError, subprocess.CalledProcessError):
        return None
    return before, _texts(PACKAGE / name for name in names)


def git(*command: str) -> bytes:
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


def _statements(texts: Texts) -> Counter[str]:
    """Return the hashes of all statements of files that register nothing."""
    trees = [tree_of(text) for text in texts.values()]
    forms = [
        json.dumps(one)
        for tree in trees
        if not any(map(is_registered, tree.body))
        for one in _forms(tree, texts)
    ]
    return Counter(hashlib.sha256(one.encode()).hexdigest() for one in forms)


def _forms(tree: ast.Module, texts: Texts) -> Iterator[Form]:
    """Yield what counts of a file: its statements, and the imports that it uses."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for statement in tree.body:
        match statement:
            case ast.ImportFrom(names=[ast.alias("*")]) | ast.ImportFrom(module=None):
                yield ast.unparse(statement)
            case ast.ImportFrom(module=module, names=names):
                for one in names:
                    if (own := one.asname or one.name) in used:
                        yield [own, definition(str(module), one.name, texts)]
            case ast.Import(names=names):
                for one in names:
                    if (own := one.asname or one.name.partition(".")[0]) in used:
                        yield [own, one.name]
            case _ if not is_silent(statement):
                yield form(nameless(statement), as_written)


def definition(module: str, name: str, texts: Texts) -> Form:
    """Return what a name of a module stands for, with these texts of files.

    Of this package, that is its definition, wherever it is, and its name if there is
    none.
    """
    if module.split(".")[0] != OURS:
        return f"{module}.{name}"
    place = PACKAGE.joinpath(*module.split(".")[1:])
    paths = (place / "__init__.py", place.with_suffix(".py"))
    found = [texts.get(p) or (read(p) if p.is_file() else b"") for p in paths]
    body = [one for text in found for one in tree_of(text).body]
    for one in body:
        match one:
            case ast.ImportFrom(module=other, names=names, level=0):
                for handed in names:
                    if (handed.asname or handed.name) == name and other != module:
                        return definition(str(other), handed.name, texts)
    meant = [one for one in body if name in defines(one)]
    return [form(nameless(one), as_written) for one in meant] or name


def as_written(node: ast.AST) -> Form:
    """Leave every name as it is written, without the module of one of ours."""
    match node:
        case ast.ImportFrom(module=module, names=names, level=level):
            ours = level or str(module).split(".")[0] == OURS
            return [
                [name, "" if ours else module, own]
                for name, own in sorted((n.name, n.asname or "") for n in names)
            ]
        case ast.Import():
            return ast.unparse(node)
    return without_texts(node, as_written)
