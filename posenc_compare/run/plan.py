"""The plan of a comparison: from names and settings to the cells that are missing."""

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell, setting_of
from posenc_compare.records.store import Store
from posenc_compare.registry import SCHEMES, SETTINGS
from posenc_compare.run.choices import Settings
from posenc_compare.run.devices import graphics
from posenc_compare.settings.setting import Setting
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.tasks.random_task import check_length
from posenc_compare.validate import check_text
from posenc_compare.variants import Variant

MOST_CELLS = 100_000  # cells that nobody plans by intention
SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def plan(
    variants: Sequence[Variant],
    measures: Sequence[str],
    settings: Settings,
    threads: int,
) -> list[Cell]:
    """Return the cells of a comparison, those of one seed together.

    More than `MOST_CELLS` cells are refused.
    """
    used = settings.used_by(measures)
    fitting = {s: [v for v in variants if s.takes(axes_of(v))] for s in used}
    parts = [
        (name, setting, settings.seeds_of(name))
        for name in sorted(measures, key=lambda name: place_of(setting_of(name).kind))
        for setting in used
        if setting.kind == setting_of(name).kind
    ]
    count = sum(len(fitting[setting]) * len(seeds) for _, setting, seeds in parts)
    if count > MOST_CELLS:
        raise ConfigError(
            f"the comparison must have at most {MOST_CELLS} cells, got {count}: "
            f"{len(variants)} variants, {len(measures)} measures, "
            f"{len(settings.trainings)} tasks, {len(settings.seeds)} seeds"
        )
    for setting in used:
        if isinstance(setting, Training):
            check_length(setting)
    resolved = {setting: setting.resolve(load_corpus) for setting in used}
    return [
        Cell(
            variant,
            name,
            replace(resolved[setting], seed=seed),
            threads,
            graphics_of(setting),
        )
        for seed in settings.seeds
        for name, setting, seeds in parts
        if seed in seeds
        for variant in fitting[setting]
    ]


def graphics_of(setting: Setting) -> str:
    """Return the name of the GPU of this machine, if a setting is for one."""
    return graphics() if setting.device == "cuda" else ""


def axes_of(variant: Variant) -> int:
    """Return how many coordinates a position has."""
    return SCHEMES.entry(variant.name).facts.get("axes", 1)


def place_of(kind: str) -> int:
    """Return the place of a kind of cells among those of a seed, quick ones first."""
    return SETTINGS.entry(kind).facts["order"]


def missing(
    cells: Iterable[Cell], store: Store, retry: Iterable[str] = ()
) -> dict[str, Cell]:
    """Return by key, each once, the cells that have no intact record."""
    return {
        key: cell
        for key, cell in {cell.key(): cell for cell in cells}.items()
        if (record := store.read(key)) is None or record["status"] in retry
    }


def in_shard(cells: list[Cell], shard: str) -> list[Cell]:
    """Return the cells of one of several runs that share the work without talking.

    `shard` is `I/N`, the I-th of N. Which cells it holds depends on their keys alone.
    """
    check_text("shard", shard, "1/4")
    match = SHARD.fullmatch(shard)
    mine, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= mine <= count:
        raise ConfigError(
            f"shard must be I/N with I from 1 to N, of six digits at most, got "
            f"{shard[:40]!r}; 1/4 would work"
        )
    return [cell for cell in cells if int(cell.key(), 16) % count == mine - 1]


def shuffle_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells seed by seed, the quick kinds of a seed first.

    The rest of the order is this run's own: runs that share a folder then seldom
    compute the same cell at the same time.
    """

    def place(cell: Cell) -> tuple[int, int, int]:
        setting = cell.setting
        return setting.seed, place_of(setting.kind), secrets.randbits(64)

    return sorted(cells, key=place)
