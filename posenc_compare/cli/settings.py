"""From flags and a TOML file to the settings of a run.

A flag wins over the file, the file over the preset. Every key is checked against the
settings that exist.
"""

import difflib
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from posenc_compare.analysis.checks import check_choice, check_whole
from posenc_compare.analysis.devices import resolve_device
from posenc_compare.analysis.probe import Probe
from posenc_compare.analysis.training.setting import PRESETS, Training
from posenc_compare.errors import ConfigError

OWN = ("seed", "device", "corpus_sha256")  # a run sets these itself


@dataclass(frozen=True)
class Settings:
    """What a run is made from, beside schemes and measures."""

    preset: str
    training: Training
    probe: Probe
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
        threads: of the CPU; 0 leaves torch's choice.

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
    check_whole("threads", threads, 0, 1024)
    device = resolve_device(device)
    probe = Probe(
        positions=chosen.pop("positions", Probe.positions),
        dtype=chosen.pop("probe_dtype", Probe.dtype),
        width=chosen.get("width", training.width),
        heads=chosen.get("heads", training.heads),
        device=device,
    )
    training = replace(training, **chosen, device=device)
    return Settings(preset, training, probe, seeds, threads or torch.get_num_threads())


def _read(path: Path) -> dict[str, Any]:
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: must be readable TOML, got {error}") from error
    known = {"preset", "seeds", "positions", "probe_dtype"}
    known |= {field.name for field in fields(Training)} - set(OWN)
    for key in read:
        if key.replace("-", "_") not in known:
            near = difflib.get_close_matches(key, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError(f"{path}: unknown key {key[:80]!r}{hint}")
    return {key.replace("-", "_"): value for key, value in read.items()}
