"""Small random language models of transformers."""

from typing import Any

import torch
import transformers

SIZE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SIZE, "num_key_value_heads": 2}
WIDER = {**GROUPED, "hidden_size": 64}


def model_of(name: str, more: dict[str, Any]) -> Any:
    """Return a causal model, such as `Llama`, with these sizes."""
    config = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
    torch.manual_seed(0)
    kind = getattr(transformers, f"{name}ForCausalLM")
    return kind(getattr(transformers, config)(**more)).eval()


@torch.no_grad()
def read(model: Any, ids: torch.Tensor, **more: Any) -> torch.Tensor:
    """Return logits of texts that a model reads at once."""
    return model(input_ids=ids, **{"use_cache": False, **more}).logits
