"""Positional schemes in Hugging Face models; needs `pip install posenc-compare[hf]`.

from posenc_compare import hf

applied = hf.apply(model, "alibi")
applied.check()
applied.remove()
"""

from posenc_compare.hf.apply import Applied, apply
from posenc_compare.hf.check import CheckError
from posenc_compare.hf.export import export
from posenc_compare.hf.network import ByteTokenizer, PosencConfig, PosencForCausalLM
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.proof import proof
from posenc_compare.hf.rotary import Rotary, rotary_of
from posenc_compare.hf.scratch import from_scratch, load

__all__ = [
    "Applied",
    "ByteTokenizer",
    "CheckError",
    "PosencConfig",
    "PosencForCausalLM",
    "Rotary",
    "UnsupportedModelError",
    "apply",
    "export",
    "from_scratch",
    "load",
    "proof",
    "rotary_of",
]
