"""The source of modules, read once, so that keys do not change during a run."""

import ast
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from posenc_compare.errors import ConfigError
from posenc_compare.validate import read_regular

SOURCE_BYTES = 1 << 24  # bytes of a file of source
MOST_LEVELS = 200  # of its syntax; Python's own tools for trees fail at about 300
PLUGIN = "posenc_plugin_"  # how the module of a plugin that is one file begins
OURS = __name__.split(".")[0]
F = TypeVar("F", bound=Callable[..., Any])

_texts: dict[Path, bytes] = {}
_remembered: list[Callable[[], None]] = []  # each forgets what a function returned


def source_cache(function: F) -> F:
    """Return a function of source that keeps its results until a file is read anew."""
    kept = functools.cache(function)
    _remembered.append(kept.cache_clear)
    return cast(F, kept)


def read(path: Path) -> bytes:
    """Return the source in a file, as it was when it was first read."""
    if path not in _texts:
        _texts[path] = read_regular(path, SOURCE_BYTES)
    return _texts[path]


def forget() -> None:
    """Read all files anew when they are next asked for."""
    _texts.clear()
    for forget_one in _remembered:
        forget_one()


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    try:
        return _tree(read(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = f": {str(error) or 'nested too deep'}"
        if isinstance(error, SyntaxError):
            why = f" at line {error.lineno}: {error.msg}"
        raise ConfigError(
            f"{path.name}: must be readable Python source, got "
            f"{type(error).__name__}{why}"
        ) from error


def tree_of(text: bytes) -> ast.Module:
    """Return the syntax tree of a text, or the text itself if it is not Python."""
    try:
        return _tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([ast.Assert(ast.Constant(text))], [])


@source_cache
def file_of(name: str) -> Path | None:
    """Return the source file of a module; None if it has none.

    Of its packages, none but the outermost need be there, and none is imported.
    """
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    folders = spec.submodule_search_locations or []
    bases = [Path(folder).joinpath(*rest) for folder in folders]
    paths = [p for b in bases for p in (b / "__init__.py", b.with_suffix(".py"))]
    if not rest and spec.origin:
        paths = [Path(spec.origin)]
    return next((path for path in paths if path.is_file()), None)


def bindings(node: ast.AST, package: str) -> list[tuple[str, str, str]]:
    """Return the names that an import in a package binds, each with what it stands for.

    That is a module and a name in it; no name for the module itself.
    """
    match node:
        case ast.Import(names=names):
            return [(n.asname or n.name.split(".")[0], n.name, "") for n in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package.split(".")[: package.count(".") + 2 - level]
            parts = [*(above if level else []), module]
            origin = ".".join(filter(None, parts))
            return [(n.asname or n.name, origin, n.name) for n in names]
    return []


@functools.lru_cache(maxsize=1024)
def _tree(text: bytes) -> ast.Module:
    tree = ast.parse(text)
    level: list[ast.AST] = [tree]
    for _ in range(MOST_LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ValueError(f"nested more than {MOST_LEVELS} levels deep")
    return tree
