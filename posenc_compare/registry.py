"""Names, facts and origins of schemes, measures, tasks and plots.

A decorator files each thing under its name, with its facts and the first line of its
docstring. What this package holds is imported when its kind is first listed, or alone
when it is asked for by its name, which is the name of its file. So are installed
plugins, by the names of their entry points. A plugin given as a file or a module is
imported when it is given.
"""

import contextlib
import fnmatch
import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType
from typing import Any, Generic, TypeVar

from posenc_compare.errors import ConfigError, PluginError, PosencError
from posenc_compare.sources import PLUGIN, file_of, forget, parse, read
from posenc_compare.validate import check_text, hint

T = TypeVar("T")

WORDLESS = re.compile(r"\W")
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_ORIGINS: list[str] = []  # of the plugins that are being imported
_EXECUTED: dict[str, bytes] = {}  # text of each plugin file, by its module


class DuplicateError(ConfigError):
    """A name that two modules declare."""


@dataclass(frozen=True)
class Entry:
    """One registered thing.

    Attributes:
        name: what the user types.
        item: what is registered.
        summary: first line of the docstring.
        facts: keyword arguments of the decorator.
        module: module that declares it.
        definition: name of the class or function under the decorator.
        origin: where the module comes from, as shown to the user.
        path: source file of the module; None in a notebook.
    """

    name: str
    item: Any
    summary: str
    facts: dict[str, Any]
    module: str
    definition: str
    origin: str
    path: Path | None


class Registry(Generic[T]):
    """Things of one kind by name: built in, installed as plugins, or given as files.

    Args:
        kind: what one thing is called in messages, such as `"scheme"`.
        package: package whose modules each declare built-in things.
        decorator: name of the decorator that declares one.
        group: entry-point group of installed plugins.
        groups: words that `select` accepts beside names; each stands for the
            entries that have one of these values for this fact.
        types: of facts, by their names.

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
        types: dict[str, type] | None = None,
    ) -> None:
        self.kind = kind
        self.package = package
        self.decorator = decorator
        self.group = group
        self.groups = groups or {}
        self.types = types or {}
        self.broken: dict[str, str] = {}
        self._known: dict[str, Entry] = {}
        self._folder = Path(__file__).parent.joinpath(*package.split(".")[1:])
        self._listed = False

    def entries(self) -> dict[str, Entry]:
        """Return every known entry by name, sorted; the first call imports all.

        Raises:
            ConfigError: if an installed plugin takes a name of another module.
        """
        self.built_in()
        for name in self._points:
            self._find(name)
        return dict(sorted(self._known.items()))

    def built_in(self) -> list[Entry]:
        """Return the entries of this package, sorted by name."""
        if not self._listed:
            for path in sorted(self._folder.glob("[!_]*.py")):
                importlib.import_module(f"{self.package}.{path.stem}")
            self._listed = True
        own = (entry for entry in self._known.values() if self.owns(entry.module))
        return sorted(own, key=lambda entry: entry.name)

    def owns(self, module: str) -> bool:
        """Return whether a module lies in the package of built-in things."""
        return module.startswith(f"{self.package}.")

    def __contains__(self, name: str) -> bool:
        """Return whether something has this name; imports what may declare it."""
        return self._find(name) is not None

    def entry(self, name: str) -> Entry:
        """Return what is known of `name`.

        Raises:
            ConfigError: if no such name is known; the nearest are suggested.
        """
        check_text(f"name of a {self.kind}", name, next(iter(self._known), "all"))
        if found := self._find(name) or self.entries().get(name):
            return found
        if points := self._points.get(name):
            origin = _origin_of(points[0])
            raise ConfigError(
                f"{self.kind} {name!r} of {origin} cannot be used: "
                f"{self.broken[origin]}"
            )
        raise ConfigError(
            f"unknown {self.kind} {name[:80]!r}{hint(name, self.entries())} "
            f"(`posenc-compare list` shows all; `--plugin FILE` adds those of a file)",
            field=f"{self.kind}s",
        )

    def get(self, name: str) -> T:
        """Return the thing called `name`.

        Raises:
            ConfigError: if no such name is known.
        """
        return self.entry(name).item

    def add(self, name: str, item: T, made: Any, facts: dict[str, object]) -> None:
        """File `item` under `name`; decorators call it.

        Args:
            name: what users type.
            item: what is registered.
            made: the class or function under the decorator.
            facts: arguments of the decorator.

        Raises:
            ConfigError: if the name or a fact is not valid, or the name is taken.
        """
        module = made.__module__
        own = self.owns(module)
        origin = module if own or not _ORIGINS else _ORIGINS[-1]
        self._check_name(name, origin)
        self._check_facts(name, origin, facts)
        if not own:
            self._import_built_in(name)
        known = self._known.get(name)
        place = module, made.__name__
        # What a notebook declares may be declared again, there or in a file.
        if known and known.module != "__main__":
            if place != (known.module, known.definition):
                raise self._twice(known, origin)
        summary = inspect.cleandoc(made.__doc__ or "").partition("\n")[0]
        file = getattr(sys.modules.get(module), "__file__", None)
        path = Path(file) if file and module != "__main__" else None
        self._known[name] = Entry(name, item, summary, facts, *place, origin, path)

    def drop(self, module: str) -> None:
        """Forget what a module declares."""
        self._known = {n: e for n, e in self._known.items() if e.module != module}

    def select(self, pattern: str) -> list[str]:
        """Return the names that a pattern stands for.

        A pattern is a name, a glob, a group such as a family, or `all`; what is
        registered as extra has to be named.
        """
        if pattern == "all":
            return [n for n, e in self.entries().items() if not e.facts.get("extra")]
        if pattern in self.groups:
            fact, values = self.groups[pattern]
            return [
                n
                for n, e in self.entries().items()
                if e.facts.get(fact) in values and not e.facts.get("extra")
            ]
        if any(sign in pattern for sign in "*?["):
            if names := fnmatch.filter(self.entries(), pattern):
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

    def _find(self, name: str) -> Entry | None:
        """Return the entry of a name; import only what declares it by that name.

        Raises:
            ConfigError: if two modules declare it.
        """
        if name not in self._known:
            self._import_built_in(name)
        for point in self._points.get(name, []):
            known = self._known.get(name)
            if known is None:
                self._load(point)
            elif known.module.split(".")[0] != point.module.split(".")[0]:
                raise self._twice(known, _origin_of(point))
        return self._known.get(name)

    def _import_built_in(self, name: str) -> None:
        if NAME.fullmatch(name) and (self._folder / f"{name}.py").is_file():
            importlib.import_module(f"{self.package}.{name}")

    @functools.cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of installed plugins by name."""
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            found.setdefault(point.name, []).append(point)
        return found

    def _load(self, point: EntryPoint) -> None:
        """Import an installed plugin; what is wrong with it is kept in `broken`."""
        origin = _origin_of(point)
        if origin in self.broken:
            return
        try:
            self._check_name(point.name, origin)
            with _importing(point.module, origin):
                point.load()
            if point.name not in self._known:
                raise ConfigError(
                    f"{point.module} must declare {point.name!r} with @{self.decorator}"
                )
        except DuplicateError:
            raise
        except PosencError as error:
            self.broken[origin] = str(error).removeprefix(f"plugin {origin}: ")

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
        """Refuse a value of another type, or one that no group of entries has."""
        for fact in facts.keys() & self.types.keys():
            if type(facts[fact]) is not self.types[fact]:
                raise ConfigError(
                    f"{self.kind} {name!r} of {origin}: {fact} must be "
                    f"{self.types[fact].__name__}, got {facts[fact]!r:.80}"
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

    def _twice(self, known: Entry, origin: str) -> DuplicateError:
        return DuplicateError(
            f"{self.kind} {known.name!r} is declared twice, by {known.origin} and by "
            f"{origin}; rename one of them"
        )


def _origin_of(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else '?'} ({point.value})"


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
    types={"family": str, "source": str, "axes": int},
)
"""Classes of schemes."""

MEASURES: Registry[Any] = Registry(
    kind="measure",
    package="posenc_compare.measures",
    decorator="register_measure",
    group="posenc_compare.measures",
    groups={
        "trained": ("setting", ("training",)),
        "untrained": ("setting", (None, "probe")),
        "checkpoints": ("setting", ("checkpoint",)),
    },
    types={
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
    package="posenc_compare.tasks",
    decorator="register_task",
    group="posenc_compare.tasks",
    groups={score: ("score", (score,)) for score in SCORES},
    types={
        "vocabulary": int,
        "score": str,
        "chance": float,
        "corpus": bool,
        "needs_file": bool,
        "axes": int,
        **TASK_SIZES,
    },
)
"""Classes of tasks, which networks are trained on."""

SETTINGS: Registry[Any] = Registry(
    kind="kind of setting",
    package="posenc_compare.settings",
    decorator="register_setting",
    types={"order": int, "heading": str},
)
"""Classes of settings by kind; plugins take those that are here."""

PLOTS: Registry[Any] = Registry(
    kind="plot",
    package="posenc_compare.show.plots",
    decorator="register_plot",
    group="posenc_compare.plots",
    types={"caption": str, "order": int},
)
"""Functions that draw plots."""

REGISTRIES: tuple[Registry[Any], ...] = (SCHEMES, MEASURES, TASKS, PLOTS)


def add_plugin(source: str) -> list[str]:
    """Import a plugin, given as `path.py` or as a module name.

    It is imported once, and a file again once it has changed.

    Returns:
        The names it declares.

    Raises:
        ConfigError: if it cannot be read, or declares nothing or a wrong thing.
        PluginError: if it cannot be imported.
    """
    forget()  # what was read of it before
    if source.endswith(".py"):
        parse(Path(source))  # says what is wrong with it as it was given
        path = Path(source).resolve()
        place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        module = f"{PLUGIN}{place}_{re.sub(WORDLESS, '_', path.stem)}"
        if _EXECUTED.get(module) != read(path):
            for registry in REGISTRIES:
                registry.drop(module)
        if not _declared_by(module, source):
            sys.modules.pop(module, None)
            load(module, path, source)
            _EXECUTED[module] = read(path)
    else:
        if (found := file_of(source)) is None:
            raise ConfigError(
                f"plugin {source!r}: must be a .py file or an importable module, and "
                f"is neither"
            )
        load(source, found, source)
        module = source
    if not (names := _declared_by(module, source)):
        ways = [f"a {r.kind} with @{r.decorator}('name', ...)" for r in REGISTRIES]
        raise ConfigError(
            f"plugin {source}: must declare {' or '.join(ways)}, and declares none"
        )
    return names


def load(module: str, path: Path, origin: str) -> None:
    """Import a module of a plugin, so that its decorators run.

    Args:
        module: its name; one that Python cannot find is imported from its file.
        path: of the file.
        origin: what messages and records call it.

    Raises:
        ConfigError: if a name or a fact is not valid, or a name is taken.
        PluginError: if it cannot be imported.
    """
    with _importing(module, origin):
        if importlib.util.find_spec(module.split(".")[0]) is not None:
            importlib.import_module(module)
            return
        loader = _Loader(module, str(path))
        spec = importlib.util.spec_from_file_location(module, path, loader=loader)
        assert spec is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        try:
            loader.exec_module(sys.modules[module])
        except BaseException:
            del sys.modules[module]
            raise


class _Loader(SourceFileLoader):
    """Run the text of a file that keys are made from; no bytecode is read."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(read(Path(self.path)), self.path, "exec", dont_inherit=True)


@contextlib.contextmanager
def _importing(module: str, origin: str) -> Iterator[None]:
    """Give what is declared meanwhile this origin; forget it if the import fails."""
    _ORIGINS.append(origin)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    except BaseException as error:
        for registry in REGISTRIES:
            registry.drop(module)
        if isinstance(error, PosencError | KeyboardInterrupt):
            raise
        raise PluginError(
            f"plugin {origin}: must import cleanly, got {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.dont_write_bytecode = written
        _ORIGINS.pop()


def _declared_by(module: str, origin: str) -> list[str]:
    return [
        name
        for registry in REGISTRIES
        for name, entry in registry._known.items()
        if entry.origin == origin or f"{entry.module}.".startswith(f"{module}.")
    ]
