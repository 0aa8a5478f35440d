"""The floors of the package: imports run one way, and stand at the top of a file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import posenc_compare

ROOT = Path(posenc_compare.__file__).parent
FLOORS = {
    "posenc_compare": 0,  # the version, and names imported when used
    "posenc_compare.errors": 0,
    "posenc_compare.fresh": 0,
    "posenc_compare.global_state": 0,
    "posenc_compare.modified": 0,
    "posenc_compare.own_code": 0,
    "posenc_compare.references": 0,
    "posenc_compare.registry": 0,
    "posenc_compare.sources": 0,
    "posenc_compare.transfer": 0,
    "posenc_compare.validate": 0,
    "posenc_compare.variants": 0,
    "posenc_compare.stats": 0,
    "posenc_compare.schemes": 1,
    "posenc_compare.attention": 2,
    "posenc_compare.analysis": 3,
    "posenc_compare.conformance": 3,
    "posenc_compare.hf": 3,  # alone imports transformers
    "posenc_compare.reproduce": 3,
    "posenc_compare.testing": 4,
    "posenc_compare.cli": 4,
    "posenc_compare.__main__": 5,
}
# The rooms of the analysis, and the rooms that each may import from.
ROOMS = {
    "core": set(),
    "settings": {"core"},
    "records": {"core"},
    "show": {"core", "settings", "records"},
    "training": {"core", "settings"},
    "measures": {"core", "settings", "training"},
    "engine": {"core", "settings", "records", "training", "measures", "show"},
}
# Modules that may import when called: flex attention is heavy and seldom needed; a
# worker imports torch once it obeys its scheduler; a mistake in a comparison is named
# before pandas and matplotlib are there.
LAZY = {
    "posenc_compare.attention.backends.flex": {"torch.nn.attention"},
    "posenc_compare.analysis.engine.comparison": {
        "posenc_compare.analysis.show",
        "posenc_compare.analysis.engine.trial",
    },
    "posenc_compare.analysis.engine.worker": {
        "posenc_compare.analysis",
        "posenc_compare.modified",
        "posenc_compare.own_code",
        "torch",
    },
}

NUMERIC = {"numpy", "scipy"}  # what statistics are made of


def module_name(path: Path) -> str:
    parts = [ROOT.name, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_bytes()) for name, path in FILES.items()}
every_module = pytest.mark.parametrize("module", sorted(FILES))


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


def floor(module: str) -> int:
    parts = module.split(".")
    return FLOORS[".".join(parts[:2])]


def inner_imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports that are not at the top level, nor for type checkers."""
    top: list[ast.stmt] = []
    for node in tree.body:
        top += node.body if isinstance(node, ast.If) and for_checkers(node) else [node]
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in top
    ]


def test_all_floors_are_looked_at() -> None:
    assert {".".join(module.split(".")[:2]) for module in FILES} == set(FLOORS)
    assert "posenc_compare.schemes.scheme" in own("posenc_compare.attention.plan")
    assert "posenc_compare.errors" in own("posenc_compare.registry")


@every_module
def test_imports_go_down(module: str) -> None:
    wrong = {name for name in own(module) if floor(name) > floor(module)}
    assert wrong == set()


def room(module: str) -> str:
    """Return the room of the analysis that a module lies in, or nothing."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["analysis"] and len(parts) > 2 else ""


def test_every_room_has_its_place() -> None:
    assert {room(module) for module in FILES} - {""} == set(ROOMS)


@every_module
def test_rooms_import_one_way(module: str) -> None:
    inside = room(module)
    if inside:
        others = {room(name) for name in own(module)} - {"", inside}
        assert others <= ROOMS[inside]


@every_module
def test_what_is_imported_exists(module: str) -> None:
    assert own(module) <= set(FILES)


@every_module
def test_no_relative_imports(module: str) -> None:
    nodes = [node for node, _ in imports(module)]
    assert [n.lineno for n in nodes if isinstance(n, ast.ImportFrom) and n.level] == []


def test_errors_import_nothing() -> None:
    assert list(imports("posenc_compare.errors")) == []


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


@pytest.mark.parametrize(
    "module",
    [
        m
        for m in FILES
        if {*m.split(".")[1:2]} & {"schemes", "analysis", "attention", "stats"}
    ]
    + [f"posenc_compare.{name}" for name in ("registry", "variants")],
)
def test_imports_stand_at_the_top(module: str) -> None:
    allowed = LAZY.get(module, set())
    for node in inner_imports(TREES[module]):
        names = imported(node)
        lazy = {a for n in names for a in allowed if n == a or n.startswith(a + ".")}
        assert lazy, f"{module}, line {node.lineno}: {names}"


def test_the_lowest_floor_does_without_torch() -> None:
    heavy = {"torch", "numpy", "einops", "pandas", "matplotlib"}
    for module in (
        "posenc_compare",
        "posenc_compare.analysis.core.canonical",
        "posenc_compare.errors",
        "posenc_compare.fresh",
        "posenc_compare.validate",
        "posenc_compare.registry",
        "posenc_compare.sources",
        "posenc_compare.variants",
    ):
        assert not heavy & {name.split(".")[0] for _, name in imports(module)}


def test_statistics_stand_alone() -> None:
    modules = [m for m in FILES if m.split(".")[1:2] == ["stats"]]
    assert len(modules) > 5
    for module in modules:
        sources = {name.split(".")[0] for _, name in imports(module)}
        assert sources <= {ROOT.name, "collections", "dataclasses", "math", *NUMERIC}
        assert all(name.startswith(f"{ROOT.name}.stats") for name in own(module))


def test_a_scheme_does_not_import_another() -> None:
    shared = {"call", "contract", "facts", "scheme", "wrapper"}
    for module in FILES:
        if module.startswith("posenc_compare.schemes."):
            others = {
                name.split(".")[2]
                for name in own(module)
                if name.startswith("posenc_compare.schemes.")
            }
            assert others <= {*shared, "shared"}, module
