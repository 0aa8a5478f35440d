"""Positions that are measured on a small random model of a configuration."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers", minversion="5.24")

from support.language_models import WIDER  # noqa: E402
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402
from transformers.models.llama.modeling_llama import (  # noqa: E402
    LlamaAttention,
    apply_rotary_pos_emb,
)
from transformers.models.xlnet.modeling_xlnet import XLNetModel  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError  # noqa: E402
from posenc_compare.hf.proof import PROVED  # noqa: E402
from posenc_compare.hf.rotary import one_rope  # noqa: E402
from posenc_compare.variants import parse_variants  # noqa: E402

applying = importlib.import_module("posenc_compare.hf.apply")  # not the function

ODD = ("Traceback", "AssertionError", "KeyError", "NoneType")
SIZES = {**WIDER, "num_hidden_layers": 4}
EIGHT = {"head_dim": 16}
# Labels of the first rows, whose logits are compared.
DESCRIBED = {
    "deepseek_v3": "rope_latent:layout=half",
    "axk2": "rope_latent:layout=half",
    "lfm3": "p_rope:base=1000000.0;fraction=0.5;layout=half",
    "llama": "rope:layout=half",
    "smollm3": "rope:base=2000000.0;layout=half",
    "llama4_text": "rope:base=500000.0",
    "codegen": "rope:fraction=0.25",
    "gpt_neox": "rope:fraction=0.25;layout=half",
    "cohere": "rope:base=500000.0",
    "cohere2": "rope",
    "persimmon": "rope:fraction=0.5;layout=half",
    "stablelm": "rope:fraction=0.25;layout=half",
    "phi3": "rope:layout=half",
    "diffllama": "rope:layout=half",
    "glm": "rope:fraction=0.5",
    "helium": "rope:base=100000.0",
    "nemotron": "rope:fraction=0.5;layout=half",
}
# Labels, and a part of the reason why logits are not compared, or of what else is done.
NOTED = {
    "granite_swa": ("rope:layout=half", "sinks"),
    "falcon": ("rope:layout=half", "logits not compared"),
    "gpt_oss": (
        "rope:base=150000.0;beta=32.0;factor=32.0;layout=half;original=4096"
        ";scaling=yarn;truncate=false",
        "sinks",
    ),
    "gemma4_text": ("rope:layout=half", "heads of one size in all layers"),
    "moshi": ("rope:layout=half", "takes no position_embeddings"),
    "roformer": ("rope", "takes no position_embeddings"),
    "hunyuan_v1_dense": ("rope:layout=half", "by weights after the rotation"),
    "ministral3": (
        "rope:attention=1.0;base=1000000.0;beta=32.0;factor=16.0;layout=half"
        ";original=16384;scaling=yarn",
        "scales queries by their position",
    ),
    "mamba": ("nope", "has no attention"),
    "xlstm": ("nope", "has no attention"),
    "zamba": ("nope", "layers other than attention"),
    "nanochat": ("rope:layout=half", "equals the scheme at negated positions"),
    "blt": ("n/a", "several products of queries and keys, rotated differently"),
    "musicgen": ("sinusoidal:layout=t2t", "cosines come before sines"),
    "reformer": ("n/a", "in a way that this command does not find"),
}
# Kind and labels of other positions than rotary ones, and some numbers.
OTHERS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "gpt2": ("table", ["learned:length=1024"], {"rows": 1024, "first row": 0}),
    "opt": ("table", ["learned:length=2050"], {"rows": 2050, "first row": 2}),
    "roberta": ("table", ["learned:length=512"], {"rows": 512, "first row": 2}),
    "xglm": ("table", ["sinusoidal:layout=t2t"], {"first position": 2}),
    "marian": ("table", ["sinusoidal:layout=concatenated"] * 2, {"rows": 1024}),
    "ctrl": ("table", ["sinusoidal:layout=concatenated"], {"rows": 256}),
    "bloom": ("bias", ["alibi"], {}),
    "cpmant": (
        "bias",
        ["t5_bias:bidirectional=true;buckets=512;max_distance=2048"],
        {"buckets": 512},
    ),
    "t5": (
        "bias",
        ["t5_bias:bidirectional=true;max_distance=128", "t5_bias:max_distance=128"],
        {"max_distance": 128},
    ),
    "inkling_text": ("bias", ["inkling:reach=512"], {"reach": 512}),
    "inkling2_text": ("bias", ["inkling:clip=8.0;reach=1024"], {"reach": 1024}),
    "xlnet": ("bias", ["transformer_xl"], {}),
    "bert-generation": ("table", ["learned:length=512"], {"rows": 512}),
}
# Why there are no rotary positions that an evaluation could scale.
REASONS = {
    "gpt2": "has no rotary positions",
    "bloom": "has no rotary positions",
    "mamba": "has no attention",
    "xlstm": "has no attention",
    "ctrl": "changes queries with the position otherwise than by a rotation",
    "gemma4_unified_assistant": "must be a causal model of text alone",
    "emu3": "must be a causal model of text alone; another would work",
    "gemma3": "its language model alone (gemma3_text) would work",
    "emu3_text_model": "must be a type of causal models",
    "bart": "has an encoder",
    "xlnet": "has no products of queries and keys",
    "nanochat": "at negated positions",
}

FOUR = ("cohere2", "lfm3", "llama4_text", "smollm3")  # whose layers differ
# What a default configuration leaves open.
MORE: dict[str, Any] = {
    **{kind: {"num_hidden_layers": 4} for kind in FOUR},
    "reformer": {"is_decoder": True},
    # These take seconds as large as they are.
    "zamba": {"num_hidden_layers": 8, "hidden_size": 64, "attention_hidden_size": 128},
    "cpmant": {"hidden_size": 256, "num_attention_heads": 8, "dim_head": 32},
    "ctrl": {"dff": 256},
    "codegen": {"n_embd": 256, "n_head": 4, "rotary_dim": 16},
    "gemma4_text": {"hidden_size": 256, "intermediate_size": 256},
}


def config_of(kind: str, **more: Any) -> Any:
    """Return a small configuration of a type, or its default one."""
    made = transformers.CONFIG_MAPPING[kind]
    for sizes in (SIZES | EIGHT | more, SIZES | more, {"num_hidden_layers": 4, **more}):
        try:
            return made(**sizes)
        except Exception:  # other names of sizes
            continue
    return made(**more)


def default_of(kind: str) -> Any:
    sizes = {"num_hidden_layers": 2, **MORE.get(kind, {})}
    return transformers.CONFIG_MAPPING[kind](**sizes)


@pytest.mark.parametrize("kind", sorted({*DESCRIBED, *NOTED}))
def test_a_type_is_described_with_a_proof_or_a_note(kind: str) -> None:
    label, note = NOTED.get(kind, (DESCRIBED.get(kind), ""))
    first, *others = hf.describe(default_of(kind))
    assert first.label == label, first.note
    assert note in first.note
    for one in (first, *others):
        assert not any(word in one.note for word in ODD)
        proved = one.logits_off is not None and one.logits_off <= PROVED
        of_sound = ": " in one.layers  # whose logits are not compared
        assert proved or one.note or one.kind == "none" or of_sound
    assert kind in NOTED or first.note == ""
    if first.variant is not None and first.variant.name.startswith("rope"):
        assert first.measured["base"] == first.variant.options.get("base", 1e4)


@pytest.mark.parametrize("kind", OTHERS)
def test_positions_of_other_kinds_are_measured(kind: str) -> None:
    what, labels, numbers = OTHERS[kind]
    state = torch.get_rng_state()
    found = hf.describe(default_of(kind))
    assert torch.equal(torch.get_rng_state(), state)
    assert "heads" not in found[0].measured  # which are those of the small copy
    assert {one.kind for one in found} == {what}
    assert [one.label for one in found] == labels
    assert numbers.items() <= found[0].measured.items()
    assert all(one.off is None or one.off < 1e-5 for one in found)


@pytest.mark.parametrize("kind", REASONS)
def test_what_has_no_rotary_positions_to_scale_has_one_reason(kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        one_rope(default_of(kind))
    assert REASONS[kind] in str(caught.value)
    assert not any(word in str(caught.value) for word in ODD)


def test_alibi_of_falcon_is_scaled_with_its_logits() -> None:
    (found,) = hf.describe(config_of("falcon", alibi=True))
    assert (found.kind, found.label, found.off) == ("bias", "n/a", None)
    assert found.measured["times"] == pytest.approx(16**-0.5, rel=1e-4)
    assert found.note.startswith("the bias of alibi times 0.25")


def test_profiles_of_inkling_reach_as_far_as_each_layer_says() -> None:
    kinds = ["hybrid", "hybrid_sliding"]
    config = transformers.CONFIG_MAPPING["inkling_text"](
        num_hidden_layers=2, layer_types=kinds, rel_extent=90, sliding_window_size=60
    )
    found = {one.layers: one for one in hf.describe(config)}
    assert [found[kind].label for kind in kinds] == [
        "inkling:reach=90",
        "inkling:reach=60",
    ]
    assert all(one.off is not None and one.off < 1e-6 for one in found.values())


# The label, and the axis of each pair: time, height or width.
SECTIONS = {
    "qwen2_vl": ("base=1000000.0;sections=16/24/24", "0" * 16 + "1" * 24 + "2" * 24),
    "qwen3_vl": (
        "base=500000.0;order=interleaved;sections=24/20/20",
        "012" * 20 + "0" * 4,
    ),
    "ernie4_5_vl_moe": (
        "base=500000.0;layout=adjacent;order=time_last;sections=20/22/22",
        "12" * 22 + "0" * 20,
    ),
}


@pytest.mark.parametrize("kind", SECTIONS)
def test_ids_along_one_axis_rotate_its_pairs_alone(kind: str) -> None:
    options, axes = SECTIONS[kind]
    found = text_of(kind)
    assert found.measured["axes of pairs"] == axes
    assert found.label == f"m_rope:{options}"
    compared = kind != "ernie4_5_vl_moe"  # whose model reads more than text
    assert found.logits_off < PROVED if compared else "not compared" in found.note


def test_axes_are_those_of_the_code_and_not_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("transformers.models.qwen2_vl.modeling_qwen2_vl")

    def recomposed(self: Any, freq: torch.Tensor) -> torch.Tensor:
        parts = freq.split(self.mrope_section, dim=-1)
        mixed = torch.cat([parts[0][0], parts[1][2], parts[2][1]], dim=-1)
        return torch.cat((mixed, mixed), dim=-1)

    rotary = module.Qwen2VLRotaryEmbedding
    monkeypatch.setattr(rotary, "recomposition_frequencies", recomposed)
    found = text_of("qwen2_vl")
    assert found.measured["axes of pairs"] == "0" * 16 + "2" * 24 + "1" * 24
    assert found.label == "rope:base=1000000.0;layout=half"
    assert found.note.startswith("rotates by ids of several axes, but not as m_rope")


def text_of(kind: str) -> Any:
    """Return the description of the text part of a type."""
    made = transformers.CONFIG_MAPPING[kind]
    config = made(text_config={"num_hidden_layers": 2})
    return hf.describe(config)[0]


def test_of_a_model_of_text_and_images_both_are_described() -> None:
    sizes = {**WIDER, "vocab_size": 262_208}  # with tokens of images
    sizes |= {"num_hidden_layers": 6, "head_dim": 64}
    image = {"num_hidden_layers": 1, "image_size": 32, "patch_size": 8}
    config = transformers.CONFIG_MAPPING["gemma3"](
        text_config=sizes, vision_config=image
    )
    assert [(one.layers, one.label) for one in hf.describe(config)] == [
        ("sliding_attention", "rope:layout=half"),
        ("full_attention", "rope:base=1000000.0;layout=half"),
        ("vision: embeddings.position_embedding", "learned_2d:height=4;width=4"),
    ]


@pytest.mark.parametrize(
    ("kind", "turning"),
    [("llama", [0, 1, 2, 3]), ("smollm3", [0, 1, 2]), ("llama4_text", [0, 1, 2])],
)
def test_a_scheme_goes_to_the_layers_that_rotate(kind: str, turning: list[int]) -> None:
    config = config_of(kind)
    found = hf.describe(config)
    assert [*found[0].numbers] == turning
    assert (found[0].layers == "all") == (turning == [0, 1, 2, 3])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    assert found[0].variant is not None
    off = hf.proof(model, found[0].variant)
    assert sorted(map(str, off)) == [*map(str, turning), "all"]
    assert max(off.values()) < PROVED
    with hf.apply(model, "alibi") as applied:
        assert applied.report()["layers"] == turning


@pytest.mark.parametrize(("trained", "noted"), [(32, False), (None, True)])
def test_a_scaling_of_the_maximum_is_noted(trained: int | None, noted: bool) -> None:
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    if trained:
        rope["original_max_position_embeddings"] = trained
    config = config_of("llama", rope_parameters=rope, max_position_embeddings=128)
    (row,) = hf.describe(config)
    said = "its scaling counts from max_position_embeddings, 128"
    assert (said in row.note) is noted


def test_two_bases_in_one_model_have_a_row_each() -> None:
    found = hf.describe(config_of("gemma3_text", num_hidden_layers=6))
    labels = {one.layers: one.label for one in found}
    assert labels == {
        "sliding_attention": "rope:layout=half",
        "full_attention": "rope:base=1000000.0;layout=half",
    }
    assert all(one.logits_off is not None and one.logits_off <= PROVED for one in found)
    # 128 positions finish a turn of the first 3 of 8 pairs of base 1e6.
    assert [one.measured["slow pairs"] for one in found] == [5, 6]


@pytest.mark.parametrize(("every", "factor"), [(1.0, 1.0), (0.0, 1.3689)])
def test_factors_of_deepseek_are_measured(every: float, factor: float) -> None:
    lengths = {"original_max_position_embeddings": 4096, "factor": 40.0}
    given = rope("yarn", **lengths, mscale=1.0, mscale_all_dim=every)
    config = transformers.CONFIG_MAPPING["deepseek_v3"](num_hidden_layers=1, **given)
    (found,) = hf.describe(config)
    # 0.1 ln(40) + 1 = 1.3689: twice of cosines and sines, or squared of scores.
    assert found.measured["attention factor"] == pytest.approx(factor, rel=1e-4)
    assert found.measured["softmax factor"] == pytest.approx(
        1.8739 if every else 1.0, rel=1e-4
    )


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **more}}


def slowed(kind: str, original: int, **more: Any) -> dict[str, Any]:
    return rope(kind, original_max_position_embeddings=original, **more)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (rope("linear", factor=2.0), "factor=2;layout=half;scaling=pi"),
        (
            slowed("yarn", 32, factor=4.0, beta_fast=8.0, beta_slow=2.0),
            "alpha=2;beta=8;factor=4;layout=half;original=32;scaling=yarn",
        ),
        (
            slowed("yarn", 32, factor=4.0, rope_theta=1e6),
            "base=1e6;factor=4;layout=half;original=32;scaling=yarn",
        ),
        (
            slowed("llama3", 16, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
            "beta=4;factor=8;layout=half;original=16;scaling=llama3",
        ),
    ],
)
def test_pairs_slow_down_as_the_config_says(
    given: dict[str, Any], options: str
) -> None:
    (found,) = hf.describe(config_of("llama", **given))
    assert [found.variant] == parse_variants(f"rope:{options}")
    assert found.off is not None
    assert found.off < 1e-6  # frequencies in float32
    assert found.logits_off is not None
    assert found.logits_off <= PROVED


def test_a_text_beyond_the_trained_length_has_a_row_of_its_own() -> None:
    short, long = hf.describe(config_of("llama", **rope("dynamic", factor=2.0)))
    assert (short.measured["length"], long.measured["length"]) == (128, 256)
    assert short.variant is not None
    assert long.variant is not None
    assert short.variant.label == "rope:layout=half"
    assert long.variant.label == "rope:factor=3.0;layout=half;scaling=ntk"
    assert long.off is not None
    assert long.off < 1e-5
    assert long.note == "measured alone, at 256; it changes with the length of the text"


def test_short_and_long_factors_count_against_their_own_lengths() -> None:
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    given = slowed("longrope", 32, **factors)
    short, long = hf.describe(config_of("llama", **given))
    assert (short.measured["length"], long.measured["length"]) == (32, 128)
    for one, divisor in ((short, 1.0), (long, 4.0)):
        length: Any = one.measured["length"]
        turns = length * 1e4 ** (-torch.arange(8) / 8) / divisor / (2 * torch.pi)
        assert one.measured["slow pairs"] == int((turns < 1).sum())
        assert one.variant is not None
        assert one.off is not None
        assert one.off < 1e-5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rope_theta": "1e6"}, "rope_theta must be a number"),
        (
            {"rope_scaling": {"type": "su", "factor": 2.0}},
            "rope_scaling.type must be of default",
        ),
        ({"rope_scaling": {"rope_type": "foo", "factor": 2.0}}, "must be of default"),
        ({"head_dim": 15}, "head_dim must be even, got 15"),
        ({"hidden_size": "x"}, ""),
        (rope("bogus"), ""),
        (rope("yarn"), 'KeyError: "Missing required keys in `rope_parameters`'),
        (
            {"rope_theta": 1e6, "rope_parameters": {"rope_theta": 1e4}},
            "must state one base, got rope_theta=1e+06 and rope_parameters.rope_theta",
        ),
    ],
)
def test_a_config_that_cannot_be_described_has_one_line(
    posenc: Any, tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    given = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(given | wrong))
    done = posenc("hf", "describe", tmp_path)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert said in last
    assert "must be a folder with" not in last
    assert not any(word in done.stderr.replace(said, "") for word in ODD)


def test_what_is_no_configuration_has_one_line() -> None:
    wrong: Any
    model, start = OddForCausalLM(config_of("llama")), "config must be a configuration"
    for wrong, said in ((model, "Odd.* its .c"), ("llama", "str$")):
        with pytest.raises(ConfigError, match=f"{start} of transformers, got {said}"):
            hf.describe(wrong)


def test_numbers_are_numbers_in_json(posenc: Any, tmp_path: Path) -> None:
    config_of("smollm3").save_pretrained(tmp_path)
    done = posenc("hf", "describe", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["scheme"] for row in rows] == ["rope", "nope"]
    assert rows[0]["options"] == {"base": 2000000.0, "layout": "half"}
    for name in ("off by", "logits off by"):
        assert isinstance(rows[0][name], float)
        assert rows[1][name] is None
    measured = rows[0]["measured"]
    assert (measured["pairs"], measured["length"]) == (8, 128)
    assert measured["attention factor"] == pytest.approx(1.0)
    frequencies = [2e6 ** (-pair / 8) for pair in range(8)]
    assert rows[0]["frequencies"] == pytest.approx(frequencies)
    assert rows[1]["frequencies"] == []


class Attention(LlamaAttention):
    """Attention of Llama that looks ahead, or scales queries by their position."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: Any = None,
        attention_mask: Any = None,
        cache: Any = None,
        **more: Any,
    ) -> Any:
        del cache
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        parts = [self.q_proj, self.k_proj, self.v_proj]
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in parts)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        if self.config.scaled:
            q = q * (1 + more["position_ids"][:, None, :, None] / 8)
        else:
            more["is_causal"] = False
        run = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        scaling = self.scaling
        out, _ = run(self, q, k, v, attention_mask, scaling=scaling, **more)
        return self.o_proj(out.flatten(2)), None


class OddForCausalLM(transformers.LlamaForCausalLM):
    """Llama with attention that a scheme cannot serve."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for number, block in enumerate(self.model.layers):
            block.self_attn = Attention(config, number)


@pytest.mark.parametrize(
    ("scaled", "said"),
    [(False, "the same logits through"), (True, "from its rotary tables alone")],
)
def test_a_model_that_would_read_otherwise_is_not_served(
    scaled: bool, said: str
) -> None:
    model = OddForCausalLM(config_of("llama", scaled=scaled)).eval()
    before = torch.get_rng_state()
    for _ in range(2):  # measured, and known
        with pytest.raises(hf.UnsupportedModelError, match=said):
            hf.apply(model, "alibi")
    assert torch.equal(torch.get_rng_state(), before)
    assert not hasattr(model, "posenc_compare_applied")
    assert model.config._attn_implementation == "sdpa"


BY_CONTENT = "a bias by distance that depends on the content of tokens"
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
PLACED = ("embeddings.position_embeddings", "table", "learned:length=128", "")


@pytest.mark.parametrize(
    ("kind", "more", "rows"),
    [
        (
            "Deberta",
            {**RELATIVE, "position_biased_input": False},
            [("all", "bias", "n/a", BY_CONTENT)],
        ),
        ("Deberta", RELATIVE, [PLACED, ("all", "bias", "n/a", BY_CONTENT)]),
        (
            "MPNet",
            {},
            [
                PLACED,
                ("all", "bias", "n/a", "a bias by distance that no scheme here has"),
            ],
        ),
        ("Bert", {}, [(f"bert.{PLACED[0]}", *PLACED[1:])]),
    ],
)
def test_tables_that_are_added_and_biases_are_both_described(
    kind: str, more: dict[str, Any], rows: list[tuple[str, ...]]
) -> None:
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **more})
    found = [(one.layers, one.kind, one.label, one.note) for one in hf.describe(config)]
    assert found == rows


@pytest.mark.parametrize("width", [32, 64])
def test_a_rotation_is_not_taken_for_the_bias_of_transformer_xl(width: int) -> None:
    part = transformers.T5GemmaModuleConfig(
        hidden_size=width,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=100,
        sliding_window=64,
        max_position_embeddings=128,
        attn_logit_softcapping=None,
    )
    config = transformers.T5GemmaConfig(encoder=part, decoder=part, vocab_size=100)
    assert {row.label for row in hf.describe(config)} == {"n/a"}


@pytest.mark.parametrize("changed", ["clamped", "without the fastest"])
def test_other_sums_than_those_of_transformer_xl_are_not_its_bias(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("xlnet", clamp_len=40 if changed == "clamped" else -1)
    if changed != "clamped":
        made = XLNetModel.positional_embedding

        def slow(distances: Tensor, inverse: Tensor, bsz: Any = None) -> Tensor:
            return made(distances, inverse.clamp(max=inverse[1]), bsz)

        monkeypatch.setattr(XLNetModel, "positional_embedding", staticmethod(slow))
    (row,) = hf.describe(config)
    assert (row.label, row.note) == ("n/a", BY_CONTENT)


@pytest.mark.parametrize("tuned", [True, False])
def test_a_temperature_by_position_is_noted(tuned: bool) -> None:
    sizes = {**SIZES, "head_dim": 16, "intermediate_size_mlp": 64}
    config = transformers.Llama4TextConfig(
        **sizes, num_local_experts=2, attn_temperature_tuning=tuned
    )
    notes = {row.label: row.note for row in hf.describe(config)}
    assert notes["nope"] == "scales queries by their position" * tuned


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("vit", {"image_size": 1}, "small model that reads an input, .* makes none"),
        ("xlnet", {"bi_data": True}, "must read 16 tokens"),
    ],
)
def test_a_model_that_reads_no_input_is_refused_in_one_line(
    kind: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(hf.UnsupportedModelError, match=message):
        hf.describe(transformers.CONFIG_MAPPING[kind](**more))
