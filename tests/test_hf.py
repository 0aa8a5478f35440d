"""Schemes in Hugging Face models: tiny random ones of several architectures."""

import copy
import gc
import importlib
import inspect
import io
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.language_models import SIZE as TWO_LAYERS  # noqa: E402
from support.language_models import model_of, read  # noqa: E402
from support.shown import refusal  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.attention import attention  # noqa: E402
from posenc_compare.errors import ConfigError, UndefinedPositionError  # noqa: E402
from posenc_compare.hf import applied as applying  # noqa: E402
from posenc_compare.hf.states import cache_name  # noqa: E402
from posenc_compare.schemes import create  # noqa: E402

SIZE = {**TWO_LAYERS, "num_hidden_layers": 3}
GROUPED = {**SIZE, "num_key_value_heads": 2}
SAME_BASE = {
    kind: {"rope_type": "default", "rope_theta": 5000.0}
    for kind in ("sliding_attention", "full_attention")
}
# Name, what its configuration adds, and the rope that its own positions are.
MODELS: list[tuple[str, dict[str, Any], str]] = [
    ("Llama", GROUPED, "rope:layout=half"),
    ("Qwen3", {**GROUPED, "head_dim": 16}, "rope:layout=half"),
    ("Mistral", {**GROUPED, "sliding_window": 20}, "rope:layout=half"),
    (
        "Gemma2",
        {**GROUPED, "head_dim": 16, "sliding_window": 20}
        | {"attn_logit_softcapping": 0.01, "attn_implementation": "eager"},
        "rope:layout=half",
    ),
    (
        "Gemma3",
        {**GROUPED, "head_dim": 16, "sliding_window": 20}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
        | {"rope_parameters": SAME_BASE},
        "rope:base=5000;layout=half",
    ),
    ("GPTNeoX", {**SIZE, "hidden_size": 64}, "rope:fraction=0.25;layout=half"),
    ("Olmo2", GROUPED, "rope:layout=half"),
    ("Cohere", GROUPED, "rope:base=500000"),
]
SIZES_OF = {name: sizes for name, sizes, _ in MODELS}
REFUSED = {
    "GPT2LMHead": {"n_embd": 48, "n_layer": 2, "n_head": 4},
    "BloomForCausalLM": {"hidden_size": 48, "n_layer": 2, "n_head": 4},
    "MptForCausalLM": {"d_model": 48, "n_layers": 2, "n_heads": 4},
    # Whose layers are given sines before cosines.
    "GPTJForCausalLM": {"n_embd": 48, "n_layer": 2, "n_head": 4, "rotary_dim": 6},
    "CodeGenForCausalLM": {"n_embd": 48, "n_layer": 2, "n_head": 4, "rotary_dim": 6},
    "T5ForConditionalGeneration": {"d_model": 48, "num_layers": 2, "num_heads": 4},
    "DebertaV2ForMaskedLM": {"hidden_size": 48, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "intermediate_size": 64},
}


@pytest.fixture
def llama() -> Any:
    return model_of("Llama", GROUPED)


def tokens(rows: int = 2, length: int = 40) -> Tensor:
    return torch.randint(
        3, 97, (rows, length), generator=torch.Generator().manual_seed(1)
    )


def alike(a: Tensor, b: Tensor) -> None:
    """Compare logits of float32 that three layers make of sums of 48 products."""
    torch.testing.assert_close(a, b, rtol=0, atol=3 * 48 * 2**-24)


@pytest.mark.parametrize(("name", "more", "rope"), MODELS, ids=[m[0] for m in MODELS])
def test_rope_by_our_route_is_that_of_the_model(
    name: str, more: dict[str, Any], rope: str
) -> None:
    model = model_of(name, more)
    own = read(model, tokens())
    with hf.apply(model, rope) as applied:
        alike(read(model, tokens()), own)
        applied.check()
    assert torch.equal(read(model, tokens()), own)  # as it was
    with hf.apply(model, "nope"):
        assert (read(model, tokens()) - own).abs().max() > 1e-4


def test_later_hooks_find_the_states_of_a_layer_where_they_were_given() -> None:
    model, seen = model_of("GPTNeoX", SIZES_OF["GPTNeoX"]), list[int]()
    with hf.apply(model, "alibi"):
        layer = model.gpt_neox.layers[0].attention
        layer.register_forward_pre_hook(lambda _, args: seen.append(len(args)))
        read(model, tokens())
    assert seen == [1]


@pytest.mark.parametrize("scheme", ["alibi", "sinusoidal", "learned", "t5_bias"])
@pytest.mark.parametrize("name", ["Llama", "Gemma3", "GPTNeoX"])
def test_a_model_with_a_scheme_is_causal_and_its_cache_exact(
    name: str, scheme: str
) -> None:
    with hf.apply(model_of(name, SIZES_OF[name]), scheme) as applied:
        assert applied.check().keys() == {"causal", "cached", "padded", "alone"}


@pytest.mark.parametrize(
    ("name", "scheme", "cache"),
    [
        *((m[0], "rope:base=700;fraction=0.5;layout=half", None) for m in MODELS),
        *(
            ("Llama", scheme, cache)
            for scheme in ("alibi", "path", "sinusoidal", "randomized")
            for cache in (None, "static")
        ),
    ],
)
def test_generation_with_a_cache_is_token_by_token_that_without(
    name: str, scheme: str, cache: str | None
) -> None:
    model = model_of(name, SIZES_OF[name])
    greedy = {"do_sample": False, "eos_token_id": None, "cache_implementation": cache}
    with hf.apply(model, scheme):
        ids = tokens(length=17)  # and 6 more, beyond a window of 20
        got = model.generate(ids, max_new_tokens=6, **greedy)
        for _ in range(6):
            new = read(model, ids)[:, -1].argmax(dim=-1)
            ids = torch.cat([ids, new[:, None]], dim=1)
        assert torch.equal(got, ids)


def test_a_scheme_may_hide_more_than_the_model(llama: Any) -> None:
    ids = tokens(length=20)
    with hf.apply(llama, "mix:first=nope;second=(rope:layout=half);every=2;window=4"):
        whole = read(llama, ids)
        padded = torch.cat([ids.new_zeros(2, 3), ids], dim=1)
        real = (torch.arange(23) >= 3).long().expand(2, -1)
        got = llama(padded, attention_mask=real).logits[:, 3:]
        assert (got - whole).abs().max() < 1e-5
        made = llama.generate(ids, max_new_tokens=4, do_sample=False, eos_token_id=None)
        wanted = read(llama, made)[:, 19:-1].argmax(dim=-1)
        assert torch.equal(made[:, 20:], wanted)


@pytest.mark.parametrize(
    ("scheme", "generates"), [("rope:layout=half", False), ("path", True)]
)
def test_a_compiled_model_is_the_model(scheme: str, generates: bool) -> None:
    torch._dynamo.reset()  # what was compiled before counts, up to a limit
    torch._dynamo.utils.counters.clear()
    llama = model_of("Llama", {**GROUPED, "num_hidden_layers": 1})
    ids = tokens(length=12)
    with hf.apply(llama, scheme):
        if not generates:
            compiled: Any = torch.compile(llama, backend="eager")
            assert torch.equal(read(compiled, ids), read(llama, ids))
        else:  # as transformers does by itself where there is a GPU
            more: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False}
            plain = llama.generate(ids, **more)
            how = transformers.CompileConfig(backend="eager", fullgraph=False)
            how._compile_all_devices = True
            more |= {"cache_implementation": "static", "compile_config": how}
            assert torch.equal(llama.generate(ids, **more), plain)
    assert torch._dynamo.utils.counters["frames"]["ok"] > 9


def test_attention_whose_forward_was_replaced_is_served_or_refused(llama: Any) -> None:
    attention = llama.model.layers[1].self_attn

    def forward(*given: Any, **more: Any) -> Any:
        return type(attention).forward(attention, *given, **more)

    with hf.apply(llama, "alibi"):
        own = read(llama, tokens())
        attention.forward = forward
        assert torch.equal(read(llama, tokens()), own)
        attention.forward = lambda hidden_states, **more: (hidden_states, None)
        with pytest.raises(hf.UnsupportedModelError, match="did not ask for attention"):
            read(llama, tokens())


@pytest.mark.parametrize("scheme", ["fox", "path"])
def test_states_are_kept_beside_a_cache_that_keeps_its_keys(scheme: str) -> None:
    with hf.apply(model_of("Llama", GROUPED), scheme) as applied:
        applied.check()
    model = model_of("Mistral", {**GROUPED, "sliding_window": 20})
    with hf.apply(model, scheme) as applied:
        read(model, tokens())
        with pytest.raises(ConfigError, match="use_cache=False would work"):
            applied.check()


def test_packed_documents_are_read_as_if_alone(llama: Any) -> None:
    ids = tokens(rows=1)
    counted = torch.cat([torch.arange(25), torch.arange(15)])[None]
    for scheme in ("alibi", "sinusoidal", "fox"):
        with hf.apply(llama, scheme):
            packed = read(llama, ids, position_ids=counted)
            alike(packed[:, 25:], read(llama, ids[:, 25:]))


COUNT, ALL = torch.arange(40)[None], torch.ones(2, 40).long()
# By what the line says.
TOLD = {
    r"got \(2, 1": {"attention_mask": torch.ones(2, 1, 40, 40).bool().tril()},
    "mask must be causal": {"position_ids": 2 * COUNT, "use_cache": True},
    "position_ids must count .* got 5 where 0 would work": (
        {"position_ids": COUNT + 5, "attention_mask": ALL}
    ),
}


@pytest.mark.parametrize("fault", TOLD)
def test_what_a_model_is_told_otherwise_is_refused(llama: Any, fault: str) -> None:
    given: dict[str, Any] = TOLD[fault]
    with hf.apply(llama, "alibi"), pytest.raises(hf.UnsupportedModelError, match=fault):
        read(llama, tokens(), **given)


def test_some_layers_have_the_scheme_and_the_others_their_rotary(llama: Any) -> None:
    own = read(llama, tokens())
    with hf.apply(llama, "rope:layout=half", layers=[1]) as applied:
        alike(read(llama, tokens()), own)
        assert applied.report()["scheme"] == "rope:layout=half"
        assert repr(applied) == "Applied(rope:layout=half, 1 layers)"
    with hf.apply(llama, "nope", layers=[0, 2]) as applied:
        assert applied.report() == {
            "scheme": "nope",
            "layers": [0, 2],
            "hooks": [],
            "rotary": "neutral",
            "cache": "raw keys",
            "parameters": 0,
        }
        assert (read(llama, tokens()) - own).abs().max() > 1e-4
        applied.check()


def test_a_scheme_can_stand_beside_the_rotary(llama: Any) -> None:
    own = read(llama, tokens())
    with hf.apply(llama, "nope", keep_rotary=True) as applied:
        alike(read(llama, tokens()), own)
        assert applied.report()["cache"] == "rotated keys"
    with hf.apply(llama, "alibi", keep_rotary=True) as applied:
        assert (read(llama, tokens()) - own).abs().max() > 1e-4
        applied.check()


@pytest.mark.parametrize("scheme", ["rope", "shaw", "path"])
def test_a_rotation_that_counts_padding_has_no_scheme_beside_it(
    llama: Any, scheme: str
) -> None:
    ids, pad = tokens(), 5
    padded = torch.cat([ids.new_zeros(len(ids), pad), ids], dim=1)
    mask = (torch.arange(padded.shape[1]) >= pad).long().expand(len(ids), -1)
    counted = (mask.cumsum(1) - 1).clamp(min=0)
    with hf.apply(llama, scheme, keep_rotary=True):
        own = read(llama, ids)
        found = llama(padded, attention_mask=mask, position_ids=counted).logits
        alike(found[:, pad:], own)
        with pytest.raises(ConfigError, match="got ids that count all"):
            llama(padded, attention_mask=mask)
    with hf.apply(llama, "alibi", keep_rotary=True):
        own = read(llama, ids)
        alike(llama(padded, attention_mask=mask).logits[:, pad:], own)


def test_positions_are_drawn_while_a_model_trains_alone(llama: Any) -> None:
    draws = torch.Generator().manual_seed(0)
    with hf.apply(llama, "randomized:longest=999", generator=draws):
        still = read(llama, tokens())
        assert torch.equal(read(llama, tokens()), still)
        llama.train()
        first, second = (read(llama, tokens()) for _ in range(2))
        assert not torch.equal(first, second)
        llama.eval()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_models_with_positions_of_their_own_are_refused_by_name(name: str) -> None:
    kind = "GPT2LMHeadModel" if name == "GPT2LMHead" else name
    config = getattr(transformers, kind).config_class
    model = getattr(transformers, kind)(config(vocab_size=97, **REFUSED[name]))
    with pytest.raises(hf.UnsupportedModelError, match=kind) as caught:
        hf.apply(model, "alibi")
    assert "GPT-NeoX and OLMo would work" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"scheme": "rop"}, "rope"),
        ({"scheme": "rope_2d"}, "positions of 2 axes"),
        ({"scheme": "alibi", "layers": [3]}, "layers must be from 0 to 2"),
        ({"scheme": "alibi", "layers": []}, "at least one"),
        ({"scheme": "alibi", "layers": 1}, "layers must be from 0 to 2"),
        ({"scheme": "alibi", "layers": [True]}, "layers must be from 0 to 2"),
        ({"scheme": "alibi", "length": 0}, "length must be a whole number"),
        ({"scheme": "alibi", "generator": 5}, "generator must be a torch.Generator"),
        ({"scheme": 5}, "scheme must be a label, a variant or a scheme, got int"),
        ({"scheme": "sinusoidal", "layers": [1]}, "all layers must have it"),
        ({"scheme": create("path", model_dim=48, heads=4)}, "given by its label"),
    ],
)
def test_what_cannot_be_applied_is_refused(
    llama: Any, given: dict[str, Any], fault: str
) -> None:
    own = read(llama, tokens())
    with pytest.raises(ConfigError, match=fault):
        hf.apply(llama, **given)
    assert torch.equal(read(llama, tokens()), own)


@pytest.mark.parametrize(
    ("name", "more", "fault"),
    [
        ("Gemma2", {}, "caps its logits"),
        ("Llama", {"attention_dropout": 0.1}, "without dropout"),
    ],
)
def test_attention_that_takes_no_bias_is_refused(
    name: str, more: dict[str, Any], fault: str
) -> None:
    model = model_of(name, {**SIZES_OF[name], **more}).train()
    with hf.apply(model, "alibi"), pytest.raises(ConfigError, match=fault):
        read(model, tokens())


@pytest.mark.parametrize(
    ("name", "more", "scheme", "said"),
    [
        ("Llama", {}, "rope", "rope leaves out layout; the model rotates by rope:"),
        (
            "Llama",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
            "rope:layout=half",
            "leaves out base; the",
        ),
        ("GPTNeoX", {}, "rope:layout=half", "leaves out fraction; the model"),
        (
            "Gemma3",
            {
                "rope_parameters": {
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                    "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                }
            },
            "rope:base=1e6;layout=half",
            "is one rotation; the model rotates by ",
        ),
    ],
)
def test_a_rotation_unlike_that_of_the_model_is_warned_of(
    name: str, more: dict[str, Any], scheme: str, said: str
) -> None:
    model = model_of(name, {**SIZES_OF[name], **more})
    with pytest.warns(UserWarning, match=said):
        hf.apply(model, scheme).remove()


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "beta_fast": 2.0}
YARN |= {"original_max_position_embeddings": 64}


def test_numbers_of_the_same_scaling_are_warned_of() -> None:
    more = {"rope_parameters": YARN, "max_position_embeddings": 512}
    model = model_of("Llama", {**GROUPED, **more})
    with pytest.warns(UserWarning, match="leaves out beta; the model rotates by"):
        hf.apply(model, "rope:factor=8;layout=half;scaling=yarn").remove()


LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    "scheme",
    [
        "rope:base=500000;factor=8;layout=half;scaling=llama3",
        "rope:base=500000;layout=half;scaling=none",
        "rope:base=10000;factor=8;layout=half;scaling=pi",
        "rope:base=500000;factor=8;layout=half;scaling=yarn",
        "rope:base=500000;layout=adjacent;scaling=none",
    ],
)
def test_a_rotation_that_is_stated_is_not_warned_of(scheme: str) -> None:
    more = {"rope_parameters": LLAMA3, "max_position_embeddings": 512}
    hf.apply(model_of("Llama", {**GROUPED, **more}), scheme).remove()


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was(llama: Any) -> None:
    own = read(llama, tokens())
    with pytest.raises(UserWarning, match="leaves out layout"):
        hf.apply(llama, "rope")  # where warnings are errors
    alike(read(llama, tokens()), own)
    hf.apply(llama, "alibi").remove()


def test_a_scaling_counts_from_the_length_that_was_trained() -> None:
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    rope["original_max_position_embeddings"] = 64
    more = {"rope_parameters": rope, "max_position_embeddings": 256}
    model = model_of("Llama", {**GROUPED, **more})
    own = read(model, tokens())
    with hf.apply(model, "rope:factor=4;layout=half;scaling=yarn") as applied:
        alike(read(model, tokens()), own)
        assert "original=64" in applied.report()["scheme"]


def test_one_scheme_at_a_time(llama: Any) -> None:
    applied = hf.apply(llama, "alibi")
    other = transformers.LlamaForCausalLM(llama.config)
    for model, fault in (
        (llama, r"has a scheme already.*remove\(\) would work"),
        (other, r"copy.deepcopy\(config\) would work"),
    ):
        with pytest.raises(ConfigError, match=fault):
            hf.apply(model, "alibi")
    applied.remove()
    applied.remove()
    for model in (llama, other):
        with hf.apply(model, create("rope", model_dim=48, heads=4)):
            read(model, tokens())
    hf.apply(llama.model, "sinusoidal")
    with pytest.raises(ConfigError, match="has a scheme already"):
        hf.apply(llama, "sinusoidal")


def test_a_table_ends_where_the_model_does(llama: Any) -> None:
    with hf.apply(llama, "learned", length=30):
        read(llama, tokens(length=30))
        with pytest.raises(UndefinedPositionError):
            read(llama, tokens(length=31))


@pytest.mark.parametrize("half", [False, True])
def test_a_model_that_looks_ahead_does_not_pass(
    half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = {**GROUPED, "hidden_size": 256, "num_hidden_layers": 6}
    model = model_of("Llama", wide if half else GROUPED)
    model = model.to(torch.bfloat16) if half else model
    right = applying.attend

    def ahead(*given: Any) -> Tensor:
        seen = given[3].mean(dim=2, keepdim=True).mean()
        return right(*given) + seen * (9 if half else 1)

    with hf.apply(model, "alibi") as applied:
        applied.check()
        monkeypatch.setattr(applying, "attend", ahead)
        with pytest.raises(hf.CheckError, match="causal: logits must be the same"):
            applied.check()


# --- found by attack ------------------------------------------------------------------


def sharp(name: str = "Llama", **more: Any) -> Any:
    """Return a model whose attention is far from uniform."""
    model = model_of(name, {**SIZES_OF[name], **more})
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                weight *= 8
    return model


@pytest.mark.parametrize("scheme", ["deberta", "t5_bias", "transformer_xl", "alibi"])
@pytest.mark.parametrize("scaling", [12**-0.5, 0.5])
def test_attention_is_that_of_the_package_in_a_model_with_any_scale(
    scheme: str, scaling: float
) -> None:
    model, seen = sharp(), dict[str, Tensor]()
    layer = model.model.layers[0].self_attn
    layer.scaling = scaling
    for name in ("q", "k", "v"):
        part = getattr(layer, f"{name}_proj")
        part.register_forward_hook(
            lambda _, __, out, name=name: seen.update({name: out})
        )
    layer.o_proj.register_forward_pre_hook(lambda _, got: seen.update(out=got[0]))
    with hf.apply(model, scheme) as applied:
        own = applied.schemes[0]
        read(model, tokens())
        q, k, v = (seen[n].unflatten(-1, (-1, 12)).transpose(1, 2) for n in "qkv")
        q = q * own.query_init_gain(12) * scaling * 12**0.5
        right = attention(q, k, v, scheme=own, positions=torch.arange(40), path="plain")
    torch.testing.assert_close(seen["out"], right.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("scheme", ["fox", "path"])
def test_a_token_state_takes_no_padding_between_tokens(llama: Any, scheme: str) -> None:
    real = torch.ones(2, 40, dtype=torch.int64)
    real[0, 30:] = 0
    real[1, :5] = real[1, 36:] = 0
    with hf.apply(llama, scheme):
        whole = read(llama, tokens(), attention_mask=real)
        alike(whole[:1, :30], read(llama, tokens()[:1, :30]))
        alike(whole[1:, 5:36], read(llama, tokens()[1:, 5:36]))
        real[1, 20:22] = 0
        with pytest.raises(ConfigError, match="padding on one side would work"):
            read(llama, tokens(), attention_mask=real)


def test_rows_that_end_alike_and_change_places_are_seen(llama: Any) -> None:
    ids = tokens()
    ids[:, -1] = 5
    with hf.apply(llama, "fox", layers=[0]):
        name = cache_name(inspect.signature(llama.forward).parameters)
        cache = llama(ids, use_cache=True)[name]
        cache.reorder_cache(torch.tensor([1, 0]))
        with pytest.raises(ConfigError, match="in one order would work"):
            llama(ids[:, :1], **{name: cache})


def test_all_layers_of_a_pass_see_the_same_draws() -> None:
    model = sharp("Gemma3").train()
    seen = []
    begin = importlib.import_module("posenc_compare.hf.passes").Session

    def session(*given: Any, **more: Any) -> Any:
        made = begin(*given, **more)
        seen.append(made.ids)
        return made

    draws = torch.Generator().manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc_compare.hf.passes.Session", session)
        with hf.apply(model, "randomized:longest=999", generator=draws):
            read(model, tokens())
            read(model, tokens())
    assert len(seen) == 4  # two kinds of layers, two passes
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], seen[3])
    assert not torch.equal(seen[0], seen[2])


def test_layers_without_the_scheme_keep_capped_logits() -> None:
    model = sharp("Gemma2")
    own = read(model, tokens())
    with hf.apply(model, "rope:layout=half", layers=[1]):
        alike(read(model, tokens()), own)


def test_nothing_of_a_pass_is_kept_and_a_trained_model_can_be_copied() -> None:
    model = model_of("Llama", GROUPED).train()
    with hf.apply(model, "path"):
        out = model(tokens(), labels=tokens(), use_cache=True)
        name = cache_name(inspect.signature(model.forward).parameters)
        cache = weakref.ref(out[name])
        out.loss.backward()
        del out
        gc.collect()
        assert cache() is None
        copy.deepcopy(model)
        torch.save(model, io.BytesIO())


def test_a_check_leaves_the_modes_of_layers(llama: Any) -> None:
    llama.train()
    llama.model.layers[0].eval()
    with hf.apply(llama, "alibi") as applied:
        applied.check()
        assert llama.training
        assert not llama.model.layers[0].training
        with pytest.raises(ConfigError, match="tokens must be at least 8"):
            applied.check(4)
    model = model_of("Llama", {**GROUPED, "max_position_embeddings": 40})
    with hf.apply(model, "learned") as applied:
        applied.check()


def test_parameters_of_layers_without_the_scheme_are_none_of_the_model(
    llama: Any,
) -> None:
    layers: Any = torch.tensor([1])  # whole numbers of any kind
    with hf.apply(llama, "path", layers=layers) as applied:
        assert applied.report()["layers"] == [1]
        assert len(llama.posenc_compare_schemes[:4]) == 1
        assert len(llama.posenc_compare_schemes[1:]) == 0
        own = sum(p.numel() for p in llama.posenc_compare_schemes.parameters())
        assert applied.report()["parameters"] == own


# --- what a model says of its rotary positions ----------------------------------------


def test_of_a_hub_no_weights_are_fetched_to_describe_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from posenc_compare.hf import checkpoint

    asked: dict[str, Any] = {}

    def fetched(name: str, **more: Any) -> str:
        asked[name] = more["allow_patterns"]
        return str(tmp_path)

    monkeypatch.setattr(checkpoint, "snapshot_download", fetched)
    assert checkpoint.local_place("some/model", checkpoint.DESCRIBED) == tmp_path
    checkpoint.local_place("other/model", checkpoint.READ)
    assert asked["some/model"] == ["*.json"]
    assert "*.safetensors" in asked["other/model"]
    assert not {"*", "*.py", "*.bin"} & {*asked["other/model"]}


def test_a_model_that_is_not_there_has_its_line(posenc: Any, tmp_path: Path) -> None:
    for place, reason in (
        (tmp_path / "none", "there is no such folder or file"),
        (tmp_path / "none.gguf", "there is no such folder or file"),
        (tmp_path, "config.json is not there"),
        ("nobody/nothing", "it is not on this machine, and the hub cannot be reached"),
    ):
        said = refusal(posenc("hf", "describe", place))
        assert said.startswith("error: model must be a folder with")
        assert said.endswith(f": {reason}")


def test_code_of_a_model_is_refused_and_never_run(posenc: Any, tmp_path: Path) -> None:
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text("raise SystemExit(77)")
    said = refusal(posenc("hf", "describe", tmp_path))  # transformers would ask
    assert "got one that needs code from its folder, which is never" in said
