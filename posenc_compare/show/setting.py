"""What all records of a plot share, in words."""

from collections.abc import Iterable

from posenc_compare.records.record import Facts, Record
from posenc_compare.records.sanitize import clean
from posenc_compare.settings.presets import PRESETS
from posenc_compare.settings.table import TABLE

STDLIB = "standard library"  # how the name of the default text ends
SIZES = ("layers", "width", "heads", "length", "steps", "batch", "learning_rate")
OTHERS = ("weight_decay", "longest", "test_bytes")
WORDS = {  # of a training, of a checkpoint or of a probe
    "model": "checkpoint {}",
    "trained": "trained at {} tokens",
    "layers": "{} layers",
    "width": "width {}",
    "heads": "{} heads",
    "positions": "{} positions",
    "tokens": "sequences of {} tokens",
    "length": "training length {}",
    "steps": "{} steps",
    "batch": "batches of {} sequences",
    "learning_rate": "peak learning rate {}",
    "dtype": "{}",
    "grid": "grid {}",
    "split": "evaluated on the {} documents",
}
SEVERAL = "no order: scores are of several texts"


def _sizes(made: list[Record]) -> str:
    """Return the sizes that all records share; empty for none.

    It reads like `2 layers, width 128, ...; text: NAME`.
    """
    trained = any(record.task for record in made)
    shared = shared_facts([record.spec.setting for record in made])
    known = {name: value for name, value in shared.items() if value != ""}
    if trained:
        known.pop("dtype", None)  # which is said where it is unusual
    if not texts_of(made):
        known.pop("split", None)
    words = [
        form.format(clean(str(known[name]), 40))
        for name, form in WORDS.items()
        if name in known
    ]
    parts = [", ".join(words + (_unusual(shared) if trained else []))]
    if text := shared_facts([record.corpus for record in made]).get("name"):
        parts.append(f"text: {clean(str(text), 60)}")
    return "; ".join(filter(None, parts))


def training_of(records: Iterable[Record]) -> str:
    """Return the sizes and the text that some trainings share, and their seeds."""
    made = [record for record in records if record.task]
    return f"{_sizes(made)}; {seeds_of(made)}"


def sizes_untrained(records: Iterable[Record]) -> str:
    """Return the sizes that all measures without training share; empty for none."""
    return _sizes([record for record in records if record.spec.kind == "probe"])


def short_setting(records: Iterable[Record]) -> str:
    """Return what all records share in few words, and the number of their seeds.

    It reads like `preset quick, n = 3 seeds`, or lists sizes where no preset has them.
    """
    made = list(records)
    shared = shared_facts([record.spec.setting for record in made])
    preset = preset_of(shared)
    words = ", ".join([f"preset {preset}", *_unusual(shared)])
    words = words if preset else _sizes(made)
    text = str(shared_facts([r.corpus for r in made if r.task]).get("name", ""))
    if preset and text and not text.endswith(STDLIB):
        words = f"{words}, text: {clean(text, 40)}"
    n = seeds_of(made)
    return f"{words}, {n}" if words else n


def _unusual(shared: Facts) -> list[str]:
    """Return words for the settings that are not the default."""
    return [
        one.metadata["caption"].format(clean(str(shared[name]), 40))
        for name, one in TABLE.items()
        if one.metadata["caption"] and shared.get(name, one.default) != one.default
    ]


def texts_of(records: Iterable[Record]) -> set[tuple[str, str]]:
    """Return what records were tested on: the hash of a text, and which documents."""
    return {
        (str(sha256), str(record.spec.setting.get("split", "")))
        for record in records
        if (sha256 := record.spec.setting.get("corpus_sha256"))
    }


def coverage(records: Iterable[Record]) -> str:
    """Return how many cells have a result, and the statuses of the others.

    It reads like `1 of 2 cells ok, 1 lost`.
    """
    statuses = [record.status for record in records]
    others = sorted(set(statuses) - {"ok"})
    parts = [f"{statuses.count('ok')} of {len(statuses)} cells ok"]
    return ", ".join(parts + [f"{statuses.count(other)} {other}" for other in others])


def seeds_of(records: Iterable[Record]) -> str:
    """Return how many seeds each scheme has, such as `n = 3 seeds`."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for one in records:
        seeds.setdefault((one.label, one.task), set()).add(one.spec.seed)
    counts = sorted({len(found) for found in seeds.values()})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"n = {n} seed{'' if counts == [1] else 's'}"


def preset_of(setting: Facts) -> str:
    """Return the name of the preset that has all sizes of a training, or nothing."""
    for name, preset in PRESETS.items():
        wanted = {size: getattr(preset.training, size) for size in (*SIZES, *OTHERS)}
        if wanted.items() <= setting.items():
            return name
    return ""


def shared_facts(parts: list[Facts]) -> Facts:
    """Return the facts that all parts have with the same value."""
    first = parts[0] if parts else {}
    return {
        name: value
        for name, value in first.items()
        if all(name in one and one[name] == value for one in parts)
    }
