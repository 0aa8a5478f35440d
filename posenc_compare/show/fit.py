"""Tables that are wider than a terminal or a column of a paper, in parts that fit."""

from collections.abc import Callable, Container, Sequence

from posenc_compare.show.format import Cell, Table, of_columns

LABEL, SHORT = 40, 20  # characters of a label, or of another word, that is not broken


def least_widths(
    table: Table, texts: list[list[str]], length: Callable[[str], int] = len
) -> list[int]:
    """Return the characters that each column needs so that nothing is torn apart.

    Numbers and short texts stay on one line, longer texts and headings break between
    words. `texts` are those of the cells.
    """

    def words(text: str, limit: int) -> int:
        return min(limit, max(map(length, text.split()), default=0))

    widths = [words(name, SHORT) for name in table.head]
    for row, shown in zip(table.rows, texts, strict=True):
        for i, (cell, text) in enumerate(zip(row, shown, strict=True)):
            number = isinstance(cell, Cell) and cell.mean is not None
            whole = number or length(text) <= SHORT
            least = length(text) if whole else words(text, SHORT if i else LABEL)
            widths[i] = max(widths[i], least)
    return widths


def in_parts(
    table: Table, widths: Sequence[int], room: int, beside: Container[int] = ()
) -> list[Table]:
    """Return tables with some of the columns each, which fit into so many characters.

    The columns that distinguish rows stand in every part, those `beside` in the part of
    the column before them. There are as few parts as can be, of widths as equal as can
    be.
    """
    keys = keys_of(table)
    units: list[list[int]] = []
    for place in range(keys, len(widths)):
        if units and place in beside:
            units[-1].append(place)
        else:
            units.append([place])
    sizes = [sum(widths[place] for place in unit) for unit in units]
    room -= sum(widths[:keys])
    parts = _filled(sizes, room)
    while room > 0 and len(more := _filled(sizes, room - 1)) == len(parts):
        parts, room = more, room - 1
    if len(parts) < 2:
        return [table]
    places = [[place for i in part for place in units[i]] for part in parts]
    return [of_columns(table, [*range(keys), *own]) for own in places]


def _filled(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Return the indices of sizes, in parts that are filled one after another."""
    parts: list[list[int]] = []
    left = 0
    for i, size in enumerate(sizes):
        if not parts or size > left:
            parts.append([])
            left = room
        parts[-1].append(i)
        left -= size
    return parts


def spread(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Return widths from least to most that fill a room, if that is large enough."""
    widths, spare = [*least], max(0, room - sum(least))
    places = sorted(range(len(widths)), key=lambda i: most[i] - least[i])
    for place, i in enumerate(places):
        more = max(0, min(most[i] - least[i], spare // (len(places) - place)))
        widths[i] += more
        spare -= more
    return widths


def keys_of(table: Table) -> int:
    """Return how many of the first columns distinguish the rows of a table."""
    for keys in range(1, len(table.head)):
        names = [tuple(row[:keys]) for row in table.rows]
        if any(isinstance(one, Cell) for name in names for one in name):
            break
        if len({*names}) == len(names):
            return keys
    return 1
