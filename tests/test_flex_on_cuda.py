"""Flex attention as a GPU takes it, as far as no GPU is needed to see it."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from functorch.compile import make_boxed_func  # type: ignore[attr-defined]
from schemes.tools import normal
from support.attention import ids_for
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.kernel.flex.flex_attention import validate_joint_graph

from posenc_compare.attention import Mask, explain
from posenc_compare.attention.backends import flex as backend
from posenc_compare.attention.plan import Plan
from posenc_compare.attention.request import Request
from posenc_compare.check.fresh_process import built_in
from posenc_compare.schemes import Call, Geometry, Scheme, create

HEADS, WIDTH, LENGTH = 2, 16, 20


class Pretended(Tensor):
    """A tensor on the CPU that says it is on a GPU, and so do those made of it."""

    is_cuda = True  # type: ignore[assignment]


def arguments(
    scheme: Scheme, dtype: torch.dtype = torch.float32, width: int = WIDTH
) -> dict[str, Any]:
    """Return what attention takes, with tensors that say they are on a GPU."""
    x = normal(2, LENGTH, HEADS * WIDTH).float()
    parts = normal(3, 2, HEADS, LENGTH, width, seed=1).to(dtype)
    q, k, v = (part.as_subclass(Pretended) for part in parts)
    ids = ids_for(scheme, LENGTH, columns=5)
    ids = scheme.positions(ids, torch.Generator().manual_seed(1))
    given = {"scheme": scheme, "positions": ids, "state": scheme.token_state(x)}
    return {"q": q, "k": k, "v": v, **given}


def make(name: str, width: int = WIDTH) -> Scheme:
    sizes: Any = {"model_dim": HEADS * WIDTH, "heads": HEADS, "head_dim": width}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create(name, **sizes, length=LENGTH)


@pytest.mark.parametrize(
    ("name", "dtype", "width", "path"),
    [
        ("alibi", torch.bfloat16, 16, "strided"),
        ("fire", torch.float16, 64, "dense"),
        ("fire", torch.float32, 8, "dense"),
        ("rope", torch.float32, 16, "fused"),
        ("rope", torch.float64, 8, "fused"),
        ("cope", torch.float32, 16, "plain"),
    ],
)
@torch.no_grad()
def test_path_choice_on_cuda(
    name: str, dtype: torch.dtype, width: int, path: str
) -> None:
    assert explain(**arguments(make(name, width), dtype, width)).path == path


def test_a_trained_bias_is_written_out_on_cuda() -> None:
    assert explain(**arguments(make("t5_bias"))).path == "dense"


@pytest.mark.parametrize(
    ("dtype", "width", "values", "why"),
    [
        (torch.float32, 16, 16, "dense comes first"),
        (torch.float16, 64, 64, "dense comes first"),
        (torch.float64, 16, 16, "float64"),  # its kernel multiplies none
        (torch.float32, 15, 15, "channels"),
        (torch.float32, 16, 8, "channels"),
    ],
)
@torch.no_grad()
def test_flex_serves_what_its_kernel_takes(
    dtype: torch.dtype, width: int, values: int, why: str
) -> None:
    given = arguments(make("fire", width), dtype, width)
    given["v"] = given["v"][..., :values]
    assert why in explain(**given).others["flex"]


# --- what the compiled kernel can learn through ---------------------------------------


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record what inductor says of the backward graph of each flex call on a GPU."""
    verdicts: list[str] = []

    def forward(graph: Any, _: Any) -> Any:
        return make_boxed_func(graph.forward)

    def backward(graph: Any, _: Any) -> Any:
        for node in graph.graph.nodes:
            if "flex_attention_backward" in str(node.target):
                joint = getattr(graph, node.args[8].target)
                try:
                    validate_joint_graph(joint.graph)
                    verdicts.append("")
                except NotImplementedError as error:
                    verdicts.append(str(error))
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward)
    compiled = torch.compile(flex.flex_attention, backend=backend, dynamic=False)
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex, "flex_attention", compiled)
    yield verdicts
    torch._dynamo.reset()


def learn_through_flex(scheme: Scheme) -> None:
    """Run the path forward and backward, where a CPU would not choose it."""
    given = arguments(scheme)
    q, k, v = (given[name].as_subclass(Tensor).requires_grad_() for name in "qkv")
    ids, state = given["positions"], given["state"]
    plan = Plan(ids, None, Mask())
    call = plan.call(scheme, 0, q, k, state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backend.run(Request.of(scheme, plan, call, v)).sum().backward()


class TwoIndices(Scheme):
    """Reads one trained table twice, as FoX once did."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.table = torch.nn.Parameter(torch.zeros(LENGTH))

    def pair_bias(self, call: Call) -> Any:
        return lambda b, h, i, j: self.table[i] - self.table[j]


def has_a_graph_of_its_own(name: str) -> bool:
    """Return whether a bias has a function of its own, as those of offsets do not."""
    acts_at = make(name).acts_at
    whole_rows = acts_at("scores") or acts_at("values")
    return acts_at("pair_bias") and not whole_rows


PAIRS = [name for name in sorted(built_in()) if has_a_graph_of_its_own(name)]
BIASED = ["t5_bias", *PAIRS]


@pytest.mark.parametrize("name", BIASED)
def test_flex_can_learn_every_bias(name: str, judged: list[str]) -> None:
    learn_through_flex(make(name))
    assert judged == [""]


def test_flex_cannot_learn_through_two_indices_of_one_tensor(judged: list[str]) -> None:
    geometry = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
    learn_through_flex(TwoIndices(geometry))
    assert "multiple indexing operations on the same tensor" in judged[0]
