"""Names, facts and origins of schemes, measures, tasks and plots.

A decorator files each thing under its name, with its facts and the first line of its
docstring. A built-in thing is imported when all of its kind are needed, or alone by its
name, which is the name of its file. So are installed plugins, by the names of their
entry points. A plugin given as a file or a module is
imported when it is given.
"""

import ast
import contextlib
import fnmatch
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Any

from posenc_compare.errors import ConfigError, PluginError, PosencError
from posenc_compare.source.files import PLUGIN, file_of, forget, parse, read
from posenc_compare.source.own_code import Entry
from posenc_compare.validate import check_text, hint

VALID_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
MOST_LISTED = 24  # names that a message lists
LISTED = "(`posenc-compare list` shows all"
_IMPORTED: list[tuple[str, Path, str]] = []  # plugins that are: module, file, origin
_VARIABLES: dict[str, tuple[str | None, str | None]] = {}  # of plugins: before, now
_GIVEN: dict[str, int] = {}  # the order in which plugins were imported
_EXECUTED: dict[str, bytes] = {}  # text of each plugin file, by its module


class DuplicateError(ConfigError):
    """A name that two modules declare."""


class Registry:
    """Things of one kind by name: built in, installed as plugins, or given as files.

    Args:
        kind: what one thing is called in messages, such as `"scheme"`.
        package: package whose modules each declare built-in things.
        plugins: entry-point group of installed plugins.
        fact: by which things are grouped.
        groups: words that `select` accepts beside names; each stands for the entries
            whose fact has one of these values.

    Attributes:
        broken: for each installed plugin that cannot be used, the reason.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        *,
        plugins: str = "",
        fact: str = "",
        groups: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.kind = kind
        self.package = f"posenc_compare.{package}"
        self.group = plugins and f"posenc_compare.{plugins}"
        self.fact = fact
        self.groups = dict(groups or {})
        self.broken: dict[str, str] = {}
        self._known: dict[str, Entry] = {}
        self._folder = Path(__file__).parent.joinpath(*package.split("."))

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
        for file in self._files:
            importlib.import_module(f"{self.package}.{file.stem}")
        return [e for _, e in sorted(self._known.items()) if self.owns(e.module)]

    def listed(self) -> dict[str, tuple[dict[str, Any], str]]:
        """Return facts and summary of each thing by name, sorted; import only plugins.

        Built-in things are read from the source: summaries, and facts with constants.
        """
        found: dict[str, tuple[dict[str, Any], str]] = {}
        for file in self._files:
            for made in parse(file).body:
                if not isinstance(made, ast.ClassDef | ast.FunctionDef):
                    continue
                for call in made.decorator_list:
                    match call:
                        case ast.Call(args=[ast.Constant(str(name))], keywords=given):
                            facts = {
                                one.arg or "": one.value.value
                                for one in given
                                if isinstance(one.value, ast.Constant)
                            }
                            found[name] = facts, _summary(ast.get_docstring(made))
        for name in self._points:
            self._find(name)
        others = {n: e for n, e in self._known.items() if not self.owns(e.module)}
        if found.keys() & others.keys():
            self.built_in()  # refuses names declared twice
        found |= {name: (e.facts, e.summary) for name, e in others.items()}
        return dict(sorted(found.items()))

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
        if name.endswith(".py"):
            raise ConfigError(
                f"{self.kind} must be a name, got the file {name[:80]!r}; with "
                f"`--plugin {name[:80]}` the names in it work",
                field=f"{self.kind}s",
            )
        known = hint(name, self.entries())
        if not known and len(self.entries()) <= MOST_LISTED:
            known = f"; there are {', '.join(self.entries())}"
        raise ConfigError(
            f"unknown {self.kind} {name[:80]!r}{known} {LISTED}; `--plugin FILE` adds "
            "those of a file)",
            field=f"{self.kind}s",
        )

    def get(self, name: str) -> Any:
        """Return the thing called `name`.

        Raises:
            ConfigError: if no such name is known.
        """
        return self.entry(name).item

    def add(self, name: str, item: Any, made: Any, facts: dict[str, object]) -> None:
        """File `item` under `name`; decorators call it.

        Args:
            name: what users type.
            item: what is registered.
            made: the class or function under the decorator.
            facts: arguments of the decorator.

        Raises:
            ConfigError: if the name or its group is not valid, or the name is taken.
        """
        module = made.__module__
        own = self.owns(module)
        file = getattr(sys.modules.get(module), "__file__", None)
        path = Path(file) if file and module != "__main__" else None
        given = module, path or Path(), module
        if _IMPORTED and not own:
            given = _IMPORTED[-1]
        origin = given[2]
        self._check_name(name, origin)
        self._check_group(name, origin, facts)
        if not own:
            self._import_built_in(name)
        known = self._known.get(name)
        place = module, made.__name__
        # What a notebook declares may be declared again, there or in a file.
        if known and known.module != "__main__":
            if place != (known.module, known.definition):
                raise self._twice(known, origin)
        summary = _summary(made.__doc__)
        self._known[name] = Entry(
            name, item, summary, facts, *place, origin, path, given[:2]
        )

    def drop(self, module: str) -> None:
        """Forget what a module declares."""
        self._known = {n: e for n, e in self._known.items() if e.module != module}

    def select(self, pattern: str) -> list[str]:
        """Return the names that a pattern stands for.

        A pattern is a name, a glob, a group such as a family, or `all`; what is
        registered as extra has to be named.
        """
        if pattern == "all" or pattern in self.groups:
            found = [e for e in self.entries().values() if not e.facts.get("extra")]
            if pattern != "all":
                values = self.groups[pattern]
                found = [e for e in found if e.facts.get(self.fact) in values]
            return [entry.name for entry in found]
        if not any(sign in pattern for sign in "*?["):
            return [self.entry(pattern).name]
        if names := fnmatch.filter(self.entries(), pattern):
            return names
        raise ConfigError(
            f"no {self.kind} matches {pattern[:80]!r} {LISTED})", f"{self.kind}s"
        )

    def select_all(self, patterns: str) -> list[str]:
        """Return the names that comma-separated patterns stand for, each once."""
        check_text(f"{self.kind}s", patterns, "all")
        parts = [part.strip() for part in patterns.split(",") if part.strip()]
        if not parts:
            raise ConfigError(f"no {self.kind} named; try `all`", f"{self.kind}s")
        return list(dict.fromkeys(n for part in parts for n in self.select(part)))

    def _find(self, name: str) -> Entry | None:
        """Return the entry of a name; import only what declares it by that name."""
        if name not in self._known:
            self._import_built_in(name)
        for point in self._points.get(name, []):
            known = self._known.get(name)
            if known is None:
                self._load(point)
            elif known.module.split(".")[0] != point.module.split(".")[0]:
                raise self._twice(known, _origin_of(point))
        return self._known.get(name)

    @functools.cached_property
    def _files(self) -> list[Path]:
        """Return the files that declare built-in things."""
        return sorted(self._folder.glob("[!_]*.py"))

    def _import_built_in(self, name: str) -> None:
        if VALID_NAME.fullmatch(name) and (self._folder / f"{name}.py").is_file():
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
            with _importing(point.module, file_of(point.module) or Path(), origin):
                point.load()
            if point.name not in self._known:
                raise ConfigError(
                    f"{point.module} must declare {point.name!r} as a {self.kind}"
                )
        except DuplicateError:
            raise
        except PosencError as error:
            self.broken[origin] = str(error).removeprefix(f"plugin {origin}: ")

    def _check_name(self, name: str, origin: str) -> None:
        if not VALID_NAME.fullmatch(name):
            raise ConfigError(
                f"{self.kind} {name[:80]!r} of {origin}: a name must be 1 to 64 of the "
                f"characters a-z 0-9 _ . - and begin with a letter or digit"
            )
        if name == "all" or name in self.groups:
            raise ConfigError(
                f"{self.kind} {name!r} of {origin}: a name must not stand for several, "
                f"as all and {' and '.join(self.groups)} do"
            )

    def _check_group(self, name: str, origin: str, facts: dict[str, object]) -> None:
        """Refuse a value that no group of entries has."""
        known = list(dict.fromkeys(v for group in self.groups.values() for v in group))
        if self.fact in facts and facts[self.fact] not in known:
            *others, last = known
            raise ConfigError(
                f"{self.kind} {name!r} of {origin}: {self.fact} must be "
                f"{', '.join(others)} or {last}, got {facts[self.fact]!r:.80}"
                f"{hint(str(facts[self.fact]), known)}"
            )

    def _twice(self, known: Entry, origin: str) -> DuplicateError:
        return DuplicateError(
            f"{self.kind} {known.name!r} is declared twice, by {known.origin} and by "
            f"{origin}; rename one of them"
        )


def _summary(docstring: str | None) -> str:
    return inspect.cleandoc(docstring or "").partition("\n")[0]


def _origin_of(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else '?'} ({point.value})"


SCORES = ("bits_per_byte", "accuracy")
TASK_SIZES = ("length", "steps", "batch", "learning_rate")
FAMILIES = ("none", "absolute", "rotary", "bias", "contextual")
RELATIVE = ("rotary", "bias", "contextual")

SCHEMES = Registry(
    "scheme",
    "schemes",
    plugins="schemes",
    fact="family",
    groups={**{family: (family,) for family in FAMILIES}, "relative": RELATIVE},
)
"""Classes of schemes."""

MEASURES = Registry(
    "measure",
    "measures",
    plugins="measures",
    fact="setting",
    groups={
        "trained": ("training",),
        "untrained": ("probe",),
        "checkpoints": ("checkpoint", "retrieval"),
    },
)
"""Measures with their facts."""

TASKS = Registry(
    "task",
    "tasks",
    plugins="tasks",
    fact="score",
    groups={score: (score,) for score in SCORES},
)
"""Classes of tasks, which networks are trained on."""

SETTINGS = Registry("kind of setting", "settings")
"""Classes of settings by kind; plugins take those that are here."""

PLOTS = Registry("plot", "show.plots", plugins="plots")
"""Functions that draw plots."""

REGISTRIES = (SCHEMES, MEASURES, TASKS, PLOTS)


def add_plugin(source: str) -> list[str]:
    """Import a plugin, given as `path.py` or as a module name.

    It is imported once, and a file again once it has changed.

    Returns:
        The names it declares.
    """
    forget()  # what was read of it before
    if source.endswith(".py"):
        parse(Path(source))  # says what is wrong with it as it was given
        path = Path(source).resolve()
        place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        module = f"{PLUGIN}{place}_" + re.sub(r"\W", "_", path.stem)
        if _EXECUTED.get(module) != read(path) or not _declared_by(module, source):
            _drop(module)
            sys.modules.pop(module, None)
            load(module, path, source)
            _EXECUTED[module] = read(path)
    elif found := file_of(source):
        module = source
        load(module, found, source)
    else:
        raise ConfigError(
            f"plugin {source!r}: must be a .py file or an importable module, and is "
            f"neither"
        )
    if names := _declared_by(module, source):
        return names
    kinds = " or ".join(f"a {registry.kind}" for registry in REGISTRIES)
    raise ConfigError(
        f"plugin {source}: must declare {kinds}, and declares none; "
        f"`@posenc_compare.register(...)` above a class would work"
    )


def load(module: str, path: Path, origin: str) -> None:
    """Import a module of a plugin, so that its decorators run.

    A module that Python cannot find is imported from its file. `origin` is what
    messages and records call it.
    """
    with _importing(module, path, origin):
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


def order_of(module: str) -> int:
    """Return the number of a plugin in the order of import; -1 if it is none."""
    return _GIVEN.get(module, -1)


class _Loader(SourceFileLoader):
    """Run the text of a file that keys are made from; no bytecode is read."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(read(Path(self.path)), self.path, "exec", dont_inherit=True)


@contextlib.contextmanager
def _importing(module: str, path: Path, origin: str) -> Iterator[None]:
    """Give what is declared meanwhile this origin; forget it if the import fails."""
    _IMPORTED.append((module, path, origin))
    _GIVEN.setdefault(module, len(_GIVEN))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    environment = dict(os.environ)
    try:
        yield
    except BaseException as error:
        _drop(module)
        if isinstance(error, PosencError | KeyboardInterrupt):
            raise
        raise PluginError(
            f"plugin {origin}: must import cleanly, got {type(error).__name__}"
            f"{_line(error, path)}: {error}{_cure(error, Path(origin))}"
        ) from error
    finally:
        sys.dont_write_bytecode = written
        for name in environment.keys() | os.environ.keys():
            if (new := os.environ.get(name)) != (old := environment.get(name)):
                _VARIABLES[name] = (_VARIABLES.get(name, (old, ""))[0], new)
        _IMPORTED.pop()


def environment() -> dict[str, str]:
    """Return the environment variables without what plugins have set."""
    found = dict(os.environ)
    for name, (before, now) in _VARIABLES.items():
        if found.get(name) == now:
            found.pop(name, None)
            found |= {} if before is None else {name: before}
    return found


def importing() -> str:
    """Return the plugin that is being imported; empty if none is."""
    return _IMPORTED[-1][2] if _IMPORTED else ""


def _line(error: BaseException, path: Path) -> str:
    """Return the last line of a file that an error came through, as ` at line 7`."""
    calls = walk_tb(error.__traceback__)
    lines = [line for frame, line in calls if frame.f_code.co_filename == str(path)]
    return f" at line {lines[-1]}" if lines else ""


def _cure(error: BaseException, plugin: Path) -> str:
    """Return what would work for a plugin that imports a file beside it."""
    name = str(getattr(error, "name", ""))
    beside = plugin.parent / f"{name}.py"
    if isinstance(error, ModuleNotFoundError) and beside.exists():
        places = "in the plugin, or in an installed package"
        return f"; the code of {name}.py {places}, would work"
    return ""


def _drop(module: str) -> None:
    for registry in REGISTRIES:
        registry.drop(module)


def _declared_by(module: str, origin: str) -> list[str]:
    """Return the names that a plugin has declared."""
    return [
        name
        for registry in REGISTRIES
        for name, entry in registry._known.items()
        if entry.origin == origin or f"{entry.module}.".startswith(f"{module}.")
    ]
