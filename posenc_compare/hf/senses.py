"""Models of images and sound, and small inputs that they read.

A configuration may be of such a model or have some inside, as those of models of text
and images do. What a model is given follows the names that its `forward` takes.
"""

import copy
import importlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import MODEL_MAPPING as MODELS
from transformers import PreTrainedConfig, PreTrainedModel

from posenc_compare.hf.grids import CELLS, both_sides
from posenc_compare.hf.measure import EXACT
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.readings import apart, outputs
from posenc_compare.hf.tiny import DECODER, TOO_LARGE, drawn, parts_inside, tiny

Inputs = dict[str, Any]
SIDE = 224  # pixels of an image, if no size is stated
FRAMES = 3000  # of a spectrogram
SAMPLES = 48_000  # of a waveform
LAYERS = 2  # of a model that is too large with all of them
SHORT = f"read in a copy of {LAYERS} layers"
WORDS = 8  # of a decoder
IDS = (4, 12)  # the first of these words, and the one after the last
CHANNELS = ("num_channels", "in_channels", "in_chans")
FRAMES_OF = ("num_frames", "frames_per_clip")
BINS = ("num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", "input_dim")
MEDIA = ("vision", "image", "video", "audio", "speech", "encoder")
READS = (  # names of what such models are given
    "pixel_values",
    "pixel_values_videos",
    "input_features",
    "input_values",
    "grid_thw",
    "spectrogram",
)


def parts_of(config: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield models of images and sound: their place, configuration and class.

    A configuration that is of such a model itself comes first, with an empty place. The
    class of a part is None if its name is that of one, and no class reads its input.
    """
    kind = class_of(config)
    named = any(word in path.rpartition(".")[2] for word in MEDIA)
    if kind is not None or (named and not hasattr(config, "vocab_size")):
        yield path, config, kind
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if isinstance(part, PreTrainedConfig) and part is not config:
            inner = name.removesuffix("_config")
            yield from parts_of(part, f"{path}.{inner}".strip("."))


def class_of(config: Any) -> Any:
    """Return the class that reads images or sound; None if there is none."""
    known: list[Any] = []
    with suppress(ValueError):  # a class that transformers names and does not have
        known += [MODELS[type(config)]] if type(config) in MODELS else []
    place = type(config).__module__.replace(".configuration_", ".modeling_")
    if not known and place.startswith("transformers.models."):
        module = importlib.import_module(place)
        known = [
            one
            for one in vars(module).values()
            if inspect.isclass(one)
            and issubclass(one, PreTrainedModel)
            and one.config_class is type(config)
        ]
    kinds: list[Any] = [one for one in known if inspect.isclass(one)]
    for one in kinds:
        if inspect.signature(one.forward).parameters.keys() & {*READS}:
            return one
    return None


def small(config: Any, kind: Any) -> tuple[Any, str]:
    """Return a small random model, and a note if that has few layers alone."""

    def inputs(model: Any) -> Inputs:
        return _filled(model, readable(model), 0)

    note = ""
    try:
        model = tiny(config, kind, inputs)
    except UnsupportedModelError as error:
        if TOO_LARGE not in str(error):
            raise
        model, note = tiny(_short(config), kind, inputs), SHORT
    for part in model.modules():  # tables of sinusoids may still be 0, as of ViT-MAE
        for own in (part, *part.parameters(recurse=False)):
            own._is_hf_initialized = False
    for part in reversed([*model.modules()]):  # those inside first
        model._init_weights(part)
    return drawn(model, model.dtype), note


def _short(config: Any) -> Any:
    """Return a copy of a configuration with few layers."""
    config = copy.deepcopy(config)
    for part in (config, *parts_inside(config)):
        for name, value in vars(part).items():
            if isinstance(value, int) and name.endswith(("layers", "depth")):
                setattr(part, name, min(value, LAYERS))
    return config


def readable(model: Any, grow: tuple[int, int] = (0, 0)) -> Inputs:
    """Return an input that a model reads.

    `grow` is by how many patches an image is higher and wider than usual.
    """
    fault: Exception | None = None
    for made in _inputs(model, grow):
        try:
            read(model, made)
        except Exception as error:  # whatever a model makes of a shape
            fault = fault or error
        else:
            return made
    raise fault or ValueError("it reads images or sound of a form unknown here")


def read(model: Any, given: Inputs, seed: int = 0) -> Any:
    """Return what a model makes of an input whose numbers are drawn by a seed."""
    return _evaluated(model, _filled(model, given, seed))


@torch.no_grad()
def _evaluated(model: Any, given: Inputs) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a model may draw which tokens are masked
        return model(**given)


def is_blind(model: Any, given: Inputs) -> bool:
    """Return whether patches in another order have the same outputs, in that order."""
    patch = getattr(model.config, "patch_size", None)
    whole = _filled(model, given, 1)
    image = whole.get("pixel_values")
    if not isinstance(patch, int) or image is None or image.dim() != 4:
        return False
    parts = F.unfold(image, patch, stride=patch)
    order = torch.randperm(parts.shape[-1], generator=torch.Generator().manual_seed(0))
    mixed = F.fold(parts[..., order], image.shape[-2:], patch, stride=patch)
    made = [
        outputs(_evaluated(model, {**whole, "pixel_values": one}))[0]
        for one in (image, mixed)
    ]
    rows, others = (one[one[:, 0].argsort()] for one in made)
    return apart(rows, others) < EXACT * float(rows.abs().max())


def _filled(model: Any, given: Inputs, seed: int) -> Inputs:
    """Return an input with random numbers, in the dtype of a model."""
    draw = torch.Generator().manual_seed(seed)
    dtype = next(model.parameters()).dtype
    made = {
        name: torch.rand(one.shape, generator=draw).to(dtype)
        if isinstance(one, Tensor) and one.is_floating_point()
        else one
        for name, one in given.items()
    }
    if DECODER in made:
        made[DECODER] = torch.randint(*IDS, (1, WORDS), generator=draw)
    return made


def _inputs(model: Any, grow: tuple[int, int]) -> Iterator[Inputs]:
    """Yield inputs of the forms that models with such arguments take.

    Patches of packed images stand in rows, and those of others in the image.
    """
    config, parameters = model.config, inspect.signature(model.forward).parameters
    takes = {*parameters}
    channels, bins = _stated(config, CHANNELS, 3), _stated(config, BINS, 80)
    patch = both_sides(getattr(config, "patch_size", None) or 1)
    time = getattr(config, "temporal_patch_size", None) or 1
    cells = CELLS[0] + 2 * grow[0], CELLS[1] + 2 * grow[1]
    more: Inputs = {}
    if "interpolate_pos_encoding" in takes and grow != (0, 0):
        more["interpolate_pos_encoding"] = True
    for name, one in parameters.items():
        if name.endswith("features_mask") and one.default is one.empty:
            more[name] = torch.ones((1, FRAMES), dtype=torch.long)
    if DECODER in takes:
        more[DECODER] = torch.ones((1, WORDS), dtype=torch.long)
    count, each = cells[0] * cells[1], channels * patch[0] * patch[1]
    flat = torch.zeros(count, time * each)
    if "grid_thw" in takes:
        name = next(n for n in ("hidden_states", "pixel_values") if n in takes)
        yield {name: flat, "grid_thw": torch.tensor([[1, *cells]]), **more}
        return
    if "spatial_shapes" in takes:
        yield {
            "pixel_values": flat[None],
            "pixel_attention_mask": torch.ones(1, count, dtype=torch.long),
            "spatial_shapes": torch.tensor([cells]),
            **more,
        }
    stated = both_sides(getattr(config, "image_size", None) or SIDE)
    high, wide = (
        side + step * each for side, step, each in zip(stated, grow, patch, strict=True)
    )
    image, frames = (1, channels, high, wide), _stated(config, FRAMES_OF, 8)
    video = (1, frames, *image[1:])
    places = _stated(config, ("max_source_positions",), 0)  # of two frames each
    waves, mels = (1, SAMPLES), (1, bins, 2 * places or FRAMES)
    most = getattr(config, "max_length", None) or FRAMES
    shapes = {
        "pixel_values": (image, video),
        "pixel_values_videos": (video,),
        "input_features": (mels, (1, FRAMES, bins)),
        "input_values": (waves, (1, most, bins), (1, 1, SAMPLES)),
        "spectrogram": ((1, FRAMES, bins),),
    }
    for name in takes & {*shapes}:
        for shape in shapes[name]:
            yield {name: torch.zeros(shape), **more}


def _stated(config: Any, names: tuple[str, ...], otherwise: int) -> int:
    """Return the number that a configuration, or one inside, states by such a name."""
    every = (config, *parts_inside(config))
    found = (getattr(one, name, None) for one in every for name in names)
    return next((one for one in found if isinstance(one, int)), otherwise)
