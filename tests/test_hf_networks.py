"""Fresh models of Hugging Face with a scheme, which save and load with it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.language_models import GROUPED  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError  # noqa: E402


@pytest.mark.parametrize("scheme", ["alibi", "t5_bias", "path", "fope", "learned"])
def test_a_fresh_model_saves_and_loads_with_its_scheme(
    tmp_path: Path, scheme: str
) -> None:
    torch.manual_seed(0)
    model = hf.from_scratch(transformers.LlamaConfig(**GROUPED), scheme).eval()
    with torch.no_grad():
        for weight in model.posenc_compare_schemes.parameters():
            weight.add_(torch.randn_like(weight) / 8)
    model.save_pretrained(tmp_path)
    read = hf.load(tmp_path).eval()
    ids = torch.randint(97, (2, 24))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, read(ids).logits)
    assert read.applied.report()["scheme"] == scheme
    read.applied.check()
    seen = torch.ones_like(ids[:, :8])
    made = read.generate(ids[:, :8], attention_mask=seen, max_new_tokens=4)
    assert made.shape == (2, 12)


def test_a_fresh_model_is_that_of_apply() -> None:
    config = transformers.LlamaConfig(**GROUPED)
    torch.manual_seed(0)
    fresh = hf.from_scratch(config, "alibi").eval()
    torch.manual_seed(0)
    plain = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.randint(97, (2, 24))
    with torch.no_grad(), hf.apply(plain, "alibi"):
        assert torch.equal(fresh(ids).logits, plain(ids).logits)


def test_nobody_takes_it_for_the_plain_architecture(tmp_path: Path) -> None:
    hf.from_scratch(transformers.LlamaConfig(**GROUPED), "alibi").save_pretrained(
        tmp_path
    )
    code = (
        "from transformers import AutoModelForCausalLM as A\n"
        f"A.from_pretrained({str(tmp_path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "posenc_compare_llama" in done.stderr


def test_other_folders_and_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must hold a model, got"):
        hf.load(tmp_path)
    config = transformers.LlamaConfig(**GROUPED)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"`AutoModelForCausalLM` and `hf\.apply`"):
        hf.load(tmp_path)
    small = {"n_embd": 48, "n_layer": 2, "n_head": 4}
    with pytest.raises(hf.UnsupportedModelError):
        hf.from_scratch(transformers.GPT2Config(**small), "alibi")
    with pytest.raises(ConfigError, match="unknown scheme 'alibo'"):
        hf.from_scratch(config, "alibo")
    for given in (("llama", "alibi"), (config, None)):
        with pytest.raises(ConfigError, match="must be a"):
            hf.from_scratch(*given)  # type: ignore[arg-type]
