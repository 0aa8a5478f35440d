"""The sizes that the configuration of a Hugging Face model states."""

from typing import Any

from posenc_compare.schemes import Geometry


def geometry_of(config: Any, length: int | None = None) -> Geometry:
    """Return the sizes that a configuration of a language model states."""
    width, heads = config.hidden_size, config.num_attention_heads
    parts = [getattr(config, f"qk_{part}_head_dim", 0) for part in ("nope", "rope")]
    head_dim = sum(parts) if all(parts) else getattr(config, "head_dim", 0)
    return Geometry(
        model_dim=width,
        heads=heads,
        head_dim=head_dim or width // heads,
        length=length or config.max_position_embeddings,
        layers=config.num_hidden_layers,
    )


def config_length(config: Any) -> int:
    """Return the positions that a model is for; 1024 if it does not state them."""
    stated = getattr(config, "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 1 else 1024
