"""Positions of models that read images or sound, measured on small random ones."""

import importlib
import inspect
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5.24")

from torch.nn.utils import parametrize  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.hf import codes, equal, grids  # noqa: E402
from posenc_compare.hf.biases import CONTENT  # noqa: E402

LAYER = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
LAYER |= {"intermediate_size": 32}
VIT = {**LAYER, "image_size": 32, "patch_size": 8}
PACKED = {"hidden_size": 32, "out_hidden_size": 32, "depth": 1, "num_heads": 2}
PACKED |= {"intermediate_size": 32}
WINDOWS = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "window_size": 4}
WINDOWS |= {"depths": [2], "num_heads": [2]}
SPEECH = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64}
SPEECH |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
WAVES = {**LAYER, "conv_dim": [16], "conv_kernel": [400], "conv_stride": [320]}
WAVES |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
WAVES |= {"num_feat_extract_layers": 1}
MOONSHINE = {"hidden_size": 72, "intermediate_size": 32, "vocab_size": 64}
MOONSHINE |= {f"{part}_num_hidden_layers": 1 for part in ("encoder", "decoder")}
MOONSHINE |= {f"{part}_num_attention_heads": 2 for part in ("encoder", "decoder")}
DETR = {"d_model": 32, "num_queries": 5, "backbone": None, "use_timm_backbone": False}
for part in ("encoder", "decoder"):
    DETR |= {f"{part}_layers": 1, f"{part}_attention_heads": 2, f"{part}_ffn_dim": 32}
STEM = {"embedding_size": 16, "hidden_sizes": [16, 16, 16], "depths": [1, 1, 1]}
DETR |= {"backbone_config": transformers.ResNetConfig(**STEM)}
LEARNED = {**DETR, "position_embedding_type": "learned"}
SQUARE = "height=4;width=4"
# Sizes of a model, and the scheme of each row, or why there is none.
PLACED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "vit": (VIT, [f"learned_2d:{SQUARE}"]),
    "deit": (VIT, [f"learned_2d:{SQUARE}"]),
    "clip_vision_model": (VIT, [f"learned_2d:{SQUARE}"]),
    "siglip_vision_model": (VIT, [f"learned_2d:{SQUARE}"]),
    "dinov2": (VIT, [f"learned_2d:{SQUARE}"]),
    "vit_mae": (VIT, ["sinusoidal_2d:layout=moco_v3"]),
    "dinov3_vit": (VIT, ["rope_dinov3"]),
    "pixtral": (VIT, [grids.TURNED]),
    "qwen2_5_vl_vision": (PACKED, ["rope_2d:base=10000.0;first=h;layout=half"]),
    "beit": ({**VIT, "use_relative_position_bias": True}, [f"swin:{SQUARE}"]),
    "data2vec-vision": (VIT, ["nope"]),
    "swin": (WINDOWS, [f"swin:{SQUARE}"]),
    "swinv2": (WINDOWS, [f"mlp_bias_2d:{SQUARE}"]),
    "levit": ({"image_size": 64}, [f"levit:{SQUARE}", "levit:height=2;width=2"]),
    "vitdet": (
        {**VIT, "use_relative_position_embeddings": True, "pretrain_image_size": 64},
        ["learned_2d:height=8;width=8", f"decomposed:{SQUARE}"],
    ),
    "detr": (DETR, ["sinusoidal_detr", grids.CHANGED]),
    "detr:learned": (LEARNED, ["learned_axes:height=14;width=14", grids.CHANGED]),
    "whisper": (SPEECH, ["sinusoidal:layout=t2t", "learned:length=448"]),
    "whisper:short": (
        {**SPEECH, "max_source_positions": 100},
        ["sinusoidal:layout=t2t", "learned:length=448"],
    ),
    "speech_to_text": (SPEECH, ["sinusoidal:layout=t2t"] * 2),
    "audio-spectrogram-transformer": (LAYER, ["learned:length=1214"]),
    "wav2vec2": (WAVES, []),
    "wav2vec2-conformer": (WAVES, ["transformer_xl"]),
    "wavlm": (WAVES, [CONTENT]),
    "moonshine": (MOONSHINE, ["rope:fraction=0.8888888888888888"]),
    "parakeet_encoder": ({**LAYER, "subsampling_conv_channels": 8}, ["transformer_xl"]),
}
FAR = ("speech_to_text", "whisper")  # angles up to 1500, in float32
CONVOLVE = (
    "detr",
    "detr:learned",
    "wav2vec2",
    "wav2vec2-conformer",
    "wavlm",
    "whisper",
    "whisper:short",
    "parakeet_encoder",
)


def described(kind: str, sizes: dict[str, Any]) -> list[Any]:
    if kind == "qwen2_5_vl_vision":
        whole = transformers.Qwen2_5_VLConfig(vision_config=sizes)
        return hf.describe(whole.vision_config)
    return hf.describe(transformers.CONFIG_MAPPING[kind.partition(":")[0]](**sizes))


@pytest.mark.parametrize("kind", PLACED)
def test_places_of_images_and_sound_have_schemes(kind: str) -> None:
    sizes, wanted = PLACED[kind]
    found = described(kind, sizes)
    rows = [one.note if one.variant is None else one.label for one in found]
    assert [one for one in rows if one != equal.CONVOLVED] == wanted
    assert (equal.CONVOLVED in rows) == (kind in CONVOLVE)
    bound = 2e-4 if kind in FAR else 1e-5
    assert all(one.off is None or one.off < bound for one in found)
    notes = {one.note for one in found if one.variant is not None}
    assert notes <= {"", grids.CLASS}


class Twice(torch.nn.Module):
    """Makes twice a table of it."""

    def forward(self, table: torch.Tensor) -> torch.Tensor:
        return 2 * table


def doubled(module: torch.nn.Module) -> None:
    parametrize.register_parametrization(module, "position_embeddings", Twice())


# Of a type: a function or method, what is done to its result, and what is said then.
CHANGED: dict[str, list[tuple[str, Any, str]]] = {
    "vit": [("ViTEmbeddings.__init__", doubled, codes.OTHER)],
    "dinov3_vit": [
        ("get_patches_center_coordinates", lambda x: x.flip(-1), grids.TURNED),
        ("get_patches_center_coordinates", lambda x: x * 1.01, grids.TURNED),
    ],
    "qwen2_5_vl_vision": [
        (
            "get_vision_position_ids",
            lambda x: x.flip(-1),
            "rope_2d:base=10000.0;layout=half",
        ),
        ("get_vision_position_ids", lambda x: x * 2, grids.TURNED),
    ],
    "swin": [("SwinRelativePositionBias.forward", lambda x: 2 * x, grids.FIXED)],
    "levit": [("LevitAttention.get_attention_biases", lambda x: x * x, grids.FIXED)],
    "vitdet": [("get_rel_pos", lambda x: 2 * x, CONTENT)],
    "speech_to_text": [
        (
            "Speech2TextSinusoidalPositionalEmbedding.get_embedding",
            lambda x: 1.01 * x,
            codes.OTHER,
        )
    ],
}


@pytest.mark.parametrize(
    ("kind", "changed"), [(k, one) for k, every in CHANGED.items() for one in every]
)
def test_places_of_changed_code_get_no_name_of_a_scheme(
    kind: str, changed: tuple[str, Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, change, wanted = changed
    folder = kind.removesuffix("_vision")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    *above, name = path.split(".")
    owner = getattr(module, above[0]) if above else module
    made = inspect.getattr_static(owner, name)
    plain = getattr(owner, name)

    def other(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        return change(args[0] if name == "__init__" else found)

    static = isinstance(made, staticmethod)
    monkeypatch.setattr(owner, name, staticmethod(other) if static else other)
    found = described(kind, PLACED[kind][0])
    rows = [one.note if one.variant is None else one.label for one in found]
    assert wanted in rows
    assert not {*rows} & ({*PLACED[kind][1]} - {wanted, "learned_2d:height=8;width=8"})
