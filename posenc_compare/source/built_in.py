"""The code that identifies a built-in scheme, measure or task.

This is the definition under its decorator, with all definitions that it names. These
lie in its own file and in files of other schemes, measures or tasks. The code is parsed
with `ast`. Layout, docstrings, error messages, names of definitions and places of files
do not count. If a file is edited to name other shared definitions, those that it names
count too, until the edit is committed.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from posenc_compare.source import edits
from posenc_compare.source.edits import Texts
from posenc_compare.source.files import (
    OURS,
    bindings,
    file_of,
    read,
    source_cache,
    tree_of,
)
from posenc_compare.source.forms import (
    Form,
    defines,
    form,
    is_silent,
    nameless,
    registers,
    without_texts,
)


class Code(NamedTuple):
    """The code that identifies a scheme, measure or task."""

    sha256: str = ""
    files: tuple[Path, ...] = ()
    statements: tuple[ast.stmt, ...] = ()


@source_cache
def built_in_code(module: str, path: Path, definition: str) -> Code:
    """Return the code that identifies a definition in a file of this package."""
    reader = _Reader(module, path, read)
    counted = [reader.read(module, definition)]
    before, now = edits.changed_texts()
    if any(file in now for file in reader.files):
        earlier = _Reader(module, path, lambda f: before[f] if f in before else read(f))
        earlier.read(module, definition)
        if (others := reader.shared(now)) != earlier.shared(before):
            counted.append(others)
    text = json.dumps(counted[0] if len(counted) == 1 else counted, sort_keys=True)
    statements = tuple(statement for statement, _ in reader.statements)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return Code(sha256, (*reader.files,), statements)


class _Module:
    """What the statements of a file define, import and do.

    Attributes:
        name: of the module.
        path: of its file.
        definitions: top-level functions, classes and assignments, by name.
        imports: module and name that a name stands for; no name for a module.
        effects: all other statements, which run whatever is used of the file.
    """

    def __init__(self, name: str, path: Path, text: bytes) -> None:
        self.name = name
        self.path = path
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, list[tuple[str, str]]] = {}
        tree = tree_of(text)
        for statement in tree.body:
            for one in defines(statement):
                self.definitions.setdefault(one, []).append(statement)
        for node in ast.walk(tree):
            for one, origin, part in bindings(node, name.rpartition(".")[0]):
                top = origin.split(".")[0]
                target = (origin if part or one != top else top, part)
                self.imports.setdefault(one, []).append(target)
        self.effects = [s for s in tree.body if not (is_silent(s) or defines(s))]


class _Reader:
    """Collect the definitions that one of them leads to, in a fixed order."""

    def __init__(
        self, module: str, path: Path, text_of: Callable[[Path], bytes]
    ) -> None:
        self.statements: list[tuple[ast.stmt, _Module]] = []
        self.files: list[Path] = []
        self._text_of = text_of
        own = _module(module, path, text_of(path))
        self._modules: dict[str, _Module | None] = {module: own}
        self._seen: dict[tuple[str, str], int] = {}
        self._shared_ones: list[tuple[str, str]] = []

    def read(self, module: str, name: str) -> list[Form]:
        """Return what counts of a definition and of all that it leads to."""
        self._refer(module, name)
        # The list grows while it is read.
        return [
            form(nameless(statement), functools.partial(self._word, place))
            for statement, place in self.statements
        ]

    def shared(self, texts: Texts) -> list[Form]:
        """Return what the shared things are that were named, in order."""
        return [edits.definition(*one, texts) for one in self._shared_ones]

    def _refer(self, module: str, name: str) -> Form:
        """Return what stands for a name of a module, and read what it leads to."""
        place = self._own(module)
        if place is None:
            return self._shared(module, name)
        if name in place.definitions:
            return self._index(place, name)
        if name in place.imports:
            return [self._refer(*target) for target in place.imports[name]]
        return name

    def _index(self, place: _Module, name: str) -> Form:
        key = (place.name, name)
        if key not in self._seen:
            self._seen[key] = len(self._seen)
            self.statements += ((one, place) for one in place.definitions[name])
        return self._seen[key]

    def _shared(self, module: str, name: str) -> Form:
        """Return what stands for something of a module that has no code of its own.

        Of this package, things are named by their order, so that they may be renamed.
        """
        if module.split(".")[0] != OURS:
            return f"{module}.{name}"
        if (module, name) not in self._seen:
            self._shared_ones.append((module, name))
        return ["shared", self._seen.setdefault((module, name), len(self._seen))]

    def _word(self, place: _Module, node: ast.AST) -> Form:
        """Return what stands for a name, a text, an error or a quantity in a module."""
        match node:
            case ast.Constant(value=str(text)) if text in place.definitions:
                return [text, self._refer(place.name, text)]
            case ast.Name(id=name):
                if name in place.definitions or name in place.imports:
                    return self._refer(place.name, name)
                return name
        return without_texts(node, functools.partial(self._word, place))

    def _own(self, name: str) -> _Module | None:
        """Return a module if its code counts for itself, and read its effects."""
        if name not in self._modules:
            path = file_of(name) if name.split(".")[0] == OURS else None
            own = path is not None and registers(path)
            text = self._text_of(path) if path and own else b""
            self._modules[name] = _module(name, path, text) if path and own else None
        place = self._modules[name]
        if place is not None and place.path not in self.files:
            self.files.append(place.path)
            self.statements += ((statement, place) for statement in place.effects)
        return place


_module = source_cache(_Module)
