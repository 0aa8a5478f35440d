"""Texts of strangers, made harmless: for a record, and for a reader's eyes."""

import hashlib
import re
from typing import Any

MESSAGE = 2000  # characters of an error message that a record keeps
# A folder, up to the last part of a path: what a message tells of a machine.
FOLDERS = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][^/\\\s'\":,;()]+)+[/\\](?=\S)")


def one_line(text: str) -> str:
    """Return text in one line, without the folders of this machine, cut if long."""
    return FOLDERS.sub("", " ".join(text[: 4 * MESSAGE].split()))[:MESSAGE]


SHORT, LONG = 200, 2000  # characters of a name, and of any other text


NAMES = {"label", "family", "name", "quantity", "case"}


def clean(value: Any, limit: int = LONG) -> Any:
    """Return a value from JSON with every text in it visible and not too long.

    Characters that do not print, such as line breaks, terminal escapes and marks
    that turn the direction of text, are written as `repr` writes them.

    Args:
        value: text, or lists and dicts that hold some.
        limit: characters of a text; those that are cut end with a hash of the whole,
            so that what differs still does.
    """
    if isinstance(value, str):
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
