"""Every scheme of this package does what every scheme must do."""

from pathlib import Path

import pytest
import torch

from posenc_compare.check import CHECKS, Subject, built_in, run_check
from posenc_compare.check.checks import explain
from posenc_compare.registry import SCHEMES, add_plugin
from posenc_compare.schemes import Scheme
from posenc_compare.testing import parametrize_schemes
from posenc_compare.variants import parse_variants

EXAMPLES = Path(__file__).parent.parent / "examples"


@parametrize_schemes(",".join(built_in()))
def test_built_in_schemes(conform) -> None:
    conform()


@parametrize_schemes("log_bias", plugin=str(EXAMPLES / "my_scheme.py"))
def test_a_scheme_of_twenty_lines(conform) -> None:
    conform()


@parametrize_schemes(
    "triangle", plugin=str(EXAMPLES / "plugin_package" / "posenc_triangle.py")
)
def test_a_scheme_of_a_package(conform) -> None:
    conform()


@parametrize_schemes(
    "rope:scaling=yarn;factor=4,rope:layout=half;fraction=0.5,mix:by=heads,"
    "deberta:p2c_index=paper,cope:scaled=true,alibi:direction=causal,"
    "randomized:scheme=rope,dape:base=t5_bias,rope_2d:kind=mixed,"
    "dape:base=kerple_log,shape:scheme=dape,rerope:stretched=true,cape:centred=true"
)
def test_variants_with_options(conform) -> None:
    conform()


# Of the comparisons of record, beside the schemes with their defaults. Raw integers
# are not among them: they overflow float16, and beside them tokens lose their digits.
@parametrize_schemes(
    "rope:base=128,rope:fraction=0.25,path:forget=true,fox:bias=5,"
    "randomized:scheme=alibi,deberta:reach=16,mix:every=2"
)
def test_variants_of_record(conform) -> None:
    conform()


@parametrize_schemes(
    ",".join(name for name in built_in() if SCHEMES.get(name).published),
    lengths="published",
)
def test_built_in_schemes_with_published_lengths(conform) -> None:
    conform()


def test_there_are_twenty_four_checks() -> None:
    assert list(CHECKS) == [f"C{number:02}" for number in range(1, 25)]


FAULTS = """
import torch
from torch import Tensor, nn
from posenc_compare.schemes import Facts, Scheme, register

@register("sound", family="bias", source="nobody 2026")
class Sound(Scheme):
    '''Subtract the distance.'''
    def offset_bias(self, offsets):
        return -offsets.abs().double().expand(self.geometry.heads, -1)

@register("late", family="bias", source="nobody 2026")
class Late(Sound):
    '''Look at no position: a relative scheme that is none.'''
    def offset_bias(self, offsets):
        return torch.zeros(self.geometry.heads, len(offsets)).double()

@register("drifts", family="rotary", source="nobody 2026")
class Drifts(Scheme):
    '''Scale queries by their position.'''
    def query(self, q, positions):
        return q * (1 + positions.to(q.dtype)[..., None, :, None] / 64)

@register("noisy", family="absolute", source="nobody 2026")
class Noisy(Scheme):
    '''Add noise from the global generator.'''
    def embed(self, x, positions):
        return x + torch.randn_like(x)

@register("rounds", family="absolute", source="nobody 2026")
class Rounds(Scheme):
    '''Compute with positions in the dtype of the tokens.'''
    def embed(self, x, positions):
        return x + positions.to(x.dtype).sin()[..., None]

@register("hoards", family="absolute", source="nobody 2026")
class Hoards(Scheme):
    '''Remember the first length it saw.'''
    def embed(self, x, positions):
        self.most = getattr(self, "most", x.shape[1])
        return x + (positions / max(1, self.most)).to(x.dtype)[..., None]

@register("claims", family="absolute", source="nobody 2026")
class Claims(Scheme):
    '''Expect a failure that does not come.'''
    facts = Facts(known_faults={"C05": "it says so"})
    def embed(self, x, positions):
        return x + positions.double().sin().to(x.dtype)[..., None]

@register("buffers", family="absolute", source="nobody 2026")
class Buffers(Scheme):
    '''Keep a table that is no parameter.'''
    def __init__(self, geometry):
        super().__init__(geometry)
        self.register_buffer("table", torch.randn(geometry.model_dim))
    def embed(self, x, positions):
        turn = positions.double().sin()[..., None]
        return x + (turn * self.table.double()).to(x.dtype)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("faults") / "faults.py"
    path.write_text(FAULTS)
    add_plugin(str(path))
    return str(path)


def test_a_layer_of_another_dtype_is_told_the_cure() -> None:
    linear = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught:
        linear(torch.zeros(1, 2, dtype=torch.float64))
    assert "`posenc_compare.schemes.shared.layers.apply_wide`" in explain(
        caught.value, Scheme
    )
    assert "apply_wide" not in explain(RuntimeError("mat1 is too wide"), Scheme)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("late", "C21", "logits that the distance changes"),
        ("drifts", "C21", "after a shift by 1 (or `relative=False`) "),
        ("noisy", "C10", "random numbers"),
        ("noisy", "C18", "smallest input: 1 token of 65"),
        ("rounds", "C17", "in bfloat16"),
        ("claims", "C05", "expected to fail (it says so), and passes"),
        ("buffers", "C22", "parameters alone"),
    ],
)
def test_a_fault_is_found(plugin: str, name: str, code: str, said: str) -> None:
    (variant,) = parse_variants(name)
    outcome = run_check(Subject(variant, plugin), code)
    assert outcome.state == "failed"
    assert said in outcome.detail


def test_a_sound_scheme_passes_all(plugin: str) -> None:
    (variant,) = parse_variants("sound")
    outcomes = [run_check(Subject(variant, plugin), code) for code in CHECKS]
    assert [o.detail for o in outcomes if o.state != "passed"] == []
