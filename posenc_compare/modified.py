"""What an edited package adds to the keys of records.

Keys hold no hash of the code that the package shares; that code is known by `NUMBERS`.
So an edit of it, in a clone or in an installed copy, must make a difference. The files
are compared with the commit that is checked out, or with the RECORD of the wheel. Where
there is neither, nothing is added. Layout, comments, docstrings, error messages, names
and places of files make no difference.
"""

import ast
import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from posenc_compare.own_code import (
    Form,
    defines,
    form,
    is_registered,
    is_silent,
    nameless,
)
from posenc_compare.sources import OURS, remembered, tree_of

PACKAGE = Path(__file__).parent
ROUNDS = 3  # of replacing a name by the hash of what it stands for

Texts = dict[Path, bytes]
Code = Counter[str]  # hashes of statements


def own_edits(files: Iterable[Path]) -> str:
    """Return the hash of what was edited in files of registered things; "" for nothing.

    Args:
        files: in which such a thing and what it leads to are defined.
    """
    before, after = _edits()
    edited = sum((after.code.get(file, Code()) for file in files), Code())
    return _hash(edited.keys() - sum(before.code.values(), Code()).keys())


@remembered
def shared_edits() -> str:
    """Return the hash of what was edited in shared files; "" for nothing."""
    before, after = (side.shared() for side in _edits())
    gone = {f"without {one}" for one in (before - after).elements()}
    return _hash(gone | {*(after - before).elements()})


@dataclass(frozen=True)
class Side:
    """The edited files as they were, or as they are.

    Attributes:
        code: hashes of the statements of each file.
        registers: files that declare a scheme, a measure or a task.
    """

    code: dict[Path, Code]
    registers: frozenset[Path]

    def shared(self) -> Code:
        """Return the hashes of all statements in other files."""
        shared = (code for p, code in self.code.items() if p not in self.registers)
        return sum(shared, Code())


@remembered
def _edits() -> tuple[Side, Side]:
    before, after = _since_commit() or _since_install()
    return _side(before), _side(after)


def _since_commit() -> tuple[Texts, Texts] | None:
    """Return the texts of edited files at the commit and now; None without git."""
    try:
        _git("ls-files", "--error-unmatch", "--", Path(__file__).name)
        changed = _git("diff", "HEAD", "--name-only", "-z", "--relative", "--", ".")
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
    """Return no earlier texts, which are unknown, and the texts of edited files."""
    try:
        listed = importlib.metadata.files(OURS.replace("_", "-")) or []
    except importlib.metadata.PackageNotFoundError:
        return {}, {}
    installed = {Path(str(one.locate())).resolve(): one.hash for one in listed}
    if PACKAGE.resolve() / Path(__file__).name not in installed:
        return {}, {}
    found = _texts(PACKAGE.resolve().rglob("*.py"))
    return {}, {
        path: text
        for path, text in found.items()
        if (known := installed.get(path)) is None or _digest(text) != known.value
    }


def _digest(text: bytes) -> str:
    """Return a hash as RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest())
    return digest.rstrip(b"=").decode()


def _texts(paths: Iterable[Path]) -> Texts:
    return {path: path.read_bytes() for path in paths if path.is_file()}


def _side(texts: Texts) -> Side:
    trees = {path: tree_of(text) for path, text in texts.items()}
    bodies = {
        path: [statement for statement in tree.body if not is_silent(statement)]
        for path, tree in trees.items()
    }
    named: dict[str, list[ast.stmt]] = {}
    for body in bodies.values():
        for statement in body:
            for name in defines(statement):
                named.setdefault(name, []).append(statement)
    words = dict.fromkeys(named, "")
    for _ in range(ROUNDS):
        words = {n: _hash(_hashes(some, words)) for n, some in named.items()}
    return Side(
        {path: Code(_hashes(body, words)) for path, body in bodies.items()},
        frozenset(
            path for path, tree in trees.items() if any(map(is_registered, tree.body))
        ),
    )


def _hashes(statements: list[ast.stmt], words: dict[str, str]) -> list[str]:
    """Return the hash of each statement, with names by what they stand for."""

    def word(node: ast.expr) -> Form:
        return words.get(node.id) if isinstance(node, ast.Name) else None

    forms = (form(nameless(statement), word) for statement in statements)
    return [hashlib.sha256(json.dumps(one).encode()).hexdigest() for one in forms]


def _hash(hashes: Iterable[str]) -> str:
    """Return one hash of several, in whatever order; "" for none."""
    joined = "\n".join(sorted(hashes))
    return hashlib.sha256(joined.encode()).hexdigest() if joined else ""
