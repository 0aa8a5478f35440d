"""A bias of content and distance that a model adds to its logits, as Inkling does.

The modules that compute it are known by their classes. A text of random tokens is
evaluated, and what they return is compared with `inkling` under their weights.
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc_compare.attention import attention_logits
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT, layers_of
from posenc_compare.hf.rotary import layers_text
from posenc_compare.hf.tiny import given
from posenc_compare.schemes import Geometry, Variant

CLASSES = (  # of modules with profiles, `proj`, and for Inkling 2 what mixes them
    "InklingRelativeLogits",
    "Inkling2RelativePositionBias",
    "Inkling2LoopRelativePositionBias",
)
LATE = 16  # queries that are compared, at the end of a text
MOST = 2048  # tokens of a text
LARGER = 32.0  # times the weights that mix: a limit of their outputs is then seen


@torch.no_grad()
def profiles_in(model: Any, notes: Mapping[int, str]) -> list[Described]:
    """Return the biases of a small random model, if all layers have that of `inkling`.

    `notes` are of layers by number: what else they do.
    """
    model = copy.deepcopy(model)  # whose weights change
    layers = layers_of(model)
    parts: dict[int, tuple[Any, Any]] = {}  # by layer: profiles, and what mixes them
    for module, number in layers.items():
        for part in module.modules():
            if type(part).__name__ in CLASSES:
                parts[number] = part, getattr(part, "linear", None) or module.r_proj
    if not parts or len(parts) < len({*layers.values()}):
        return []
    longest = max(part.proj.shape[1] for part, _ in parts.values())
    draw = torch.Generator().manual_seed(4)
    rows = model.get_input_embeddings().num_embeddings
    ids = torch.randint(rows, (1, min(MOST, longest + LATE)), generator=draw)
    read: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # first input and first output

    def keep(module: nn.Module, args: Any, out: Tensor) -> None:
        read.setdefault(module, (args[0].double(), out.double()))

    for one in {one for pair in parts.values() for one in pair}:
        one.register_forward_hook(keep)
    for linear in {linear for _, linear in parts.values()}:
        linear.weight *= LARGER
    groups: dict[tuple[str, str], tuple[Variant, dict[int, float]]] = {}
    model(**given(model, ids))
    for number, (part, linear) in parts.items():
        rank, reach = part.proj.shape
        clip = getattr(model.config, "rel_l2_clip_threshold", 0.0)
        variant = Variant("inkling", {"rank": rank, "reach": reach, "clip": clip})
        off = _off(variant, part, linear, read[linear][0], read[part][1])
        if not off <= EXACT:
            return []
        same = variant.label, notes.get(number, "")
        groups.setdefault(same, (variant, {}))[1][number] = off
    return [
        Described(
            "all" if len(groups) == 1 else layers_text((*apart,), model.config),
            "bias",
            {"reach": variant.options["reach"]},
            variant,
            max(apart.values()),
            note=note,
        )
        for (_, note), (variant, apart) in groups.items()
    ]


def _off(variant: Variant, part: Any, linear: Any, x: Tensor, made: Tensor) -> float:
    """Return how far a bias is from that of a scheme, in parts of its largest value.

    `part` has the profiles, and `linear` the weights that mix them; `x`, `(1, token,
    channel)`, is what these are given, and `made`, `(1, heads, query, key)`, the bias.
    """
    heads, keys = made.shape[1], made.shape[3]
    scheme: Any = variant.build(Geometry(x.shape[-1], heads, head_dim=1)).double()
    weight = linear.weight.unflatten(0, (heads, -1))
    if hasattr(part, "norm"):
        weight = weight * part.norm.scale[..., None]
    scheme.mix.weight.copy_(weight.flatten(0, 1))
    scheme.profiles.copy_(part.proj)
    places, none = torch.arange(keys), x.new_zeros(1, heads, keys, 1)
    bias = attention_logits(
        none[:, :, -LATE:],
        none,
        scheme=scheme,
        positions=places[-LATE:],
        key_positions=places,
        state=scheme.token_state(x),
    )
    seen = bias.isfinite()
    bias, made = bias[seen], made[:, :, -LATE:][seen]
    return float((made - bias).abs().max() / bias.abs().max())
