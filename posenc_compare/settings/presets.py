"""Named presets of sizes for a comparison."""

from dataclasses import dataclass, replace

from posenc_compare.settings.table import TABLE, Network
from posenc_compare.settings.training import Training


@dataclass(frozen=True)
class Preset:
    """Sizes under one name."""

    training: Training
    seeds: int
    probe_seeds: int | None = None  # for measures without training, if fewer
    by_task: bool = True  # whether sizes that a task states replace these


SURVEY = Training(length=128, steps=1500, learning_rate=4e-3, test_bytes=65_536)
PRESETS: dict[str, Preset] = {
    "quick": Preset(
        Training(
            width=64,
            length=32,
            steps=300,
            batch=8,
            learning_rate=0.012,
            test_bytes=4096,
            tests="lengths",
        ),
        seeds=6,
        probe_seeds=1,
        by_task=False,
    ),
    "survey": Preset(SURVEY, seeds=6),
    "standard": Preset(replace(SURVEY, steps=6000), seeds=6),
    "gpu": Preset(
        Training(
            layers=6,
            width=384,
            heads=6,
            length=512,
            steps=5000,
            batch=64,
            learning_rate=1e-3,
            test_bytes=524_288,
            dtype="bfloat16",
        ),
        seeds=10,
    ),
}


def default_text(name: str) -> str:
    """Return the default of a setting, or its defaults by preset."""
    own = [_text(_default(name, preset)) for preset in PRESETS]
    if len({*own}) == 1:
        return own[0]
    return ", ".join(f"{p} {value}" for p, value in zip(PRESETS, own, strict=True))


def _default(name: str, preset: str) -> object:
    if name == "seeds":
        return PRESETS[preset].seeds
    trained = name in Network.__dataclass_fields__
    return getattr(PRESETS[preset].training, name) if trained else TABLE[name].default


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
