"""A checkpoint: its files on this machine, its configuration and its weights."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.utils import logging

from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import RULES
from posenc_compare.records.labels import Warn

DESCRIBED = ("*.json",)  # configuration, without weights
TOKENS = (*DESCRIBED, "*.model", "*.txt", "*.jinja")  # and the tokenizer
READ = (*TOKENS, "*.safetensors")
BASES = ("rope_theta", "rotary_emb_base", "rope_base")
NUMBERS = (*BASES, "factor", "partial_rotary_factor", "rotary_pct", "beta_fast")
CODE = ("AutoConfig", "AutoModel")  # kinds in `auto_map`, without tokenizers
PREFIX = "posenc_compare_"  # before the type of an architecture with a scheme
HEADS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")  # with logits of each token


def local_place(model: str, patterns: Sequence[str]) -> Path:
    """Return where a checkpoint lies; of a hub, files of these patterns are fetched."""
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
        raise _no_model(model, reason_of(error)) from error


def sha256_of(place: Path) -> str:
    """Return the hash of all files of a checkpoint, with their names.

    Those of a folder are in its folders too; those of a GGUF file are itself and what
    lies beside it as JSON, which transformers reads with it.
    """
    folder = place if place.is_dir() else place.parent
    found = folder.rglob("*") if place.is_dir() else [place, *folder.glob("*.json")]
    whole = hashlib.sha256()
    for path in sorted(filter(Path.is_file, found)):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder)} {digest}\n".encode())
    return whole.hexdigest()


def configuration_in(place: Path, warn: Warn = warnings.warn) -> Any:
    """Return the configuration of a checkpoint.

    `warn` gets a line if the configuration names code in the folder: transformers reads
    it as a type of its own then.
    """
    if place.suffix != ".gguf":
        _check_config(place / "config.json")
    try:
        config = AutoConfig.from_pretrained(**source_of(place))
    except Exception as error:  # whatever a configuration makes transformers raise
        reason = reason_of(error)
        if "trust_remote_code" in str(error):
            reason = "one that needs code from its folder, which is never run here"
        raise ConfigError(
            f"{place.name}: configuration must be one that transformers reads, got "
            f"{reason}"
        ) from error
    if has_own_code(config):
        warn(
            f"{place}: names code of its own (auto_map), which is not run; this is "
            f"about the model type {config.model_type} of transformers; in Python, "
            f"hf.check(model) checks a loaded model"
        )
    return config


def source_of(place: Path) -> dict[str, Any]:
    """Return the arguments with which transformers reads a folder or a GGUF file."""
    given = {"gguf_file": place.name} if place.suffix == ".gguf" else {}
    folder = place.parent if given else place
    return {"pretrained_model_name_or_path": folder, "trust_remote_code": False} | given


def has_own_code(config: Any) -> bool:
    """Return whether a configuration names code in the folder, which is never run."""
    named = getattr(config, "auto_map", None)
    return isinstance(named, dict) and any(kind.startswith(CODE) for kind in named)


def _check_config(path: Path) -> None:
    """Refuse rope parameters that transformers passes over, or reads otherwise."""
    if not path.is_file():
        raise _no_model(str(path.parent), f"{path.name} is not there")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: must be JSON, got {reason_of(error)}") from error
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: must be an object, got {type(given).__name__}")
    if str(given.get("model_type")).startswith(PREFIX):
        raise ConfigError(
            f"{path.parent.name}: configuration must be of an unmodified model, got "
            f"one of hf.from_scratch; hf.load(FOLDER) in Python loads it"
        )
    stated: dict[str, float] = {}
    for part in ("", "rope_scaling", "rope_parameters"):
        values = given.get(part) if part else given
        for name, value in values.items() if isinstance(values, dict) else ():
            where = f"{part}.{name}".lstrip(".")
            if name in NUMBERS and type(value) not in (int, float, type(None)):
                raise ConfigError(f"{where} must be a number, got {value!r:.60}")
            if name in BASES and value is not None:
                stated[where] = float(value)
            if part and name in ("rope_type", "type") and value not in RULES:
                known = ", ".join(sorted(RULES))
                raise ConfigError(f"{where} must be of {known}, got {value!r:.60}")
    if len({*stated.values()}) > 1:
        found = " and ".join(f"{name}={value:g}" for name, value in stated.items())
        raise ConfigError(f"config.json must state one base, got {found}")
    heads, width = given.get("num_attention_heads"), given.get("head_dim")
    if isinstance(width, int) and width % 2 and heads:
        raise ConfigError(f"head_dim must be even, got {width}; {width + 1} would work")


def _no_model(model: str, reason: str) -> ConfigError:
    return ConfigError(
        f"model must be a folder with a config.json, a name on the hub or a GGUF file, "
        f"got {model[:200]!r}: {reason}"
    )


def reason_of(error: Exception) -> str:
    """Return the kind of an error and its first line."""
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0][:300]


def load(place: Path, config: Any) -> tuple[Any, list[str]]:
    """Return a checkpoint in float32, and the names of weights that nothing reads.

    `place` is a folder or a GGUF file.
    """
    stated = (config.architectures or [""])[0]
    named = stated.endswith((*HEADS, "Model"))
    own = getattr(transformers, stated, None) if named else None
    kind: Any = own or (AutoModelForCausalLM if type(config) in CAUSAL else AutoModel)
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # its report of weights
    try:
        model, found = kind.from_pretrained(
            **source_of(place),
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below
        )
    except Exception as error:  # whatever a file makes transformers raise
        raise ConfigError(
            f"model must be one that transformers loads, got {reason_of(error)}"
        ) from error
    finally:
        logging.set_verbosity(before)
    for name, stored, built in sorted(found["mismatched_keys"]):
        raise ConfigError(
            f"model {place.name}: {name[:120]} must have the shape that the "
            f"configuration states, {tuple(built)}, got {tuple(stored)}"
        )
    if lacking := sorted(found["missing_keys"]):  # which transformers draws at random
        raise ConfigError(
            f"model {place.name}: must have all weights, lacks {len(lacking)}, the "
            f"first of them {lacking[0][:120]}"
        )
    return model, sorted(found["unexpected_keys"])
