"""Time whole models that read a long text, beside those of other packages.

The floor is `rope`. Two layers of width 128 and four heads read one text without
gradients. A model of ours gives what it gives in float64, or it is not timed.

    python -m benchmarks models [length ...]
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from benchmarks.peers import BYTES, Logits, installed
from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.train.decoder import Decoder

SCHEMES = ("nope", "sinusoidal", "alibi", "t5_bias", "kerple_log", "fox")
ROUNDS, CHECKED = 9, 1100  # a length of several blocks of rows


def text(length: int) -> Tensor:
    """Return one text of random bytes, the same in every call."""
    return torch.randint(BYTES, (1, length), generator=torch.Generator().manual_seed(0))


def made(name: str, length: int) -> Decoder:
    """Return an untrained model, built for a length."""
    setting = Training()
    geometry = Geometry(model_dim=setting.width, heads=setting.heads, length=length)
    return Decoder(Variant(name), setting.layers, geometry, seed=0)


def check(name: str) -> None:
    """Stop unless a model gives what it gives in float64."""
    model, positions = made(name, CHECKED), torch.arange(CHECKED)
    got = model(text(CHECKED), positions)
    exact = model.double()(text(CHECKED), positions)
    error = ((got - exact).abs().max() / exact.abs().max()).item()
    if error > CHECKED * 2**-24:  # of a sum of so many numbers of float32
        raise SystemExit(f"{name}: off by {error:.1e}")


def cases(length: int) -> dict[str, Run]:
    """Return what is timed at a length."""
    tokens, positions = text(length), torch.arange(length)

    def ours(name: str) -> Run:
        model = made(name, length)
        return lambda: model(tokens, positions)

    def theirs(model: nn.Module, logits: Logits) -> Run:
        model.eval()
        return lambda: logits(tokens)

    runs = {FLOOR: ours("rope")} | {name: ours(name) for name in SCHEMES}
    setting = replace(Training(), length=length, test_bytes=16 * length)
    return runs | {name: theirs(*peer) for name, peer in installed(setting)}


@torch.no_grad()
def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for name in ("rope", *SCHEMES):
        check(name)
    lengths = [int(word) for word in words] or [2048, 8192]
    columns = {str(length): timed(cases(length), ROUNDS) for length in lengths}
    kept("models", columns, setting=str(Training()), rounds=ROUNDS)
