"""Which parts of a syntax tree count, and what its statements define and declare."""

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path

from posenc_compare.source.files import read, source_cache, tree_of

DECORATORS = ("register", "register_measure", "register_task")
SILENT = {"ctx", "kind", "type_comment", "type_params", "returns"}
DECLARED = {"source", "real", "own_text"}  # the paper, and what a scheme refuses
DECLARED |= {"identities", "oracles", "checked"}  # what tests and readers compared
SHOWN = {"unit", "zero", "x", "title"}  # words of a quantity, which tables print
ASKED = (ast.Name, ast.Constant, ast.Call, ast.Raise)

Form = object  # of JSON
Words = Callable[[ast.AST], Form]


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


def called_decorators(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the decorators with arguments."""
    decorators = getattr(statement, "decorator_list", [])
    return (one for one in decorators if isinstance(one, ast.Call))


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


@source_cache
def registers(path: Path) -> bool:
    """Return whether a file declares a scheme, a measure or a task."""
    return any(map(is_registered, tree_of(read(path)).body))


def is_registered(statement: ast.stmt) -> bool:
    """Return whether a statement of this package declares something."""
    return any(map(_declares, called_decorators(statement)))


def _declares(decorator: ast.Call) -> bool:
    return ast.unparse(decorator.func).split(".")[-1] in DECORATORS


def form(node: object, word: Words) -> Form:
    """Return what counts of a syntax tree, as lists, texts and numbers.

    Args:
        node: of the tree, a list of nodes or a value.
        word: returns what stands for a name, a constant, a call, an import or an error
            that is raised; None for what is written.
    """
    if isinstance(node, list):
        found = [_in_body(one, word) for one in node]
        return [one for one in found if one is not None]
    if not isinstance(node, ast.AST):
        return repr(node)
    found = word(node) if isinstance(node, ASKED) else None
    if found is not None:
        return [type(node).__name__, found]
    parts: dict[str, Form] = {}
    for name, value in ast.iter_fields(node):
        counted = _counted_field(node, name, value)
        if counted is not None and counted != []:
            parts[name] = form(counted, word)
    return [type(node).__name__, parts]


def _in_body(node: object, word: Words) -> Form:
    """Return what counts of one of several nodes; None for a text of an attribute."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return word(node)
        case ast.Expr(ast.Constant(str())):
            return None
    return form(node, word)


def without_texts(node: ast.AST, word: Words) -> Form:
    """Return what counts of an error without its message, or of a quantity.

    None for all else.
    """
    match node:
        case ast.Raise(exc=ast.Call(func=raised)):
            return form(raised, word)
        case ast.Call(func=ast.Name(id="Quantity"), args=args, keywords=words):
            words = [one for one in words if one.arg not in SHOWN]
            parts = {"func": node.func, "args": args, "keywords": words}
            return {name: form(part, word) for name, part in parts.items() if part}
    return None


def _counted_field(node: ast.AST, name: str, value: object) -> object:
    """Return a field of a node without what does not count."""
    if name in SILENT or (name == "annotation" and isinstance(node, ast.arg)):
        return None
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            if name == "body" and ast.get_docstring(node) is not None:
                return node.body[1:] or [ast.Pass()]
    return value


def nameless(statement: ast.stmt) -> ast.stmt:
    """Return a top-level definition without its name and what it declares alone."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement
    copied = copy.copy(statement)
    copied.name = ""
    copied.decorator_list = []
    for decorator in statement.decorator_list:
        if isinstance(decorator, ast.Call) and _declares(decorator):
            words = [w for w in decorator.keywords if w.arg not in DECLARED]
            decorator = ast.Call(decorator.func, decorator.args, words)
        copied.decorator_list.append(decorator)
    return copied
