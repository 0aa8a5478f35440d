"""A scheme with its options: one row of the comparison.

The command line writes a variant as `name` or `name:key=value;key=value`. Options
are the keyword-only parameters of the scheme's constructor; their annotations say
what may be given. They are read from the source text, as names and facts are, so
that a list of variants is checked without importing a scheme.
"""

import ast
import inspect
import sys
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc_compare.bases import resolution_order
from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import SCHEMES, Entry, declared
from posenc_compare.sources import parse
from posenc_compare.validate import hint, number

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
KINDS = {"bool": bool, "int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Variant:
    """A scheme by name, with the options that differ from its defaults.

    However the options are written, as 1 or 1.0 and in whatever order, variants that
    are the same are equal and have one label and one key.

    Raises:
        ConfigError: if an option is unknown, or a value has the wrong type.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = option_types(self.name) if self.options else {}
        fitted = {
            key: _fitted(self.name, key, value, known)
            for key, value in self.options.items()
        }
        changed = {k: v for k, v in fitted.items() if v != known[k][1]}
        object.__setattr__(self, "options", dict(sorted(changed.items())))

    @property
    def label(self) -> str:
        """Return how the command line writes this variant."""
        written = ";".join(f"{k}={_write(v)}" for k, v in self.options.items())
        return f"{self.name}:{written}" if written else self.name

    @property
    def family(self) -> str:
        """Return the scheme's family, without importing it."""
        return SCHEMES.entry(self.name).facts.get("family", "none")

    @property
    def schemes(self) -> list[str]:
        """Return the scheme's name and those of all schemes inside, sorted.

        A scheme is inside where an option of text, given or default, names it, or
        where the scheme's file builds a `Variant` of a name that is written out.
        """
        found: set[str] = set()
        waiting = [(self.name, self.options)]
        while waiting:
            name, options = waiting.pop()
            found.add(name)
            for key, (kind, default) in _readable_options(name).items():
                value = options.get(key, default)
                if kind is str and value in SCHEMES.entries() and value not in found:
                    waiting.append((value, {}))
            waiting += [(built, {}) for built in _built_in(name) if built not in found]
        return sorted(found)

    def build(self, geometry: Any) -> Any:
        """Return a new `Scheme` for a `Geometry`.

        Its parameters come from torch's global generator.
        """
        return SCHEMES.get(self.name)(geometry, **self.options)


def option_types(name: str) -> dict[str, tuple[Any, Any]]:
    """Return type and default of every option of a scheme, importing nothing.

    A scheme that was registered from no file is asked itself.

    Raises:
        PluginError: if an annotation or a default is not written out.
    """
    entry = SCHEMES.entry(name)
    if entry.path is not None:
        nodes = {n: node for n, node, _ in declared(parse(entry.path), "register")}
        node = nodes.get(name)
        return _written_options(entry, node) if isinstance(node, ast.ClassDef) else {}
    options: dict[str, tuple[Any, Any]] = {}
    for parent in SCHEMES.get(name).__mro__:
        if "__init__" not in vars(parent):
            continue
        hints = get_type_hints(parent.__init__)
        parameters = inspect.signature(parent.__init__).parameters.values()
        own = {
            parameter.name: (hints.get(parameter.name, str), parameter.default)
            for parameter in parameters
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        options = {**own, **options}
        if inspect.Parameter.VAR_KEYWORD not in [p.kind for p in parameters]:
            break
    return options


def _built_in(name: str) -> set[str]:
    """Return the schemes that the file of a scheme builds by their names."""
    if (path := SCHEMES.entry(name).path) is None:
        return set()
    return {
        node.args[0].value
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in ("Variant", "create")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in SCHEMES.entries()
    }


def _readable_options(name: str) -> dict[str, tuple[Any, Any]]:
    """Return `option_types`; none where they cannot be read, and so not be given."""
    try:
        return option_types(name)
    except PluginError:
        return {}


def _written_options(entry: Entry, scheme: ast.ClassDef) -> dict[str, tuple[Any, Any]]:
    """Read the constructor of a class, and that of a parent as far as it is passed on.

    A constructor with `**options` is taken to pass them on to the next.
    """
    options: dict[str, tuple[Any, Any]] = {}
    assert entry.path is not None
    for parent in resolution_order(scheme, entry.path, entry.module):
        if isinstance(parent, str):
            raise PluginError(
                f"{entry.name}: its options must be written out in its constructor or "
                f"in that of a class that can be found, got {parent}"
            )
        written = [n for n in parent.body if isinstance(n, ast.FunctionDef)]
        for node in (node for node in written if node.name == "__init__"):
            given = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            own = {o.arg: _written_option(entry.name, o, value) for o, value in given}
            options = {**own, **options}
            if node.args.kwarg is None:
                return options
    return options


def _written_option(
    name: str, option: ast.arg, default: ast.expr | None
) -> tuple[Any, Any]:
    try:
        match option.annotation:
            case ast.Name(id=kind):
                return KINDS[kind], ast.literal_eval(default or "")
            case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
                kind = Literal[ast.literal_eval(choices)]  # type: ignore[misc]
                return kind, ast.literal_eval(default or "")
    except (KeyError, ValueError, SyntaxError):
        pass
    raise PluginError(
        f"{name}: option {option.arg} must be annotated as int, float, bool, str or "
        f"Literal[...] and have a default, both written out"
    )


def parse_variants(text: str) -> list[Variant]:
    """Read a comma-separated list of variants, families, globs or `all`.

    Raises:
        ConfigError: if a name or an option is unknown, or a value has the wrong type.

    Example:
        >>> [v.label for v in parse_variants("alibi,rope:base=500000")]
        ['alibi', 'rope:base=500000.0']
    """
    variants: list[Variant] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pattern, colon, written = part.partition(":")
        if not colon and ";" in part:
            raise ConfigError(
                f"options must follow a colon, as in rope:base=500;layout=half, got "
                f"{part[:80]!r}"
            )
        for name in SCHEMES.select(pattern):
            options = _read_options(name, written) if written else {}
            variants.append(Variant(name, options))
    if not variants:
        raise ConfigError("no scheme named; try `--schemes all`")
    return list({variant.label: variant for variant in variants}.values())


def _read_options(name: str, written: str) -> dict[str, Any]:
    known = option_types(name)
    options: dict[str, Any] = {}
    for assignment in filter(None, written.split(";")):
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise ConfigError(
                f"{name}: an option must read key=value, got {assignment[:80]!r}"
            )
        if key in options:
            raise ConfigError(
                f"{name}: option {key[:80]!r} must be given once, not twice"
            )
        options[key] = _read(text, known[key][0]) if key in known else text
    return options


def _read(text: str, kind: Any) -> Any:
    """Turn text into a value of `kind`, or leave it for `_fitted` to refuse."""
    if get_origin(kind) is Literal:
        return next((value for value in get_args(kind) if str(value) == text), text)
    if kind is bool:
        return WORDS.get(text.lower(), text)
    return number(text, kind) if kind in (int, float) else text


def _fitted(name: str, key: str, value: Any, known: dict[str, tuple[Any, Any]]) -> Any:
    """Return a value as its option has it: 1 for a float is 1.0."""
    if key not in known:
        takes = f"; it takes {', '.join(sorted(known)) or 'none'}"
        raise ConfigError(f"{name}: no option {key[:80]!r}{hint(key, known) or takes}")
    kind = known[key][0]
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        fits = any(type(value) is type(c) and value == c for c in choices)
        wanted = " or ".join(map(str, choices))
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        # Neither NaN, nor infinite, nor a whole number that no float comes near.
        fits = fits and abs(value) <= sys.float_info.max
        wanted = "a finite number"
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        wanted = "a whole number"
    else:
        fits = isinstance(value, kind)
        wanted = "true or false" if kind is bool else "text"
    if not fits:
        raise ConfigError(f"{name}: {key} must be {wanted}, got {str(value)[:80]!r}")
    return value + 0.0 if kind is float else value  # -0.0 is 0.0 too


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
