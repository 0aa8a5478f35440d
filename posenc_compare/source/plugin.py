"""The code that identifies a scheme, measure or task of a plugin.

The given module counts, with all modules that it imports, but not Python and other
installed packages. If an imported package lies in another git repository, the bytes of
all its Python files count. In the other files, all statements count, in their order.
Only other schemes, measures, tasks and plots are left out, if they run no code when
they are defined and no counted word names them. Words are taken from all names
and strings, whatever they stand for. A scheme, measure or task of this package
counts if a word is its name.

In doubt, code counts. So keys also change if imports are sorted, or if a local name is
replaced. Layout, comments and docstrings do not count.
"""

import ast
import hashlib
import importlib.util
import re
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from posenc_compare.source.built_in import Code, built_in_code
from posenc_compare.source.edits import PACKAGE
from posenc_compare.source.files import (
    OURS,
    PLUGIN,
    bindings,
    file_of,
    read,
    source_cache,
    tree_of,
)
from posenc_compare.source.forms import (
    DECORATORS,
    defines,
    is_silent,
    nameless,
    registers,
)

INSTALLED = {"site-packages", "dist-packages"}  # folders of packages
BY_VERSION = {"torch"}  # which counts by its version, wherever it lies
# With these, the definition of a class may run code of another one.
SUBCLASSES = {"__subclasses__", "__init_subclass__", "__set_name__", "metaclass"}
# Definitions run nothing if they are made of these.
QUIET = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.UnaryOp, ast.BinOp)
QUIET += (ast.Tuple, ast.List, ast.Dict, ast.JoinedStr, ast.FormattedValue)
QUIET += (ast.expr_context, ast.unaryop, ast.operator, ast.arguments, ast.arg)
QUIET += (ast.keyword, ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass)
CALLED = {"Facts", "Published", "Quantity", "Headline", "float"}
PLAIN = {"staticmethod", "classmethod", "property", "torch.no_grad()"}
PLAIN |= {"cached_property", "functools.cached_property"}  # decorators

Place = tuple[str, Path]  # a module and its file


@source_cache
def plugin_code(given: Place, declaring: Place, definition: str) -> Code:
    """Return the code that identifies a definition of a plugin.

    Args:
        given: module that was given as a plugin, and its file.
        declaring: module that declares the thing, and its file.
        definition: name of the class or function under the decorator.
    """
    own = frozenset(module.split(".")[0] for module, _ in (given, declaring))
    files, packages = _find_imports([given, declaring], own)
    parts = [part for place in files for part in _parts(place)]
    kept = {part for part in parts if not part.names or definition in part.names}
    if any(part.words & SUBCLASSES for part in parts):
        kept = {*parts}
    words = {word for part in kept for word in part.words}
    while more := {part for part in parts if part.names & words} - kept:
        kept |= more
        words |= {word for part in more for word in part.words}
    texts = [*filter(None, map(_built_in, _built_ins(words)))]
    texts += [_sha256(b"\0".join(map(read, package))) for package in packages]
    for module, path in files:
        counted = [part.text for part in _parts((module, path)) if part in kept]
        texts.append(repr(("" if module.startswith(PLUGIN) else module, counted)))
    paths = [*(path for _, path in files), *(p for one in packages for p in one)]
    statements = tuple(part.statement for part in parts if part in kept)
    return Code(_sha256("\n".join(sorted(texts)).encode()), tuple(paths), statements)


def _find_imports(
    starts: list[Place], own: frozenset[str]
) -> tuple[list[Place], set[tuple[Path, ...]]]:
    """Return the files that modules lead to, and packages of other repositories."""
    files: dict[Path, Place] = {}
    packages: set[tuple[Path, ...]] = set()
    homes = {None, *(_repository(path.resolve()) for _, path in starts)}
    todo = [*starts]
    while todo:
        module, path = place = todo.pop()
        if path in files:
            continue
        files[path] = place
        nodes = [node for one in _statements_of(path) for node in ast.walk(one)]
        found = [full for node in nodes for _, full in _imports(node, place)]
        for name in (one for full in [module, *found] for one in _within(full)):
            file = file_of(name)
            if file is None or not is_own(name, own):
                continue
            top = name.split(".")[0]
            if top in own or _repository(file.resolve()) in homes:
                todo.append((name, file))
            else:
                packages.add(_package(top))
    return [*files.values()], packages


@source_cache
def is_own(module: str, own: frozenset[str]) -> bool:
    """Return whether a module belongs to these packages, or to no installed one."""
    top, path = module.split(".")[0], file_of(module)
    if top in own:
        return True
    if path is None or top == OURS or top in BY_VERSION:
        return False
    real = path.resolve()
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    if real.is_relative_to(stdlib) or INSTALLED.intersection(real.parts):
        return False
    home = real.parents[module.count(".") + (path.name == "__init__.py")]
    return not any(home.glob(f"{top}-*.dist-info"))  # of `pip install --target`


@source_cache
def _repository(path: Path) -> Path | None:
    """Return the folder of the git repository of a file, if it lies in one."""
    return next((p for p in path.parents if (p / ".git").exists()), None)


@source_cache
def _package(top: str) -> tuple[Path, ...]:
    """Return the files of a top-level package or module, in a fixed order."""
    spec = importlib.util.find_spec(top)
    folders = map(Path, (spec and spec.submodule_search_locations) or ())
    found = (file for folder in folders for file in folder.rglob("*.py"))
    files = sorted(file for file in found if file.is_file())
    own = file_of(top)
    return tuple(files) if files or own is None else (own,)


def _statements_of(path: Path) -> list[ast.stmt]:
    """Return the statements of a file that import or run."""
    body = tree_of(read(path)).body
    imported = ast.Import | ast.ImportFrom
    return [one for one in body if isinstance(one, imported) or not is_silent(one)]


def _imports(node: ast.AST, place: Place) -> list[tuple[str, str]]:
    """Return the names that an import in a file binds, and what they stand for."""
    module, path = place
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found = bindings(node, package)
    return [
        (name, f"{origin}.{part}" if part else origin) for name, origin, part in found
    ]


def _within(name: str) -> list[str]:
    """Return the names of a module's enclosing packages, then its own name."""
    words = name.split(".")
    return [".".join(words[:end]) for end in range(1, len(words) + 1)]


class _Part(NamedTuple):
    """A top-level statement of a plugin's file.

    Attributes:
        statement: as it is written.
        text: what counts of it.
        words: of the names and texts in it.
        names: words that name a scheme, measure, task or plot; none if it counts
            anyway.
    """

    statement: ast.stmt
    text: str
    words: frozenset[str]
    names: frozenset[str]


@source_cache
def _parts(place: Place) -> list[_Part]:
    """Return the statements of a file that may count, in their order."""
    body = _statements_of(place[1])
    bound = [(name, "") for statement in body for name in defines(statement)]
    bound += [pair for statement in body for pair in _imports(statement, place)]
    ours = {name for name, full in bound if full.split(".")[0] == OURS}
    ours -= {name for name, full in bound if full.split(".")[0] != OURS}
    parts: list[_Part] = []
    for statement in body:
        names: frozenset[str] = frozenset()
        decorators = getattr(statement, "decorator_list", [])
        calls = [one for one in decorators if _declares(one, ours)]
        name = getattr(statement, "name", "")
        if calls and _is_quiet(statement, ours):
            names = _words([name, *(_form(one.args) for one in calls)])
        form = _form(nameless(statement) if calls else statement)
        parts.append(_Part(statement, repr((name, form)), _words(form), names))
    return parts


def _is_quiet(node: ast.AST, ours: set[str]) -> bool:
    """Return whether a definition or an expression runs no code."""
    inside = [*ast.iter_child_nodes(node)]
    match node:
        case ast.FunctionDef() | ast.ClassDef(decorator_list=[_, *_]):
            around = node.decorator_list
            quiet = all(ast.unparse(d) in PLAIN or _declares(d, ours) for d in around)
            later = node.body if isinstance(node, ast.FunctionDef) else []
            inside = [one for one in inside if one not in [*around, *later]]
        case ast.Call(func=function):
            quiet = ast.unparse(function).split(".")[-1] in CALLED
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            quiet = False
        case _:
            quiet = isinstance(node, QUIET)
    return quiet and all(_is_quiet(one, ours) for one in inside)


def _declares(decorator: ast.expr, ours: set[str]) -> bool:
    """Return whether a decorator declares something for this package alone.

    Args:
        decorator: of a statement.
        ours: names in the file that are of this package.
    """
    match decorator:
        case ast.Call(func=function, args=args, keywords=words):
            called = ast.unparse(function).split(".")
            known = called[0] in ours and called[-1] in (*DECORATORS, "register_plot")
            return known and all(_is_quiet(one, ours) for one in (*args, *words))
    return False


def _form(node: Any) -> Any:
    """Return what counts of a syntax tree: all but docstrings."""
    if isinstance(node, list):
        return [_form(one) for one in node if not _is_docstring(one)]
    if not isinstance(node, ast.AST):
        return node
    fields = {n: _form(v) for n, v in ast.iter_fields(node) if v not in (None, [])}
    return type(node).__name__, fields


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _words(form: Any) -> frozenset[str]:
    """Return the words of all names and texts in a form."""
    match form:
        case str():
            return frozenset(re.findall(r"\w+", form))
        case list():
            return frozenset().union(*map(_words, form))
        case (str(), dict() as fields):
            return _words([*fields.values()])
    return frozenset()


def _built_ins(words: set[str]) -> list[str]:
    """Return the modules of this package whose names are among some words."""
    named = {word.lower().replace("_", "") for word in words}
    paths = [path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("[!_]*.py")]
    paths = sorted(path for path in paths if path.stem.replace("_", "") in named)
    return [".".join(path.with_suffix("").parts) for path in paths]


def _built_in(module: str) -> str:
    """Return a hash of what a module of this package declares; "" if it is shared."""
    path = file_of(module)
    if path is None or not registers(path):
        return ""
    names = [name for one in tree_of(read(path)).body for name in defines(one)]
    return " ".join(built_in_code(module, path, name).sha256 for name in names)


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
