"""Models of other packages of the size of ours, where those packages are installed."""

from collections.abc import Callable, Iterator

from torch import Tensor, nn

from posenc_compare.settings.training import Training

BYTES = 256
Logits = Callable[[Tensor], Tensor]
Peer = tuple[nn.Module, Logits]  # a model, and what gives logits of `(batch, n)` bytes


def transformers(setting: Training) -> Peer:
    """Return Hugging Face's Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=BYTES,
            hidden_size=setting.width,
            intermediate_size=4 * setting.width,
            num_hidden_layers=setting.layers,
            num_attention_heads=setting.heads,
            max_position_embeddings=setting.length,
        )
    )
    return model, lambda tokens: model(tokens, use_cache=False).logits


def x_transformers(setting: Training, **positions: object) -> Peer:
    """Return a decoder of x-transformers with what it is told of positions."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=setting.width,
        depth=setting.layers,
        heads=setting.heads,
        attn_dim_head=setting.width // setting.heads,
        attn_flash=True,
        **positions,
    )
    model = TransformerWrapper(
        num_tokens=BYTES,
        max_seq_len=setting.length,
        use_abs_pos_emb=False,
        attn_layers=layers,
    )
    return model, model


PEERS: dict[str, Callable[[Training], Peer]] = {
    "transformers, Llama": transformers,
    "x-transformers, rotary": lambda s: x_transformers(s, rotary_pos_emb=True),
    "x-transformers, ALiBi": lambda s: x_transformers(s, alibi_pos_bias=True),
}


def installed(setting: Training) -> Iterator[tuple[str, Peer]]:
    """Yield the models of the packages that are installed, and name the others."""
    for name, make in PEERS.items():
        try:
            yield name, make(setting)
        except ImportError:
            print(f"{name}: not installed")
