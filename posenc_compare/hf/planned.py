"""The plans of evaluations of a checkpoint: bits by length, and retrieval."""

import importlib.metadata
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import geometry_of
from posenc_compare.hf.checkpoint import (
    READ,
    TOKENS,
    configuration_in,
    local_place,
    reason_of,
    sha256_of,
    source_of,
)
from posenc_compare.hf.needles import haystack, least_length
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.readings import mixes
from posenc_compare.hf.retrieval import filler_of
from posenc_compare.hf.rotary import one_rope
from posenc_compare.hf.rules import rules_for, variants_for
from posenc_compare.hf.tiny import tiny
from posenc_compare.records.cells import Cell
from posenc_compare.registry import add_plugin
from posenc_compare.run.comparison import Comparison
from posenc_compare.run.devices import fit_to_machine, resolve_device
from posenc_compare.run.plan import graphics_of
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.checkpoint import BYTES, LONGEST, Checkpoint, lengths_of
from posenc_compare.settings.retrieval import Retrieval
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.setting import STDLIB
from posenc_compare.settings.table import Work
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.validate import check_whole
from posenc_compare.variants import Variant

MEASURES = ("posenc_compare.hf.evaluate", "posenc_compare.hf.retrieval")


def evaluation(model: str, given: Body, work: Body, windows: int = 1) -> Comparison:
    """Return the comparison that reads a checkpoint; no weights are loaded.

    Args:
        model: a folder, a name on the hub, or a GGUF file.
        given: fields of `Checkpoint` by name.
        work: fields of `Work` by name.
        windows: of the longest length that are read, a cell for each.
    """
    plan = _Plan(model, work, windows)
    setting = Checkpoint(**plan.facts, **given).resolve(load_corpus)
    remarks = plan.remarks(setting.test_lengths[-1], setting.rules)
    return plan.comparison("checkpoint", [(plan.variant, setting)], remarks)


def retrieval(
    model: str, lengths: str, rules: str, given: Body, work: Body, windows: int = 1
) -> Comparison:
    """Return the comparison that asks a checkpoint for facts; no weights are loaded.

    All rules have the factor of the longest length. Arguments and errors
    are those of `evaluation`, except that `lengths` and `rules` are comma-separated,
    and that fields of `Retrieval` are accepted too.
    """
    plan = _Plan(model, work, windows)
    _check_attention(plan.config)
    read = lengths_of(lengths)
    settings = [
        Retrieval(**plan.facts, read_length=length, **given).resolve(load_corpus)
        for length in read
    ]
    for setting in settings:
        for filler in setting.read_fillers:
            filler_of(setting, filler)
    remarks = plan.remarks(read[-1], rules)
    variants = variants_for(plan.variant, plan.geometry, read[-1], rules)
    _check_room(_tokenizer(plan.place), settings[0])  # the shortest
    pairs = [(one, setting) for setting in settings for one in variants.values()]
    return plan.comparison("retrieval", pairs, remarks)


def retrieval_command(
    model: str, config: Any, lengths: Iterable[int], windows: int
) -> str:
    """Return the command that compares rules by retrieval at lengths that it can read.

    A length without room for the needles is replaced by the least that has it.

    Raises:
        ConfigError: if the model has no tokenizer, or other layers than attention.
    """
    _check_attention(config)
    least = least_length(_tokenizer(local_place(model, TOKENS)))
    read = sorted({min(max(length, least), LONGEST) for length in lengths})
    words = ["hf", "evaluate", model, "--retrieval", "--lengths"]
    words += [",".join(map(str, read)), "--windows", str(windows)]
    held_out = sum(map(len, load_corpus(STDLIB).test))
    if BYTES * read[-1] * windows > held_out:
        words += ["--test-corpus", "TEXT"]
    return shlex.join([*words, "--out", "DIR"])


class _Plan:
    """What the plans of all measures of a checkpoint have in common."""

    def __init__(self, model: str, work: Body, windows: int) -> None:
        for module in MEASURES:
            add_plugin(module)
        self.work = Work(**{"device": "auto", **work})
        check_whole("windows", windows, 1, 1 << 16)
        self.windows = windows
        self.place = local_place(model, READ)
        self.notes: list[str] = []  # of its configuration
        self.config = config = configuration_in(self.place, self.notes.append)
        self.variant, self.rope_type, self.trained = one_rope(config)
        self.geometry = geometry_of(config.get_text_config(), self.trained)
        if self.place.is_dir():  # refused before anything is computed
            _tokenizer(self.place)

    @property
    def facts(self) -> dict[str, Any]:
        """Return the fields of a setting that the checkpoint and windows decide."""
        return {
            "model": self.place.name,
            "model_sha256": sha256_of(self.place),
            "trained": self.trained,
            "seed": self.windows - 1,  # of the last window
            "device": resolve_device(self.work.device, on_gpu=True),
            "transformers": importlib.metadata.version("transformers"),
            "place": str(self.place.absolute()),
        }

    def comparison(
        self, measure: str, pairs: list[tuple[Variant, Any]], remarks: tuple[str, ...]
    ) -> Comparison:
        """Return the comparison of variants with settings, in all windows."""
        cells = []
        for seed in range(self.windows):
            for variant, setting in pairs:
                one, threads = replace(setting, seed=seed), self.work.threads
                cells.append(Cell(variant, measure, one, threads, graphics_of(one)))
        work, name = fit_to_machine(self.work, cells), f"{measure}-{self.place.stem}"
        return Comparison(cells, work, name=name, remarks=remarks)

    def remarks(self, longest: int, rules: str) -> tuple[str, ...]:
        """Return notes, and why nothing is evaluated under a rule, if nothing is."""
        kind, beyond = self.rope_type, max(longest, 2 * self.trained)
        scales = rules_for(self.variant.build(self.geometry), beyond, rules)
        if not scales and rules != "all":
            raise ConfigError(
                f"rules must be all if the configuration already scales rope "
                f"({kind}), got {rules[:40]!r}"
            )
        if scales and longest > self.trained:
            return (*self.notes,)
        why = f"its configuration already scales rope ({kind})"
        if scales:
            why = f"no length is above its trained length of {self.trained}; --lengths "
            why += f"{self.trained},{2 * self.trained} would work"
        line = f"{self.place.name} is evaluated as trained, without rules: {why}"
        return (*self.notes, line)


def _check_attention(config: Any) -> None:
    if mixes(tiny(config)):
        raise UnsupportedModelError(
            f"{config.model_type}: must have attention alone, since states of other "
            f"layers cannot be put back after a question; `hf evaluate` without "
            f"--retrieval would work"
        )


def _check_room(tokenizer: Any, setting: Retrieval) -> None:
    """Refuse a length without room for its needles before anything is computed."""
    for seed in range(setting.seed + 1):
        one = replace(setting, seed=seed)
        for filler in one.read_fillers:
            text, drawn = filler_of(one, filler), stream_seed(filler, seed)
            haystack(text, tokenizer, one.read_length, one.needles, drawn)


def _tokenizer(place: Path) -> Any:
    """Return the tokenizer of a folder or a GGUF file; refuse a folder without one."""
    try:
        return AutoTokenizer.from_pretrained(**source_of(place))
    except Exception as error:  # whatever its files make transformers raise
        raise ConfigError(
            f"model must be a folder with a tokenizer that transformers loads, got "
            f"{reason_of(error)} in {place.name[:200]!r}; the files that the "
            f"tokenizer's save_pretrained writes would work"
        ) from error
