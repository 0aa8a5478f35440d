"""How far a scheme moves the logits of a Hugging Face model."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posenc_compare.hf.applied import Applied
from posenc_compare.hf.readings import outputs
from posenc_compare.schemes import Scheme, Variant

TOKENS = 24
PROVED = 1e-4  # of logits, in parts of the largest; a wrong frequency moves them 1e-2


def proof(
    model: PreTrainedModel,
    scheme: str | Variant | Scheme,
    layers: Iterable[int] | None = None,
    ids: Tensor | None = None,
    *,
    alone: bool = True,
) -> dict[int | str, float]:
    """Return how far a scheme moves the logits of a model, layer by layer.

    Args:
        model: in evaluation mode.
        scheme: the scheme that its rotary positions are said to be.
        layers: numbers of layers that have it; None: all with rotary positions.
        ids: `(batch, seq)` tokens; None: random ones.
        alone: whether each layer is tried alone too.

    Returns:
        The largest difference of logits, relative to the largest logit: for each layer
        that alone has the scheme, by its number, and for all of them as `all`.

    Raises:
        UnsupportedModelError: if the model leaves the scheme no place to act.
        ConfigError: if the scheme or a layer cannot be used.
    """
    ids = random_tokens(model) if ids is None else ids.to(model.device)
    with torch.inference_mode():
        own, found = logits_of(model, ids), dict[int | str, float]()
        with Applied(model, scheme, layers) as applied:
            served = [place.layer for place in applied.places]
            found["all"] = moved(logits_of(model, ids), own)
        for layer in served if alone else ():
            with Applied(model, scheme, [layer]):
                found[layer] = moved(logits_of(model, ids), own)
    return found


def random_tokens(model: PreTrainedModel) -> Tensor:
    """Return two random texts for a model, `(2, token)`."""
    draw = torch.Generator().manual_seed(2)
    count = model.config.get_text_config().vocab_size
    ids = torch.randint(min(2, count - 1), count, (2, TOKENS), generator=draw)
    return ids.to(model.device)


def logits_of(model: Any, ids: Tensor, **more: Tensor) -> Tensor:
    """Return the logits of texts in float64, read without a cache."""
    return outputs(model(input_ids=ids, use_cache=False, **more)).double()


def moved(logits: Tensor, own: Tensor) -> float:
    """Return the largest difference of logits, relative to the largest of `own`."""
    return float((logits - own).abs().max() / own.abs().max().clamp(min=1e-30))
