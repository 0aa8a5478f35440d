"""What all records of a table or a plot share, in words: for captions."""

from collections.abc import Iterable

from posenc_compare.analysis.core.canonical import Scalar
from posenc_compare.analysis.core.presets import PRESETS
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.record import Facts, Record

SIZES = ("layers", "width", "heads", "length", "steps", "batch", "learning_rate")
OTHERS = ("norm", "weight_decay", "longest", "test_bytes")
NETWORK = (
    ("layers", "{} layers"),
    ("width", "width {}"),
    ("heads", "{} heads"),
    ("length", "training length {}"),
    ("steps", "{} steps"),
    ("batch", "batches of {} sequences"),
    ("learning_rate", "peak rate {}"),
    ("split", "read on the {} documents"),
)
PROBE = (
    ("width", "width {}"),
    ("heads", "{} heads"),
    ("positions", "{} positions"),
    ("tokens", "sequences of {} tokens"),
    ("dtype", "{}"),
    ("grid", "grid {}"),
)


def setting_line(records: Iterable[Record]) -> str:
    """Return a sentence of the sizes that all records share; empty for none.

    It reads like `Preset quick: 2 layers, width 128, ...; text: NAME`.
    """
    made = list(records)
    trained = [record for record in made if record.task]
    shared = shared_facts([record.spec.setting for record in trained or made])
    names = NETWORK if trained else PROBE
    words = ", ".join(
        form.format(clean(str(shared[name]), 40))
        for name, form in names
        if name in shared and shared[name] != ""
    )
    text = shared_facts([record.corpus for record in trained]).get("name", "")
    preset = preset_of(shared) if trained else ""
    parts = [f"preset {preset}: {words}" if preset else words]
    if text:
        parts.append(f"text: {clean(str(text), 60)}")
    line = "; ".join(part for part in parts if part)
    return f"{line[:1].upper()}{line[1:]}." if line else ""


def preset_of(setting: Facts) -> str:
    """Return the name of the preset that has all sizes of a training, or nothing."""
    for name, preset in PRESETS.items():
        wanted = {size: getattr(preset.training, size) for size in (*SIZES, *OTHERS)}
        if wanted.items() <= setting.items():
            return name
    return ""


def shared_facts(parts: list[Facts]) -> Facts:
    """Return the facts that all parts have with the same value."""
    if not parts:
        return {}
    first, *others = parts
    absent: Scalar = None
    return {
        name: value
        for name, value in first.items()
        if all(name in one and one.get(name, absent) == value for one in others)
    }
