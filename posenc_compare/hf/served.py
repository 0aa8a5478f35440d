"""Whether models of a class read through the attention of this package unchanged.

A small random model of the same class and configuration is compared with itself. That
is done once for a configuration.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posenc_compare.hf.measure import EXACT, neutral_at_start
from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError
from posenc_compare.hf.tiny import tiny

TOKENS = 24
PROVED = 1e-4  # of logits, in parts of the largest; a wrong frequency moves them 1e-2
PLAIN = ("eager", "sdpa")  # attention that a model on the CPU can have

_KNOWN: dict[tuple[Any, ...], str] = {}  # what is wrong, by class and configuration


def tokens_of(model: PreTrainedModel) -> Tensor:
    """Return two random texts for a model, `(2, token)`."""
    draw = torch.Generator().manual_seed(2)
    count = model.config.get_text_config().vocab_size
    ids = torch.randint(min(2, count - 1), count, (2, TOKENS), generator=draw)
    return ids.to(model.device)


def check_served(
    model: PreTrainedModel,
    serve: Callable[..., Any],
    layers: Sequence[int] | None,
    before: str,
    *,
    keep_rotary: bool,
) -> None:
    """Compare logits of a small model of the same class with and without `nope`.

    With its rotary positions kept they are the same. In their place they are those of
    the model by itself, where all tokens are at position 0.

    Args:
        model: that gets a scheme.
        serve: puts a scheme into a model, as `Applied` does.
        layers: that get the scheme; None: all that rotate.
        before: name of the attention that the model has by itself.
        keep_rotary: whether its rotary positions stay.

    Raises:
        UnsupportedModelError: if logits differ. None is raised where no small model
            can be built or compared.
    """
    config = copy.deepcopy(model.config)
    chosen = tuple(layers) if layers is not None else None
    key = (type(model), config.to_json_string(use_diff=False), before, chosen)
    if (*key, keep_rotary) not in _KNOWN:
        config._attn_implementation = before if before in PLAIN else None
        try:
            with torch.device("cpu"):
                small = tiny(config, type(model))
                found = _difference(small, serve, chosen, keep_rotary=keep_rotary)
        except Exception:  # what cannot be compared is refused in a call, if at all
            found = ""
        _KNOWN[(*key, keep_rotary)] = found
    if found := _KNOWN[(*key, keep_rotary)]:
        raise UnsupportedModelError(f"{type(model).__name__}: {found}; {WOULD_WORK}")


@torch.inference_mode()
def _difference(
    small: Any, serve: Callable[..., Any], layers: Any, *, keep_rotary: bool
) -> str:
    """Return in which way logits differ; empty if they are the same."""
    ids = tokens_of(small)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def read(**more: Tensor) -> Tensor:
        return small(**given, use_cache=False, **more).logits.double()

    def served(*, keep: bool) -> Tensor:
        with serve(small, "nope", layers, keep):
            return read()

    own = read()
    off = _off(served(keep=True), own)
    if not off <= PROVED:
        return (
            f"must have the same logits through this attention as by itself, got a "
            f"small one of its class that is off by {off:.0e} of the largest"
        )
    if keep_rotary or layers is not None or not neutral_at_start(small, EXACT):
        return ""
    off = _off(served(keep=False), read(position_ids=torch.zeros_like(ids)))
    if not off <= PROVED:
        return (
            f"must take positions from its rotary tables alone, got a small one of its "
            f"class whose logits still depend on them, by {off:.0e} of the largest"
        )
    return ""


def _off(logits: Tensor, own: Tensor) -> float:
    return float((logits - own).abs().max() / own.abs().max().clamp(min=1e-30))
