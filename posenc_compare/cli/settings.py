"""From flags and a TOML file to the settings of a run.

A flag wins over the file, the file over the preset. Every key is checked against the
settings that exist.
"""

import math
import re
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from posenc_compare.analysis.core.presets import PRESETS
from posenc_compare.analysis.core.settings import (
    ProbeSetting,
    Training,
    sides_of,
)
from posenc_compare.analysis.engine.devices import resolve_device
from posenc_compare.errors import ConfigError
from posenc_compare.validate import check_choice, check_whole, hint, read_regular

OWN = ("seed", "device", "corpus_sha256")  # a run sets these itself
UNTRAINED = {"width", "heads", "positions", "probe_dtype"}  # what a grid takes
LONG = 1 << 20  # bytes of a file of settings


@dataclass(frozen=True)
class Settings:
    """What a run is made from, beside schemes and measures."""

    preset: str
    training: Training
    probe: ProbeSetting
    seeds: int
    threads: int

    @property
    def name(self) -> str:
        """Return the name of the folder that a run goes to by default."""
        return f"grid-{self.probe.grid}" if self.probe.grid else self.preset


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
    chosen, places = _read(config) if config else ({}, {})
    flags = {key: value for key, value in given.items() if value is not None}
    try:
        return _settled({**chosen, **flags}, device, threads)
    except ConfigError as error:
        # Messages begin with what is wrong; where the file says so, it is named.
        name = str(error).partition(" ")[0]
        if name in places and name not in flags:
            raise ConfigError(f"{places[name]}: {error}") from error
        raise


def _settled(chosen: dict[str, Any], device: str, threads: int) -> Settings:
    preset = chosen.pop("preset", "quick")
    check_choice("preset", preset, tuple(PRESETS))
    training, seeds = PRESETS[preset]
    seeds = chosen.pop("seeds", seeds)
    check_whole("seeds", seeds, 1, 10_000)
    check_whole("threads", threads, 1, 1024)
    grid = chosen.pop("grid", None)
    for name in chosen.keys() - UNTRAINED if grid is not None else ():
        raise ConfigError(f"{name} must be left out on a grid, where none is trained")
    cells = 0 if grid is None else math.prod(sides_of(grid))
    probe = ProbeSetting(
        positions=chosen.pop("positions", cells or ProbeSetting.positions),
        tokens=cells or ProbeSetting.tokens,
        grid=grid or "",
        dtype=chosen.pop("probe_dtype", ProbeSetting.dtype),
        width=chosen.get("width", training.width),
        heads=chosen.get("heads", training.heads),
        device=resolve_device(device, on_gpu=ProbeSetting.on_gpu),
    )
    place = resolve_device(device, on_gpu=Training.on_gpu)
    training = replace(training, **chosen, device=place)
    return Settings(preset, training, probe, seeds, threads)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a TOML file by name, and where it has each."""
    try:
        text = read_regular(path, LONG).decode("utf-8-sig")
        read = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise ConfigError(f"{place}: must be readable TOML, got {error}") from error
    known = {"preset", "seeds", "positions", "probe_dtype", "grid"}
    known |= {field.name for field in fields(Training)} - set(OWN)
    chosen, places = {}, {}
    for key, value in read.items():
        name, place = key.replace("-", "_"), f"{path}:{_line(text, key)}"
        if name not in known:
            raise ConfigError(f"{place}: unknown key {key[:80]!r}{hint(name, known)}")
        if name in chosen:
            raise ConfigError(f"{place}: repeated key {key[:80]!r}")
        chosen[name], places[name] = value, place
    return chosen, places


def _line(text: str, key: str) -> int:
    """Return the number of the first line that gives a key a value or is its table."""
    given = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if given.match(line)), 1)
