"""Time a step of training by scheme, and of models of other packages of that size.

The floor is a step without a scheme. Two layers of width 128 and four heads read eight
texts of 256 bytes. Other packages have layers of other making, so their figures say
what a user of theirs waits for, and no more.

    python -m benchmarks steps [scheme ...]
"""

from collections.abc import Callable, Iterator
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.analysis.core.settings import Training
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.analysis.training.trainer import trainer_of
from posenc_compare.schemes import Variant

SETTING = Training(length=256, batch=8, steps=10_000)
SCHEMES = ("rope", "alibi", "t5_bias", "fox", "shaw", "path")
BYTES, ROUNDS = 256, 21


def trained(name: str, setting: Training) -> Run:
    """Return what takes the next step of training a scheme."""
    trainer, steps = trainer_of(Variant(name), setting), count()
    return lambda: trainer._step(trainer.model, next(steps))


def stepped(model: nn.Module, logits: Callable[[Tensor], Tensor]) -> Run:
    """Return what takes a step with another package's model."""
    tokens = torch.randint(BYTES, (SETTING.batch, SETTING.length + 1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=SETTING.learning_rate)

    def run() -> None:
        found = logits(tokens[:, :-1])
        loss = F.cross_entropy(found.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return run


def transformers() -> Run:
    """Return steps of Hugging Face's Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=BYTES,
            hidden_size=SETTING.width,
            intermediate_size=4 * SETTING.width,
            num_hidden_layers=SETTING.layers,
            num_attention_heads=SETTING.heads,
            max_position_embeddings=SETTING.length,
        )
    )
    return stepped(model, lambda tokens: model(tokens, use_cache=False).logits)


def x_transformers() -> Run:
    """Return steps of x-transformers with its rotary positions."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=SETTING.width,
        depth=SETTING.layers,
        heads=SETTING.heads,
        attn_dim_head=SETTING.width // SETTING.heads,
        rotary_pos_emb=True,
        attn_flash=True,
    )
    model = TransformerWrapper(
        num_tokens=BYTES,
        max_seq_len=SETTING.length,
        use_abs_pos_emb=False,
        attn_layers=layers,
    )
    return stepped(model, model)


def peers() -> Iterator[tuple[str, Run]]:
    """Yield what other packages that are installed take."""
    for name, make in (
        ("transformers, Llama", transformers),
        ("x-transformers, rotary", x_transformers),
    ):
        try:
            yield name, make()
        except ImportError:
            print(f"{name}: not installed")


def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    setting = SETTING.resolve(load_corpus)
    cases = {FLOOR: trained("nope", setting)}
    cases |= {name: trained(name, setting) for name in words or SCHEMES}
    cases |= dict(peers())
    found = timed(cases, ROUNDS, memory=False)
    kept("steps", {"step": found}, setting=str(SETTING), rounds=ROUNDS)
