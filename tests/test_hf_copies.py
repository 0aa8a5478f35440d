"""Models under `apply` that are copied, threaded, adapted, offloaded, or filled."""

import copy
import functools
import inspect
import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.language_models import GROUPED, model_of, read  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.hf.states import cache_name  # noqa: E402
from posenc_compare.schemes import Geometry  # noqa: E402
from posenc_compare.schemes.alibi import Alibi  # noqa: E402

# Other libraries call what transformers and torch are about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated")

SIZES = {**GROUPED, "hidden_size": 32, "eos_token_id": None}
# A table of its own, one for all layers; a token state; a rotation; before the layers.
SCHEMES = ["t5_bias", "fox", "rope:layout=half", "learned"]
IDS = torch.randint(3, 97, (2, 12), generator=torch.Generator().manual_seed(1))
FOREIGN = "keys that this model did not put there"


def llama(name: str = "Llama", **more: Any) -> Any:
    return model_of(name, SIZES | more)


def applied(scheme: str, **more: Any) -> Any:
    model = llama(**more)
    hf.apply(model, scheme)
    return model


def fed(model: Any, ids: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
    name = cache_name(inspect.signature(model.forward).parameters)
    with torch.no_grad():
        out = model(ids, use_cache=True, **{name: cache})
    return out.logits, out[name]


def gradients(model: Any, run: Any = None) -> dict[str, Tensor]:
    model.zero_grad()
    (run or model)(input_ids=IDS, labels=IDS).loss.backward()
    return {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }


def alike(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=2 * 32 * 2**-24)


def replica(model: Any) -> Any:
    """Return what `nn.DataParallel` calls, without the copies to a device."""
    parts = sys.modules["torch.nn.parallel.replicate"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            parts,
            "_broadcast_coalesced_reshape",
            lambda tensors, devices, detach=False: [list(tensors) for _ in devices],
        )
        patch.setattr(parts, "_get_device_index", lambda device, *_: 0)
        return nn.parallel.replicate(model, [0, 1])[1]


def pickled(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("scheme", [*SCHEMES, "path", "randomized"])
@pytest.mark.parametrize("copied", [replica, copy.deepcopy, pickled])
def test_a_copy_has_the_logits_and_trains(
    scheme: str, copied: Callable[[Any], Any]
) -> None:
    model = applied(scheme)
    want = read(model, IDS)
    again = copied(model)
    assert torch.equal(read(again, IDS), want)
    # Parameters of a replica are those of the model.
    found = gradients(model if copied is replica else again, again)
    right = gradients(model)
    assert found.keys() == right.keys()
    for name, gradient in right.items():
        alike(found[name], gradient)
    model.posenc_compare_applied.remove()
    if copied is not replica:
        assert torch.equal(read(again, IDS), want)
        again.posenc_compare_applied.remove()
        assert torch.equal(read(again, IDS), read(model, IDS))


def test_the_schemes_of_a_model_have_one_name() -> None:
    model = applied("fox")
    names = [name for name in model.state_dict() if "posenc" in name]
    assert names == [n for n, _ in model.named_parameters() if "posenc" in n]
    assert all(name.startswith("posenc_compare_schemes.") for name in names)
    assert not any(
        "posenc" in name for name in model.load_state_dict({}, False)[0][:-4]
    )
    model.load_state_dict(model.state_dict())


@pytest.mark.parametrize("scheme", ["alibi", "fox"])
def test_a_model_that_loads_without_its_scheme_reports_a_key(
    scheme: str, tmp_path: Path
) -> None:
    applied(scheme).save_pretrained(tmp_path)
    auto = transformers.AutoModelForCausalLM
    _, found = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert found["unexpected_keys"]
    assert all("posenc_compare" in name for name in found["unexpected_keys"])


def test_a_hybrid_without_attention_first_gets_no_scheme_of_tokens() -> None:
    model = llama("Lfm2", layer_types=["conv", "full_attention"])
    with pytest.raises(
        hf.UnsupportedModelError, match="begin with a layer of attentio"
    ):
        hf.apply(model, "sinusoidal")
    hf.apply(model, "alibi")


def test_a_scheme_may_have_a_dot_in_its_name() -> None:
    class Dotted(Alibi):
        name = "my.alibi"

    model = llama()
    hf.apply(model, Dotted(Geometry(model_dim=32, heads=4)))
    assert "posenc_compare_schemes.scheme_my_alibi" in model.state_dict()


def test_weights_without_a_scheme_load_under_one_that_has_no_parameters() -> None:
    applied("alibi").load_state_dict(llama().state_dict())
    with pytest.raises(RuntimeError, match=r"Missing key.*posenc_compare_schemes"):
        applied("fox").load_state_dict(llama().state_dict())


@pytest.mark.parametrize("scheme", ["fox", "alibi"])
@pytest.mark.parametrize("generates", [False, True])
def test_threads_share_a_model(scheme: str, generates: bool) -> None:
    model, wrong = applied(scheme), list[str]()
    texts = [IDS.roll(i, dims=1).repeat(1, 6) for i in range(4)]

    def made(ids: Tensor) -> Tensor:
        if not generates:
            return read(model, ids[:, :60])
        return model.generate(ids[:, :9], max_new_tokens=4, do_sample=False)

    want = [made(ids) for ids in texts]

    def work(i: int) -> None:
        try:
            for _ in range(5 if generates else 30):
                assert torch.equal(made(texts[i]), want[i])
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_checkpoints_of_activations_keep_the_gradients(
    scheme: str, reentrant: bool
) -> None:
    model = applied(scheme).train()
    right = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    for name, gradient in gradients(model).items():
        alike(gradient, right[name])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_call_inside_a_call_and_one_that_failed_leave_nothing(scheme: str) -> None:
    model, found = applied(scheme), list[Tensor]()
    want, inner = read(model, IDS), IDS[:1, :7]
    first = read(model, inner)
    hook = model.model.layers[0].mlp.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        read(model, IDS)
    hook.remove()

    def call(*_: Any) -> None:
        hook.remove()
        found.append(read(model, inner))

    hook = model.model.layers[1].self_attn.q_proj.register_forward_pre_hook(call)
    assert torch.equal(read(model, IDS), want)
    assert torch.equal(found[0], first)


def test_models_that_share_layers_are_not_mixed_up() -> None:
    one, other = llama(), llama()
    other.model.layers = one.model.layers
    with hf.apply(one, "alibi"), pytest.raises(hf.UnsupportedModelError):
        read(other, IDS)
    assert torch.equal(read(other, IDS), read(one, IDS))


# --- caches ---------------------------------------------------------------------------


def in_another_order(cache: Any) -> None:
    for layer in cache.layers:
        order = torch.arange(layer.keys.shape[2])
        order[:2] = torch.tensor([1, 0])
        layer.keys, layer.values = layer.keys[:, :, order], layer.values[:, :, order]


def with_more(cache: Any) -> None:
    for layer in range(2):
        cache.update(torch.randn(2, 2, 3, 8), torch.randn(2, 2, 3, 8), layer)


@pytest.mark.parametrize("scheme", ["alibi", "fox", "path", "rope:layout=half"])
def test_a_cache_that_is_cropped_or_copied_goes_on(scheme: str) -> None:
    model = applied(scheme)
    _, cache = fed(model, IDS)
    cache.crop(-4)
    other = IDS.clone()
    other[:, 8:] = other[:, 8:].flip(1)
    for ids in (IDS, other):
        alike(fed(model, ids[:, 8:], copy.deepcopy(cache))[0], read(model, ids)[:, 8:])
    more: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False}
    greedy = model.generate(IDS[:1], **more)
    helper = llama(num_hidden_layers=1)
    assert torch.equal(model.generate(IDS[:1], assistant_model=helper, **more), greedy)


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda cache: cache.reorder_cache(torch.tensor([1, 0])), [1, 0]),
        (lambda cache: cache.batch_select_indices(torch.tensor([1])), [1]),
        (lambda cache: cache.batch_repeat_interleave(2), [0, 0, 1, 1]),
    ],
)
def test_rows_of_a_cache_change_places_where_no_state_is_kept(
    change: Callable[[Any], None], rows: list[int]
) -> None:
    for scheme in ("alibi", "rope:layout=half", "fox"):
        model = applied(scheme)
        _, cache = fed(model, IDS[:, :8])
        change(cache)
        if scheme == "fox":
            with pytest.raises(hf.UnsupportedModelError, match="in one order"):
                fed(model, IDS[rows][:, 8:], cache)
        else:
            got, _ = fed(model, IDS[rows][:, 8:], cache)
            alike(got, read(model, IDS)[rows][:, 8:])


@pytest.mark.parametrize("scheme", ["alibi", "fox"])
@pytest.mark.parametrize("change", [in_another_order, with_more])
def test_keys_that_were_put_into_a_cache_are_refused(
    scheme: str, change: Callable[[Any], None]
) -> None:
    model = applied(scheme)
    _, cache = fed(model, IDS[:, :8])
    change(cache)
    with pytest.raises(hf.UnsupportedModelError, match=FOREIGN):
        fed(model, IDS[:, 8:], cache)
    empty = transformers.DynamicCache(config=model.config)
    with_more(empty)
    with pytest.raises(hf.UnsupportedModelError, match=FOREIGN):
        fed(model, IDS, empty)


def test_a_cache_of_another_scheme_is_refused() -> None:
    model = llama()
    _, plain = fed(model, IDS[:, :8])
    with hf.apply(model, "alibi"):
        _, first = fed(model, IDS[:, :8])
    with hf.apply(model, "nope"):
        for cache in (plain, first):
            with pytest.raises(hf.UnsupportedModelError, match=FOREIGN):
                fed(model, IDS[:, 8:], cache)


def test_a_static_cache_is_used_again() -> None:
    for scheme in ("alibi", "fox"):
        model = applied(scheme)
        cache = transformers.StaticCache(config=model.config, max_cache_len=16)
        for ids in (IDS, IDS.flip(1)):
            cache.reset()
            fed(model, ids[:, :8], cache)
            alike(fed(model, ids[:, 8:], cache)[0], read(model, ids)[:, 8:])


@pytest.mark.parametrize("scheme", ["alibi", "sinusoidal", "rope:layout=half"])
def test_padding_beside_keys_that_a_sliding_cache_dropped(scheme: str) -> None:
    model = llama("Mistral", sliding_window=6)
    hf.apply(model, scheme)
    real = torch.ones_like(IDS)
    real[0, :3] = 0
    name = cache_name(inspect.signature(model.forward).parameters)
    cache, found = None, []
    with torch.no_grad():
        for end in (9, 10, 11, 12):
            start = 0 if end == 9 else end - 1
            more = {"attention_mask": real[:, :end], name: cache, "use_cache": True}
            out = model(IDS[:, start:end], **more)
            cache = out[name]
            found.append(out.logits)
    got = torch.cat(found, dim=1)
    alike(got[0, 3:], read(model, IDS[:1, 3:])[0])
    alike(got[1:], read(model, IDS[1:]))


# --- adapters and offloading ----------------------------------------------------------


def adapted(model: Any, **more: Any) -> Any:
    peft = pytest.importorskip("peft")
    return peft.get_peft_model(model, peft.LoraConfig(r=2, **more))


@pytest.mark.parametrize(
    ("scheme", "targets"),
    [("t5_bias", "all-linear"), ("fox", "all-linear"), ("fox", ["q_proj"])],
)
def test_a_scheme_that_is_saved_with_an_adapter_is_trained(
    scheme: str, targets: Any
) -> None:
    model = applied(scheme)
    before, count = read(model, IDS), len(model.posenc_compare_schemes)
    saved = [f"posenc_compare_schemes.{i}" for i in range(count)]
    peft = adapted(model, target_modules=targets, modules_to_save=saved).train()
    learned = {n: p for n, p in peft.named_parameters() if p.requires_grad}
    assert any("posenc" in name for name in learned)
    optimizer = torch.optim.SGD(learned.values(), lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        peft(input_ids=IDS, labels=IDS).loss.backward()
        optimizer.step()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in learned.values())
    after = read(peft.eval(), IDS)
    with peft.disable_adapter():
        assert torch.equal(read(peft, IDS), before)
    alike(read(peft.merge_and_unload(), IDS), after)


@pytest.mark.parametrize(
    ("scheme", "more"),
    [
        ("fox", {"target_modules": "all-linear"}),
        ("fire", {"target_modules": ["rise"]}),
        ("t5_bias", {"target_modules": [], "target_parameters": ["0.table"]}),
    ],
)
def test_an_adapter_that_would_do_nothing_is_refused(
    scheme: str, more: dict[str, Any]
) -> None:
    peft = adapted(applied(scheme), **more)
    with pytest.raises(hf.UnsupportedModelError, match="would work") as caught:
        peft(input_ids=IDS)
    assert "modules_to_save=['posenc_compare_schemes.0']" in str(caught.value)


def test_a_prefix_is_refused_and_a_prompt_is_none() -> None:
    peft = pytest.importorskip("peft")
    more = {"task_type": "CAUSAL_LM", "num_virtual_tokens": 3}
    prompted = peft.get_peft_model(applied("alibi"), peft.PromptTuningConfig(**more))
    assert prompted(input_ids=IDS).logits.isfinite().all()
    prefixed = peft.get_peft_model(applied("alibi"), peft.PrefixTuningConfig(**more))
    with pytest.raises(hf.UnsupportedModelError, match=FOREIGN):
        prefixed(input_ids=IDS)


def test_what_wraps_a_model_names_the_model_inside() -> None:
    peft = adapted(llama(), target_modules=["q_proj"])
    with pytest.raises(hf.UnsupportedModelError, match=r"get_base_model\(\) would"):
        hf.apply(peft, "alibi")
    for wrong, cure in (
        (nn.DataParallel(llama()), r"transformers, got Data.*model.module would work"),
        (nn.Linear(2, 2), "PreTrainedModel of transformers, got Linear$"),
    ):
        with pytest.raises(hf.UnsupportedModelError, match=cure):
            hf.apply(wrong, "alibi")  # pyright: ignore[reportArgumentType]
    hf.apply(peft.get_base_model(), "alibi").check()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_an_offloaded_model_is_right_or_named(
    scheme: str, where: str, tmp_path: Path
) -> None:
    accelerate = pytest.importorskip("accelerate")
    device = torch.device("cpu")
    offload = functools.partial(accelerate.cpu_offload, execution_device=device)
    if where == "disk":
        offload = functools.partial(
            accelerate.disk_offload, offload_dir=tmp_path, execution_device=device
        )
    model = applied(scheme)
    want = read(model, IDS)
    early = offload(llama())
    hf.apply(early, scheme)
    assert torch.equal(read(early, IDS), want)
    late = offload(model)
    if any(True for _ in model.posenc_compare_schemes.parameters()):
        with pytest.raises(hf.UnsupportedModelError, match="after accelerate offloads"):
            read(late, IDS)
    else:
        assert torch.equal(read(late, IDS), want)


# --- messages -------------------------------------------------------------------------


def test_what_computes_no_values_has_its_line() -> None:
    model = applied("alibi")
    model.config.use_cache = False
    with pytest.raises(hf.UnsupportedModelError, match="traced graph"):
        torch.jit.trace(model, (IDS,), strict=False)
    with pytest.raises(hf.UnsupportedModelError, match="traced graph"):
        torch.export.export(model, (IDS,), strict=False)
    with torch.device("meta"):
        empty = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    hf.apply(empty, "alibi")
    for ids in (IDS, IDS.to("meta")):
        with pytest.raises(hf.UnsupportedModelError, match="got the meta device"):
            read(empty, ids)


@pytest.mark.parametrize("name", ["ModernBert", "EuroBert"])
def test_an_encoder_has_its_line(name: str) -> None:
    sizes = {n: v for n, v in SIZES.items() if n not in ("eos_token_id",)}
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}ForMaskedLM")(config)
    with pytest.raises(hf.UnsupportedModelError, match="is an encoder"):
        hf.apply(model, "alibi")


def test_layers_that_ask_for_no_attention_are_named() -> None:
    kinds = ["full_attention", "linear_attention"]
    model = llama("MiniMax", layer_types=kinds, num_local_experts=2, head_dim=8)
    with pytest.raises(
        hf.UnsupportedModelError, match=r"Lightning.*\[1\].*layers=\[0\] would work"
    ):
        hf.apply(model, "alibi", layers=[0, 1])
    own = read(model, IDS)
    with hf.apply(model, "rope:base=1000000;layout=half") as there:
        assert there.report()["layers"] == [0]  # the one that rotates
        alike(read(model, IDS), own)


@pytest.mark.parametrize("scheme", ["rope:layout=half", "fox"])
def test_attention_that_is_asked_for_twice_in_a_layer_is_served(scheme: str) -> None:
    model = llama("DiffLlama")
    own = read(model, IDS)
    with hf.apply(model, scheme) as there:
        there.check()
        if scheme != "fox":
            alike(read(model, IDS), own)


def test_attention_that_was_replaced_later_is_refused() -> None:
    model = applied("alibi")
    model.model.layers[1].self_attn = llama().model.layers[1].self_attn
    with pytest.raises(hf.UnsupportedModelError, match=r"as hf\.apply found it"):
        read(model, IDS)
