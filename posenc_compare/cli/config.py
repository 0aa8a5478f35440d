"""Settings of the command line and of TOML files; errors point to the line."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import TABLE, Work, parse_value
from posenc_compare.validate import hint, read_regular

CONFIG_BYTES = 1 << 20  # bytes of such a file
LISTED = "`posenc-compare describe settings` lists all"
SETTING = re.compile(r",(?=\s*[A-Za-z][\w-]*\s*=)")  # the comma before another setting


@contextmanager
def configured(options: Body, allowed: Collection[str]) -> Iterator[Body]:
    """Yield the values of options and settings by name; errors inside get their line.

    The command line wins over the file.

    `options` are those of the command by name, `config` and `set` among them; None if
    not given. `allowed` are names of settings that the command takes.
    """
    given = {name: value for name, value in options.items() if value is not None}
    config = given.pop("config", None)
    for name, value in _settings(given.pop("set", [])):
        _check_known(name, allowed, allowed)
        if name in given:
            both = f"{given[name]!s:.40} and {value!s:.40}"
            raise ConfigError(f"{name} must be given once, got {both}", field=name)
        given[name] = value
    known = {*options, *allowed} - {"config", "set"}
    chosen, places = _read(config, known, allowed) if config else ({}, {})
    try:
        yield {**chosen, **given}
    except ConfigError as error:
        if error.field in places and error.field not in given:
            place = places[error.field]
            raise ConfigError(f"{place}: {error}", error.field) from error
        raise


def _settings(words: Iterable[str]) -> Iterator[tuple[str, object]]:
    """Yield the names and values of `--set`."""
    for part in (part for word in words for part in SETTING.split(word)):
        name, sign, text = part.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not sign:
            raise ConfigError(
                f"--set must be NAME=VALUE, got {part[:80]!r}; steps=300 would work"
            )
        one = TABLE.get(name)
        yield name, parse_value(one, text.strip()) if one else text


def _check_known(
    name: str, known: Collection[str], allowed: Collection[str], kind: str = "setting"
) -> None:
    """Raise `ConfigError` unless a name is known to the command."""
    if name in known:
        return
    if name in TABLE:
        own = [one for one in TABLE if one in allowed]
        own = [one for one in own if one not in Work.__dataclass_fields__] or own
        raise ConfigError(
            f"{name} must be left out of this command; {', '.join(own)} would work"
        )
    raise ConfigError(f"unknown {kind} {name[:80]!r}{hint(name, known)} ({LISTED})")


def _read(
    path: Path, known: Collection[str], allowed: Collection[str]
) -> tuple[Body, dict[str, str]]:
    """Return the values of a TOML file by name, and the place of each."""
    try:
        text = read_regular(path, CONFIG_BYTES).decode("utf-8-sig")
        read = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise ConfigError(f"{place}: must be readable TOML, got {error}") from error
    chosen, places = {}, {}
    for key, value in read.items():
        name, place = key.replace("-", "_"), f"{path}:{_line(text, key)}"
        name = "plugins" if name == "plugin" else name
        try:
            _check_known(name, known, allowed, "key")
            repr(value)  # as messages do
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{place}: {key[:80]} must have numbers of fewer digits, got {error}"
            ) from error
        if name in chosen:
            raise ConfigError(f"{place}: repeated key {key[:80]!r}")
        chosen[name], places[name] = value, place
    return chosen, places


def _line(text: str, key: str) -> int:
    """Return the number of the first line that gives a key a value or is its table."""
    given = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if given.match(line)), 1)
