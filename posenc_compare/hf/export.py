"""Writing a network that was trained here as a folder of Hugging Face."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

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
        ConfigError: if there is no such record, or it is of no language model that
            was trained and tested, or `out` is not a new or an empty folder.
        StoreError: if its weights are not there, or are not of this network.
    """
    _check_empty(out)
    record = _record(Path(folder), key)
    setting: dict[str, Any] = dict(record.spec.setting)
    if record.spec.kind != Training.kind or setting["task"] != Training.task:
        raise ConfigError(
            f"record must be of a network that was trained on language, got "
            f"{record.measured} {record.label}"
        )
    if record.status != "ok":
        raise ConfigError(
            f"record must be ok, got {record.status}: {record.error[:200]}"
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
            convolution=setting.get("convolution", "none"),
            dropped=setting.get("drop", 0.0) > 0,
            max_position_embeddings=setting["length"],
            lengths=setting["lengths"],
        )
    )
    _fill(model, Store(Path(folder)).weights(record.key), record.key)
    model.eval().save_pretrained(out)
    ByteTokenizer().save_pretrained(out)
    return model


def _check_empty(out: str | Path) -> None:
    """Refuse to write where something is.

    Raises:
        ConfigError: if something is.
    """
    path = Path(out)
    taken = any(path.iterdir()) if path.is_dir() else path.exists()
    if taken or not str(out):
        raise ConfigError(
            f"out must be a new or an empty folder, got {str(out)!r}; another name "
            f"would work"
        )


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


def _fill(model: PosencForCausalLM, path: Path, key: str) -> None:
    """Take the weights of a file, which must have all of them and no others.

    Args:
        model: to fill.
        path: of the file.
        key: of the record; the file says of which it is.

    Raises:
        StoreError: if it does not.
    """
    decoder = model.decoder
    named = {**dict(decoder.named_parameters()), **dict(decoder.named_buffers())}
    try:
        with safe_open(path, "pt") as file:
            said = (file.metadata() or {}).get("key")
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"{path}: must hold the weights, got {error}; `run --keep-weights` writes "
            f"them"
        ) from error
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    wanted = {name: tensor.shape for name, tensor in named.items()}
    finite = all(tensor.isfinite().all() for tensor in weights.values())
    if (said, shapes, finite) != (key, wanted, True):
        raise StoreError(f"{path}: must hold the weights of this network, and no other")
    with torch.no_grad():
        for name, tensor in named.items():
            tensor.copy_(weights[name])
