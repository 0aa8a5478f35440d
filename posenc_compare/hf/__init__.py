"""Positional schemes in Hugging Face models; needs `pip install posenc-compare[hf]`.

from posenc_compare import hf

applied = hf.apply(model, "alibi")
applied.check()
applied.remove()
"""

from posenc_compare.hf.apply import Applied, apply
from posenc_compare.hf.check import CheckError
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.rotary import Rotary, rotary_of

__all__ = [
    "Applied",
    "CheckError",
    "Rotary",
    "UnsupportedModelError",
    "apply",
    "rotary_of",
]
