"""Names, facts and origins of schemes, measures, tasks and plots, read without import.

Each states its name and facts as literal arguments of its decorator, and its summary
as the first line of its docstring. This module reads both from the source text, so
that listing imports nothing, neither torch nor a plugin. The file is imported when its
entry is first asked for.
"""

import ast
import contextlib
import fnmatch
import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from posenc_compare.errors import ConfigError, PluginError, PosencError
from posenc_compare.sources import PLUGIN, forget, module_path, parse
from posenc_compare.validate import check_text, hint

T = TypeVar("T")

WORDLESS = re.compile(r"\W")
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Entry:
    """What is known of one registered thing without importing it.

    Attributes:
        name: what the user types.
        summary: first line of the docstring.
        facts: literal keyword arguments of the decorator.
        module: module that declares it.
        origin: where the module comes from, as shown to the user.
        path: source file of the module.
    """

    name: str
    summary: str
    facts: dict[str, Any]
    module: str
    origin: str
    path: Path | None


def declared(
    tree: ast.Module, decorator: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef, ast.Call]]:
    """Yield name, definition and call of all that `@decorator(...)` marks in a file."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func).split(".")[-1] == decorator
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                yield str(call.args[0].value), node, call


def read_declarations(
    path: Path, decorator: str, kind: str, typed: Mapping[str, type]
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield name, summary and facts of all that `@decorator(...)` marks in a file.

    Args:
        path: of the file.
        decorator: its name.
        kind: what it declares, for messages.
        typed: facts that are relied on before the file is imported, with their types.

    Raises:
        ConfigError: if one of them is given and not written out.
    """
    for name, node, call in declared(parse(path), decorator):
        summary = (ast.get_docstring(node) or "").partition("\n")[0]
        facts: dict[str, object] = {}
        for word in call.keywords:
            with contextlib.suppress(ValueError, TypeError, SyntaxError):
                value = ast.literal_eval(word.value)
                if word.arg and isinstance(value, str | int | float | None):
                    facts[word.arg] = value
            if word.arg not in facts and (word.arg is None or word.arg in typed):
                wanted = f" as {typed[word.arg].__name__}" if word.arg else ""
                raise ConfigError(
                    f"{kind} {name!r} of {path.name}: {word.arg or 'every fact'} must "
                    f"be written out{wanted}, got {ast.unparse(word.value)[:80]}"
                )
        yield name, summary, facts


class Registry(Generic[T]):
    """Things of one kind by name: built in, installed as plugins, or given as files.

    Args:
        kind: what one thing is called in messages, such as `"scheme"`.
        package: package whose files each declare built-in things.
        decorator: name of the decorator that declares one.
        group: entry-point group of installed plugins.
        groups: words that `select` accepts beside names; each stands for the
            entries that have one of these values for this fact.
        literal: facts that every declaration must write out, with their types.
        optional: other facts, which must be written out where they are given, with
            their types.

    Attributes:
        broken: for each installed plugin that cannot be used, the reason.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        decorator: str,
        group: str = "",
        groups: dict[str, tuple[str, tuple[object, ...]]] | None = None,
        literal: dict[str, type] | None = None,
        optional: dict[str, type] | None = None,
    ) -> None:
        self.kind = kind
        self.package = package
        self.decorator = decorator
        self.group = group
        self.groups = groups or {}
        self.literal = literal or {}
        self.optional = optional or {}
        self.broken: dict[str, str] = {}
        self._lost: dict[str, str] = {}  # names of those, with their origin
        self._known: dict[str, Entry] = {}
        self._items: dict[str, T] = {}
        self._searched = False

    def entries(self) -> dict[str, Entry]:
        """Return every known entry by name, sorted; imports nothing."""
        if not self._searched:
            folder = Path(__file__).parent.joinpath(*self.package.split(".")[1:])
            for path in sorted(folder.glob("[!_]*.py")):
                module = f"{self.package}.{path.stem}"
                self.declare(path, module, origin=module)
            for point in importlib.metadata.entry_points(group=self.group):
                self._declare_installed(point)
            self._searched = True
        return dict(sorted(self._known.items()))

    def entry(self, name: str) -> Entry:
        """Return the facts of `name`.

        Raises:
            ConfigError: if no such name is known; the nearest are suggested.
        """
        entries = self.entries()
        check_text(f"name of a {self.kind}", name, next(iter(entries), "all"))
        if name in self._lost and name not in entries:
            origin = self._lost[name]
            raise ConfigError(
                f"{self.kind} {name!r} of {origin} cannot be used: "
                f"{self.broken[origin]}"
            )
        if name not in entries:
            raise ConfigError(
                f"unknown {self.kind} {name[:80]!r}{hint(name, entries)} "
                f"(`posenc-compare list` shows all; `--plugin FILE` adds those of a "
                f"file)",
                field=f"{self.kind}s",
            )
        return entries[name]

    def get(self, name: str) -> T:
        """Return the thing called `name`, importing its module on first use.

        Raises:
            ConfigError: if no such name is known.
            PluginError: if its module cannot be imported.
        """
        entry = self.entry(name)
        if name not in self._items:
            try:
                _import(entry)
            except PosencError:
                raise
            except (Exception, SystemExit) as error:
                raise PluginError(
                    f"{self.kind} {name!r}: {entry.origin} must import cleanly, got "
                    f"{type(error).__name__}: {error}"
                ) from error
        if name not in self._items:
            raise PluginError(
                f"{self.kind} {name!r}: {entry.origin} must declare it with this "
                f"package's @{self.decorator}, and does not"
            )
        return self._items[name]

    def add(
        self, name: str, item: T, module: str, summary: str, facts: dict[str, object]
    ) -> None:
        """File `item` under `name`; called by the decorator that stands in `module`.

        Raises:
            ConfigError: if the name is not valid, or another module declares it.
        """
        self._check_name(name, module)
        self._check_facts(name, module, facts)
        if name not in self.entries():
            self._known[name] = Entry(name, summary, facts, module, module, None)
        if self._known[name].module != module:
            raise self._twice(self._known[name], module)
        self._known[name] = replace(self._known[name], facts=facts)
        self._items[name] = item

    def select(self, pattern: str) -> list[str]:
        """Return the names that a pattern stands for.

        A pattern is a name, a glob, a group such as a family, or `all`; what is
        registered as extra has to be named.
        """
        entries = self.entries()
        if pattern == "all":
            return [n for n, e in entries.items() if not e.facts.get("extra")]
        if pattern in self.groups:
            fact, values = self.groups[pattern]
            return [
                n
                for n, e in entries.items()
                if e.facts.get(fact) in values and not e.facts.get("extra")
            ]
        if any(sign in pattern for sign in "*?["):
            if names := fnmatch.filter(entries, pattern):
                return names
            raise ConfigError(
                f"no {self.kind} matches {pattern[:80]!r} "
                f"(`posenc-compare list` shows all)",
                field=f"{self.kind}s",
            )
        return [self.entry(pattern).name]

    def select_all(self, patterns: str) -> list[str]:
        """Return the names that comma-separated patterns stand for, each once."""
        check_text(f"{self.kind}s", patterns, "all")
        parts = [part.strip() for part in patterns.split(",") if part.strip()]
        if not parts:
            raise ConfigError(f"no {self.kind} named; try `all`", f"{self.kind}s")
        return list(dict.fromkeys(n for part in parts for n in self.select(part)))

    def declare(self, path: Path, module: str, origin: str) -> list[str]:
        """Enter what the file of a module declares, and return the names; run nothing.

        Raises:
            ConfigError: if a name or a fact is not valid, or the name is taken.
        """
        names = []
        for name, summary, facts in self._read(path):
            self._check_name(name, origin)
            self._check_facts(name, origin, facts)
            if name in self._known and self._known[name].module == "__main__":
                del self._known[name]  # the file takes the place of a notebook's
                self._items.pop(name, None)
            known = self._known.get(name)
            if known is not None and (known.module != module or name in names):
                raise self._twice(known, origin)
            self._known[name] = Entry(name, summary, facts, module, origin, path)
            names.append(name)
        return names

    def _read(self, path: Path) -> Iterator[tuple[str, str, dict[str, object]]]:
        typed = {**self.literal, **self.optional}
        return read_declarations(path, self.decorator, self.kind, typed)

    def _declare_installed(self, point: importlib.metadata.EntryPoint) -> None:
        origin = f"{point.dist.name if point.dist else '?'} ({point.value})"
        try:
            if not point.pattern.match(point.value):
                raise ConfigError("its entry point must read module:Class")
            self._check_name(point.name, origin)
            path = module_path(point.module)
            found = {
                name: (summary, facts) for name, summary, facts in self._read(path)
            }
            if point.name not in found:
                raise ConfigError(
                    f"{path.name} must declare {point.name!r} with @{self.decorator}"
                )
            self._check_facts(point.name, origin, found[point.name][1])
        except ConfigError as error:
            self.broken[origin] = str(error)
            self._lost[point.name] = origin
            return
        known = self._known.get(point.name)
        if known is not None and known.module != point.module:
            raise self._twice(known, origin)
        summary, facts = found[point.name]
        self._known[point.name] = Entry(
            point.name, summary, facts, point.module, origin, path
        )

    def _check_name(self, name: str, origin: str) -> None:
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{self.kind} {name[:80]!r} of {origin}: a name must be 1 to 64 of the "
                f"characters a-z 0-9 _ . - and begin with a letter or digit"
            )
        if name == "all" or name in self.groups:
            raise ConfigError(
                f"{self.kind} {name!r} of {origin}: a name must not stand for several, "
                f"as all and {' and '.join(self.groups)} do"
            )

    def _check_facts(self, name: str, origin: str, facts: dict[str, object]) -> None:
        """Refuse a value that no group of entries stands for, or none where needed."""
        for fact, wanted in {**self.literal, **self.optional}.items():
            needed = fact in facts or fact in self.literal
            if needed and type(facts.get(fact)) is not wanted:
                raise ConfigError(
                    f"{self.kind} {name!r} of {origin}: {fact} must be written out as "
                    f"{wanted.__name__}, got {facts.get(fact)!r}"
                )
        known: dict[str, dict[object, None]] = {}
        for fact, values in self.groups.values():
            known.setdefault(fact, {}).update(dict.fromkeys(values))
        for fact in facts.keys() & known.keys():
            if facts[fact] not in known[fact]:
                *others, last = (str(value) for value in known[fact])
                raise ConfigError(
                    f"{self.kind} {name!r} of {origin}: {fact} must be "
                    f"{', '.join(others)} or {last}, got {facts[fact]!r}"
                    f"{hint(str(facts[fact]), [*others, last])}"
                )

    def _twice(self, known: Entry, origin: str) -> ConfigError:
        return ConfigError(
            f"{self.kind} {known.name!r} is declared twice, by {known.origin} and by "
            f"{origin}; rename one of them"
        )


def _import(entry: Entry) -> None:
    if importlib.util.find_spec(entry.module.split(".")[0]) is not None:
        importlib.import_module(entry.module)
        return
    assert entry.path is not None
    spec = importlib.util.spec_from_file_location(entry.module, entry.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[entry.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[entry.module]
        raise


SCORES = ("bits_per_byte", "accuracy")
TASK_SIZES = {"length": int, "steps": int, "batch": int, "learning_rate": float}
FAMILIES = ("none", "absolute", "rotary", "bias", "contextual")
RELATIVE = ("rotary", "bias", "contextual")

SCHEMES: Registry[Any] = Registry(
    kind="scheme",
    package="posenc_compare.schemes",
    decorator="register",
    group="posenc_compare.schemes",
    groups={
        **{family: ("family", (family,)) for family in FAMILIES},
        "relative": ("family", RELATIVE),
    },
    optional={"family": str, "source": str, "axes": int},
)
"""Classes of schemes."""

MEASURES: Registry[Any] = Registry(
    kind="measure",
    package="posenc_compare.analysis.measures",
    decorator="register_measure",
    group="posenc_compare.measures",
    groups={
        "trained": ("setting", ("training",)),
        "untrained": ("setting", (None, "probe")),
        "checkpoints": ("setting", ("checkpoint",)),
    },
    optional={
        "version": int,
        "setting": str,
        "once": bool,
        "exclusive": bool,
        "extra": bool,
    },
)
"""Measures with their facts."""

TASKS: Registry[Any] = Registry(
    kind="task",
    package="posenc_compare.analysis.training.tasks",
    decorator="register_task",
    group="posenc_compare.tasks",
    groups={score: ("score", (score,)) for score in SCORES},
    literal={"vocabulary": int, "score": str, "chance": float},
    optional={"corpus": bool, "needs_file": bool, "axes": int, **TASK_SIZES},
)
"""Classes of tasks, which networks are trained on."""

SETTINGS: Registry[Any] = Registry(
    kind="kind of setting",
    package="posenc_compare.analysis.settings",
    decorator="register_setting",
    literal={"order": int, "heading": str},
)
"""Classes of settings by kind; plugins take those that are here."""

PLOTS: Registry[Any] = Registry(
    kind="plot",
    package="posenc_compare.analysis.show.plots",
    decorator="register_plot",
    group="posenc_compare.plots",
    literal={"caption": str},
    optional={"order": int},
)
"""Functions that draw plots."""

REGISTRIES: tuple[Registry[Any], ...] = (SCHEMES, MEASURES, TASKS, PLOTS)


def add_plugin(
    source: str, registries: tuple[Registry[object], ...] = REGISTRIES
) -> list[str]:
    """Declare all that a plugin registers, given as `path.py` or as a module name.

    Nothing of it runs until one of its things is used. Its file is read anew.

    Returns:
        The names it declares.

    Raises:
        ConfigError: if it cannot be read, or declares nothing or a wrong thing.
    """
    for registry in registries:
        registry.entries()
    if source.endswith(".py"):
        forget(Path(source))
        parse(Path(source))  # says what is wrong with it as it was given
        path = Path(source).resolve()
        forget(path)
        place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        module = f"{PLUGIN}{place}_{re.sub(WORDLESS, '_', path.stem)}"
    else:
        path, module = module_path(source), source
        forget(path)
    found = [registry.declare(path, module, origin=source) for registry in registries]
    names = [name for some in found for name in some]
    if not names:
        ways = [f"a {r.kind} with @{r.decorator}('name', ...)" for r in registries]
        raise ConfigError(
            f"plugin {source}: must declare {' or '.join(ways)} at its top level, with "
            f"the name written out, and declares none"
        )
    return names
