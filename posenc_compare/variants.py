"""A scheme with its options: one row of the comparison.

The command line writes a variant as `name` or `name:key=value;key=value`. Options
are the keyword-only parameters of the scheme's constructor; their annotations say
what may be given.

An option annotated `Variant` takes a scheme. One with options of its own stands in
brackets, as in `randomized:scheme=(rope:base=500)`; brackets hide `,`, `;` and `:`.
"""

import ast
import functools
import inspect
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import SCHEMES, Entry
from posenc_compare.validate import check_choice, check_text, number

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
KINDS = (bool, int, float, str)
MOST_BRACKETS = 8  # brackets inside one another
Kind = type | UnionType  # of an option, as annotated; a `Literal` too
Known = tuple[Kind, object]  # the kind of an option, and its default


@dataclass(frozen=True)
class Variant:
    """A scheme by name, with the options that differ from its defaults.

    However the options are written, as 1 or 1.0 and in whatever order, variants that
    are the same are equal and have one label and one key.

    An option that is a scheme is kept as the label of that scheme.

    Raises:
        ConfigError: if an option is unknown, or a value has the wrong type.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = option_types(self.name) if self.options else {}
        fitted = {
            key: _convert(self.name, key, value, known)
            for key, value in self.options.items()
        }
        changed = {k: v for k, v in fitted.items() if v != known[k][1]}
        object.__setattr__(self, "options", dict(sorted(changed.items())))

    @property
    def label(self) -> str:
        """Return how the command line writes this variant."""
        known = option_types(self.name) if self.options else {}
        values = [(key, _write(v, known[key][0])) for key, v in self.options.items()]
        written = ";".join(f"{key}={value}" for key, value in values)
        return f"{self.name}:{written}" if written else self.name

    @property
    def family(self) -> str:
        """Return the scheme's family."""
        return SCHEMES.entry(self.name).facts.get("family", "none")

    @property
    def schemes(self) -> list[str]:
        """Return the scheme's name and those of all schemes inside, sorted.

        A scheme is inside where an option, given or default, stands for it or names
        it, or where the code behind the scheme names it (see `named_in`).
        """
        found: set[str] = set()
        waiting: list[Variant] = [self]
        while waiting:
            variant = waiting.pop()
            found.add(variant.name)
            names = named_in(SCHEMES.entry(variant.name))
            for key, (kind, default) in _readable_options(variant.name).items():
                value = variant.options.get(key, default)
                if kind is str:
                    names.add(value.partition(":")[0])
                elif kind is Variant:
                    with suppress(ConfigError):  # a default may stand for no scheme
                        waiting.append(labelled(value))
            waiting += [Variant(name) for name in names - found if name in SCHEMES]
        return sorted(found)

    def build(self, geometry: object) -> Any:
        """Return a new `Scheme` for a `Geometry`.

        The constructor is given every option, so that what `describe` shows is what is
        built. Parameters come from torch's global generator.

        Raises:
            ConfigError: if the scheme refuses an option or a size.
        """
        given = {
            key: labelled(value) if kind is Variant else value
            for key, (kind, default) in _readable_options(self.name).items()
            for value in [self.options.get(key, default)]
        }
        try:
            scheme = SCHEMES.get(self.name)(geometry, **given)
        except ConfigError as error:
            raise error.of(self.name) from error
        scheme.built_label = self.label
        return scheme


def labelled(label: str) -> Variant:
    """Return the variant of a label."""
    check_text("name of a scheme", label, "rope")
    name, _, written = label.strip().partition(":")
    return Variant(SCHEMES.entry(name).name, _read_options(name, written))


def option_types(name: str) -> dict[str, Known]:
    """Return type and default of every option of a scheme."""
    return _options_of(SCHEMES.get(name))


@functools.cache
def _options_of(scheme: Any) -> dict[str, Known]:
    """Read the constructor of a class."""
    constructor = scheme.__init__
    types = _types_of(scheme.name, constructor)
    options = [*inspect.signature(constructor).parameters.values()][2:]
    for option in options:
        if option.kind is option.POSITIONAL_OR_KEYWORD:
            raise PluginError(
                f"{scheme.name}: option {option.name} must be keyword-only, got a "
                f"positional one; `*` before it would work"
            )
    return {
        option.name: _option(scheme.name, option, types.get(option.name))
        for option in options
        if option.kind is option.KEYWORD_ONLY
    }


def _types_of(name: str, constructor: Any) -> dict[str, Any]:
    """Return the types of the parameters of a constructor."""
    try:
        return get_type_hints(constructor)
    except Exception as error:  # whatever an annotation raises
        raise PluginError(
            f"{name}: the annotations of its constructor must be types, got "
            f"{type(error).__name__}: {error}"
        ) from error


def _option(name: str, option: inspect.Parameter, kind: Any) -> Known:
    if kind is Variant and isinstance(option.default, Variant):
        return Variant, option.default.label
    fits = kind in KINDS or get_origin(kind) is Literal
    if fits and option.default is not option.empty:
        return kind, option.default
    raise PluginError(
        f"{name}: option {option.name} must be annotated as int, float, bool, str, "
        f"Variant or Literal[...] and have a default"
    )


def named_in(entry: Entry) -> set[str]:
    """Return the words in the code of a registered thing that may name a scheme.

    A thing of this package builds one by `Variant` or `create`. A plugin may name one
    in ways that nobody can read off: there, the words of all texts count.
    """
    statements = entry.own_code.statements
    if entry.ours:
        return {name for part in statements for name in _names(part)}
    nodes = (node for part in statements for node in ast.walk(part))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    whole = (text for text in values if isinstance(text, str) and " " not in text)
    return {word for text in whole for word in re.split(r"[:;=,+()]", text)}


@functools.lru_cache(maxsize=1024)
def _names(tree: ast.stmt) -> set[str]:
    """Return the first arguments of `Variant` and `create`, but in defaults."""
    nodes = list(ast.walk(tree))
    signatures = [node for node in nodes if isinstance(node, ast.arguments)]
    defaults = {value for node in signatures for value in node.kw_defaults}
    return {
        str(node.args[0].value)
        for node in nodes
        if isinstance(node, ast.Call)
        and node not in defaults
        and ast.unparse(node.func).split(".")[-1] in ("Variant", "create")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def _readable_options(name: str) -> dict[str, Known]:
    """Return `option_types`; none where they cannot be read, and so not be given."""
    try:
        return option_types(name)
    except PluginError:
        return {}


def parse_variants(text: str) -> list[Variant]:
    """Read a comma-separated list of variants, families, globs or `all`.

    Raises:
        ConfigError: if a name or an option is unknown, or a value has the wrong type.

    Example:
        >>> [v.label for v in parse_variants("alibi,rope:base=500000")]
        ['alibi', 'rope:base=500000.0']
    """
    check_text("schemes", text, "rope,alibi")
    variants: list[Variant] = []
    for part in filter(None, (part.strip() for part in _split(text, ","))):
        pattern, colon, written = part.partition(":")
        if not colon and (";" in part or "=" in part):
            raise ConfigError(
                f"options must follow a colon and be separated by ;, as in "
                f"rope:base=500;layout=half, got {part[:80]!r}"
            )
        for name in _select(pattern):
            variants.append(Variant(name, _read_options(name, written)))
    if not variants:
        raise ConfigError("no scheme named; `all` would work")
    return list({variant.label: variant for variant in variants}.values())


def _select(pattern: str) -> list[str]:
    """Return the schemes that a name, family or glob stands for."""
    try:
        return SCHEMES.select(pattern)
    except ConfigError as error:
        if option := option_named(pattern):
            raise ConfigError(option, field=error.field) from error
        raise


def option_named(word: str) -> str:
    """Return a sentence on the option that takes a word, or nothing if none does."""
    for name in SCHEMES.entries():
        for key, (kind, _) in _readable_options(name).items():
            if get_origin(kind) is Literal and word in get_args(kind):
                return f"{word} is an option: {name}:{key}={word}"
    return ""


def _split(text: str, sign: str) -> list[str]:
    """Return the parts of a text between signs that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth > MOST_BRACKETS:
            raise ConfigError(
                f"brackets must be at most {MOST_BRACKETS} deep, got {text[:80]!r}"
            )
        if depth < 0:
            break
        if letter == sign and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise ConfigError(f"every bracket must be closed, got {text[:80]!r}")
    return parts


def _read_options(name: str, written: str) -> dict[str, object]:
    options: dict[str, object] = {}
    known = option_types(name) if written else {}
    for assignment in filter(None, _split(written, ";")):
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise ConfigError(
                f"{name}: an option must read key=value, got {assignment[:80]!r}"
            )
        if key in options:
            raise ConfigError(
                f"{name}: option {key[:80]!r} must be given once, not twice"
            )
        kind = known[key][0] if key in known else str
        if kind is Variant and ":" in text and not text.startswith("("):
            raise ConfigError(
                f"{name}: {key} must have brackets around options, got {text[:80]!r}; "
                f"{key}=({text[:80]}) would work"
            )
        options[key] = _read(text, kind)
    return options


def _read(text: str, kind: Kind) -> object:
    """Turn text into a value of `kind`, or leave it for `_convert` to refuse."""
    if get_origin(kind) is Literal:
        return next((value for value in get_args(kind) if str(value) == text), text)
    if kind is bool:
        return WORDS.get(text.lower(), text)
    if kind is Variant and text.startswith("(") and text.endswith(")"):
        return text[1:-1]
    return number(text, kind) if kind is int or kind is float else text


def _convert(name: str, key: str, value: Any, known: dict[str, Known]) -> object:
    """Return a value as its option has it: 1 for a float is 1.0."""
    if key not in known:
        none = "none; options are the parameters behind `*` in its `__init__`"
        takes = ", ".join(sorted(known)) or none
        raise ConfigError(f"{name}: no option {key[:80]!r}; it takes {takes}")
    kind = known[key][0]
    if kind is Variant:
        return _convert_scheme(name, key, value)
    if kind is bool or get_origin(kind) is Literal:
        check_choice(f"{name}: {key}", value, get_args(kind) or (True, False))
        return value
    fits, wanted = isinstance(value, kind), "text"
    if kind is not str:
        fits = isinstance(value, int | kind) and not isinstance(value, bool)
        wanted = "a whole number" if kind is int else "a finite number"
    if kind is float:  # NaN, infinity and whole numbers beyond all floats do not fit
        fits = fits and abs(value) <= sys.float_info.max
    if not fits:
        raise ConfigError(f"{name}: {key} must be {wanted}, got {str(value)[:80]!r}")
    return value + 0.0 if kind is float else value  # -0.0 is 0.0 too


def _convert_scheme(name: str, key: str, value: object) -> str:
    """Return the label of the scheme that an option stands for."""
    label = value.label if isinstance(value, Variant) else value
    if not isinstance(label, str) or not label:
        raise ConfigError(f"{name}: {key} must be a scheme, got {str(value)[:80]!r}")
    try:
        return labelled(label).label
    except ConfigError as error:
        raise type(error)(f"{name}: {key}: {error}") from error


def _write(value: object, kind: Kind) -> str:
    if kind is Variant and ":" in str(value):
        return f"({value})"
    return str(value).lower() if isinstance(value, bool) else str(value)
