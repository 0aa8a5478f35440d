"""The floors of the package: imports run one way."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import posenc_compare

ROOT = Path(posenc_compare.__file__).parent
# The rooms of the package, and the rooms that each may import from.
ROOMS = {
    name: set(below.split())
    for name, below in {
        "source": "",  # which all others may import from, too
        "stats": "",
        "settings": "",
        "schemes": "",
        "attention": "schemes",
        "records": "settings",
        "tasks": "settings",
        "train": "attention schemes settings tasks",
        "measures": "attention records schemes settings tasks train",
        "show": "records settings stats",
        "run": "measures records settings show tasks train",
        "check": "attention schemes",
        # Alone imports transformers:
        "hf": "attention measures records run schemes settings tasks train",
        "cli": "check hf measures records run schemes settings show",
    }.items()
}
# Files beside the rooms: all rooms may import them but the last two, and they import no
# room but these.
FILES_BESIDE = {"convert": {"schemes"}, "testing": {"check", "schemes"}}
FILES_BESIDE |= {"__main__": {"cli"}}


def module_name(path: Path) -> str:
    parts = [ROOT.name, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_bytes()) for name, path in FILES.items()}


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules of an import; of a package's own parts, the part."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    source = node.module or ""
    parts = [f"{source}.{alias.name}" for alias in node.names]
    return [part if part in FILES else source for part in parts]


def for_checkers(node: ast.stmt) -> bool:
    """Return whether a statement is read by type checkers alone."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(module: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """Yield the imports of a module, and what each imports.

    Those for type checkers count as well, save in the package itself: there they tell
    the types of what is imported from any floor when it is used.
    """
    tree = TREES[module]
    if module == ROOT.name:
        tree = ast.Module([n for n in tree.body if not for_checkers(n)], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in imported(node):
                yield node, name


def own(module: str) -> set[str]:
    """Return the modules of the package that a module imports."""
    return {name for _, name in imports(module) if name.split(".")[0] == ROOT.name}


def room(module: str) -> str:
    """Return the room of a module, or the name of a file beside the rooms."""
    return module.removeprefix(f"{ROOT.name}.").split(".")[0]


def test_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert folders == ROOMS.keys()
    assert "posenc_compare.schemes.scheme" in own("posenc_compare.attention.plan")
    assert "posenc_compare.errors" in own("posenc_compare.registry")


def test_rooms_import_one_way() -> None:
    wrong = {}
    above = {*ROOMS, "testing", "__main__", ROOT.name} - {"source"}
    for module in FILES:
        inside = room(module)
        below = {**ROOMS, **FILES_BESIDE}.get(inside, set())
        others = {room(name) for name in own(module)} - {inside}
        wrong[module] = others & (above - below)
    assert not {module: rooms for module, rooms in wrong.items() if rooms}


def test_no_room_or_file_beside_them_imports_one_above_it() -> None:
    below: dict[str, set[str]] = {}
    for module in FILES:
        others = {room(name) for name in own(module)} - {room(module)}
        below.setdefault(room(module), set()).update(others)
    TopologicalSorter(below).prepare()  # raises CycleError


def test_rooms_stand_in_one_order() -> None:
    known: set[str] = set()
    for name, below in ROOMS.items():
        assert below <= known, name
        known.add(name)


def test_no_cycles() -> None:
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join([*above, module])
        if module not in done:
            for name in sorted(own(module)):
                visit(name, (*above, module))
            done.add(module)

    for module in FILES:
        visit(module, ())
    assert done == set(FILES)


def test_a_scheme_does_not_import_another() -> None:
    shared = {"contract", "scheme", "wrapper"}
    for module in FILES:
        if module.startswith("posenc_compare.schemes."):
            others = {
                name.split(".")[2]
                for name in own(module)
                if name.startswith("posenc_compare.schemes.")
            }
            assert others <= {*shared, "shared"}, module
