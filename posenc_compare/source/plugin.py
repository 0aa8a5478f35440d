"""The code that identifies a scheme, measure or task of a plugin.

The given module counts as a whole, with all modules that it imports. Functions,
imports, schemes, measures, tasks and plots that nothing names do not count, unless they
run code where they are defined. Python and other installed packages do not count. If an
imported package lies in another git repository, the bytes of all its Python files
count. Schemes, measures and tasks of this package count if the plugin names them. The
code is parsed with `ast`. Layout, comments, docstrings and error messages do not count.
"""

import ast
import copy
import hashlib
import importlib.util
import itertools
import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from posenc_compare.source.built_in import Code, built_in_code
from posenc_compare.source.files import (
    OURS,
    PLUGIN,
    file_of,
    imported_from,
    read,
    remembered,
    tree_of,
)
from posenc_compare.source.forms import (
    DECORATORS,
    Form,
    called_decorators,
    defines,
    form,
    is_silent,
    nameless,
    registers,
)

INSTALLED = {"site-packages", "dist-packages"}  # folders of packages
# With these, code may reach functions that it does not name.
REACHING = {"globals", "locals", "vars", "getattr", "eval", "exec", "modules"}
REACHING |= {"__dict__", "import_module", "getmembers", "attrgetter", "methodcaller"}
# With these, also classes.
SUBCLASSES = {"__subclasses__", "__init_subclass__", "metaclass"}
DECLARING = {"Facts", "Published", "float", "int", "str", "tuple", "range", "frozenset"}
PLAIN = {"staticmethod", "classmethod", "property", "torch.no_grad()"}
PLAIN |= {"cached_property", "functools.cached_property"}  # decorators of methods
BY_PYTHON = {"__getattr__", "__dir__"}  # functions of a module that nobody names
BY_VERSION = {"torch"}  # which counts by its version, wherever it lies

Place = tuple[str, Path]  # a module and its file


@remembered
def plugin_code(given: Place, declaring: Place, definition: str) -> Code:
    """Return the code that identifies a definition of a plugin.

    Args:
        given: module that was given as a plugin, and its file.
        declaring: module that declares the thing, and its file.
        definition: name of the class or function under the decorator.
    """
    files, packages = _reached(given, declaring)
    parts = [part for file in files for part in file.parts]
    own = declaring[1], definition
    kept = {part for part in parts if not part.names or (part.path, part.made) == own}
    while True:
        words = {word for part in kept for word in part.words}
        more = {p for p in parts if p.names & words}
        if words & REACHING:
            more |= {part for part in parts if not part.declares}
        if words & SUBCLASSES:
            more |= {*parts}
        more -= kept
        if not more:
            break
        kept |= more
    texts = {*(_built_in(name) for part in kept for name in part.ours)}
    texts |= {_bytes_of(package) for package in packages}
    for file in files:
        forms = [part.form for part in file.parts if part in kept and part.in_order]
        bound = {part.form for part in file.parts if part in kept} - {*forms}
        if forms or bound:
            texts.add(json.dumps([file.module, sorted(bound), forms]))
    texts -= {""}
    sha256 = hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()
    paths = [*(file.path for file in files), *(p for one in packages for p in one)]
    return Code(sha256, tuple(paths), tuple(p.statement for p in parts if p in kept))


class _Part(NamedTuple):
    """A top-level statement of a plugin's file.

    Attributes:
        path: of the file.
        form: what counts of the statement, as JSON.
        made: name of the class or function.
        names: that name, and the one it is registered by; none if it counts anyway.
        declares: whether it declares a scheme, a measure, a task or a plot.
        in_order: whether its order counts; that of most imports does not.
        words: all names and texts in the statement.
        ours: dotted names of this package in it.
    """

    path: Path
    form: str
    made: str
    names: frozenset[str]
    declares: bool
    in_order: bool
    words: frozenset[str]
    ours: frozenset[str]
    statement: ast.stmt


class _File:
    """What a file of a plugin imports and does.

    Attributes:
        module: its name; empty for a file that was given.
        path: of the file.
        imported: names of modules, and of what may be one.
        parts: statements that may count, what each import binds, and the first import
            of each module that runs code of the plugin.
    """

    def __init__(self, module: str, path: Path) -> None:
        self.module = "" if module.startswith(PLUGIN) else module
        self.path = path
        self.imported: list[str] = []
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        body = tree_of(read(path)).body
        body = [s for s in body if not (isinstance(s, ast.If) and is_silent(s))]
        self._imports: dict[str, set[str]] = {}  # dotted names, by what stands for them
        self._package = package
        for node in (node for part in body for node in ast.walk(part)):
            for bound, name in self._bound(node):
                is_package = isinstance(node, ast.Import) and name.startswith(
                    f"{bound}."
                )
                target = bound if is_package else name
                self._imports.setdefault(bound, set()).add(target)
                self.imported += [name, name.rpartition(".")[0]]
        self._starred = sorted(self._imports.pop("*", ()))
        self._defined = {name for part in body for name in defines(part)}
        names = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
        self._defined |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        self._run: set[str] = set()
        self.parts = [part for s in body for part in self._parts(s)]

    def _bound(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield the names that an import binds, and dotted ones that they stand for."""
        match node:
            case ast.ImportFrom(names=names):
                module = imported_from(node, self._package)
                for one in names:
                    full = module if one.name == "*" else f"{module}.{one.name}"
                    yield one.asname or one.name, full
            case ast.Import(names=names):
                for one in names:
                    yield one.asname or one.name.partition(".")[0], one.name

    def _parts(self, statement: ast.stmt) -> Iterator[_Part]:
        """Yield what counts of a statement: itself, or each name that it imports."""
        for bound, name in self._bound(statement):
            rebound = len(self._imports.get(bound, ())) > 1 or bound in self._defined
            importing = _Part(
                self.path,
                json.dumps([bound, name]),
                made="",
                names=frozenset({bound} - {"*"}),
                declares=False,
                in_order=rebound or bool(self._starred),
                words=frozenset([bound, *name.split(".")]),
                ours=frozenset([name] if name.split(".")[0] == OURS else []),
                statement=statement,
            )
            yield importing
            for module in sorted({name, name.rpartition(".")[0]} - self._run):
                if self._is_own(module):
                    self._run.add(module)
                    yield importing._replace(
                        form=json.dumps(module), names=frozenset(), in_order=True
                    )
        if not is_silent(statement):
            yield self._part(statement)

    def _part(self, statement: ast.stmt) -> _Part:
        made = getattr(statement, "name", "")
        names = {made} if _only_defines(statement) else set[str]()
        calls = [one for one in called_decorators(statement) if self._declares(one)]
        whole = len(calls) == len(getattr(statement, "decorator_list", []))
        if whole and _is_inert(statement):
            for call in calls:
                texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
                names |= {made, *map(str, texts)}
        counted = form(nameless(statement) if calls else statement, self._word)
        words: set[str] = set()
        ours = {name for name in self._starred if name.split(".")[0] == OURS}
        for node in ast.walk(statement):
            match node:
                case ast.Constant(value=str(text)) if " " not in text:
                    words |= {*re.split(r"[:;=,+()]", text)}
                case ast.keyword(arg="metaclass"):
                    words.add("metaclass")
                case ast.FunctionDef(name=name) if node is not statement:
                    words.add(name)
                case ast.Import() | ast.ImportFrom():
                    for bound, name in self._bound(node):
                        words |= {bound, *name.split(".")}
                case ast.Name() | ast.Attribute():
                    found = self._dotted(node)
                    words |= {name.rpartition(".")[2] for name in found}
                    ours |= {name for name in found if name.split(".")[0] == OURS}
                    words |= {node.id} if isinstance(node, ast.Name) else set()
        return _Part(
            self.path,
            json.dumps(counted, sort_keys=True),
            made,
            frozenset(names),
            declares=bool(calls),
            in_order=True,
            words=frozenset(words),
            ours=frozenset(ours),
            statement=statement,
        )

    def _is_own(self, module: str) -> bool:
        """Return whether a module may be code of this plugin."""
        top = self._package.split(".")[0]
        found = module.split(".")[0] == top and file_of(module) is not None
        return bool(module) and (found or _is_local(module))

    def _declares(self, call: ast.Call) -> bool:
        """Return whether a decorator declares a scheme, a measure, a task or a plot."""
        words = ast.unparse(call.func).split(".")
        bound = self._imports.get(words[0], ())
        if not bound and words[0] not in self._defined:
            bound = self._starred
        ours = any(full.split(".")[0] == OURS for full in bound)
        return ours and words[-1] in (*DECORATORS, "register_plot")

    def _dotted(self, node: ast.Name | ast.Attribute) -> set[str]:
        """Return the dotted names that an expression stands for."""
        after = ""
        while isinstance(node, ast.Attribute):
            after = f".{node.attr}{after}"
            if not isinstance(node.value, ast.Name | ast.Attribute):
                return {after}
            node = node.value
        return {f"{name}{after}" for name in self._imports.get(node.id, {node.id})}

    def _word(self, node: ast.AST) -> Form:
        """Return what stands for a name, an import, an argument or an error."""
        match node:
            case ast.Import() | ast.ImportFrom():
                return [*map(list, self._bound(node))]
            case ast.Name(id=name) if name in self._imports:
                return sorted(self._imports[name])
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                return [name, form(annotation, self._word)]
            case ast.Raise(exc=ast.Call(func=raised, args=args, keywords=words)):
                others = [one for one in args if not _is_text(one)]
                return form([raised, *others, *words], self._word)
            case ast.Assert(test=test):
                return form(test, self._word)
        return None


_file = remembered(_File)


def _only_defines(statement: ast.stmt) -> bool:
    """Return whether a statement defines a function and does nothing else."""
    match statement:
        case ast.FunctionDef(decorator_list=[], args=args, name=name):
            values = (*args.defaults, *args.kw_defaults)
            nodes = [node for one in values if one for node in ast.walk(one)]
            known = (ast.Constant, ast.UnaryOp, ast.Tuple, ast.unaryop, ast.Load)
            known += (ast.Name, ast.Attribute)
            return name not in BY_PYTHON and all(isinstance(n, known) for n in nodes)
    return False


def _is_inert(statement: ast.stmt) -> bool:
    """Return whether a definition only assigns, and calls nothing, when it is made."""
    if not isinstance(statement, ast.ClassDef):
        return _only_defines(_undecorated(statement))
    declared = [*map(_arguments, called_decorators(statement))]
    around = [*statement.bases, *statement.keywords, *itertools.chain(*declared)]
    if any(isinstance(n, ast.Call) for one in around for n in ast.walk(one)):
        return False
    for part in statement.body:
        match part:
            case ast.FunctionDef(decorator_list=decorators):
                named = {ast.unparse(one) for one in decorators}
                if not (named <= PLAIN and _only_defines(_undecorated(part))):
                    return False
            case ast.Assign() | ast.AnnAssign() if defines(part):
                called = {n.func for n in ast.walk(part) if isinstance(n, ast.Call)}
                if {ast.unparse(one).split(".")[-1] for one in called} - DECLARING:
                    return False
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case _:
                return False
    return True


def _arguments(call: ast.Call) -> list[ast.AST]:
    return [*call.args, *call.keywords]


def _undecorated(statement: ast.stmt) -> ast.stmt:
    """Return a definition without its decorators."""
    copied = copy.copy(statement)
    if isinstance(copied, ast.FunctionDef):
        copied.decorator_list = []
    return copied


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression is a message."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case ast.Call(func=ast.Attribute(value=text)):
            return _is_text(text)
    return False


def _reached(*starts: Place) -> tuple[list[_File], set[tuple[Path, ...]]]:
    """Return the files that modules lead to, and packages of other repositories."""
    files: dict[Path, _File] = {}
    packages: set[tuple[Path, ...]] = set()
    homes = {None, *(_repository(path.resolve()) for _, path in starts)}
    own = {module.split(".")[0] for module, _ in starts}
    todo = [*starts]
    while todo:
        module, path = todo.pop()
        if path in files:
            continue
        files[path] = _file(module, path)
        for name in _with_parents([module, *files[path].imported]):
            top, found = name.split(".")[0], file_of(name)
            if found is None or found.suffix != ".py":
                continue
            if top in own or (
                _is_local(name) and _repository(found.resolve()) in homes
            ):
                todo.append((name, found))
            elif _is_local(name):
                packages.add(_package(top))
    return list(files.values()), packages


def _with_parents(names: Iterable[str]) -> Iterator[str]:
    """Yield names of modules with those of the packages that they lie in."""
    for name in names:
        while name:
            yield name
            name = name.rpartition(".")[0]


@remembered
def _is_local(module: str) -> bool:
    """Return whether a module is neither Python's, nor ours, nor an installed one."""
    top, path = module.split(".")[0], file_of(module)
    if path is None or top == OURS or top in BY_VERSION:
        return False
    real = path.resolve()
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    if real.is_relative_to(stdlib) or INSTALLED.intersection(real.parts):
        return False
    home = real.parents[module.count(".") + (path.name == "__init__.py")]
    return not any(home.glob(f"{top}-*.dist-info"))  # of `pip install --target`


@remembered
def _repository(path: Path) -> Path | None:
    """Return the folder of the git repository of a file, if it lies in one."""
    return next((p for p in path.parents if (p / ".git").exists()), None)


@remembered
def _package(top: str) -> tuple[Path, ...]:
    """Return the files of a top-level package or module, in a fixed order."""
    spec = importlib.util.find_spec(top)
    folders = map(Path, (spec and spec.submodule_search_locations) or ())
    files = sorted(file for folder in folders for file in folder.rglob("[!.]*.py"))
    files = [file for file in files if file.is_file()]
    own = file_of(top)
    return tuple(files) if files or own is None else (own,)


@remembered
def _bytes_of(package: tuple[Path, ...]) -> str:
    """Return one hash of files."""
    return hashlib.sha256(b"\0".join(map(read, package))).hexdigest()


def _built_in(dotted: str) -> str:
    """Return a hash of the code of a dotted name of this package; "" if shared."""
    words = dotted.split(".")
    ends = range(len(words), 0, -1)
    modules = {end: ".".join(words[:end]) for end in ends}
    end, path = next((end, p) for end in ends if (p := file_of(modules[end])))
    if not registers(path):
        return ""
    names = words[end : end + 1]
    names = names or [name for s in tree_of(read(path)).body for name in defines(s)]
    return " ".join(built_in_code(modules[end], path, one).sha256 for one in names)
