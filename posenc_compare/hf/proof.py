"""Whether a model reads with a scheme as it reads by itself."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posenc_compare.hf.apply import put
from posenc_compare.hf.served import tokens_of
from posenc_compare.schemes import Scheme, Variant


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
        scheme: that its rotary positions are said to be.
        layers: that have it; None: all with rotary positions.
        ids: `(batch, seq)` tokens; None: random ones.
        alone: whether each layer is tried alone too.

    Returns:
        The largest difference of a logit in parts of the largest logit, by number of
        the layer that has the scheme alone, and as `all` of those layers together.

    Raises:
        UnsupportedModelError: if the model leaves the scheme no place to act.
        ConfigError: if the scheme or a layer cannot be used.
    """
    ids = tokens_of(model) if ids is None else ids.to(model.device)

    def read() -> Tensor:
        out: Any = model(input_ids=ids, use_cache=False)
        return out.logits.double()

    with torch.inference_mode():
        own = read()
        size = own.abs().max().clamp(min=1e-30)
        found: dict[int | str, float] = {}
        with put(model, scheme, layers) as applied:
            served = [place.layer for place in applied.places]
            found["all"] = float((read() - own).abs().max() / size)
        for layer in served if alone else ():
            with put(model, scheme, [layer]):
                found[layer] = float((read() - own).abs().max() / size)
    return found
