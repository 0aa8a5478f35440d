"""Fresh models of Hugging Face with a scheme, which save and load with it."""

from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.language_models import GROUPED  # noqa: E402
from support.processes import python  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError  # noqa: E402
from posenc_compare.hf.checkpoint import configuration_in  # noqa: E402


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


ELSEWHERE = """
import sys
import torch
from transformers import AutoModelForCausalLM

try:
    AutoModelForCausalLM.from_pretrained(sys.argv[1])
except ValueError as error:
    assert "posenc_compare_llama" in str(error)
else:
    raise AssertionError("it was taken for the plain architecture")
model, ids, wanted = torch.load(sys.argv[2], weights_only=False)
assert torch.equal(model(ids).logits, wanted)
"""


def test_where_nothing_was_applied_a_folder_is_refused_and_a_pickle_is_read(
    tmp_path: Path,
) -> None:
    config = transformers.LlamaConfig(**GROUPED)
    model = hf.from_scratch(config, "alibi")
    model.save_pretrained(tmp_path / "folder")
    with pytest.raises(ConfigError, match=r"got one of hf\.from_scratch; hf\.load"):
        configuration_in(tmp_path / "folder")
    plain = transformers.AutoModelForCausalLM.from_config(config).eval()
    hf.apply(plain, "alibi")
    ids = torch.randint(97, (2, 12))
    torch.save((plain, ids, plain(ids).logits.detach()), tmp_path / "pickle")
    done = python("-c", ELSEWHERE, tmp_path / "folder", tmp_path / "pickle")
    assert done.returncode == 0, done.stderr


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
