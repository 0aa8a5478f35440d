"""Networks trained here as models of Hugging Face, and fresh models with a scheme."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

transformers = pytest.importorskip("transformers", minversion="5.20")

from posenc_compare import hf  # noqa: E402
from posenc_compare.analysis.core.progress import Progress  # noqa: E402
from posenc_compare.analysis.engine.comparison import compare  # noqa: E402
from posenc_compare.analysis.records.load import load_records  # noqa: E402
from posenc_compare.analysis.records.store import Store  # noqa: E402
from posenc_compare.analysis.settings.training import Training  # noqa: E402
from posenc_compare.analysis.training.corpus import load_corpus  # noqa: E402
from posenc_compare.analysis.training.trainer import trainer_of  # noqa: E402
from posenc_compare.errors import (  # noqa: E402
    ConfigError,
    StoreError,
    UndefinedPositionError,
)
from posenc_compare.schemes import Variant  # noqa: E402

HALF = """
import torch
from posenc_compare.schemes import Scheme, register

@register("half", family="absolute", source="nobody 2026")
class Half(Scheme):
    "Be trained, and fail in the test."
    def embed(self, x, positions):
        if positions.shape[-1] > 16:
            raise ValueError("boom")
        return x
"""
SCHEMES = "rope:base=500;layout=half,learned,path"
SIZES: dict[str, Any] = {"length": 16, "width": 16, "heads": 2, "batch": 2}
SIZES |= {"test_bytes": 64, "longest": 2, "steps": 12}
LLAMA: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n}\n" for n in range(4000)))
    return str(path)


@pytest.fixture(scope="module")
def run(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    given = {**SIZES, "seeds": 1, "corpus": corpus, "keep_weights": True}
    compare(SCHEMES, "extrapolation,smoothness", out=folder, **given)
    return folder


def keys(folder: Path) -> dict[str, str]:
    """Return the keys of trained records, by label."""
    records = load_records(folder, arrays=False)
    return {r.label: r.key for r in records if r.spec.kind == Training.kind}


@functools.cache
def trained(label: str, corpus: str) -> Any:
    """Return the decoder of a label, trained in this process."""
    name, _, written = label.partition(":")
    options = {"base": 500.0, "layout": "half"} if written else {}
    setting = Training(**{**SIZES, "corpus": corpus}).resolve(load_corpus)
    trainer = trainer_of(Variant(name, options), setting)
    torch.set_flush_denormal(True)
    trainer.train(Progress())
    torch.set_flush_denormal(False)
    return trainer.model


@pytest.mark.parametrize("label", ["rope:base=500.0;layout=half", "learned", "path"])
def test_a_trained_network_reads_alike_everywhere(
    run: Path, corpus: str, tmp_path: Path, label: str
) -> None:
    written = hf.export(run, keys(run)[label][:12], tmp_path)
    read = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)
    given = tokens("9 and 3 é", return_tensors="pt")
    assert given["input_ids"][0].tolist() == [*"9 and 3 é".encode()]
    assert tokens.decode(given["input_ids"][0]) == "9 and 3 é"
    ids = given["input_ids"]
    own = trained(label, corpus)
    with torch.no_grad():
        wanted = own(ids, torch.arange(ids.shape[1]))
        assert torch.equal(written(**given).logits, wanted)
        assert torch.equal(read(**given).logits, wanted)
        loss = read(**given, labels=ids).loss
    probabilities = wanted[0, :-1].log_softmax(-1)
    by_hand = -probabilities[torch.arange(ids.shape[1] - 1), ids[0, 1:]].mean()
    assert torch.allclose(loss, by_hand, rtol=0, atol=2**-20)


@pytest.mark.parametrize("convolution", ["canon", "kv_shift"])
def test_the_settings_of_a_network_go_with_it(
    corpus: str, tmp_path: Path, convolution: Any
) -> None:
    """One that convolves, and whose learned positions were dropped."""
    sizes = {**SIZES, "convolution": convolution, "drop": 0.25, "corpus": corpus}
    out = tmp_path / "run"
    compare("learned", "extrapolation", out=out, seeds=1, keep_weights=True, **sizes)
    hf.export(out, keys(out)["learned"], tmp_path / "model")
    read = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    trainer = trainer_of(Variant("learned"), Training(**sizes).resolve(load_corpus))
    torch.set_flush_denormal(True)
    trainer.train(Progress())
    torch.set_flush_denormal(False)
    ids = torch.randint(256, (2, 24), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = trainer.model(ids, torch.arange(24))  # beyond the table of 16
        assert torch.equal(read(ids).logits, wanted)


def test_it_generates_the_likeliest_bytes(run: Path, tmp_path: Path) -> None:
    model: Any = hf.export(run, keys(run)["path"], tmp_path)
    ids = torch.tensor([[49, 32, 97]])
    made = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)
    for _ in range(6):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(made, ids)


def test_padding_may_follow_a_text_and_not_precede(run: Path, tmp_path: Path) -> None:
    model = hf.export(run, keys(run)["path"], tmp_path)
    ids = torch.tensor([[49, 32, 97, 98], [50, 32, 0, 0]])
    seen = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.no_grad():
        alone = model(ids[1:, :2]).logits
        beside = model(ids, attention_mask=seen).logits[1:, :2]
    assert torch.allclose(alone, beside, rtol=0, atol=2**-18)
    for hidden in (seen.flip(1), torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]])):
        with pytest.raises(hf.UnsupportedModelError, match="padding on the left or a"):
            model(ids, attention_mask=hidden)
    with pytest.raises(hf.UnsupportedModelError, match="must count from 0"):
        model(ids, position_ids=torch.arange(1, 5)[None])
    with pytest.raises(hf.UnsupportedModelError, match="returns logits alone"):
        model(ids, output_hidden_states=True)


def test_rows_are_filled_up_behind_their_end(run: Path, tmp_path: Path) -> None:
    model = hf.export(run, keys(run)["path"], tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    rows = tokenizer(["1 ab", "2 "], padding=True, return_tensors="pt")
    assert rows["input_ids"][1].tolist() == [50, 32, 0, 0]
    with torch.no_grad():
        beside = model(**{n: rows[n] for n in ("input_ids", "attention_mask")}).logits
        alone = model(rows["input_ids"][1:, :2]).logits
    assert torch.allclose(beside[1:, :2], alone, rtol=0, atol=2**-18)
    assert tokenizer.decode([tokenizer.eos_token_id], skip_special_tokens=True) == ""
    assert tokenizer.vocab_size == len(tokenizer) == 256


def test_a_text_beyond_a_table_is_refused(run: Path, tmp_path: Path) -> None:
    model = hf.export(run, keys(run)["learned"], tmp_path)
    with pytest.raises(UndefinedPositionError):
        model(torch.zeros(1, 17, dtype=torch.long))


def test_what_cannot_be_exported_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'zz', which 0 have"):
        hf.export(run, "zz", tmp_path)
    with pytest.raises(ConfigError, match="'', which 6 have"):
        hf.export(run, "", tmp_path)
    found = keys(run)
    every = load_records(run, arrays=False)
    untrained = next(r.key for r in every if r.key not in found.values())
    with pytest.raises(ConfigError, match="trained on language, got smoothness"):
        hf.export(run, untrained, tmp_path)
    kept = run / "weights" / f"{found['path']}.safetensors"
    data = kept.read_bytes()
    try:
        kept.write_bytes((kept.with_stem(found["learned"])).read_bytes())
        with pytest.raises(StoreError, match="this network, and no other"):
            hf.export(run, found["path"], tmp_path)
        kept.unlink()
        with pytest.raises(StoreError, match="`run --keep-weights` writes them"):
            hf.export(run, found["path"], tmp_path)
    finally:
        kept.write_bytes(data)


def test_other_code_of_a_scheme_is_said(run: Path, tmp_path: Path) -> None:
    hf.export(run, keys(run)["path"], tmp_path)
    config = tmp_path / "config.json"
    text = config.read_text()
    assert '"scheme_sha256": "' in text
    config.write_text(text.replace('"scheme_sha256": "', '"scheme_sha256": "0'))
    with pytest.warns(UserWarning, match="path has other code here"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_weights_of_another_training_are_refused(run: Path, tmp_path: Path) -> None:
    key = keys(run)["path"]
    kept = Store(run).weights(key)
    data = kept.read_bytes()
    named = load_file(kept)
    try:
        for weights, said in (
            (named, "0" * 32),  # of another cell
            ({n: t * float("nan") for n, t in named.items()}, key),
        ):
            save_file(weights, kept, metadata={"key": said})
            with pytest.raises(StoreError, match="this network, and no other"):
                hf.export(run, key, tmp_path)
    finally:
        kept.write_bytes(data)


def test_only_a_good_record_is_exported(run: Path, corpus: str, tmp_path: Path) -> None:
    plugin = tmp_path / "half.py"
    plugin.write_text(HALF)
    given = {**SIZES, "seeds": 1, "corpus": corpus, "keep_weights": True}
    out = tmp_path / "run"
    compare("half", "extrapolation", out=out, plugins=[plugin], **given)
    (record,) = load_records(out)
    assert record.status == "failed"
    assert Store(out).weights(record.key).exists()
    with pytest.raises(ConfigError, match="record must be ok, got failed: ValueError"):
        hf.export(out, record.key, tmp_path / "out")
    for taken in (plugin, out):
        with pytest.raises(ConfigError, match="out must be a new or an empty folder"):
            hf.export(run, keys(run)["path"], taken)


def test_weights_go_with_the_record_they_are_of(corpus: str, tmp_path: Path) -> None:
    given = {**SIZES, "seeds": 1, "corpus": corpus, "out": tmp_path / "run"}
    compare("nope", "extrapolation", keep_weights=True, **given)
    assert list((tmp_path / "run" / "weights").iterdir())
    compare("nope", "extrapolation", overwrite=True, **given)
    assert not list((tmp_path / "run" / "weights").iterdir())


def test_weights_are_kept_only_where_asked(corpus: str, tmp_path: Path) -> None:
    given = {**SIZES, "seeds": 1, "corpus": corpus}
    weights = tmp_path / "run" / "weights"
    compare("nope", "extrapolation", out=tmp_path / "run", **given)
    assert not weights.exists()
    given |= {"out": tmp_path / "run", "keep_weights": True}
    said: list[str] = []
    given["on_event"] = lambda event: said.append(event.note)
    compare("nope,path", "extrapolation", **given)
    (line,) = [note for note in said if "--overwrite" in note]
    assert line.startswith("1 trained before without their weights")
    assert len(list(weights.iterdir())) == 1
    said.clear()
    given["overwrite"] = True
    compare("nope", "extrapolation", **given)
    assert not [note for note in said if "--overwrite" in note]
    assert len(list(weights.iterdir())) == 2


def test_the_command_writes_a_folder(posenc: Any, run: Path, tmp_path: Path) -> None:
    done = posenc("hf", "export", run, keys(run)["path"], tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"\n{tmp_path / 'out'}: path, 12772 parameters\n" in done.stderr
    again = posenc("hf", "export", run, keys(run)["path"], tmp_path / "out")
    assert again.returncode == 2
    assert "out must be a new or an empty folder" in again.stderr
    assert (tmp_path / "out" / "config.json").exists()


def test_it_is_a_model_of_the_evaluation_harness(run: Path, tmp_path: Path) -> None:
    instance = pytest.importorskip("lm_eval.api.instance").Instance
    from posenc_compare.hf.lm_eval import PosencLM

    model: Any = hf.export(run, keys(run)["path"], tmp_path).eval()
    harness = PosencLM(str(tmp_path), device="cpu", batch_size=2)
    texts = [("1 and", " 2"), ("4 and 5", " ab")]
    asked = [instance("loglikelihood", {}, text, i) for i, text in enumerate(texts)]
    for (context, rest), (found, _) in zip(
        texts, harness.loglikelihood(asked), strict=True
    ):
        ids = torch.tensor([[*(context + rest).encode()]])
        with torch.no_grad():
            logs = model(ids[:, :-1]).logits.log_softmax(-1)
        nats = logs.gather(-1, ids[:, 1:, None])[0, -len(rest) :].sum()
        assert found == pytest.approx(float(nats), rel=1e-4)
    how = {"until": ["\n"], "max_gen_toks": 4}
    asked = [
        instance("generate_until", {}, (t, how), i) for i, (t, _) in enumerate(texts)
    ]
    for (context, _), found in zip(texts, harness.generate_until(asked), strict=True):
        ids = torch.tensor([[*context.encode()]])
        made = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
        whole = bytes(made.tolist()).decode(errors="replace")
        assert found == whole.partition("\n")[0]


# --- Fresh models -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["alibi", "t5_bias", "path", "fope", "learned"])
def test_a_fresh_model_saves_and_loads_with_its_scheme(
    tmp_path: Path, scheme: str
) -> None:
    torch.manual_seed(0)
    model = hf.from_scratch(transformers.LlamaConfig(**LLAMA), scheme).eval()
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
    config = transformers.LlamaConfig(**LLAMA)
    torch.manual_seed(0)
    fresh = hf.from_scratch(config, "alibi").eval()
    torch.manual_seed(0)
    plain = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.randint(97, (2, 24))
    with torch.no_grad(), hf.apply(plain, "alibi"):
        assert torch.equal(fresh(ids).logits, plain(ids).logits)


def test_nobody_takes_it_for_the_plain_architecture(tmp_path: Path) -> None:
    hf.from_scratch(transformers.LlamaConfig(**LLAMA), "alibi").save_pretrained(
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
    config = transformers.LlamaConfig(**LLAMA)
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
