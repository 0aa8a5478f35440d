"""The classes that a class is derived from, read without importing any.

Python looks for a method in a class, then in its bases, in an order of its own. Here
every class statement gets an empty class as stand-in, derived from the stand-ins of its
bases, and Python puts those in order. Bases are followed through imports, from file to
file.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.sources import file_of, imported_from, parse

Spot = tuple[Path, str]  # a file and the package that it lies in
Statement = ast.ClassDef | str  # of a base that cannot be found, what stands for it


def resolution_order(
    node: ast.ClassDef, path: Path, module: str
) -> Iterator[Statement]:
    """Yield a class and all that it is derived from, in the order of Python.

    A base that cannot be found is yielded as it is written, and so is one of an order
    that Python would refuse. Files are read no sooner than they are needed.

    Args:
        node: the class, at the top level of its file.
        path: of the file.
        module: name of the file's module.
    """
    yield node
    found = _stand_in(node, (path, _package(module, path)), {})
    for base in found.__mro__[1:-1]:
        yield vars(base)["statement"]


def _stand_in(node: ast.ClassDef, spot: Spot, made: dict[object, type]) -> type:
    key = spot, node.lineno
    if key not in made:
        made[key] = _unknown(node.name)  # for a class that would be its own base
        body = parse(spot[0]).body
        above = body[: body.index(node)] if node in body else []
        bases = [_base(base, above, spot, made) for base in node.bases]
        try:
            made[key] = type(node.name, tuple(bases), {"statement": node})
        except TypeError:
            bases = [_unknown(", ".join(map(ast.unparse, node.bases)))]
            made[key] = type(node.name, tuple(bases), {"statement": node})
    return made[key]


def _unknown(written: str) -> type:
    return type("Unknown", (), {"statement": written})


def _base(
    base: ast.expr, above: list[ast.stmt], spot: Spot, made: dict[object, type]
) -> type:
    written = ast.unparse(base)
    if isinstance(base, ast.Subscript):  # as Generic[T]
        base = base.value
    try:
        return _named(ast.unparse(base), above, spot, made) or _unknown(written)
    except ConfigError:  # of a file that cannot be read
        return _unknown(written)


def _named(
    name: str, above: list[ast.stmt], spot: Spot, made: dict[object, type]
) -> type | None:
    """Return what stands for a dotted name, bound last by one of the statements."""
    if name == "object":
        return object
    first, _, rest = name.partition(".")
    for statement in reversed(above):
        if isinstance(statement, ast.ClassDef):
            if statement.name == name:
                return _stand_in(statement, spot, made)
            continue
        for node in ast.walk(statement):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                if first != (alias.asname or alias.name.partition(".")[0]):
                    continue
                if isinstance(node, ast.ImportFrom):
                    full = f"{imported_from(node, spot[1])}.{alias.name}"
                else:
                    full = alias.name if alias.asname else first
                return _imported(f"{full}.{rest}".strip("."), made)
    return None


def _imported(full: str, made: dict[object, type]) -> type | None:
    """Return what stands for a class by its full name: a module's, then its own."""
    parts = full.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        if (path := file_of(module)) is not None and path.suffix == ".py":
            spot = path, _package(module, path)
            return _named(".".join(parts[end:]), parse(path).body, spot, made)
    return None


def _package(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]
