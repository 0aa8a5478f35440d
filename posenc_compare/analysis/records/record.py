"""What a record says, with its types: one strict reader and one writer.

A record may be a stranger's. `Record.from_json` takes nothing that is missing or of
another type than it must be; what it does not know it leaves out.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Self, TypeVar, cast

from posenc_compare.analysis.core.canonical import Body, Json, Scalar
from posenc_compare.analysis.core.quantities import (
    Array,
    Better,
    ByCase,
    Curve,
    Floor,
    Headline,
    Quantity,
    Row,
    View,
)
from posenc_compare.registry import SETTINGS

T = TypeVar("T")
Facts = dict[str, Scalar]

STATUSES = ("ok", "failed", "lost", "unsupported")
BETTER = ("lower", "higher", "neither")
MANY = 10_000  # rows, quantities and facts that a record may have
COUNTED = ("seconds", "attempts", "resumed_from_step", "peak_memory_bytes")
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
        numbers: version of the code that all schemes share; 0 for older records.
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

    @classmethod
    def from_json(cls, fields: "Fields") -> Self:
        """Read it."""
        scheme, measure = fields.part("scheme"), fields.part("measure")
        setting = fields.part("setting")
        setting.choice("kind", tuple(SETTINGS.entries()))
        setting.whole("seed")
        return cls(
            SchemeSpec(
                scheme.text("name"),
                scheme.part("options").scalars(),
                scheme.text("code", scheme.text("source_sha256", "")),
            ),
            MeasureSpec(
                measure.text("name"),
                measure.whole("version"),
                measure.text("code", measure.text("source_sha256", "")),
            ),
            setting.scalars(),
            fields.whole("threads"),
            fields.whole("numbers", 0),
            fields.text("torch"),
            fields.text("graphics", ""),
            fields.text("modified", ""),
        )


def measured(measure: str, task: str) -> str:
    """Return what is said of a cell: its measure, with a task that is not language."""
    return measure if task in ("", "language") else f"{measure} on {task}"


@dataclass(frozen=True)
class Provenance:
    """Where a record was made, as far as it says.

    Attributes:
        facts: versions, machine, switches and times, by name.
    """

    facts: Facts

    def text(self, name: str, default: str = "") -> str:
        """Return a fact as text."""
        return str(self.facts.get(name, default))

    def with_facts(self, **facts: Scalar) -> "Provenance":
        """Return it with more facts."""
        return Provenance({**self.facts, **facts})

    @property
    def seconds(self) -> float:
        """Return how long the cell took; 0 if it does not say."""
        return cast("float", self.facts.get("seconds", 0))

    @classmethod
    def from_json(cls, fields: "Fields") -> Self:
        """Read it."""
        for name in COUNTED:
            fields.take(name, lambda value: type(value) in (int, float), 0)
        return cls(fields.scalars())


@dataclass(frozen=True)
class Record:
    """What came of one cell.

    Attributes:
        key: hash of the specification, as the record's file is named.
        spec: everything that the result depends on.
        label: of the scheme with its options.
        family: of the scheme.
        source: paper of the scheme.
        status: one of `STATUSES`.
        error: why there is no result, in one line.
        trace: last calls or last lines before an error.
        quantities: facts by name.
        views: of quantities that tables show, by name.
        rows: the numbers, for tables.
        arrays: by name, for plots.
        corpus: facts of the text; empty for none.
        provenance: where it was made.
        settings: that tell its label apart from others, as `name=value`.
    """

    key: str
    spec: Spec
    label: str
    family: str
    source: str
    status: str = "ok"
    error: str = ""
    trace: tuple[str, ...] = ()
    quantities: dict[str, Quantity] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    arrays: dict[str, Array] = field(default_factory=dict)
    corpus: Facts = field(default_factory=dict)
    provenance: Provenance = Provenance({})
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

    @property
    def repeatable_rows(self) -> list[Row]:
        """Return the rows that the same cell must have again."""
        return [row for row in self.rows if self.quantities[row.quantity].repeatable]

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
                name: quantity.stored(self.views.get(name))
                for name, quantity in self.quantities.items()
            },
            "rows": [asdict(row) for row in self.rows],
            "arrays": {**self.arrays},
            "corpus": {**self.corpus} or None,
            "provenance": {**self.provenance.facts},
        }

    @classmethod
    def from_json(cls, body: object) -> Self:
        """Return the record that a body with its key describes.

        Raises:
            ValueError: if a part is missing or not what it must be; it says which.
        """
        fields = Fields(body, "record")
        try:
            facts = fields.named("quantities")
            quantities = {name: _quantity(name, part) for name, part in facts.items()}
            record = cls(
                fields.text("key"),
                Spec.from_json(fields.part("spec")),
                fields.text("label"),
                fields.text("family"),
                fields.text("source"),
                fields.choice("status", STATUSES),
                fields.text("error"),
                fields.texts("trace"),
                quantities,
                _views(facts, quantities),
                tuple(_row(part) for part in fields.parts("rows")),
                fields.arrays("arrays"),
                fields.optional("corpus").scalars(),
                Provenance.from_json(fields.optional("provenance")),
            )
        except RecursionError as error:
            raise ValueError("record is nested too deep") from error
        if unknown := {row.quantity for row in record.rows} - set(quantities):
            raise ValueError(f"rows of a quantity without facts: {min(unknown)}")
        return record


class Fields:
    """The fields of a JSON object, each read with its type.

    Args:
        value: which must be an object of not too many fields.
        where: its name in messages.

    Raises:
        ValueError: if it is none.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict) or len(value) > MANY:
            raise _wrong(where)
        self.body = cast("dict[str, Json]", value)
        self.where = where

    def take(
        self, name: str, fits: Callable[[object], bool], default: object = ABSENT
    ) -> Json:
        """Return a field that fits.

        Raises:
            ValueError: if it does not, or is missing and has no default.
        """
        value = self.body.get(name, default)
        if value is ABSENT or not fits(value):
            raise _wrong(f"{self.where}.{name}")
        return cast("Json", value)

    def typed(self, name: str, kind: type[T], default: object = ABSENT) -> T:
        """Return a field of exactly that type."""
        return cast("T", self.take(name, lambda value: type(value) is kind, default))

    def text(self, name: str, default: object = ABSENT) -> str:
        """Return a text."""
        return self.typed(name, str, default)

    def whole(self, name: str, default: object = ABSENT) -> int:
        """Return a whole number."""
        return self.typed(name, int, default)

    def number(self, name: str) -> float | None:
        """Return a finite number, or None."""
        return cast("float | None", self.take(name, _number))

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """Return one of some texts."""
        return cast("str", self.take(name, lambda value: value in known))

    def part(self, name: str) -> "Fields":
        """Return an object."""
        return Fields(self.body.get(name), f"{self.where}.{name}")

    def optional(self, name: str) -> "Fields":
        """Return an object, an empty one for None."""
        value = self.take(name, lambda value: value is None or type(value) is dict)
        return Fields(value or {}, f"{self.where}.{name}")

    def named(self, name: str) -> dict[str, "Fields"]:
        """Return an object of objects."""
        part = self.part(name)
        return {inner: part.part(inner) for inner in part.body}

    def parts(self, name: str) -> list["Fields"]:
        """Return a list of objects."""
        values = self._list(name)
        where = f"{self.where}.{name}"
        return [Fields(value, f"{where}.{i}") for i, value in enumerate(values)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty if it is missing."""
        values = self._list(name, [])
        if not all(type(value) is str for value in values):
            raise _wrong(f"{self.where}.{name}")
        return tuple(map(str, values))

    def scalars(self) -> Facts:
        """Return the fields, all of which must be text, numbers, truths or None."""
        return {name: cast("Scalar", self.take(name, _scalar)) for name in self.body}

    def arrays(self, name: str) -> dict[str, Array]:
        """Return an object of nested lists of numbers."""
        part = self.part(name)
        return {n: cast("Array", part.take(n, _array)) for n in part.body}

    def _list(self, name: str, default: object = ABSENT) -> list[Json]:
        values = self.typed(name, list, default)
        if len(values) > MANY:
            raise _wrong(f"{self.where}.{name}")
        return values


def _wrong(where: str) -> ValueError:
    return ValueError(f"{where} is missing or not what it must be")


def _number(value: object) -> bool:
    known = (
        type(value) in (int, float) and abs(cast("float", value)) <= sys.float_info.max
    )
    return value is None or known


def _scalar(value: object) -> bool:
    return isinstance(value, str | bool) or _number(value)


def _array(value: object) -> bool:
    return all(map(_array, value)) if isinstance(value, list) else _number(value)


def _quantity(name: str, fields: Fields) -> Quantity:
    return Quantity(
        name,
        fields.text("unit"),
        cast("Better", fields.choice("better", BETTER)),
        fields.text("zero"),
        fields.text("x"),
        fields.text("title"),
        fields.typed("repeatable", bool, True),
    )


def _views(
    facts: dict[str, Fields], quantities: dict[str, Quantity]
) -> dict[str, View]:
    """Return the views of quantities, each of which a record calls a headline.

    Records of before say `cases` of what continues their one curve; what continues a
    quantity that a record does not know continues none.
    """
    curves = [n for n, part in facts.items() if part.body.get("headline") == "curve"]
    views: dict[str, View] = {}
    for name, part in facts.items():
        quantity = quantities[name]
        match part.body.get("headline", ABSENT):
            case None:
                continue
            case "curve":
                views[name] = Curve(quantity)
            case "cases":
                views[name] = ByCase(
                    quantity, quantities[curves[0]] if len(curves) == 1 else None
                )
            case {"cases_of": None}:
                views[name] = ByCase(quantity)
            case {"cases_of": str(of)}:
                views[name] = ByCase(quantity, quantities.get(of))
            case {"floor_of": str(of)} if of in quantities:
                views[name] = Floor(quantity, quantities[of])
            case [str(case), x] if _number(x):
                views[name] = Headline(quantity, case, cast("float | None", x))
            case _:
                raise _wrong(f"{part.where}.headline")
    return views


def _row(fields: Fields) -> Row:
    return Row(
        fields.text("quantity"),
        fields.number("value"),
        fields.number("x"),
        fields.text("case"),
        fields.text("note"),
    )
