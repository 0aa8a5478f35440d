"""Positional schemes in Hugging Face models; needs `pip install posenc-compare[hf]`.

from posenc_compare import hf

applied = hf.apply(model, "alibi")
applied.check()
applied.remove()
"""

from posenc_compare.hf.applied import Applied
from posenc_compare.hf.apply import apply
from posenc_compare.hf.check import Finding, check
from posenc_compare.hf.convert import convert
from posenc_compare.hf.describe import describe
from posenc_compare.hf.described import Described
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.proof import proof
from posenc_compare.hf.readings import CheckError
from posenc_compare.hf.scratch import from_scratch, load

__all__ = [
    "Applied",
    "CheckError",
    "Described",
    "Finding",
    "UnsupportedModelError",
    "apply",
    "check",
    "convert",
    "describe",
    "from_scratch",
    "load",
    "proof",
]
