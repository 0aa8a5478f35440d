"""The types of a record: one strict reader and one writer.

A record may come from anywhere. `Record.from_json` refuses a part that is missing or of
another type, and leaves out what it does not know.
"""

import math
import sys
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, Self, cast, get_args, get_origin

from posenc_compare.records.quantities import (
    Array,
    ByCase,
    Curve,
    Floor,
    Headline,
    Quantity,
    Row,
    View,
)
from posenc_compare.registry import SETTINGS
from posenc_compare.settings.canonical import Body, Json, Scalar

Facts = dict[str, Scalar]
Status = Literal["ok", "failed", "lost", "unsupported"]

# Of the provenance; what is computed with.
COUNTED = ("seconds", "attempts", "resumed_from_step", "peak_memory_bytes")
# Fields that a record may lack: then they have their default.
OMITTED = {"graphics", "modified", "repeatable", "views", "settings"}
ABSENT = object()


@dataclass(frozen=True)
class SchemeSpec:
    """A scheme: name, options, and the hash of its own code."""

    name: str
    options: Facts
    code: str


@dataclass(frozen=True)
class MeasureSpec:
    """A measure: name, version, and the hash of its own code and its task's."""

    name: str
    version: int
    code: str


@dataclass(frozen=True)
class Spec:
    """Everything that a result depends on; its hash is the record's key.

    Attributes:
        scheme: with its options.
        measure: with its version.
        setting: sizes, seed, dtype and device, by name, and of which kind they are.
        threads: of the CPU.
        numbers: version of the code that all schemes share.
        torch: version of torch, major and minor.
        graphics: name of the GPU, if the device is one.
        modified: hash of what was edited in the package; empty for nothing.
    """

    scheme: SchemeSpec
    measure: MeasureSpec
    setting: Facts
    threads: int
    numbers: int
    torch: str
    graphics: str = ""
    modified: str = ""

    @property
    def kind(self) -> str:
        """Return the kind of the setting."""
        return str(self.setting["kind"])

    @property
    def seed(self) -> int:
        """Return the seed of the setting."""
        return cast("int", self.setting["seed"])

    def to_json(self) -> dict[str, Json]:
        """Return what the key is the hash of; no GPU and no edit are left out."""
        spec = asdict(self)
        for name in ("graphics", "modified"):
            if not spec[name]:
                del spec[name]
        return spec


def measured(measure: str, task: str) -> str:
    """Return the name of a measure, with that of a task that is not language."""
    return measure if task in ("", "language") else f"{measure} on {task}"


@dataclass(frozen=True)
class Record:
    """What came of one cell.

    Attributes:
        key: hash of the specification, as the record's file is named.
        spec: everything that the result depends on.
        label: of the scheme with its options.
        family: of the scheme.
        source: paper of the scheme.
        status: as in `docs/reliability.md`.
        error: why there is no result, in one line.
        trace: last calls or last lines before an error.
        quantities: facts by name.
        views: of quantities that tables show, by name.
        rows: the numbers, for tables.
        arrays: by name, for plots.
        corpus: facts of the text; empty for none.
        provenance: versions, machine, switches and times, by name.
        settings: that tell its label apart from others, as `name=value`.
    """

    key: str
    spec: Spec
    label: str
    family: str
    source: str
    status: Status = "ok"
    error: str = ""
    trace: tuple[str, ...] = ()
    quantities: dict[str, Quantity] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    arrays: dict[str, Array] = field(default_factory=dict)
    corpus: Facts = field(default_factory=dict)
    provenance: Facts = field(default_factory=dict)
    settings: tuple[str, ...] = ()

    @property
    def measure(self) -> str:
        """Return the name of the measure."""
        return self.spec.measure.name

    @property
    def task(self) -> str:
        """Return what its network was trained on; empty where none was trained."""
        trained = self.spec.kind == "training"
        return str(self.spec.setting.get("task", "language")) if trained else ""

    @property
    def measured(self) -> str:
        """Return its measure, with the task if that is not language."""
        return measured(self.measure, self.task)

    def made(self, name: str) -> str:
        """Return a fact of the provenance as text; "" if it does not say."""
        return str(self.provenance.get(name, ""))

    @property
    def seconds(self) -> float:
        """Return how long the cell took; 0 if it does not say."""
        return cast("float", self.provenance.get("seconds", 0))

    @property
    def repeatable_rows(self) -> list[Row]:
        """Return the rows that the same cell must have again."""
        return [row for row in self.rows if self.quantities[row.quantity].repeatable]

    @property
    def stays_true(self) -> bool:
        """Return whether it can be copied for its cell at any time."""
        timed = any(not quantity.repeatable for quantity in self.quantities.values())
        return self.status == "ok" and not timed

    def to_json(self) -> Body:
        """Return the body of the record's file, without the key it is named by."""
        return {
            "spec": self.spec.to_json(),
            "label": self.label,
            "family": self.family,
            "source": self.source,
            "status": self.status,
            "error": self.error,
            "trace": list(self.trace),
            "quantities": {
                name: _quantity_facts(quantity, self.views.get(name))
                for name, quantity in self.quantities.items()
            },
            "rows": [asdict(row) for row in self.rows],
            "arrays": {**self.arrays},
            "corpus": {**self.corpus} or None,
            "provenance": {**self.provenance},
        }

    @classmethod
    def from_json(cls, body: object) -> Self:
        """Return the record that a body with its key describes.

        Raises:
            ValueError: if a part is missing or of another type; the message names it.
        """
        given = dict(parse(body, dict, "record"))
        if given.get("corpus", ABSENT) is None:
            given["corpus"] = {}
        try:
            record = parse(given, cls, "record")
        except RecursionError as error:
            raise ValueError("record is nested too deep") from error
        names = {q.name for q in record.quantities.values()}
        names |= {row.quantity for row in record.rows}
        if unknown := names - record.quantities.keys():
            raise ValueError(f"rows of a quantity without facts: {min(unknown)}")
        for name in COUNTED:
            value = record.provenance.get(name, 0)
            parse(value, float, f"record.provenance.{name}")
        setting = record.spec.setting
        parse(setting.get("seed"), int, "record.spec.setting.seed")
        if setting.get("kind") not in SETTINGS.entries():
            raise _wrong("record.spec.setting.kind")
        views = {
            name: view
            for name, facts in given["quantities"].items()
            if (view := _view(facts.get("headline", ABSENT), name, record.quantities))
        }
        return replace(record, views=views)


def parse(value: object, kind: Any, where: str) -> Any:
    """Return a value that came from JSON as a type that records are made of.

    Args:
        value: of JSON; `ABSENT` for none.
        kind: a dataclass, or the annotation of a field of one.
        where: its name in messages.
    """
    parts, origin, inner = _types_of(kind)
    if parts:
        body = parse(value, dict, where)
        made = {
            name: parse(body.get(name, ABSENT), part, f"{where}.{name}")
            for name, part in parts.items()
            if name in body or name not in OMITTED
        }
        return kind(**made)
    if origin is tuple:
        items = enumerate(parse(value, list, where))
        return tuple(parse(item, inner[0], f"{where}.{i}") for i, item in items)
    if origin is dict:
        items = parse(value, dict, where).items()
        return {name: parse(item, inner[1], f"{where}.{name}") for name, item in items}
    if kind is Array:
        fits = _is_array(value)
    elif origin is Literal:
        fits = value in inner
    elif type(value) in (int, float):
        kinds = inner or (kind,)
        fits = (type(value) in kinds or float in kinds) and _is_number(value)
    else:
        fits = type(value) in (inner or (kind,))
    if not fits:
        raise _wrong(where)
    return value


@cache
def _types_of(kind: Any) -> tuple[dict[str, Any], Any, tuple[Any, ...]]:
    """Return the types of the fields of a dataclass, or what an annotation holds."""
    parts = {one.name: one.type for one in fields(kind)} if is_dataclass(kind) else {}
    return parts, get_origin(kind), get_args(kind)


def _wrong(where: str) -> ValueError:
    return ValueError(f"{where} is missing or not what it must be")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_array(value: object) -> bool:
    if isinstance(value, list):
        if set(map(type, value)) == {float}:  # most arrays: a shortcut
            return all(map(math.isfinite, value))
        return all(map(_is_array, value))
    return value is None or _is_number(value)


def _quantity_facts(quantity: Quantity, view: View | None) -> dict[str, Json]:
    """Return the facts of a quantity for a record; `repeatable` only where false."""
    headline: Json = None
    match view:
        case Headline():
            headline = [view.case, view.x]
        case Curve():
            headline = "curve"
        case ByCase():
            headline = {"cases_of": view.of.name if view.of else None}
        case Floor():
            headline = {"floor_of": view.of.name}
    facts: dict[str, Json] = {**asdict(quantity), "headline": headline}
    return {n: v for n, v in facts.items() if n != "repeatable" or not v}


def _view(headline: Any, name: str, quantities: dict[str, Quantity]) -> View | None:
    """Return the view of a quantity; a record calls it its headline.

    A `ByCase` of a quantity that the record does not know stands alone.
    """
    match headline:
        case None:
            return None
        case "curve":
            return Curve(quantities[name])
        case {"cases_of": None | str() as of}:
            return ByCase(quantities[name], quantities.get(of or ""))
        case {"floor_of": str(of)} if of in quantities:
            return Floor(quantities[name], quantities[of])
        case [str(case), None | int() | float() as x] if type(x) is not bool:
            return Headline(quantities[name], case, x)
    raise _wrong(f"record.quantities.{name}.headline")
