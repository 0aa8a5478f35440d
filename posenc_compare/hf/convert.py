"""Convert a checkpoint to the other layout of rotary pairs.

Some runtimes rotate channel i with channel i + rotated / 2 (`half`), others the
channels (0, 1), (2, 3), ... (`adjacent`). A checkpoint for one becomes a checkpoint for
the other when the channels of its queries and keys are reordered.

The layout of the model in transformers is measured on a small random copy, and the
conversion is tried on that copy first. Then files are copied, one at a time, with other
queries and keys. Types, names and other files stay.
"""

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from posenc_compare.convert import rope_layout
from posenc_compare.errors import ConfigError, ShapeError, StoreError
from posenc_compare.hf.apply import apply
from posenc_compare.hf.candidates import config_length, length_limits
from posenc_compare.hf.checkpoint import configuration_in, load
from posenc_compare.hf.describe import describe
from posenc_compare.hf.measure import EXACT, UNMET, Rotation, layers_of, meet, rotations
from posenc_compare.hf.places import CONVERTED, UnsupportedModelError
from posenc_compare.hf.readings import outputs
from posenc_compare.hf.rotary import check_text
from posenc_compare.hf.tiny import tiny
from posenc_compare.records.labels import Warn
from posenc_compare.schemes.shared.rotation import PAIRS, Layout
from posenc_compare.validate import check_choice

INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"
OTHERS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack", "*.safetensors")
COMPARED = 64  # tokens whose logits are compared
# The names of modules of queries and keys.
NORMS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm")
BLOCKS = ("qkv_proj", "Wqkv")  # all queries, then all keys, then all values
GROUPED = ("query_key_value",)  # for each key its queries, itself and its value
FUSED = (*BLOCKS, *GROUPED)
NAMES = ("q_proj", "k_proj", *NORMS, *FUSED)


@dataclass(frozen=True)
class Part:
    """A tensor of the queries or keys of a layer."""

    kind: str  # name of its module in attention, such as `q_proj`
    layer: int  # number of the layer
    heads: int  # of queries
    width: int  # channels of a head
    rotated: int  # channels that are rotated, the first of each head; 0: none

    def moved(self, tensor: Tensor, to: Layout) -> Tensor:
        """Return a tensor with its channels reordered, of rows or of a norm.

        Raises:
            ShapeError: if it does not consist of heads of this width.
        """
        rows = tensor.flatten() if self.kind in NORMS else tensor
        heads, left = divmod(len(rows), self.width)
        values, odd = divmod(heads - self.heads, 2) if self.kind in FUSED else (0, 0)
        groups = values if self.kind in GROUPED else 1
        some = values > 0 if self.kind in FUSED else heads > 0
        if left or odd or not some or heads % groups:
            raise ShapeError(
                f"must have heads of {self.width} channels, got {len(rows)} channels"
            )
        turned = rope_layout(rows, heads, to=to, rotated=self.rotated)
        if self.kind in FUSED:  # the last channels of each group are values, and stay
            own, new = (one.unflatten(0, (groups, -1)) for one in (rows, turned))
            last = self.width * values // groups
            new[:, -last:] = own[:, -last:]
        return turned.reshape(tensor.shape)


def convert(
    folder: Path, to: Layout, out: Path, warn: Warn = warnings.warn
) -> dict[str, Part]:
    """Write a copy of a checkpoint with the other layout of rotary pairs.

    transformers has one layout for each type of model. A copy with the other one states
    it in `config.json`, which transformers ignores: its logits of such a copy are wrong
    until `hf.apply(model, "rope:layout=...")`. A copy that is converted back has the
    weights of the original.

    Args:
        folder: of a causal model of text, with `config.json` and safetensors.
        to: layout of the copy.
        out: folder of the copy, which must not exist.
        warn: gets a line if the folder names code of its own, which is not run.

    Returns:
        The converted tensors, by name.

    Raises:
        ConfigError: if the folder cannot be read or has that layout already, or if
            `out` exists.
        UnsupportedModelError: if the model makes queries and keys in an unknown way.
        StoreError: if `out` cannot be written.
    """
    check_choice("layout", to, (*PAIRS,))
    if out.exists() or folder.resolve() in out.resolve().parents:
        raise ConfigError(
            f"out must be a new folder outside of {folder.name}, got {out}; another "
            f"name would work"
        )
    if not folder.is_dir():
        raise ConfigError(
            f"model must be a folder with safetensors, got {folder.name[:200]!r}"
        )
    shards = _shards(folder)
    config = configuration_in(folder, warn)
    own, parts, names = _parts(config)
    if getattr(config, CONVERTED, own) == to:
        raise ConfigError(
            f"layout must be {_other(to)}, got {to}, which {folder.name} already has"
        )
    found = _found(parts, names, shards)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".convert-", dir=out.parent) as place:
            copy = Path(place) / out.name
            ignored = shutil.ignore_patterns(*OTHERS)
            shutil.copytree(folder, copy, ignore=ignored)
            for path in shards:
                _write(path, copy / path.name, found, to)
            _note(copy / "config.json", None if to == own else to)
            copy.rename(out)
    except OSError as error:
        raise StoreError(f"{out}: must be writable, got {error}") from error
    return found


def label_for(folder: Path) -> str:
    """Return the scheme under which transformers reads a copy; empty if it needs none.

    Raises:
        UnsupportedModelError: if no single scheme reads it.
    """
    config = configuration_in(folder, lambda line: None)
    layout = getattr(config, CONVERTED, "")
    if not layout:
        return ""
    turning = [row for row in describe(config) if row.kind == "rotary"]
    if len(turning) != 1 or turning[0].variant is None:
        raise UnsupportedModelError(
            f"transformers misreads its layout {layout}, and no single hf.apply "
            f"reads all layers"
        )
    label = turning[0].label
    if "layout=" not in label:  # the default, which a reader should see
        label += f"{';' if ':' in label else ':'}layout={layout}"
    return label


def logits_apart(folder: Path, copy: Path) -> float:
    """Return the largest difference of logits, in parts of the largest.

    A checkpoint and its copy are loaded one after the other, in float32. Each is
    evaluated under the scheme that transformers needs to read it, if any.

    Raises:
        ConfigError: if they are too large for the memory, or cannot be read.
    """
    size = 2 * sum(path.stat().st_size for path in _shards(folder))  # of half precision
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 2 * size > memory:
        raise ConfigError(
            f"weights must take at most half of the memory, {memory / 2e9:.3g} GB, got "
            f"{size / 1e9:.3g} GB"
        )
    found = []
    for place in (folder, copy):
        config = configuration_in(place, lambda line: None)
        model, _ = load(place, config)
        ids = torch.arange(min(COMPARED, config.vocab_size))[None]
        label = label_for(place)
        with apply(model, label) if label else nullcontext(), torch.inference_mode():
            found.append(outputs(model(ids, use_cache=False)))
        del model
    own, other = found
    return float((own - other).abs().max() / own.abs().max())


def _other(layout: Layout) -> Layout:
    return "adjacent" if layout == "half" else "half"


def _parts(config: Any) -> tuple[Layout, dict[str, Part], dict[str, str]]:
    """Return what a model has to convert, after the conversion of a small copy.

    Returns:
        The layout in transformers; the tensors to convert, by name; the names of all
        tensors, by what files may call them: files may leave out the base model.
    """
    kind = config.model_type
    check_text(config)
    model = tiny(config)
    own_names, base = {*model.state_dict()}, f"{model.base_model_prefix}."
    length = min([config_length(config), *length_limits(config)])
    measured = {one.layer: one for one in rotations(model, length)}
    faults = [one.fault for one in measured.values() if one.fault not in ("", UNMET)]
    layouts = {_layout(one) for one in measured.values() if one.pairs}
    own: Layout = "adjacent" if "adjacent" in layouts else "half"
    if faults or layouts != {own}:
        why = faults[0] if faults else f"has {' and '.join(sorted(layouts)) or 'none'}"
        raise UnsupportedModelError(
            f"{kind}: must rotate the first channels of all heads in one layout, half "
            f"or adjacent, got a model that {why}"
        )
    parts = _parts_of(model, measured)
    for part in parts.values():
        if fault := measured[part.layer].fault:
            raise UnsupportedModelError(f"{kind}: layer {part.layer} {fault}")
    try:
        same = _is_moved(model, measured, parts, _other(own))
    except ShapeError as error:
        raise UnsupportedModelError(f"{kind}: {error}") from error
    if not same:
        raise UnsupportedModelError(
            f"{kind}: attention must use the channels of q_proj and k_proj, or of "
            f"{', '.join(FUSED)}, in order and nowhere else, got a model that reorders "
            f"or reuses them, or has no such module"
        )
    heads = config.num_attention_heads
    parts = {n: replace(part, heads=heads) for n, part in parts.items() if part.rotated}
    names = {name.removeprefix(base): name for name in own_names}
    return own, parts, names | {name: name for name in own_names}


def _parts_of(model: Any, measured: Mapping[int, Rotation]) -> dict[str, Part]:
    """Return the tensors of queries and keys of a model, by name."""
    found: dict[str, Part] = {}
    paths = {module: path for path, module in model.named_modules()}
    for module, layer in layers_of(model).items():
        one = measured[layer]
        for name, _ in module.named_parameters():
            kinds = [kind for kind in name.split(".") if kind in NAMES]
            if kinds:
                heads, rotated = model.config.num_attention_heads, 2 * len(one.pairs)
                part = Part(kinds[-1], layer, heads, one.width, rotated)
                found[f"{paths[module]}.{name}"] = part
    return found


def _layout(one: Rotation) -> str:
    """Return the layout of a rotation, or what else it is."""
    count = len(one.pairs)
    if one.pairs == tuple((i, i + count) for i in range(count)):
        return "half"
    if one.pairs == tuple((2 * i, 2 * i + 1) for i in range(count)):
        return "adjacent"
    return f"pairs {one.pairs[0]} to {one.pairs[-1]} of {one.width} channels"


@torch.no_grad()
def _is_moved(
    model: Any, measured: Mapping[int, Rotation], parts: Mapping[str, Part], to: Layout
) -> bool:
    """Convert a model, and return whether that reorders its queries and keys alone.

    Texts of one token at position 0 are evaluated. Nothing is rotated there, and
    attention has one key, so the logits must stay.
    """
    ids = torch.arange(min(8, model.config.vocab_size))[:, None]
    before, logits = meet(model, ids, 0).found, model(ids, use_cache=False).logits
    for name, tensor in model.state_dict().items():
        if part := parts.get(name):
            tensor.copy_(part.moved(tensor, to))
    after = meet(model, ids, 0).found
    pairs = [(logits, model(ids, use_cache=False).logits)]
    for layer, met in before.items():
        rotated = 2 * len(measured[layer].pairs)
        for x, y in zip(sum(met, ()), sum(after[layer], ()), strict=True):
            turned = rope_layout(x.movedim(-1, 0), 1, to=to, rotated=rotated)
            pairs.append((turned.movedim(0, -1), y))
    return all((a - b).abs().max() <= EXACT * a.abs().max() for a, b in pairs)


def _shards(folder: Path) -> list[Path]:
    """Return the files of weights that transformers reads."""
    index, names = folder / INDEX, [WEIGHTS]
    try:
        if index.is_file() and not (folder / WEIGHTS).is_file():
            names = sorted({*json.loads(index.read_bytes())["weight_map"].values()})
        found = [folder / Path(name).name for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{index}: must name files of tensors, got {error}"
        ) from error
    for path in found:
        if not path.is_file():
            raise ConfigError(
                f"model must be a folder with safetensors, got {folder.name[:200]!r}: "
                f"{path.name} is not there"
            )
    return found


def _found(
    parts: Mapping[str, Part], names: Mapping[str, str], shards: Iterable[Path]
) -> dict[str, Part]:
    """Return the tensors to convert, by their names in files."""
    found: dict[str, Part] = {}
    for path in shards:
        try:
            with safe_open(path, "pt") as file:
                shapes = {n: file.get_slice(n).get_shape() for n in file.keys()}
        except SafetensorError as error:
            raise ConfigError(f"{path}: must be safetensors, got {error}") from error
        for name, shape in shapes.items():
            part = parts.get(names.get(name, ""))
            if part:
                found[name] = part
                try:
                    part.moved(torch.empty(shape, device="meta"), "half")
                except (ShapeError, IndexError) as error:
                    raise ConfigError(f"{path.name}: {name} {error}") from error
            elif name not in names and {*name.split(".")} & {*NAMES}:
                raise UnsupportedModelError(
                    f"{path.name}: must have the queries and keys of its "
                    f"configuration alone, unquantised, got {name[:200]}"
                )
    missing = {*parts} - {names[name] for name in found}
    if missing:
        raise ConfigError(
            f"weights must have all {len(parts)} tensors of queries and keys, got "
            f"{len(found)}, without {min(missing)}"
        )
    return found


def _write(source: Path, path: Path, parts: Mapping[str, Part], to: Layout) -> None:
    """Write a copy of a file, with some tensors reordered."""
    with safe_open(source, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        for name in tensors.keys() & parts.keys():
            tensors[name] = parts[name].moved(tensors[name], to)
        save_file(tensors, path, file.metadata())


def _note(path: Path, layout: Layout | None) -> None:
    """State a layout in a configuration; None if transformers has that layout."""
    stated = json.loads(path.read_bytes())
    stated.pop(CONVERTED, None)
    if layout:
        stated[CONVERTED] = layout
    path.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n", "utf-8")
