"""The code that a scheme, a measure or a task counts by in the keys of records.

It is the definition under its decorator, with every definition that this one names in
its own module and in files of other schemes, measures or tasks. For a plugin, its
module and all that it imports count as a whole, but for other schemes, measures, tasks
and plots, and for modules of Python, of installed packages and other git repositories.
What this package shares (attention, trainer, helpers) counts by `NUMBERS` alone. All is
read with `ast`. Layout, docstrings, error messages, names of definitions and places of
files do not count.
"""

import ast
import copy
import functools
import hashlib
import json
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from posenc_compare.errors import ConfigError
from posenc_compare.registry import Entry
from posenc_compare.source.files import (
    OURS,
    file_of,
    imported_from,
    read,
    remembered,
    tree_of,
)

NUMBERS = 2
"""Raise it when shared code changes a number; `tests/pinned` tells when that is so."""

DECORATORS = ("register", "register_measure", "register_task")
SILENT = {"ctx", "kind", "type_comment", "type_params", "returns"}
SHOWN = {"unit", "zero", "x", "title"}  # words of a quantity, which tables print
DECLARED = {"source", "real", "own_text"}  # the paper, and what a scheme refuses
INSTALLED = {"site-packages", "dist-packages"}  # folders of packages
BY_VERSION = {"torch"}  # which counts by its version, wherever it lies

Form = object  # of JSON
Words = Callable[[ast.expr], Form]


class Module:
    """What the statements of a file define, import and do.

    Attributes:
        name: of the module.
        path: of its file.
        definitions: top-level functions, classes and assignments, by name.
        imports: module and name that a name stands for; no name for a module.
        imported: names of modules, and of what may be one.
        effects: all other statements, which run whatever is used of the file; of a
            plugin all but the schemes, measures, tasks and plots that it declares.
        is_built_in: whether it belongs to this package.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.package = name if path.stem == "__init__" else name.rpartition(".")[0]
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, list[tuple[str, str]]] = {}
        self.imported: list[str] = []
        self.is_built_in = name.split(".")[0] == OURS
        tree = tree_of(read(path))
        for statement in tree.body:
            for one in defines(statement):
                self.definitions.setdefault(one, []).append(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self._bind(node, alias)
                if isinstance(node, ast.Import):
                    self.imported += (alias.name for alias in node.names)
        self.effects = [s for s in tree.body if not is_silent(s) and self._acts(s)]

    def _acts(self, statement: ast.stmt) -> bool:
        """Return whether a statement counts whatever is used of the file."""
        if self.is_built_in:
            return not defines(statement)
        return not self.declares(statement)

    def declares(self, statement: ast.stmt) -> bool:
        """Return whether a statement declares a scheme, a measure, a task or a plot."""
        return any(
            name.split(".")[-1] in (*DECORATORS, "register_plot")
            and self._is_ours(name)
            for name in called_decorators(statement)
        )

    def _is_ours(self, name: str) -> bool:
        """Return whether a dotted name is of this package."""
        root = name.split(".")[0]
        bound = self.imports.get(root, [])
        if not bound and root not in self.definitions:
            bound = self.imports.get("*", [])
        return any(module.split(".")[0] == OURS for module, _ in bound)

    def _bind(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> None:
        """Keep what an import binds: the name, its module, and its name in there."""
        bound, module, name = alias.asname or alias.name, alias.name, ""
        if isinstance(node, ast.ImportFrom):
            module, name = imported_from(node, self.package), alias.name
        elif not alias.asname:
            bound = module = alias.name.partition(".")[0]
        self.imports.setdefault(bound, []).append((module, name))
        self.imported += (module, f"{module}.{name}")


def is_silent(statement: ast.stmt) -> bool:
    """Return whether a statement imports, documents or serves a type checker alone."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
            return True
        case ast.If(
            test=ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant()]),
            orelse=[],
        ):
            return True  # the main block of a script
    return False


@remembered
def is_local(module: str, near: Path) -> bool:
    """Return whether a module is neither Python's, nor ours, nor an installed one.

    It lies in the same git repository as the file `near`, or both lie in none.
    """
    top, path = module.split(".")[0], file_of(module)
    if path is None or top == OURS or top in BY_VERSION:
        return False
    real = path.resolve()
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    if real.is_relative_to(stdlib) or INSTALLED.intersection(real.parts):
        return False
    home = path.parents[module.count(".") + (path.name == "__init__.py")]
    if any(home.glob(f"{top}-*.dist-info")):  # as `pip install --target` leaves it
        return False
    return _repository(real) == _repository(near.resolve())


def _repository(path: Path) -> Path | None:
    """Return the folder of the git repository of a file, if it lies in one."""
    return next((p for p in path.parents if (p / ".git").exists()), None)


def called_decorators(statement: ast.stmt) -> Iterator[str]:
    """Yield the dotted names of decorators with arguments."""
    for one in getattr(statement, "decorator_list", []):
        if isinstance(one, ast.Call):
            yield ast.unparse(one.func)


def defines(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


class Reader:
    """Collect the definitions that one of them leads to, in a fixed order."""

    def __init__(self, module: str, path: Path) -> None:
        self.top = module.split(".")[0]
        self.statements: list[tuple[ast.stmt, Module]] = []
        self.files: list[Path] = []
        self._modules: dict[str, Module | None] = {module: _module(module, path)}
        self._seen: dict[object, int] = {}
        self._followed: set[tuple[str, str]] = set()
        self._path = path

    def read(self, module: str, name: str) -> list[Form]:
        """Return what counts of a definition and of all that it leads to.

        One that stands in a function counts with all that its module defines.
        """
        place = self._modules[module]
        at_top = place is not None and name in place.definitions
        self._refer(module, name if at_top else "")
        # The list grows while it is read.
        return [
            form(nameless(statement), functools.partial(self._word, place))
            for statement, place in self.statements
        ]

    def _refer(self, module: str, name: str) -> Form:
        """Return what stands for a name of a module, and read what it leads to."""
        place = self._own(module)
        if place is None:
            return self._shared(module, name)
        if name in place.definitions:
            return self._index(place, name, place.definitions[name])
        if name in place.imports:
            return self._follow(place, name)
        if not name or name == "*":
            every = [s for some in place.definitions.values() for s in some]
            return self._index(place, "", [s for s in every if not place.declares(s)])
        if starred := self._starred(place, name):
            return self._refer(starred, name)
        if self._own(f"{module}.{name}"):
            return self._refer(f"{module}.{name}", "")
        return name

    def _follow(self, place: Module, name: str) -> Form:
        """Return what stands for an imported name, which may lead back to itself."""
        at = (place.name, name)
        if at in self._followed:
            inside = f"{place.name}.{name}"
            return self._refer(inside, "") if self._own(inside) else name
        self._followed.add(at)
        found = [self._refer(*target) for target in place.imports[name]]
        self._followed.remove(at)
        return found

    def _starred(self, place: Module, name: str) -> str:
        """Return the own module from which an `import *` binds a name, or ""."""
        todo, seen = [*place.imports.get("*", [])], {place.name}
        while todo:
            module, _ = todo.pop()
            if module not in seen and (other := self._own(module)):
                if name in other.definitions or name in other.imports:
                    return module
                todo += other.imports.get("*", [])
            seen.add(module)
        return ""

    def _index(self, place: Module, name: str, statements: list[ast.stmt]) -> Form:
        key = (place.name, name)
        if key not in self._seen:
            self._seen[key] = len(self._seen)
            self.statements += ((statement, place) for statement in statements)
        return self._seen[key]

    def _shared(self, module: str, name: str) -> Form:
        """Return what stands for something of a module that is not its own.

        Of this package, code of its own names things by their order, so that they may
        be renamed; a plugin names them as they are called.
        """
        if module.split(".")[0] != OURS:
            return f"{module}.{name}"
        if self.top != OURS:
            return name
        return ["shared", self._seen.setdefault((module, name), len(self._seen))]

    def _word(self, place: Module, node: ast.expr) -> Form:
        """Return what stands for a name, a dotted name or a text in a module."""
        match node:
            case ast.Constant(value=str(text)) if text in place.definitions:
                return [text, self._refer(place.name, text)]
            case ast.Name(id=name):
                if name in place.definitions or name in place.imports:
                    return self._refer(place.name, name)
                if self._starred(place, name):
                    return self._refer(place.name, name)
                return name
            case ast.Attribute():
                return self._dotted(place, node)
        return None

    def _dotted(self, place: Module, node: ast.Attribute) -> Form:
        """Return what stands for `package.module.name`; None if it is no such name."""
        written = ast.unparse(node).split(".")
        for module, attribute in place.imports.get(written[0], []):
            full = [*filter(None, [module, attribute]), *written[1:]]
            for end in range(len(full) - 1, 0, -1):
                if self._own(".".join(full[:end])):
                    inside = self._refer(".".join(full[:end]), full[end])
                    return [inside, *full[end + 1 :]]
        return None

    def _own(self, name: str) -> Module | None:
        """Return a module if its code counts for itself, and read its effects."""
        if name not in self._modules:
            self._modules[name] = self._found(name)
        place = self._modules[name]
        if place is not None and place.path not in self.files:
            self.files.append(place.path)
            self.statements += ((statement, place) for statement in place.effects)
            if not place.is_built_in:
                self._import(place)
        return place

    def _import(self, place: Module) -> None:
        """Read the modules that one of a plugin imports, and those it lies in."""
        self._own(place.name.rpartition(".")[0])
        for name in place.imported:
            self._own(name)

    def _found(self, name: str) -> Module | None:
        """Return a module of its own package, or one that declares built-in things."""
        top = name.split(".")[0]
        path = file_of(name)
        if path is None or path.suffix != ".py":
            return None
        if top == OURS:
            return _module(name, path) if registers(path) else None
        own = top == self.top or (self.top != OURS and is_local(name, self._path))
        return _module(name, path) if own else None


class OwnCode(NamedTuple):
    """What a registered thing counts by."""

    sha256: str = ""
    files: tuple[Path, ...] = ()
    statements: tuple[ast.stmt, ...] = ()


def own_code(entry: Entry) -> OwnCode:
    """Return what a registered thing counts by; nothing if it is from no file."""
    if entry.path is None:
        return OwnCode()
    return _own_code(entry.module, entry.path, entry.definition)


@remembered
def _own_code(module: str, path: Path, definition: str) -> OwnCode:
    reader = Reader(module, path)
    try:
        text = json.dumps(reader.read(module, definition), sort_keys=True)
    except RecursionError as error:
        raise ConfigError(
            f"{path.name}: its imports must be nested less than 250 levels deep"
        ) from error
    statements = tuple(statement for statement, _ in reader.statements)
    return OwnCode(
        hashlib.sha256(text.encode()).hexdigest(), (*reader.files,), statements
    )


_module = remembered(Module)


@remembered
def registers(path: Path) -> bool:
    """Return whether a file declares a scheme, a measure or a task."""
    return any(map(is_registered, tree_of(read(path)).body))


def is_registered(statement: ast.stmt) -> bool:
    """Return whether a statement of this package declares something."""
    names = called_decorators(statement)
    return any(name.split(".")[-1] in DECORATORS for name in names)


def form(node: object, word: Words) -> Form:
    """Return what counts of a syntax tree, as lists, texts and numbers.

    Args:
        node: of the tree, a list of nodes or a value.
        word: returns what stands for a name, a dotted name or a text; None for what is
            written.
    """
    if isinstance(node, list):
        kept = [n for n in node if not isinstance(n, ast.Import | ast.ImportFrom)]
        return [form(one, word) for one in kept]
    if not isinstance(node, ast.AST):
        return repr(node)
    match node:
        case ast.Raise(exc=ast.Call(func=raised)):
            return ["Raise", form(raised, word)]
        case ast.Name() | ast.Attribute() | ast.Constant():
            if (found := word(node)) is not None:
                return [type(node).__name__, found]
    parts: dict[str, Form] = {}
    for name, value in ast.iter_fields(node):
        counted = _counted(node, name, value)
        if counted is not None and counted != []:
            parts[name] = form(counted, word)
    return [type(node).__name__, parts]


def _counted(node: ast.AST, name: str, value: object) -> object:
    """Return a field of a node without what does not count."""
    if name in SILENT or (name == "annotation" and isinstance(node, ast.arg)):
        return None
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            if name == "body" and ast.get_docstring(node) is not None:
                return node.body[1:] or [ast.Pass()]
        case ast.Call(func=ast.Name(id="Quantity"), keywords=words):
            if name == "keywords":
                return [word for word in words if word.arg not in SHOWN]
    return value


def nameless(statement: ast.stmt) -> ast.stmt:
    """Return a top-level definition without its name and what it declares alone."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement
    copied = copy.copy(statement)
    copied.name = ""
    copied.decorator_list = []
    for decorator in statement.decorator_list:
        if isinstance(decorator, ast.Call):
            words = [w for w in decorator.keywords if w.arg not in DECLARED]
            decorator = ast.Call(decorator.func, decorator.args, words)
        copied.decorator_list.append(decorator)
    return copied
