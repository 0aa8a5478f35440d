"""Check a model with a scheme: what must not change its logits does not."""

import inspect
import math

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.hf.states import cache_name

LEAST = 8  # tokens that can be cut in half, and in quarters


class CheckError(PosencError):
    """A model with a scheme sees the future, or forgets the past."""


@torch.no_grad()
def check(model: PreTrainedModel, tokens: int) -> dict[str, float]:
    """Return the largest differences; see `Applied.check`.

    Raises:
        CheckError: if one is larger than rounding.
        ConfigError: if the tokens are too few.
    """
    longest = model.config.get_text_config().max_position_embeddings
    tokens = tokens or min(64, longest * 4 // 5)  # and a quarter of padding
    if tokens < LEAST:
        raise ConfigError(f"tokens must be at least {LEAST}, got {tokens}")
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return _checked(model, tokens)
    finally:
        for module, mode in training.items():
            module.training = mode


def _checked(model: PreTrainedModel, tokens: int) -> dict[str, float]:
    """Compare logits of two rows of random tokens, read in several ways."""
    config = model.config.get_text_config()
    count, draw = config.vocab_size, torch.Generator().manual_seed(0)
    ids = torch.randint(count, (2, tokens), generator=draw).to(model.device)
    full = _logits(model, ids)
    half, quarter = tokens // 2, tokens // 4

    other = ids.clone()
    other[:, half:] = (other[:, half:] + 1) % count
    read = _read(model, ids, (half, tokens - half - 1, 1))
    left = torch.cat([ids[:1, :quarter], ids[:1]], dim=1)
    long = torch.cat([ids[1:, :quarter], ids[1:]], dim=1)
    real = torch.ones_like(long).repeat(2, 1)
    real[0, :quarter] = 0
    padded = _logits(model, torch.cat([left, long]), attention_mask=real)
    pairs = {
        "causal": (_logits(model, other)[:, :half], full[:, :half]),
        "cached": (read, full),
        "padded": (padded[0, quarter:], full[0]),
        "alone": (_logits(model, ids[:1])[0], full[0]),
    }
    found = {name: float((a - b).abs().max()) for name, (a, b) in pairs.items()}
    # A sum of `width` rounded products, in each of so many layers one after another.
    width, layers = config.hidden_size, config.num_hidden_layers
    # That is no bound for large models in half precision; a tenth would be seen.
    rounding = torch.finfo(model.dtype).eps * math.sqrt(width) * layers
    allowed = min(rounding, 0.1) * float(full.abs().max())
    for name, most in found.items():
        if not most <= allowed:
            raise CheckError(
                f"{name}: logits must be the same up to {allowed:.1e}, got {most:.1e}"
            )
    return found


def _logits(model: PreTrainedModel, ids: Tensor, **more: Tensor) -> Tensor:
    return model(ids, use_cache=False, **more).logits.float()


def _read(model: PreTrainedModel, ids: Tensor, parts: tuple[int, ...]) -> Tensor:
    """Return logits of texts that are read in parts, with a cache."""
    name = cache_name(inspect.signature(model.forward).parameters)
    cache, found = None, []
    for part in ids.split(list(parts), dim=1):
        out = model(part, use_cache=True, **{name: cache})
        cache = out[name]
        found.append(out.logits.float())
    return torch.cat(found, dim=1)
