"""The plans of evaluations of a checkpoint: bits by length, and retrieval."""

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError
from transformers import AutoConfig, AutoTokenizer
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import RULES
from posenc_compare.hf.files import sha256_of
from posenc_compare.hf.places import UnsupportedModelError, check_converted
from posenc_compare.hf.retrieval import filler_of
from posenc_compare.hf.rotary import Rotary, rotary_of
from posenc_compare.hf.rules import rules_for, variants_for
from posenc_compare.hf.sizes import geometry_of
from posenc_compare.records.cells import Cell
from posenc_compare.registry import add_plugin
from posenc_compare.run.comparison import Comparison
from posenc_compare.run.devices import resolve_device
from posenc_compare.run.machine import fitted
from posenc_compare.run.plan import graphics_of
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.checkpoint import Checkpoint, lengths_of
from posenc_compare.settings.retrieval import Retrieval
from posenc_compare.settings.table import Work
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.validate import check_whole
from posenc_compare.variants import Variant

DESCRIBED = ("*.json",)  # files that say what a model is, without its weights
READ = (*DESCRIBED, "*.safetensors", "*.model", "*.txt", "*.jinja")
APART = 1e-5  # of frequencies; those that a model builds in float32 are off by 1e-6
BASES = ("rope_theta", "rotary_emb_base", "rope_base")
NUMBERS = (*BASES, "factor", "partial_rotary_factor", "rotary_pct", "beta_fast")
MEASURES = ("posenc_compare.hf.evaluate", "posenc_compare.hf.retrieval")


def evaluation(model: str, given: Body, work: Body, windows: int = 1) -> Comparison:
    """Return the comparison that reads a checkpoint; no weights are loaded.

    Args:
        model: a folder, a name on the hub, or a GGUF file.
        given: fields of `Checkpoint` by name.
        work: fields of `Work` by name.
        windows: of the longest length that are read, a cell for each.

    Raises:
        ConfigError: if a value cannot be used, or the model has not one kind of rotary
            positions that a scheme here has too.
        CorpusError: if the text is too small.
    """
    plan = _Plan(model, work, windows)
    setting = Checkpoint(**plan.facts, seed=windows - 1, **given).resolve(load_corpus)
    beyond = max(setting.test_lengths[-1], 2 * setting.trained)
    read = rules_for(plan.variant.build(plan.geometry), beyond, setting.rules)
    cells = [
        plan.cell(plan.variant, "checkpoint", setting, seed) for seed in range(windows)
    ]
    longest = setting.test_lengths[-1]
    return plan.comparison(
        cells, "checkpoint", plan.remarks(longest, setting.rules, bool(read))
    )


def retrieval(
    model: str, lengths: str, rules: str, given: Body, work: Body, windows: int = 1
) -> Comparison:
    """Return the comparison that asks a checkpoint for facts; no weights are loaded.

    All rules have the factor of the longest length.

    Args:
        model: a folder, a name on the hub, or a GGUF file.
        lengths: of the texts, in tokens, by comma.
        rules: by comma, or `all`.
        given: fields of `Retrieval` by name.
        work: fields of `Work` by name.
        windows: texts of each filler and length; each is a seed.

    Raises:
        ConfigError: if a value cannot be used, or the model has not one kind of rotary
            positions that a scheme here has too.
        CorpusError: if a text is too small.
    """
    plan = _Plan(model, work, windows)
    read = lengths_of(lengths)
    settings = [
        Retrieval(**plan.facts, read_length=length, seed=windows - 1, **given).resolve(
            load_corpus
        )
        for length in read
    ]
    for setting in settings:
        for filler in setting.read_fillers:
            filler_of(setting, filler)
    beyond = max(read[-1], 2 * plan.trained)
    scales = bool(rules_for(plan.variant.build(plan.geometry), beyond, rules))
    variants = variants_for(plan.variant, plan.geometry, read[-1], rules)
    cells = [
        plan.cell(variant, "retrieval", setting, seed)
        for seed in range(windows)
        for setting in settings
        for variant in variants.values()
    ]
    return plan.comparison(cells, "retrieval", plan.remarks(read[-1], rules, scales))


class _Plan:
    """What the plans of all measures of a checkpoint have in common.

    Args are those of `evaluation`.

    Raises:
        ConfigError: as `evaluation`.
    """

    def __init__(self, model: str, work: Body, windows: int) -> None:
        for module in MEASURES:
            add_plugin(module)
        self.work = Work(**{"device": "auto", **work})
        check_whole("windows", windows, 1, 1 << 16)
        self.place = local_place(model, READ)
        config, kinds = rotary_in(self.place)
        check_converted(config)
        self.rotary = one_rope(kinds)
        self.trained = self.rotary.length
        self.geometry = geometry_of(config.get_text_config(), self.trained)
        assert self.rotary.variant is not None
        self.variant = self.rotary.variant
        _check_tokenizer(self.place)

    @property
    def facts(self) -> dict[str, Any]:
        """Return the fields of a setting that the checkpoint decides."""
        return {
            "model": self.place.name,
            "model_sha256": sha256_of(self.place),
            "trained": self.trained,
            "device": resolve_device(self.work.device, on_gpu=True),
            "transformers": importlib.metadata.version("transformers"),
            "place": str(self.place.absolute()),
        }

    def cell(self, variant: Variant, measure: str, setting: Any, seed: int) -> Cell:
        """Return a cell of this machine."""
        one = replace(setting, seed=seed)
        return Cell(variant, measure, one, self.work.threads, graphics_of(one))

    def comparison(
        self, cells: list[Cell], name: str, remarks: tuple[str, ...]
    ) -> Comparison:
        """Return the comparison of some cells."""
        work = fitted(self.work, cells)
        return Comparison(
            cells, work, name=f"{name}-{self.place.stem}", remarks=remarks
        )

    def remarks(self, longest: int, rules: str, scales: bool) -> tuple[str, ...]:
        """Return why nothing is read under a rule, if nothing is.

        Args:
            longest: length, in tokens.
            rules: that were asked for.
            scales: whether there are any for the model.

        Raises:
            ConfigError: if rules are named, and there are none.
        """
        kind = self.rotary.rope_type
        if not scales and rules != "all":
            raise ConfigError(
                f"rules must be all of a rope that is scaled already ({kind}), got "
                f"{rules[:40]!r}"
            )
        if not scales:
            why = f"its rope is scaled already ({kind})"
        elif longest > self.trained:
            return ()
        else:
            why = f"no length is above {self.trained}, which it was trained at; "
            why += f"--lengths {self.trained},{2 * self.trained} would work"
        return (f"{self.place.name}: is read as trained, under no rule: {why}",)


def local_place(model: str, patterns: Sequence[str]) -> Path:
    """Return where a checkpoint lies here; one of the hub is fetched.

    Args:
        model: a folder, a name on the hub, or a GGUF file.
        patterns: of the files that are fetched.

    Raises:
        ConfigError: if there is none.
    """
    path = Path(model)
    if path.exists():
        return path
    if path.is_absolute() or model.startswith((".", "~")) or len(path.parts) > 2:
        raise _no_model(model, "there is no such folder or file")
    try:
        return Path(snapshot_download(model, allow_patterns=[*patterns]))
    except LocalEntryNotFoundError as error:
        reason = "it is not on this machine, and the hub cannot be reached"
        raise _no_model(model, reason) from error
    except Exception as error:  # no name, no such name
        raise _no_model(model, _reason(error)) from error


def rotary_in(place: Path) -> tuple[Any, list[Rotary]]:
    """Return the configuration of a checkpoint, and its kinds of rotary positions.

    Raises:
        ConfigError: if it has no configuration that can be read, or one that says two
            things.
        UnsupportedModelError: if it has no rotary positions.
    """
    config = configuration_in(place)
    return config, rotary_of(config)


def configuration_in(place: Path) -> Any:
    """Return the configuration of a checkpoint.

    Raises:
        ConfigError: if there is none that can be read, or it says two things.
    """
    given = {"gguf_file": place.name} if place.suffix == ".gguf" else {}
    folder = place.parent if given else place
    path = folder / "config.json"
    if not given and not path.is_file():
        raise _no_model(str(place), f"{path.name} is not there")
    if not given:
        _check_config(path)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, **given)
    except Exception as error:  # whatever a configuration makes transformers raise
        reason = _reason(error)
        if "trust_remote_code" in str(error):
            reason = "one that needs code from its folder, which is never run here"
        raise ConfigError(
            f"{place.name}: configuration must be one that transformers reads, got "
            f"{reason}"
        ) from error


def _check_config(path: Path) -> None:
    """Refuse rope parameters that transformers passes over, or reads otherwise.

    Raises:
        ConfigError: if there are any.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: must be JSON, got {_reason(error)}") from error
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: must be an object, got {type(given).__name__}")
    parts = {"": given, "rope_scaling": given.get("rope_scaling")}
    parts["rope_parameters"] = given.get("rope_parameters")
    stated: dict[str, float] = {}
    for part, values in parts.items():
        for name, value in values.items() if isinstance(values, dict) else ():
            where = f"{part}.{name}".lstrip(".")
            if name in NUMBERS and not _is_number(value):
                raise ConfigError(
                    f"{where} must be a number, got {value!r:.60}; "
                    f"{_as_number(value)} would work"
                )
            if name in BASES and value is not None:
                stated[where] = float(value)
            if part and name in ("rope_type", "type") and value not in RULES:
                known = ", ".join(sorted(RULES))
                more = "; 'longrope' is its name now" if value == "su" else ""
                raise ConfigError(
                    f"{where} must be of {known}, got {value!r:.60}{more}"
                    if value not in ROPE_INIT_FUNCTIONS
                    else f"{where}: rope here has no {value!r}"
                )
    if len({*stated.values()}) > 1:
        found = " and ".join(f"{name}={value:g}" for name, value in stated.items())
        raise ConfigError(f"config.json must state one base, got {found}")
    heads, width = given.get("num_attention_heads"), given.get("head_dim")
    if isinstance(width, int) and width % 2 and heads:
        raise ConfigError(f"head_dim must be even, got {width}; {width + 1} would work")


def _is_number(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool)
    )


def _as_number(value: object) -> str:
    try:
        return f"{float(str(value)):g}"
    except ValueError:
        return "10000.0"


def _no_model(model: str, reason: str) -> ConfigError:
    return ConfigError(
        f"model must be a folder with a config.json, a name on the hub or a GGUF file, "
        f"got {model[:200]!r}: {reason}"
    )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0][:300]


def one_rope(kinds: list[Rotary]) -> Rotary:
    """Return the rotary positions of a model that has one kind of them.

    Raises:
        UnsupportedModelError: if it has several, or those are of no scheme here.
    """
    turning = [one for one in kinds if one.rope_type != "none"]
    first = turning[0]
    if len(turning) == 1 and first.apart is not None and first.apart > APART:
        raise UnsupportedModelError(
            f"model must build the frequencies that its configuration states, got "
            f"some that are off by {first.apart:.1e}; `hf describe` shows them"
        )
    if len(turning) != 1 or first.variant is None or first.reason:
        found = ", ".join(f"{one.rope_type} ({one.layers})" for one in turning)
        why = next((f": {one.reason}" for one in turning if one.reason), "")
        raise UnsupportedModelError(
            f"model must have one kind of rotary positions, which `rope` has too, got "
            f"{found}{why}"
        )
    return first


def _check_tokenizer(place: Path) -> None:
    """Refuse a folder without a tokenizer before anything is computed.

    Raises:
        ConfigError: if it is one.
    """
    if not place.is_dir():
        return
    try:
        AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    except Exception as error:  # whatever its files make transformers raise
        raise ConfigError(
            f"model must have its tokenizer beside it, got {place.name!r}: "
            f"{_reason(error)}"
        ) from error
