"""Messages of others, made fit for a record: one line, of bounded length, private."""

import re

MESSAGE = 2000  # characters of an error message that a record keeps
# A folder, up to the last part of a path: what a message tells of a machine.
FOLDERS = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][^/\\\s'\":,;()]+)+[/\\](?=\S)")


def one_line(text: str) -> str:
    """Return text in one line, without the folders of this machine, cut if long."""
    return FOLDERS.sub("", " ".join(text[: 4 * MESSAGE].split()))[:MESSAGE]
