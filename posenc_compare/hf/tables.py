"""Tables of positions that a model adds to its tokens, found while it reads.

The model evaluates a text of equal tokens. A weight is a table of positions if as many
consecutive rows of it are looked up as there are tokens, and if attention then reads
tokens that differ, though no other such weight has rows that differ.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import PosencError
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT, Watch, attentions_of, states_of
from posenc_compare.schemes import Geometry, Scheme, Variant

SELECTED = (torch.index_select, Tensor.index_select)
SWAPPED = "cosines come before sines"
SAME = 1e-6  # of states, in parts of the largest
SINUSOIDS = ("interleaved", "concatenated", "t2t")  # layouts of `sinusoidal`


class _Read(Watch):
    """The weights whose consecutive rows are looked up, while this is entered.

    Fewer rows than `least` do not count.
    """

    def __init__(self, model: nn.Module, least: int) -> None:
        super().__init__({})
        own = [*model.named_parameters(), *model.named_buffers()]
        self.names = {one.data_ptr(): (name, one) for name, one in own if one.dim() > 1}
        self.least = least
        self.found: dict[str, tuple[Tensor, int, int]] = {}

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if func is F.embedding:
            self._keep(args[1], args[0])
        elif func in SELECTED and args[1] == 0:
            self._keep(args[0], args[2])
        elif func is Tensor.__getitem__:
            index = args[1][0] if isinstance(args[1], tuple) and args[1] else args[1]
            if isinstance(index, slice) and args[0].dim() == 2:
                rows = range(len(args[0]))[index]
                index = torch.arange(rows.start, rows.stop, rows.step)
            if isinstance(index, Tensor) and index.dtype == torch.long:
                self._keep(args[0], index)

    def _keep(self, table: Tensor, rows: Tensor) -> None:
        """Keep a weight of which these rows are read, if they follow each other."""
        name, own = self.names.get(table.data_ptr(), ("", table))
        rows = rows.detach().cpu().flatten()
        count = len(rows)
        if name and own.dim() == 2 and count >= self.least and (rows.diff() == 1).all():
            self.found.setdefault(name, (own.detach(), int(rows[0]), count))


def tables_in(model: Any, given: Mapping[str, Any]) -> list[Described]:
    """Return the tables of positions of a small random model in evaluation mode.

    It evaluates what is given, a text of equal tokens.
    """
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    reading = _Read(model, given["input_ids"].shape[1])
    with torch.no_grad(), reading:
        model(**given)
    return [
        _described(name, name in trained, *one)
        for name, one in reading.found.items()
        if _adds(model, given, place_of(name), {*map(place_of, reading.found)})
    ]


def level(model: nn.Module, places: Collection[str]) -> None:
    """Give all rows of the tables at these places the numbers of the first."""
    for name, one in [*model.named_parameters(), *model.named_buffers()]:
        if place_of(name) in places:
            one.data.copy_(one.data[:1].clone())


def place_of(name: str) -> str:
    """Return the name of a table without that of its weight."""
    return name.removesuffix(".weight").removesuffix(".weights")


def _adds(model: Any, given: Mapping[str, Any], place: str, tables: set[str]) -> bool:
    """Return whether a table alone makes equal tokens differ where attention reads.

    Where no attention is found, what is read is taken to be added.
    """
    alone, differ = copy.deepcopy(model), list[bool]()
    level(alone, tables - {place})

    def look(_: nn.Module, args: Any, kwargs: Any) -> None:
        x = states_of(args, kwargs)
        if isinstance(x, Tensor):
            rows = x.reshape(-1, x.shape[-1])
            off = float((rows - rows[:1]).abs().max())
            differ.append(off > SAME * float(rows.abs().max()))

    for module in attentions_of(alone).values():
        module.register_forward_pre_hook(look, with_kwargs=True)
    with torch.no_grad():
        alone(**given)
    return any(differ) or not differ


def _described(
    name: str, trained: bool, table: Tensor, first: int, count: int
) -> Described:
    """Return the description of a table `(row, channel)` by the name of its weight.

    `first` is the row that is read first, `count` how many are read.
    """
    rows = len(table)
    row = Described(place_of(name), "table", {"rows": rows, "first row": first})
    if trained:
        return replace(row, variant=Variant("learned", {"length": rows}))
    return with_sinusoids(row, table[first : first + count].double(), first)


def with_sinusoids(row: Described, codes: Tensor, first: int) -> Described:
    """Return a row with the sinusoids that codes `(row, channel)` are, if any.

    `first` is the position of the first, unless that is 0.
    """
    swapped = codes.roll(codes.shape[-1] // 2, dims=-1)
    for layout, start in product(SINUSOIDS, dict.fromkeys((first, 0))):
        variant = Variant("sinusoidal", {"layout": layout})
        for some, note in ((codes, ""), (swapped, SWAPPED)):
            off = _off(variant, some, start)
            if off < float("inf"):
                measured = {**row.measured, "first position": start}
                return replace(
                    row, measured=measured, variant=variant, off=off, note=note
                )
    return replace(row, note="a fixed table, as no scheme here has")


def _off(variant: Variant, table: Tensor, start: int) -> float:
    """Return how far rows are from the codes of a scheme from `start` on.

    It is infinite if rounding does not explain it.
    """
    count, width = table.shape
    try:
        scheme: Scheme = variant.build(Geometry(width, heads=1, length=count))
        own = scheme.embed(torch.zeros_like(table), torch.arange(start, start + count))
    except PosencError:  # a width that the scheme has not
        return float("inf")
    off = (own - table).abs().amax(dim=1)
    noise = 2**-21 * torch.arange(start, start + count)  # of angles in float32
    return float(off.max()) if (off <= EXACT + noise).all() else float("inf")
