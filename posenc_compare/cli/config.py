"""A TOML file of a comparison: what it chooses, and the lines to blame."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posenc_compare.analysis.core.canonical import Body
from posenc_compare.analysis.engine.choices import Choices, SettingChoices
from posenc_compare.errors import ConfigError
from posenc_compare.validate import hint, read_regular

LONG = 1 << 20  # bytes of such a file
KNOWN = ("schemes", "measures", "plugins", *SettingChoices.__annotations__)


@contextmanager
def configured(
    path: Path | None, flags: Body, named: dict[str, str] | None = None
) -> Iterator[Body]:
    """Yield the choices of a file and of flags, which win over the file.

    Inside, an error about a value of the file names its line, and one about a value of
    a flag names the flag.

    Args:
        path: of the file, or None.
        flags: values by name.
        named: flags that have another name than their value.

    Raises:
        ConfigError: if the file cannot be read, or has a key that is no setting.
    """
    chosen, places = _read(path) if path else ({}, {})
    try:
        yield {**chosen, **flags}
    except ConfigError as error:
        name, _, rest = str(error).partition(" ")  # messages begin with what is wrong
        key = name.replace("-", "_")
        if key in flags and key in Choices.__annotations__:
            flag = (named or {}).get(key, f"--{key.replace('_', '-')}")
            raise ConfigError(f"{flag} {rest}") from error
        if name == "unknown":  # scheme, measure, task, ...
            name = f"{rest.partition(' ')[0]}s"
        if name in places and name not in flags:
            raise ConfigError(f"{places[name]}: {error}") from error
        raise


def _read(path: Path) -> tuple[Body, dict[str, str]]:
    """Return the values of a TOML file by name, and where it has each."""
    try:
        text = read_regular(path, LONG).decode("utf-8-sig")
        read = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise ConfigError(f"{place}: must be readable TOML, got {error}") from error
    chosen, places = {}, {}
    for key, value in read.items():
        name, place = key.replace("-", "_"), f"{path}:{_line(text, key)}"
        if name not in KNOWN:
            raise ConfigError(f"{place}: unknown key {key[:80]!r}{hint(name, KNOWN)}")
        if name in chosen:
            raise ConfigError(f"{place}: repeated key {key[:80]!r}")
        try:
            repr(value)  # as messages do
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{place}: {key[:80]} must have numbers of fewer digits, got {error}"
            ) from error
        chosen[name], places[name] = value, place
    return chosen, places


def _line(text: str, key: str) -> int:
    """Return the number of the first line that gives a key a value or is its table."""
    given = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if given.match(line)), 1)
