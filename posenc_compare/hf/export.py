"""Writing a network that was trained here as a folder of Hugging Face."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from posenc_compare.analysis.records.load import load_records
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.analysis.settings.training import Training
from posenc_compare.errors import ConfigError, StoreError
from posenc_compare.hf.network import ByteTokenizer, PosencConfig, PosencForCausalLM
from posenc_compare.variants import Variant


def export(folder: str | Path, key: str, out: str | Path) -> PosencForCausalLM:
    """Write a trained network as a model of Hugging Face, with its tokenizer.

    `AutoModelForCausalLM.from_pretrained(out)` reads it once `posenc_compare.hf` is
    imported.

    Args:
        folder: of a run with `--keep-weights`.
        key: of the record, or the first letters of it.
        out: the folder to write.

    Returns:
        The model.

    Raises:
        ConfigError: if there is no such record, or it is of no language model.
        StoreError: if its weights are not there, or are not of this network.
    """
    record = _record(Path(folder), key)
    setting: dict[str, Any] = dict(record.spec.setting)
    if record.spec.kind != Training.kind or setting["task"] != Training.task:
        raise ConfigError(
            f"record must be of a network that was trained on language, got "
            f"{record.measured} {record.label}"
        )
    scheme = record.spec.scheme
    model = PosencForCausalLM(
        PosencConfig(
            scheme=Variant(scheme.name, scheme.options).label,
            scheme_sha256=scheme.source_sha256,
            hidden_size=setting["width"],
            num_hidden_layers=setting["layers"],
            num_attention_heads=setting["heads"],
            norm=setting["norm"],
            max_position_embeddings=setting["length"],
            lengths=setting["lengths"],
        )
    )
    _fill(model, Store(Path(folder)).weights(record.key))
    model.eval().save_pretrained(out)
    ByteTokenizer().save_pretrained(out)
    return model


def _record(folder: Path, key: str) -> Record:
    """Return the record whose key begins so.

    Raises:
        ConfigError: if there is none, or several.
    """
    found = [r for r in load_records(folder, arrays=False) if r.key.startswith(key)]
    if len(found) != 1 or not key:
        raise ConfigError(
            f"key must be that of a record in {folder}, got {key[:40]!r}, which "
            f"{len(found)} have; `table --out DIR` writes keys to rows.csv"
        )
    return found[0]


def _fill(model: PosencForCausalLM, path: Path) -> None:
    """Take the weights of a file, which must have all of them and no others.

    Raises:
        StoreError: if it does not.
    """
    decoder = model.decoder
    named = {**dict(decoder.named_parameters()), **dict(decoder.named_buffers())}
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"{path}: must hold the weights, got {error}; `run --keep-weights` writes "
            f"them"
        ) from error
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    if shapes != {name: tensor.shape for name, tensor in named.items()}:
        raise StoreError(f"{path}: must hold the weights of this network, and no other")
    with torch.no_grad():
        for name, tensor in named.items():
            tensor.copy_(weights[name])
