"""Sanitizing of untrusted text, for records and for display."""

import hashlib
import re
from typing import Any

MESSAGE = 2000  # characters of an error message in a record
# The folders of a path, without its last part: they identify a machine.
FOLDERS = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][^/\\\s'\":,;()]+)+[/\\](?=\S)")


def one_line(text: str) -> str:
    """Return text on one line without folders, cut to `MESSAGE` characters."""
    return FOLDERS.sub("", " ".join(text[: 4 * MESSAGE].split()))[:MESSAGE]


SHORT, LONG = 200, 2000  # characters of a name, and of any other text
NAMES = {"label", "family", "name", "quantity", "case", "cases_of", "headline"}


def clean(value: Any, limit: int = LONG) -> Any:
    """Return a JSON value whose texts are printable and of bounded length.

    Characters that do not print, such as line breaks, terminal escapes and marks of
    text direction, are escaped as in `repr`.

    A text longer than `limit` is cut and ends with a hash of the whole, so that
    different texts stay different.
    """
    if isinstance(value, str):
        if len(value) <= limit and value.isprintable():
            return value
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)
        if len(shown) <= limit:
            return shown
        digest = hashlib.sha256(shown.encode()).hexdigest()[:8]
        return f"{shown[: limit - 9]}…{digest}"
    if isinstance(value, list):
        return [clean(item, limit) for item in value]
    if isinstance(value, dict):
        return {
            clean(name, SHORT): clean(item, SHORT if name in NAMES else LONG)
            for name, item in value.items()
        }
    return value
