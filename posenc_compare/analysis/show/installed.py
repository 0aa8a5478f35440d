"""What is known of a scheme that is installed here, read from its file without import.

A folder of records may be a stranger's, and names its schemes. What the file of such a
name says is looked up, and nothing of it runs: the scheme's module is not imported.
"""

import ast
import functools
import re
from dataclasses import dataclass

from posenc_compare.bases import resolution_order
from posenc_compare.errors import PosencError
from posenc_compare.registry import SCHEMES, Entry, declared
from posenc_compare.sources import file_of, parse
from posenc_compare.variants import Variant, option_types

BASE = "posenc_compare.schemes.scheme"  # the module of the class that has all doors


FORMULA = re.compile(r"^Formula: (.*?)(?=^\w+: |^$|\Z)", re.DOTALL | re.MULTILINE)
# The end of a line that the next goes on from: that begins with no word and colon, and
# with no spaces, or with so many that it is within a list.
GOES_ON = re.compile(r"(?<!\n)\n(?! |\n|\w+: )|\n {8,}")


@dataclass(frozen=True)
class Installed:
    """A scheme as its file describes it.

    Attributes:
        summary: in one line.
        formula: of its header; empty for none.
        text: docstrings of its module and its class, a line for each item.
        options: name, type and default of each.
        doors: those that its class or a base of it overrides, in the order of a pass.
        decides: whether the scheme's options decide which doors act.
        origin: where it comes from.
    """

    summary: str
    formula: str
    text: str
    options: list[tuple[str, str, str]]
    doors: tuple[str, ...]
    decides: bool
    origin: str


def installed(name: str) -> Installed | None:
    """Return what is known of a scheme; None if it is not installed or not readable.

    Args:
        name: of the scheme, which may be a stranger's.
    """
    entry = SCHEMES.entries().get(name)
    if entry is None or entry.path is None:
        return None
    try:
        tree = parse(entry.path)
        nodes = {n: node for n, node, _ in declared(tree, SCHEMES.decorator)}
        node = nodes[name]
        types = option_types(name)
        doors, decides = _doors(entry, node)
    except (PosencError, OSError, KeyError):  # of a plugin whose file is odd or gone
        return None
    texts = [ast.get_docstring(tree) or "", ast.get_docstring(node) or ""]
    formula = FORMULA.search(texts[0])
    options = [(key, kind_text(kind), str(of)) for key, (kind, of) in types.items()]
    return Installed(
        entry.summary,
        " ".join(formula[1].split()) if formula else "",
        GOES_ON.sub(" ", "\n\n".join(filter(None, texts))),
        options,
        doors,
        decides,
        entry.origin,
    )


def kind_text(kind: object) -> str:
    """Return how the type of an option is written for a reader."""
    if kind is Variant:
        return "scheme"
    choices = getattr(kind, "__args__", None)
    return " | ".join(map(str, choices)) if choices else getattr(kind, "__name__", "")


def _doors(
    entry: Entry, node: ast.ClassDef | ast.FunctionDef
) -> tuple[tuple[str, ...], bool]:
    """Return the doors that a class overrides, and whether it decides which act.

    A base that passes all doors on, and decides which, overrides none of its own.
    """
    if not isinstance(node, ast.ClassDef) or entry.path is None:
        return (), False
    found: set[str] = set()
    decides = False
    for parent in resolution_order(node, entry.path, entry.module):
        if not isinstance(parent, ast.ClassDef) or parent.name == "Scheme":
            break
        own = {part.name for part in parent.body if isinstance(part, ast.FunctionDef)}
        if "acts_at" in own:
            decides = True
            if parent is not node:
                break
        found |= own
    return tuple(door for door in _all_doors() if door in found), decides


@functools.cache
def _all_doors() -> tuple[str, ...]:
    """Return the names of all doors, as the module of the base class writes them."""
    path = file_of(BASE)
    assert path is not None
    for node in parse(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOORS":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError(f"{BASE} must write DOORS out")
