"""The source of modules, read once: what is listed, hashed and run is one text.

A number depends on the code behind it. Here stands which code that is: the module that
is named, and whatever it imports of its own package and of this one. Everything is read
from the text with `ast`, so that nothing runs.
"""

import ast
import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast

from posenc_compare import EXPORTS
from posenc_compare.errors import ConfigError
from posenc_compare.validate import read_regular

LIMIT = 1 << 24  # bytes of a file of source
DEEP = 200  # levels of its syntax; Python's own tools for trees fail at about 300
PLUGIN = "posenc_plugin_"  # how the module of a plugin that is one file begins
OURS = __name__.split(".")[0]
# Modules of this package that cannot change a number: they read what the user gives,
# plan, keep and tell. Adding one here needs a reason that a reader can follow.
WITHOUT_EFFECT = {
    OURS,  # the version, which is in the key, and names of what stands elsewhere
    f"{OURS}.bases",
    f"{OURS}.errors",  # messages
    f"{OURS}.registry",
    f"{OURS}.sources",
    f"{OURS}.validate",  # refusals
    f"{OURS}.analysis",  # a docstring
    f"{OURS}.analysis.core",
    f"{OURS}.analysis.core.canonical",
    f"{OURS}.analysis.core.files",
    f"{OURS}.analysis.core.progress",
    f"{OURS}.analysis.core.sanitize",  # messages
    f"{OURS}.analysis.engine",
    f"{OURS}.analysis.engine.comparison",  # plans
    f"{OURS}.analysis.engine.provenance",
    f"{OURS}.analysis.records",
    f"{OURS}.analysis.records.cells",  # keys
    f"{OURS}.analysis.records.packed",
    f"{OURS}.analysis.records.record",
    f"{OURS}.analysis.records.store",
    f"{OURS}.analysis.show",
    f"{OURS}.analysis.show.results",
    f"{OURS}.analysis.training.checkpoints",  # what is kept is checked bit for bit
}

F = TypeVar("F", bound=Callable[..., Any])

_texts: dict[Path, bytes] = {}
_kept: set[Path] = set()
_remembered: list[Callable[[], None]] = []  # each forgets what a function returned


def remembered(function: F) -> F:
    """Return a function of source that keeps its results until a file is read anew."""
    kept = functools.cache(function)
    _remembered.append(kept.cache_clear)
    return cast(F, kept)


def read(path: Path) -> bytes:
    """Return the source in a file, as it was when this process first read it.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file, or too long.
    """
    if path not in _texts:
        _texts[path] = read_regular(path, LIMIT)
    return _texts[path]


def forget(path: Path) -> None:
    """Read a file anew when it is next asked for, unless its text was given."""
    if path not in _kept:
        _texts.pop(path, None)
        _forget_results()


def texts() -> dict[str, str]:
    """Return all source read so far, by path; bytes as letters of Latin-1."""
    return {str(path): text.decode("latin-1") for path, text in _texts.items()}


def keep(given: dict[str, str]) -> None:
    """Take source from another process in place of what the files hold now."""
    for path, text in given.items():
        _texts[Path(path)] = text.encode("latin-1")
        _kept.add(Path(path))
    _forget_results()


def _forget_results() -> None:
    for forget_one in _remembered:
        forget_one()


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        ConfigError: if it cannot be read, or is nested too deep to be looked at.
    """
    try:
        return _tree(read(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            f"{path.name}: must be readable Python source, got "
            f"{type(error).__name__}: {str(error) or 'nested too deep'}"
        ) from error


def module_path(module: str) -> Path:
    """Return the source file of a module without importing it or its parents.

    Raises:
        ConfigError: if there is none.
    """
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is not None:
        folders = spec.submodule_search_locations or []
        bases = [Path(folder).joinpath(*rest) for folder in folders]
        paths = [p for b in bases for p in (b.with_suffix(".py"), b / "__init__.py")]
        if not rest and spec.origin:
            paths = [Path(spec.origin)]
        for path in paths:
            if path.is_file():
                return path
    raise ConfigError(
        f"plugin {module!r}: must be a .py file or an importable module, and is neither"
    )


@remembered
def closure(module: str, path: Path) -> dict[str, Path]:
    """Return by name the modules whose code a number of this one depends on.

    These are the module itself and, without end, what they import of its own top-level
    package and of this package, also inside functions. The own package of a plugin
    that was given as a file is what lies beside it. Modules in `WITHOUT_EFFECT` are
    left out. Imports that are made from text, as by `importlib`, are not seen. A file
    that is not Python as this version reads it counts with its bytes.

    Raises:
        ConfigError: if a file cannot be read.
    """
    found: dict[str, Path] = {}
    waiting: list[tuple[str, Path | None]] = [
        *((above, None) for above in _with_parents(module)[:-1]),
        (module, path),
    ]
    while waiting:
        name, place = waiting.pop()
        if name in found or name in WITHOUT_EFFECT or not _own(name, module, path):
            continue
        place = place or place_in(found.get(name.rpartition(".")[0]), name)
        if place is None or place.suffix != ".py":
            continue
        found[name] = place
        package = name if place.name == "__init__.py" else name.rpartition(".")[0]
        try:
            waiting += ((other, None) for other in _imported(place, package))
        except ConfigError:
            if name == module:
                raise
    return dict(sorted(found.items()))


class Planned(SourceFileLoader):
    """Load a module from the text that `keep` was given, whatever its file holds."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled text; no cache of bytecode is read or written."""
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        """Return the text."""
        return read(Path(path))


class PlannedFinder:
    """Find modules among those whose text was given; goes first in `sys.meta_path`.

    Args:
        modules: paths by name of module.
    """

    def __init__(self, modules: dict[str, Path]) -> None:
        self.modules = modules

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> ModuleSpec | None:
        """Return how to load a module, if its text was given."""
        if (place := self.modules.get(name)) is None:
            return None
        inside = [str(place.parent)] if place.name == "__init__.py" else None
        loader = Planned(name, str(place))
        return importlib.util.spec_from_file_location(
            name, place, loader=loader, submodule_search_locations=inside
        )

    def others(self) -> list[str]:
        """Return the modules that were imported, but not from their given text."""
        return [
            name
            for name in self.modules
            if name in sys.modules
            and not isinstance(getattr(sys.modules[name], "__loader__", None), Planned)
        ]


def _own(name: str, module: str, path: Path) -> bool:
    """Return whether a module belongs to the package of a plugin, or to this one."""
    top = name.split(".")[0]
    if top in (OURS, module.split(".")[0]):
        return True
    beside = (path.with_name(f"{top}.py"), path.with_name(top) / "__init__.py")
    return module.startswith(PLUGIN) and file_of(top) in beside


def place_in(package: Path | None, name: str) -> Path | None:
    """Return the file of a module, whose package may be known by its file alone."""
    if package is not None and package.name == "__init__.py":
        last = name.rpartition(".")[2]
        for place in (
            package.with_name(f"{last}.py"),
            package.parent / last / package.name,
        ):
            if place.is_file():
                return place
    return file_of(name)


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


@remembered
def _imported(path: Path, package: str) -> tuple[str, ...]:
    """Return the modules that a file in `package` may import, with their parents.

    Raises:
        ConfigError: if it cannot be read.
    """
    tree = parse(path)
    found: list[str] = []
    for name in sorted(_exports_used(tree)):
        found += _with_parents(EXPORTS[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            source = imported_from(node, package)
            found += _with_parents(source)
            found += (f"{source}.{alias.name}" for alias in node.names)
    return tuple(dict.fromkeys(found))


def imported_from(node: ast.ImportFrom, package: str) -> str:
    """Return the full name of what a file in `package` imports names from."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *filter(None, [node.module])])


def _exports_used(tree: ast.Module) -> set[str]:
    """Return the names that a file takes from this package itself, as `pc.Scheme`."""
    nodes = list(ast.walk(tree))
    ours = {
        alias.asname or OURS
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == OURS
    }
    used = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == OURS
        for alias in node.names
    }
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if name in ours:
                used.add(node.attr)
    return set(EXPORTS) if "*" in used else used & EXPORTS.keys()


@remembered
def file_of(name: str) -> Path | None:
    """Return the source file of a module without importing it; None if it has none."""
    try:
        return module_path(name)
    except ConfigError:
        return None  # a name that is imported from a module, not a module


@functools.lru_cache(maxsize=1024)
def _tree(text: bytes) -> ast.Module:
    tree = ast.parse(text)
    level: list[ast.AST] = [tree]
    for _ in range(DEEP):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ValueError(f"nested more than {DEEP} levels deep")
    return tree
