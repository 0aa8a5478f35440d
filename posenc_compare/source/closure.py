"""The files of a plugin: those of the given modules, and of all that they import.

Python and other installed packages are left out.
"""

import ast
import importlib.util
import sysconfig
from pathlib import Path

from posenc_compare.source.files import (
    OURS,
    file_of,
    imported_from,
    read,
    source_cache,
    tree_of,
)
from posenc_compare.source.forms import is_silent

INSTALLED = {"site-packages", "dist-packages"}  # folders of packages
BY_VERSION = {"torch"}  # which counts by its version, wherever it lies

Place = tuple[str, Path]  # a module and its file


def find_imports(
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
        nodes = [node for one in statements_of(path) for node in ast.walk(one)]
        found = [full for node in nodes for _, full in imports(node, place)]
        for name in (one for full in [module, *found] for one in within(full)):
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


def statements_of(path: Path) -> list[ast.stmt]:
    """Return the statements of a file that import or run."""
    body = tree_of(read(path)).body
    imported = ast.Import | ast.ImportFrom
    return [one for one in body if isinstance(one, imported) or not is_silent(one)]


def imports(node: ast.AST, place: Place) -> list[tuple[str, str]]:
    """Return the names that an import in a file binds, and what they stand for."""
    match node:
        case ast.ImportFrom(names=names):
            package, path = place
            if path.stem != "__init__":
                package = package.rpartition(".")[0]
            origin = imported_from(node, package)
            return [(n.asname or n.name, f"{origin}.{n.name}") for n in names]
        case ast.Import(names=names):
            return [(n.asname or n.name.split(".")[0], n.name) for n in names]
    return []


def within(name: str) -> list[str]:
    """Return the names of a module's enclosing packages, then its own name."""
    words = name.split(".")
    return [".".join(words[:end]) for end in range(1, len(words) + 1)]
