"""Small checkpoints of Hugging Face, written to folders."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def save_llama(folder: Path, trained: int) -> Path:
    """Write a small random Llama and a tokenizer of bytes; return the folder."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=trained,
        initializer_range=0.4,  # so that positions matter
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    save_tokenizer(folder, {letter: number for number, letter in enumerate(letters)})
    return folder


def save_tokenizer(folder: Path, vocabulary: dict[str, int], **unknown: str) -> None:
    """Write a tokenizer of bytes, without any merges, for a vocabulary."""
    whole = Tokenizer(models.BPE(vocab=vocabulary, merges=[], **unknown))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole, **unknown)
    tokenizer.save_pretrained(folder)


def restate(folder: Path, **fields: Any) -> None:
    """Write other fields into the configuration of a checkpoint."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
