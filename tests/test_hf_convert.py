"""Checkpoints that are converted to the other layout of rotary pairs.

transformers has rotations of both layouts. A converted checkpoint is evaluated with the
rotation of another model, and must have the logits of the original.
"""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

transformers = pytest.importorskip("transformers", minversion="5.20")

from support import language_models  # noqa: E402
from support.checkpoints import restate  # noqa: E402
from support.language_models import GROUPED, SIZE, read  # noqa: E402
from support.shown import refusal  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError  # noqa: E402
from posenc_compare.hf.convert import _is_moved, _parts_of, convert  # noqa: E402
from posenc_compare.hf.measure import UNMET, Rotation, rotations  # noqa: E402
from posenc_compare.hf.places import CONVERTED  # noqa: E402
from posenc_compare.hf.tiny import drawn, tiny  # noqa: E402
from posenc_compare.schemes import Geometry  # noqa: E402
from posenc_compare.variants import labelled  # noqa: E402

WIDE = {**GROUPED, "head_dim": 16}
FALCON = {**SIZE, "alibi": False, "bias": True}
SQUARE = {**SIZE, "hidden_size": 64}
# Name, what its configuration states, converted tensors, layout of a converted copy.
MODELS: list[tuple[str, dict[str, Any], int, str]] = [
    ("Llama", WIDE, 4, "adjacent"),
    ("Qwen2", GROUPED, 8, "adjacent"),
    ("Qwen3", WIDE, 8, "adjacent"),
    ("Gemma2", {**WIDE, "attn_implementation": "eager"}, 4, "adjacent"),
    ("Olmo2", GROUPED, 8, "adjacent"),
    ("Phi", {**SQUARE, "num_key_value_heads": 2, "qk_layernorm": True}, 16, "adjacent"),
    ("Phi3", {**GROUPED, "hidden_size": 64}, 2, "adjacent"),
    ("StableLm", {**SQUARE, "num_key_value_heads": 2}, 4, "adjacent"),
    ("GPTNeoX", SQUARE, 4, "adjacent"),
    ("Persimmon", SQUARE, 12, "adjacent"),
    ("Falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}, 4, ""),
    ("Falcon", {**FALCON, "multi_query": True}, 4, ""),
    ("SmolLM3", {**GROUPED, "no_rope_layers": [1, 0]}, 2, "adjacent"),
    ("Glm", {**WIDE, "partial_rotary_factor": 0.5, "attention_bias": True}, 8, "half"),
    ("Cohere", {**GROUPED, "use_qk_norm": True}, 8, "half"),
]


FIRST = "model.layers.0.self_attn.q_proj.weight"
FOUR = torch.ones(4, 4)


def model_of(name: str, more: dict[str, Any]) -> Any:
    return drawn(language_models.model_of(name, more), torch.float32)


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    model_of("Llama", GROUPED).save_pretrained(folder)
    return folder


def logits(model: Any) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return read(model, torch.randint(3, 97, (2, 40), generator=draw))


def loaded(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


def rotation(to: str, interleaved: bool) -> Any:
    """Return the rotation of another model of transformers."""
    name = "glm" if to == "adjacent" else "gpt_neox"
    code = importlib.import_module(f"transformers.models.{name}.modeling_{name}")

    def apply(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *more: Any) -> Any:
        if interleaved:  # the tables of Cohere
            cos, sin = (torch.cat([x[..., ::2]] * 2, dim=-1) for x in (cos, sin))
        return code.apply_rotary_pos_emb(q, k, cos, sin)

    return apply


@pytest.mark.parametrize(
    ("name", "more", "count", "to"), MODELS, ids=lambda x: x if type(x) is str else ""
)
def test_a_copy_has_the_same_logits_with_the_rotation_of_another_model(
    name: str,
    more: dict[str, Any],
    count: int,
    to: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, to = model_of(name, more), to or "adjacent"
    model.save_pretrained(tmp_path / "own")
    found = convert(tmp_path / "own", to, tmp_path / "copy")  # type: ignore[arg-type]
    assert len(found) == count
    copy, own = loaded(tmp_path / "copy"), logits(model)
    size = own.abs().max()
    assert (logits(copy) - own).abs().max() > 1e-2 * size  # under the old layout
    with monkeypatch.context() as patch:
        code = importlib.import_module(type(model).__module__)
        patch.setattr(code, "apply_rotary_pos_emb", rotation(to, name == "Cohere"))
        assert (logits(copy) - own).abs().max() < 1e-5 * size
    back = "half" if to == "adjacent" else "adjacent"
    convert(tmp_path / "copy", back, tmp_path / "back")  # type: ignore[arg-type]
    for file in ("model.safetensors", "config.json"):
        before, after = (tmp_path / one / file for one in ("own", "back"))
        assert after.read_bytes().strip() == before.read_bytes().strip()


def test_shards_types_and_other_files_stay(tmp_path: Path) -> None:
    model = model_of("Qwen2", GROUPED).to(torch.bfloat16)
    own, copy = tmp_path / "own", tmp_path / "deep" / "copy"
    model.save_pretrained(own, max_shard_size="40KB")
    (own / "tokenizer.json").write_text("{}")
    (own / "more").mkdir()
    (own / "more" / "notes.txt").write_text("x")
    save_file({"wq": torch.ones(2)}, own / "consolidated.safetensors")
    (own / "pytorch_model.bin").write_bytes(b"x")
    (own / "linked.md").symlink_to(own / "tokenizer.json")
    found = convert(own, "adjacent", copy)
    unread = {"consolidated.safetensors", "pytorch_model.bin"}
    assert {path.name for path in copy.iterdir()} | unread == {
        path.name for path in own.iterdir()
    }
    assert not unread & {path.name for path in copy.iterdir()}
    shards = sorted(own.glob("model-*.safetensors"))
    assert len(shards) > 2
    for path in own.rglob("*"):
        if path.is_file() and path not in shards and path.name not in unread:
            same = path.read_bytes() == (copy / path.relative_to(own)).read_bytes()
            assert same == (path.name != "config.json")
    for path in shards:
        before, after = load_file(path), load_file(copy / path.name)
        assert before.keys() == after.keys()
        for name, tensor in before.items():
            assert after[name].dtype == torch.bfloat16
            assert torch.equal(tensor, after[name]) == (name not in found)
            assert torch.equal(tensor.sort(0)[0], after[name].sort(0)[0])
    stated = json.loads((copy / "config.json").read_bytes())
    assert stated.pop(CONVERTED) == "adjacent"
    assert stated == json.loads((own / "config.json").read_bytes())
    assert not (copy / "linked.md").is_symlink()


def test_a_converted_copy_is_not_read_with_the_other_pairs(
    posenc: Any, tmp_path: Path
) -> None:
    own, copy = tmp_path / "own", tmp_path / "copy"
    model_of("Llama", GROUPED).save_pretrained(own)
    done = posenc("hf", "convert", own, "--layout", "adjacent", "--out", copy)
    assert (done.returncode, "reads this copy wrongly" in done.stderr) == (0, True)
    for words in (("check",), ("evaluate",), ("recommend", "--length", "4096")):
        said = refusal(posenc("hf", *words, copy))
        assert "must have queries and keys for half pairs" in said
        assert "`hf convert MODEL --layout half` converts them back" in said
    model = transformers.LlamaForCausalLM.from_pretrained(copy)
    with pytest.raises(ConfigError, match="must have queries and keys for half pairs"):
        hf.check(model)
    (row,) = hf.describe(model.config)
    assert row.note.startswith("weights are for layout=adjacent")
    assert labelled(row.label).build(Geometry()).layout == "adjacent"
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("rope:base=500000;layout=half", {}),
        (row.label, {"layers": [0]}),
        ("alibi", {"keep_rotary": True}),
    ]
    for scheme, given in wrong:
        with pytest.raises(ConfigError, match="written by `hf convert`"):
            hf.apply(model, scheme, **given)
    hf.apply(model, row.label).remove()
    hf.apply(model, row.label, layers=range(model.config.num_hidden_layers)).remove()
    hf.apply(model, "sinusoidal").remove()


BASE = {"rope_type": "default", "rope_theta": 5e5}
LLAMA3 = {**BASE, "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 32}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("Llama", {**GROUPED, "rope_parameters": BASE}),
        ("Llama", {**GROUPED, "rope_parameters": LLAMA3}),
        ("SmolLM3", {**GROUPED, "no_rope_layers": [1, 0]}),
        ("Glm", {**WIDE, "partial_rotary_factor": 0.5}),
    ],
)
def test_the_call_that_the_command_names_gives_the_logits_of_the_original(
    name: str, more: dict[str, Any], posenc: Any, tmp_path: Path
) -> None:
    model, layout = model_of(name, more), "half" if name == "Glm" else "adjacent"
    model.save_pretrained(tmp_path / "own")
    words = ("--layout", layout, "--out", tmp_path / "copy")
    said = posenc("hf", "convert", tmp_path / "own", *words).stderr
    call = re.fullmatch(
        r"transformers reads this copy wrongly until you call "
        r'`hf\.apply\(model, "([^"]+)"\)`\n'
        r".*/copy: logits differ from those of .*/own by (.+) of the largest\n",
        said,
    )
    assert call
    assert f"layout={layout}" in call[1]
    assert float(call[2]) < 1e-5
    copy, own = loaded(tmp_path / "copy"), logits(model)
    hf.apply(copy, call[1])
    assert (logits(copy) - own).abs().max() < 1e-5 * own.abs().max()
    words = ("--layout", "half" if layout == "adjacent" else "adjacent")
    back = posenc(
        "hf", "convert", tmp_path / "copy", *words, "--out", tmp_path / "back"
    )
    apart = re.fullmatch(r".*/back: logits differ .* by (.+) of the .*\n", back.stderr)
    assert apart
    assert float(apart[1]) < 1e-5


def test_two_ropes_of_a_copy_are_not_named_as_one(posenc: Any, tmp_path: Path) -> None:
    stated = {**GROUPED, "layer_types": ["sliding_attention", "full_attention"]}
    model_of("Gemma3", stated).save_pretrained(tmp_path / "own")
    words = ("--layout", "adjacent", "--out", tmp_path / "copy")
    said = posenc("hf", "convert", tmp_path / "own", *words).stderr
    assert said.startswith(f"{tmp_path / 'copy'}: logits were not compared with those")
    assert said.endswith("layout adjacent, and no single hf.apply reads all layers\n")


def test_logits_of_models_that_memory_cannot_hold_are_not_compared(
    posenc: Any, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    words = ("--layout", "adjacent", "--out", tmp_path / "copy")
    done = posenc("hf", "convert", llama, *words)
    assert done.returncode == 0
    assert "weights must take at most half of the memory" in done.stderr


def test_an_index_beside_whole_weights_is_not_read(tmp_path: Path) -> None:
    own = tmp_path / "own"
    model_of("Llama", GROUPED).save_pretrained(own)
    save_file({FIRST: torch.zeros(48, 48)}, own / "old.safetensors")
    index = json.dumps({"weight_map": {FIRST: "old.safetensors"}})
    (own / "model.safetensors.index.json").write_text(index)
    convert(own, "adjacent", tmp_path / "copy")
    copied = load_file(tmp_path / "copy" / "model.safetensors")
    assert copied[FIRST].abs().sum() > 0


def test_names_without_the_base_model_are_found(tmp_path: Path) -> None:
    model_of("Llama", GROUPED).model.save_pretrained(tmp_path / "own")
    found = convert(tmp_path / "own", "adjacent", tmp_path / "copy")
    assert sorted(found)[:2] == [
        f"layers.0.self_attn.{one}_proj.weight" for one in ("k", "q")
    ]


# --- refusals ---------------------------------------------------------------------


def weights(folder: Path, *without: str, **more: Tensor) -> None:
    path = folder / "model.safetensors"
    kept = load_file(path)
    for name in without:
        del kept[name]
    save_file(kept | more, path)


def outside(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "model.safetensors").rename(folder / "more" / "other.safetensors")
    index = {"weight_map": {FIRST: "more/other.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def index_alone(folder: Path, text: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(text)


def refused(folder: Path, to: Any = "adjacent") -> str:
    """Return the line that a conversion ends with; it must leave nothing behind."""
    with pytest.raises(ConfigError) as caught:
        convert(folder, to, folder.parent / "copy")
    assert "\n" not in str(caught.value)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    return str(caught.value)


def test_a_layout_that_is_there_already_or_unknown_is_refused(llama: Path) -> None:
    already = "layout must be adjacent, got half, which llama already has"
    assert already in refused(llama, "half")
    assert "layout must be adjacent or half, got 'halves'" in refused(llama, "halves")
    restate(llama, **{CONVERTED: "adjacent"})
    assert "layout must be half, got adjacent, which llama" in refused(llama)


# By what the line says.
DAMAGES: dict[str, Callable[[Path], object]] = {
    f"got 3, without {FIRST}": lambda f: weights(f, FIRST),
    "q_proj.weight must have heads of 12 channels, got 40 channels": (
        lambda f: weights(f, **{FIRST: torch.ones(40, 48)})
    ),
    "unquantised, got model.layers.0.self_attn.q_proj.weight_scale": (
        lambda f: weights(f, **{f"{FIRST}_scale": torch.ones(1)})
    ),
    "got model.layers.2.self_attn.k_proj.weight": (
        lambda f: weights(f, **{FIRST.replace("0", "2").replace("q_", "k_"): FOUR})
    ),
    "model.safetensors: must be safetensors, got": (
        lambda f: (f / "model.safetensors").write_bytes(b"\0" * 20)
    ),
    "'llama': model.safetensors is not there": (
        lambda f: (f / "model.safetensors").unlink()
    ),
    "index.json: must name files of tensors, got": lambda f: index_alone(f, "[]"),
    "'llama': other.safetensors is not there": outside,
    "config.json is not there": lambda f: (f / "config.json").unlink(),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_folders_that_cannot_be_converted_are_refused(llama: Path, said: str) -> None:
    DAMAGES[said](llama)
    assert said in refused(llama)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("DeepseekV3", {**SIZE, "n_group": 1}, "must rotate the first channels"),
        ("CodeGen", {"n_embd": 64, "n_head": 4, "rotary_dim": 8}, "in order and no"),
        ("Qwen3Next", {**WIDE, "num_hidden_layers": 4}, "in order and nowhere"),
        ("GPT2", {"n_embd": 48, "n_head": 4, "n_layer": 2}, "a model that has none"),
        ("RoFormer", {**SIZE, "is_decoder": True}, "or has no such module"),
        ("T5", {"d_model": 48, "num_layers": 2, "num_heads": 4}, "has an encoder"),
        ("Gemma3", {}, "gemma3: must be a causal model of text"),
    ],
)
def test_models_of_other_forms_are_refused(
    llama: Path, name: str, more: dict[str, Any], said: str
) -> None:
    getattr(transformers, f"{name}Config")(**more).save_pretrained(llama)
    assert said in refused(llama)


def test_queries_that_are_used_elsewhere_are_seen() -> None:
    model = tiny(transformers.LlamaConfig(**GROUPED))
    measured = {one.layer: one for one in rotations(model, 100)}
    parts = _parts_of(model, measured)
    assert _is_moved(model, measured, parts, "adjacent")

    def add_queries(module: Any, args: Any, kwargs: Any, out: Any) -> Any:
        return out[0] + module.q_proj(kwargs["hidden_states"]), *out[1:]

    attention = model.model.layers[-1].self_attn
    attention.register_forward_hook(add_queries, with_kwargs=True)
    assert not _is_moved(model, measured, parts, "half")


def test_layers_that_cannot_be_measured_are_refused(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = importlib.import_module(convert.__module__)

    def one_unmet(model: Any, length: int) -> Any:
        first, *_ = rotations(model, length)
        return [first, Rotation(1, first.width, fault=UNMET)]

    monkeypatch.setattr(code, "rotations", one_unmet)
    with pytest.raises(hf.UnsupportedModelError, match=f"llama: layer 1 {UNMET}"):
        convert(llama, "adjacent", llama.parent / "copy")


def test_files_are_never_replaced(llama: Path) -> None:
    (llama.parent / "copy").mkdir()
    for out in (llama.parent / "copy", llama / "copy"):
        with pytest.raises(ConfigError, match="must be a new folder outside of llama"):
            convert(llama, "adjacent", out)
    with pytest.raises(ConfigError, match=r"must be a folder with safetensors, got 'm"):
        convert(llama / "model.safetensors", "adjacent", llama.parent / "new")


def test_the_command_lists_what_it_reordered(
    llama: Path, posenc: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(llama.parent)
    found = posenc("hf", "convert", "llama", "--layout", "adjacent", "--format", "csv")
    assert found.stdout.splitlines() == [
        "module,tensors,channels of a head,rotated",
        '"k_proj",2,12,12',
        '"q_proj",2,12,12',
    ]
    assert (llama.parent / "llama-adjacent" / "model.safetensors").is_file()
    said = refusal(posenc("hf", "convert", "llama", "--layout", "adjacent"))
    assert "must be a new folder outside of llama, got llama-adj" in said
