"""From flags and a TOML file to the settings of a run.

A flag wins over the file, the file over the preset. Every key is checked against the
settings that exist.
"""

import difflib
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from posenc_compare.analysis.checks import check_choice, check_whole
from posenc_compare.analysis.devices import resolve_device
from posenc_compare.analysis.settings import PRESETS, ProbeSetting, Training
from posenc_compare.errors import ConfigError

OWN = ("seed", "device", "corpus_sha256")  # a run sets these itself


@dataclass(frozen=True)
class Settings:
    """What a run is made from, beside schemes and measures."""

    preset: str
    training: Training
    probe: ProbeSetting
    seeds: int
    threads: int


def settle(
    config: Path | None, given: dict[str, Any], device: str, threads: int
) -> Settings:
    """Return the settings of a run.

    Args:
        config: TOML file, or None.
        given: flags by name, None where not given.
        device: auto, cpu or cuda.
        threads: of the CPU for one cell.

    Raises:
        ConfigError: if a key is unknown, or a value has the wrong type or range.
    """
    chosen = _read(config) if config else {}
    chosen |= {key: value for key, value in given.items() if value is not None}
    preset = chosen.pop("preset", "quick")
    check_choice("preset", preset, tuple(PRESETS))
    training, seeds = PRESETS[preset]
    seeds = chosen.pop("seeds", seeds)
    check_whole("seeds", seeds, 1, 10_000)
    check_whole("threads", threads, 1, 1024)
    device = resolve_device(device)
    probe = ProbeSetting(
        positions=chosen.pop("positions", ProbeSetting.positions),
        dtype=chosen.pop("probe_dtype", ProbeSetting.dtype),
        width=chosen.get("width", training.width),
        heads=chosen.get("heads", training.heads),
        device=device,
    )
    training = replace(training, **chosen, device=device)
    return Settings(preset, training, probe, seeds, threads)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        read = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: must be readable TOML, got {error}") from error
    known = {"preset", "seeds", "positions", "probe_dtype"}
    known |= {field.name for field in fields(Training)} - set(OWN)
    chosen = {}
    for key, value in read.items():
        name = key.replace("-", "_")
        if name not in known or name in chosen:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            what = "repeated" if name in chosen else "unknown"
            raise ConfigError(
                f"{path}:{_line(text, key)}: {what} key {key[:80]!r}{hint}"
            )
        chosen[name] = value
    return chosen


def _line(text: str, key: str) -> int:
    """Return the number of the first line that begins with a key or its table."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip().lstrip("['\"").startswith(key):
            return number
    return 1
