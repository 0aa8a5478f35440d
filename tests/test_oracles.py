"""Schemes against the implementations of others, by the number.

The other packages are the extra `oracles`; a test whose package is missing is
skipped with its name. They compute in float32, ours in float64 before it rounds, so
places are small where angles are compared: 1e-6 is then rounding, and no more.
Copies of one code are no two witnesses: the bloom slopes descend from the authors',
those of MPT do not, and the T5 buckets all descend from mesh.
"""

import importlib
import math
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.schemes import Scheme, create

# Foreign code warns of what is no concern of ours.
pytestmark = pytest.mark.filterwarnings("ignore")

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 14, 16
PLACES = torch.arange(LENGTH)
TOLERANCE = 1e-6


def load(package: str, module: str) -> Any:
    """Import a module of another package, or skip the test with the package's name."""
    pytest.importorskip(package, reason=f"oracle {package} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{package}.{module}")


def models(name: str) -> Any:
    """Return the modelling code of a network in transformers."""
    return load("transformers", f"models.{name}.modeling_{name}")


def x_transformers() -> Any:
    return load("x_transformers", "x_transformers")


def rotary_embedding(**sizes: Any) -> Any:
    """Make a rotary module; it caches, so that each serves for one call."""
    module = load("rotary_embedding_torch", "rotary_embedding_torch")
    return module.RotaryEmbedding(**sizes)


def attn_gym() -> Any:
    return load("attn_gym", "mods")


def positional_encodings() -> Any:
    return load("positional_encodings", "torch_encodings")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


Q, K = (normal(BATCH, HEADS, LENGTH, WIDTH, seed=seed) for seed in (1, 2))
X = normal(BATCH, LENGTH, HEADS * WIDTH, seed=5)


def make(name: str, heads: int = HEADS, **options: Any) -> Scheme:
    """Build a scheme whose trained numbers, if any, are all drawn, none left at 0."""
    scheme = create(name, options=options, model_dim=heads * WIDTH, heads=heads)
    with torch.no_grad():
        for seed, parameter in enumerate(scheme.parameters(), 10):
            parameter.copy_(normal(*parameter.shape, seed=seed))
    return scheme


def logits(scheme: Scheme, *, causal: bool = False, **more: Any) -> Tensor:
    return attention_logits(
        Q, K, scheme=scheme, positions=PLACES, mask=Mask(causal=causal), **more
    ).detach()


def bias(scheme: Scheme, *, places: Tensor = PLACES, causal: bool = False) -> Tensor:
    """Return what is added to products that are all 0, `(heads, query, key)`."""
    zeros = torch.zeros(1, scheme.geometry.heads, len(places), WIDTH)
    return attention_logits(
        zeros, zeros, scheme=scheme, positions=places, mask=Mask(causal=causal)
    )[0].detach()


def products(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * WIDTH**-0.5


def cells(*sides: int) -> Tensor:
    """Return the positions of the cells of an image, row by row."""
    return torch.cartesian_prod(*map(torch.arange, sides))


def assert_turned(
    scheme: Scheme, sides: tuple[int, int], turn: Callable[[Tensor], Tensor]
) -> None:
    """Compare the logits of a pass over an image with those of turned vectors."""
    q, k = (normal(BATCH, HEADS, math.prod(sides), WIDTH, seed=seed) for seed in (1, 2))
    session = Session(scheme, cells(*sides), mask=Mask(causal=False))
    assert_near(session.logits(0, q, k).detach(), products(turn(q), turn(k)))


def assert_near(ours: Tensor, theirs: Tensor, *, each: bool = False) -> None:
    """Compare by the largest number of theirs or, if `each`, number by number."""
    ours, theirs = ours.double(), theirs.detach().double()
    assert ours.shape == theirs.shape
    assert theirs.isfinite().all()
    assert theirs.any()
    apart = (ours - theirs).abs()
    size = theirs.abs() if each else theirs.abs().max()
    assert (apart - TOLERANCE * size).max() <= 0, (
        f"largest difference {apart.max():.2e}"
    )


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """Compare number by number, without any tolerance."""
    assert torch.equal(ours, theirs)


def below_diagonal(x: Tensor) -> Tensor:
    """Return the pairs that a causal mask leaves."""
    keep = torch.ones(x.shape[-2:], dtype=torch.bool).tril()
    return x[..., keep]


# Rotary.


def llama_turns(
    llama: Any, frequencies: Tensor, factor: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Turn Q and K as Llama does, pairs in halves."""
    angle = (PLACES[:, None] * frequencies).repeat(1, 2)[None]
    return llama.apply_rotary_pos_emb(Q, K, angle.cos() * factor, angle.sin() * factor)


def speeds(scheme: Any) -> Tensor:
    """Return the angles at position 1."""
    return scheme.angles(torch.tensor([1]))[0]


def test_rope_in_halves_is_that_of_llama() -> None:
    rope = make("rope", layout="half")
    frequencies = 1.0 / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    q, k = llama_turns(models("llama"), frequencies)
    assert_near(rope.query(Q, PLACES), q)
    assert_near(rope.key(K, PLACES), k)


@pytest.mark.parametrize("interleave", [True, False])
def test_rope_latent_is_that_of_deepseek(interleave: bool) -> None:
    deepseek, turned = models("deepseek_v3"), WIDTH // 2
    frequencies = 1.0 / 10_000 ** (torch.arange(0, turned, 2) / turned)
    angles = torch.outer(PLACES.float(), frequencies).repeat(1, 2)[None]
    named = "_interleave" if interleave else ""
    turns = getattr(deepseek, f"apply_rotary_pos_emb{named}")
    q, k = turns(Q[..., turned:], K[:, :1, :, turned:], angles.cos(), angles.sin())
    theirs = Q[..., :turned] @ K[..., :turned].mT + q @ k.mT
    options = {"fraction": 0.5, "layout": "adjacent" if interleave else "half"}
    scheme = make("rope_latent", **options)
    assert_near(logits(scheme), theirs * WIDTH**-0.5)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_rope_in_adjacent_pairs_is_that_of_gptj(fraction: float) -> None:
    gptj = models("gptj")
    turned = int(WIDTH * fraction)
    sin, cos = gptj.create_sinusoidal_positions(LENGTH, turned)[None].chunk(2, -1)
    theirs = Q.transpose(1, 2).clone()  # (batch, seq, heads, head_dim)
    theirs[..., :turned] = gptj.apply_rotary_pos_emb(theirs[..., :turned], sin, cos)
    rope = make("rope", fraction=fraction)
    assert_near(rope.query(Q, PLACES), theirs.transpose(1, 2))


def test_rope_is_that_of_x_transformers() -> None:
    angles, scale = x_transformers().RotaryEmbedding(WIDTH)(PLACES)
    theirs = x_transformers().apply_rotary_pos_emb(Q, angles, scale)
    assert_near(make("rope").query(Q, PLACES), theirs)


ROTARY = {
    "plain": ({}, {}),
    "base": ({"theta": 500}, {"base": 500.0}),
    "ntk": ({"theta_rescale_factor": 8.0}, {"scaling": "ntk", "factor": 8.0}),
    "pi": ({"interpolate_factor": 4.0}, {"scaling": "pi", "factor": 4.0}),
}


@pytest.mark.parametrize("case", ROTARY)
def test_rope_is_that_of_rotary_embedding_torch(case: str) -> None:
    theirs, ours = ROTARY[case]
    turned = rotary_embedding(dim=WIDTH, **theirs).rotate_queries_or_keys(Q)
    assert_near(make("rope", **ours).query(Q, PLACES), turned)


def test_axial_rope_2d_is_that_of_rotary_embedding_torch() -> None:
    module = load("rotary_embedding_torch", "rotary_embedding_torch")
    angles = rotary_embedding(dim=WIDTH // 2, theta=100).get_axial_freqs(2, 7)
    theirs = module.apply_rotary_emb(angles, Q.unflatten(2, (2, 7))).flatten(2, 3)
    assert_near(make("rope_2d", first="h").query(Q, cells(2, 7)), theirs)


@pytest.mark.parametrize("sides", [(2, 7), (7, 2), (14, 1)])
@pytest.mark.parametrize("trained", [0, 5])
def test_rope_pixel_is_that_of_rotary_embedding_torch(
    sides: tuple[int, int], trained: int
) -> None:
    module = load("rotary_embedding_torch", "rotary_embedding_torch")
    rotary = rotary_embedding(dim=WIDTH // 2, freqs_for="pixel", max_freq=7)
    angles = rotary.get_axial_freqs(*sides)

    def turn(x: Tensor) -> Tensor:
        return module.apply_rotary_emb(angles, x.unflatten(2, sides)).flatten(2, 3)

    height, width = (trained or side for side in sides)
    rope = make("rope_pixel", max_freq=7.0, height=height, width=width)
    if not trained:
        assert_near(rope.query(Q, cells(*sides)), turn(Q))
    assert_turned(rope, sides, turn)


LONG = [1.0 + 0.5 * m for m in range(WIDTH // 2)]
SCALED = {
    "linear": ({"factor": 4.0}, {"scaling": "pi", "factor": 4.0}),
    "dynamic": (
        {"factor": 2.0},
        {"scaling": "ntk", "factor": 7.0},  # 2 * 2048 / 512 - 1, as asked below
    ),
    "yarn": (
        # So long that the ramp ends beyond the last pair.
        {"factor": 8.0, "original_max_position_embeddings": 100_000},
        {"scaling": "yarn", "factor": 8.0, "original": 100_000},
    ),
    "yarn of GPT-OSS": (
        {"factor": 8.0, "original_max_position_embeddings": 4096, "truncate": False},
        {"scaling": "yarn", "factor": 8.0, "original": 4096, "truncate": False},
    ),
    "yarn of DeepSeek": (
        {"factor": 8.0, "original_max_position_embeddings": 4096}
        | {"mscale": 1.0, "mscale_all_dim": 0.7},
        {"scaling": "yarn", "factor": 8.0, "original": 4096}
        | {"attention": (0.1 * math.log(8) + 1) / (0.07 * math.log(8) + 1)},
    ),
    "longrope": (
        {
            "factor": 4.0,
            "original_max_position_embeddings": 512,
            "short_factor": [1.0] * len(LONG),
            "long_factor": LONG,
        },
        {"scaling": "longrope", "factor": 4.0, "factors": "/".join(map(str, LONG))},
    ),
    "llama3": (
        {
            "factor": 8.0,
            "original_max_position_embeddings": 512,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        {"scaling": "llama3", "factor": 8.0},
    ),
    "proportional": (
        {"partial_rotary_factor": 0.75},
        {"name": "p_rope", "fraction": 0.75},
    ),
}


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("rule", SCALED)
def test_scaled_rope_is_that_of_transformers(rule: str, base: float) -> None:
    llama = models("llama")
    theirs, ours = SCALED[rule]
    rule = rule.partition(" ")[0]
    config = load("transformers", "models.llama").LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=WIDTH,
        max_position_embeddings=512,
        rope_parameters={"rope_type": rule, "rope_theta": base, **theirs},
    )
    init = load("transformers", "modeling_rope_utils").ROPE_INIT_FUNCTIONS[rule]
    frequencies, factor = init(config, device="cpu", seq_len=2048)
    options = {"name": "rope", "layout": "half", "base": base, **ours}
    scheme = make(**options)
    assert_near(speeds(scheme), frequencies, each=True)
    q, k = llama_turns(llama, frequencies, factor)
    assert_near(scheme.query(Q, PLACES), q)
    assert_near(scheme.key(K, PLACES), k)


# Sections of height, width and time, in the order of the network, and our options.
M_ROPE: dict[str, tuple[str, list[int], dict[str, Any]]] = {
    "qwen2_vl": ("Qwen2VL", [2, 3, 3], {"order": "sections"}),
    "qwen3_vl": ("Qwen3VLText", [4, 2, 2], {"order": "interleaved"}),
    "ernie4_5_vl_moe": (
        "Ernie4_5_VLMoeText",
        [3, 3, 2],
        {"order": "time_last", "sections": "2/3/3", "layout": "adjacent"},
    ),
}


@pytest.mark.parametrize("network", M_ROPE)
def test_m_rope_is_that_of_qwen_and_ernie(network: str) -> None:
    name, sections, options = M_ROPE[network]
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    config = SimpleNamespace(
        max_position_embeddings=512, head_dim=WIDTH, rope_parameters=rope
    )
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 12, (BATCH, LENGTH, 3), generator=generator)
    rotary = getattr(models(network), f"{name}RotaryEmbedding")(config)
    turns = models("ernie4_5_vl_moe" if "ernie" in network else "llama")
    cos, sin = rotary(Q, ids.movedim(-1, 0).clone())
    q, k = turns.apply_rotary_pos_emb(Q, K, cos, sin)
    scheme = make("m_rope", **{"sections": "/".join(map(str, sections)), **options})
    assert_near(scheme.query(Q, ids), q)
    assert_near(scheme.key(K, ids), k)


@pytest.mark.parametrize("sides", [(4, 4), (3, 7), (9, 2)])
def test_rope_dinov3_is_that_of_dinov3(sides: tuple[int, int]) -> None:
    module = models("dinov3_vit")
    settings = SimpleNamespace(
        rope_theta=100.0,
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        image_size=32,
        patch_size=8,
    )
    rotary = module.DINOv3ViTRopePositionEmbedding(settings).eval()
    rows, columns = sides
    angles = rotary(torch.zeros(1, 3, 8 * rows, 8 * columns))
    assert_turned(
        make("rope_dinov3").eval(),
        sides,
        lambda x: module.apply_rotary_pos_emb(x, x, *angles)[0],
    )


def pixels(**options: Any) -> dict[str, Any]:
    return {"in_pixels": True, "max_res": 6.0, **options}


TIMM: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("rope_2d", {"first": "h"}, {"in_pixels": False, "temperature": 100.0}),
    ("rope_pixel", {"kind": "linear"}, pixels(linear_bands=True)),
    ("rope_pixel", {"kind": "log"}, pixels(linear_bands=False)),
    ("rope_pixel", {"kind": "eva_02"}, {"in_pixels": False, "temperature": 10_000.0}),
]


@pytest.mark.parametrize("sides", [(4, 4), (3, 7), (9, 2)])
@pytest.mark.parametrize(("name", "options", "theirs"), TIMM)
def test_rotations_of_images_are_those_of_timm(
    name: str,
    options: dict[str, Any],
    theirs: dict[str, Any],
    sides: tuple[int, int],
    timm: Callable[[str], Any],
) -> None:
    module = timm("pos_embed_sincos")
    trained = {}
    if name == "rope_pixel":
        options = {**options, "max_freq": 6.0, "height": 4, "width": 4}
    if options.get("kind") == "eva_02":
        trained = {"ref_feat_shape": [4, 4]}
    sin, cos = module.build_rotary_pos_embed([*sides], dim=WIDTH, **theirs, **trained)
    scheme = make(name, **options)
    assert_turned(scheme, sides, lambda x: module.apply_rot_embed(x, sin, cos))


@pytest.mark.parametrize("sides", [(4, 4), (3, 7)])
def test_mixed_rope_2d_and_rope_dinov3_are_those_of_timm(
    sides: tuple[int, int], timm: Callable[[str], Any]
) -> None:
    module = timm("pos_embed_sincos")
    mixed = module.RotaryEmbeddingMixed(HEADS * WIDTH, 1, HEADS)
    dinov3 = module.RotaryEmbeddingDinoV3(WIDTH, temperature=100.0, rotate_half=True)
    own: Any = make("rope_2d", kind="mixed")
    with torch.no_grad():  # rows come first here, columns there
        own.frequencies.copy_(mixed.freqs[:, 0].flip(0))
    turn = module.apply_rot_embed_cat
    for scheme, emb, half in (
        (own, mixed.get_embed([*sides])[0].detach(), False),
        (make("rope_dinov3").eval(), dinov3.eval().get_embed([*sides]), True),
    ):
        assert_turned(scheme, sides, partial(turn, emb=emb, half=half))


def test_sinusoidal_2d_is_that_of_timm(timm: Callable[[str], Any]) -> None:
    build = timm("pos_embed_sincos").build_sincos2d_pos_embed
    theirs = build([5, 3], dim=32, temperature=10_000.0)
    ours = make("sinusoidal_2d").embed(torch.zeros(1, 15, 32), cells(5, 3))
    assert_near(ours[0], theirs)


def test_learned_2d_is_resized_as_in_vit() -> None:
    settings = SimpleNamespace(
        hidden_size=WIDTH,
        image_size=40,
        patch_size=8,
        num_channels=3,
        hidden_dropout_prob=0.0,
    )
    module = models("vit").ViTEmbeddings(settings)
    scheme: Any = make("learned_2d", heads=1, height=5, width=5)
    table = module.position_embeddings.data
    table[:, 1:] = scheme.table.detach().flatten(0, 1)
    tokens = torch.zeros(1, 1 + 3 * 8, WIDTH)
    theirs = module.interpolate_pos_encoding(tokens, 24, 64)[0, 1:]
    ours = scheme.embed(tokens[:, 1:], scheme.positions(cells(3, 8)))[0]
    assert_near(ours.detach(), theirs)


@pytest.mark.parametrize("sides", [(3, 8), (22, 1)])
def test_learned_axes_is_that_of_detr(sides: tuple[int, int]) -> None:
    scheme: Any = make("learned_axes")
    module = models("detr").DetrLearnedPositionEmbedding(HEADS * WIDTH // 2)
    for theirs, ours in (
        (module.row_embeddings, scheme.rows),
        (module.column_embeddings, scheme.columns),
    ):
        theirs.weight.data[: len(ours)] = ours.detach()
    shape = torch.Size((1, HEADS * WIDTH, *sides))
    codes = module(shape, "cpu", torch.float32).flatten(2).mT
    ours = scheme.embed(torch.zeros_like(codes), cells(*sides)).detach()
    assert_same(ours, codes)


@pytest.mark.parametrize("side", [7, 8])
def test_fourier_random_2d_is_that_of_sam(side: int) -> None:
    module = models("sam")
    scheme: Any = make("fourier_random_2d")
    scheme.frequencies.mul_(0.2)  # so that rounding of angles is that of numbers
    sizes = SimpleNamespace(scale=1.0, num_pos_feats=HEADS * WIDTH // 2)
    shared = module.SamPositionalEmbedding(sizes)
    shared.positional_embedding.data = scheme.frequencies
    settings = SimpleNamespace(image_embedding_size=side)
    model = SimpleNamespace(
        config=SimpleNamespace(prompt_encoder_config=settings),
        shared_image_embedding=shared,
    )
    theirs = module.SamModel.get_image_wide_positional_embeddings(model)
    places = scheme.positions(cells(side, side))
    ours = scheme.embed(torch.zeros(1, side**2, HEADS * WIDTH), places)
    assert_near(ours, theirs.flatten(2).mT)


@pytest.mark.parametrize("sides", [(3, 8), (6, 6), (1, 5)])
def test_features_of_perceiver_are_those_of_perceiver(sides: tuple[int, int]) -> None:
    scheme: Any = make("perceiver", bands=8, height=7, width=4)
    encoding = models("perceiver").PerceiverFourierPositionEncoding(8, (7, 4))
    theirs = encoding(sides, BATCH, torch.device("cpu"), torch.float32)
    x = normal(BATCH, math.prod(sides), HEADS * WIDTH, seed=5)
    weights = torch.cat([scheme.from_token.weight, scheme.from_place.weight], dim=1)
    beside = torch.cat([x, theirs], dim=-1) @ weights.mT
    ours = scheme.embed(x, scheme.positions(cells(*sides)))
    assert_near(ours.detach(), beside)


@pytest.mark.parametrize("sides", [(3, 8), (22, 1)])
def test_sinusoidal_detr_is_that_of_detr(sides: tuple[int, int]) -> None:
    shape = torch.Size((1, HEADS * WIDTH, *sides))
    sine = models("detr").DetrSinePositionEmbedding(HEADS * WIDTH // 2, normalize=True)
    theirs = sine(shape, "cpu", torch.float32)
    theirs = theirs.flatten(2).mT if theirs.dim() == 4 else theirs
    scheme = make("sinusoidal_detr")
    places = scheme.positions(cells(*sides))
    assert_near(scheme.embed(torch.zeros_like(theirs), places), theirs)


@pytest.mark.parametrize("sides", [(3, 5), (7, 2), (1, 14), (14, 1)])
def test_learned_axial_is_that_of_reformer(sides: tuple[int, int]) -> None:
    settings = load("transformers", "models.reformer").ReformerConfig(
        axial_pos_shape=sides,
        axial_pos_embds_dim=(5, WIDTH - 5),
        hidden_size=WIDTH,
        hidden_dropout_prob=0.0,
    )
    module = models("reformer").AxialPositionEmbeddings(settings)
    rows, columns = sides
    scheme: Any = make("learned_axial", heads=1, rows=rows, columns=columns, channels=5)
    for theirs, ours in zip(module.weights, (scheme.rows, scheme.columns), strict=True):
        theirs.data = ours.detach().reshape(theirs.shape)
    whole = torch.arange(rows * columns).expand(BATCH, -1)  # as in training
    some = torch.stack([whole[0, ::3], whole[0].flip(0)[::3]])
    for training, places in ((True, whole), (False, whole), (False, some)):
        tokens = torch.zeros(*places.shape, WIDTH)
        ours = scheme.embed(tokens, places).detach()
        assert_same(ours, module.train(training)(places).detach())


def test_xpos_is_that_of_x_transformers() -> None:
    angles, scale = x_transformers().RotaryEmbedding(WIDTH, use_xpos=True)(PLACES)
    q = x_transformers().apply_rotary_pos_emb(Q, angles, scale)
    k = x_transformers().apply_rotary_pos_emb(K, angles, scale**-1)
    ours = logits(make("xpos", scale_base=512.0), causal=True)
    assert_near(below_diagonal(ours), below_diagonal(products(q, k)))


@pytest.mark.parametrize("scale_base", [512, 20])
def test_xpos_is_that_of_rotary_embedding_torch(scale_base: int) -> None:
    module = rotary_embedding(dim=WIDTH, use_xpos=True, xpos_scale_base=scale_base)
    q, k = module.rotate_queries_and_keys(Q, K)
    scheme = make("xpos", scale_base=float(scale_base), centre=LENGTH // 2)
    assert_near(scheme.query(Q, PLACES), q)
    assert_near(scheme.key(K, PLACES), k)
    ours = logits(scheme, causal=True)
    assert_near(below_diagonal(ours), below_diagonal(products(q, k)))


# Static biases. Slopes and buckets are compared number by number.

ALIBI_HEADS = [1, 2, 3, 8, 12, 16, 20, 40]


@pytest.mark.parametrize("heads", ALIBI_HEADS)
def test_alibi_is_that_of_bloom(heads: int) -> None:
    mask = torch.ones(1, LENGTH, dtype=torch.long)
    theirs = models("bloom").build_alibi_tensor(mask, heads, torch.float32)
    # Bloom adds slope * key, which is our last row, from the other end.
    ours = bias(make("alibi", heads=heads))[:, -1:]
    assert_near(-ours.flip(-1), theirs, each=True)


@pytest.mark.parametrize("heads", ALIBI_HEADS)
def test_alibi_is_that_of_mpt(heads: int) -> None:
    theirs = models("mpt").build_mpt_alibi_tensor(heads, LENGTH)
    assert_near(bias(make("alibi", heads=heads))[:, -1:], theirs, each=True)


@pytest.mark.parametrize("heads", ALIBI_HEADS)
def test_alibi_is_that_of_x_transformers(heads: int) -> None:
    places = torch.tensor([0, 1, 5, 6, 40, 300])
    theirs = x_transformers().AlibiPositionalBias(heads).forward_custom_pos(places)
    ours = bias(make("alibi", heads=heads), places=places)
    assert_near(ours, theirs, each=True)


def score_grid(score_mod: Any, heads: int) -> Tensor:
    """Return what a score_mod adds, `(heads, query, key)`."""
    head = torch.arange(heads)[:, None, None]
    return score_mod(torch.zeros(()), 0, head, PLACES[:, None], PLACES)


@pytest.mark.parametrize("heads", [1, 2, 8, 16])  # others are not ALiBi's there
def test_alibi_is_that_of_attention_gym(heads: int) -> None:
    theirs = below_diagonal(score_grid(attn_gym().generate_alibi_bias(heads), heads))
    ours = bias(make("alibi", heads=heads, direction="causal"), causal=True)
    assert_near(below_diagonal(ours), theirs, each=True)


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_sandwich_is_that_of_attention_gym(heads: int) -> None:
    theirs = score_grid(attn_gym().generate_sandwich_bias(heads, LENGTH), heads)
    assert_near(bias(make("sandwich", heads=heads)), theirs, each=True)


BUCKETS = [(32, 128), (16, 128), (32, 256), (64, 512), (128, 1024)]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), BUCKETS)
def test_t5_buckets_are_those_of_t5(
    buckets: int, reach: int, bidirectional: bool
) -> None:
    offsets = torch.arange(-2000, 2001)
    theirs = models("t5").T5Attention._relative_position_bucket(
        offsets, bidirectional, buckets, reach
    )
    options = {"buckets": buckets, "max_distance": reach}
    scheme: Any = make("t5_bias", bidirectional=bidirectional, **options)
    assert_same(scheme.buckets(offsets), theirs)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_t5_bias_is_that_of_x_transformers(bidirectional: bool) -> None:
    scheme: Any = make("t5_bias", bidirectional=bidirectional, max_distance=128)
    module = x_transformers().RelativePositionBias(
        scale=1, causal=not bidirectional, heads=HEADS
    )
    module.relative_attention_bias.weight = scheme.table
    theirs = Q @ K.mT + module(LENGTH, LENGTH)  # not divided by sqrt(head_dim)
    assert_near(logits(scheme), theirs)
    far = torch.arange(300)
    assert_same(bias(scheme, places=far), module(300, 300))


def test_swin_is_that_of_transformers() -> None:
    scheme: Any = make("swin", height=2, width=7)
    module = models("swin").SwinRelativePositionBias(HEADS, (2, 7))
    module.relative_position_bias_table = scheme.table
    assert_same(bias(scheme, places=cells(2, 7)), module()[0])


def test_levit_is_that_of_transformers() -> None:
    scheme: Any = make("levit", height=4, width=4)
    module = models("levit").LevitAttention(HEADS * WIDTH, WIDTH, HEADS, 2, 4)
    module.attention_biases = scheme.table
    theirs = module.get_attention_biases(Q.device)
    assert_same(bias(scheme, places=cells(4, 4)), theirs)
    assert module.scale == scheme.scale(WIDTH)


@pytest.mark.parametrize("version", [2, 3])
def test_layoutlm_is_that_of_transformers(version: int) -> None:
    module, name = models(f"layoutlmv{version}"), f"LayoutLMv{version}"
    settings = getattr(module, f"{name}Config")(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, num_hidden_layers=0
    )
    encoder = getattr(module, f"{name}Encoder")(settings)
    scheme: Any = make("layoutlm", scaled=version == 3)
    encoder.rel_pos_x_bias.weight.data = scheme.columns.detach().T
    encoder.rel_pos_y_bias.weight.data = scheme.rows.detach().T
    encoder.rel_pos_bias.weight.data.zero_()  # for the order of reading
    places = torch.randint(1001, (500, 2), generator=torch.Generator().manual_seed(3))
    boxes = places[None, :, [1, 0, 1, 0]]  # left, top, right, bottom
    if version == 3:
        theirs = encoder._compute_position_bias(torch.zeros(1, 500).long(), boxes)
    else:
        theirs = encoder._calculate_2d_position_embeddings(boxes)
    assert_near(bias(scheme, places=places), theirs[0], each=True)


def test_mlp_bias_2d_is_that_of_swin_v2() -> None:
    scheme: Any = make("mlp_bias_2d", height=3, width=5)
    settings = SimpleNamespace(qkv_bias=False, attention_probs_dropout_prob=0.0)
    module = models("swinv2").Swinv2SelfAttention(settings, HEADS, HEADS, (3, 5))
    module.continuous_position_bias_mlp[0] = scheme.rise
    module.continuous_position_bias_mlp[2] = scheme.fall
    table = module.continuous_position_bias_mlp(module.relative_coords_table)
    theirs = table.view(-1, HEADS)[module.relative_position_index.view(-1)]
    theirs = 16 * theirs.view(15, 15, HEADS).permute(2, 0, 1).sigmoid()
    assert_near(bias(scheme, places=cells(3, 5)), theirs)


# Content.


@pytest.mark.parametrize("sides", [(4, 4), (3, 7), (9, 2)])
def test_decomposed_is_that_of_sam(sides: tuple[int, int]) -> None:
    settings = SimpleNamespace(
        image_size=32,
        patch_size=8,
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        attention_dropout=0.0,
        qkv_bias=False,
        use_rel_pos=True,
    )
    module = models("sam").SamVisionAttention(settings, window_size=0)
    scheme: Any = make("decomposed", height=4, width=4)
    count = sides[0] * sides[1]
    q, k = (normal(BATCH, HEADS, count, WIDTH, seed=seed) for seed in (1, 2))
    tables = scheme.rows, scheme.columns
    added = module.get_decomposed_rel_pos(q.flatten(0, 1), *tables, sides, sides)
    theirs = products(q, k) + added.reshape(BATCH, HEADS, count, count)
    session = Session(scheme, cells(*sides), mask=Mask(causal=False))
    assert_near(session.logits(0, q, k).detach(), theirs)


@pytest.mark.parametrize("reach", [1, 5, 20])
def test_shaw_keys_are_those_of_wav2vec2_bert(reach: int) -> None:
    scheme: Any = make("shaw", reach=reach, values=False)
    settings = SimpleNamespace(
        left_max_position_embeddings=reach,
        right_max_position_embeddings=reach,
        distance_embedding=lambda row: scheme.on_keys[row],
        scaling=WIDTH**-0.5,
    )
    module = models("wav2vec2_bert")
    _, added = module._apply_relative_key_position_encoding(settings, Q, K)
    assert_near(logits(scheme), products(Q, K) + added)


DEBERTA_BUCKETS = [(256, 512), (32, 128), (8, 40), (64, 1000)]


@pytest.mark.parametrize(("buckets", "reach"), DEBERTA_BUCKETS)
def test_deberta_buckets_are_those_of_deberta_v2(buckets: int, reach: int) -> None:
    distances = torch.arange(1 - reach, reach)
    module = models("deberta_v2")
    row = module.make_log_bucket_position(distances, buckets, reach) + buckets
    scheme: Any = make("deberta", buckets=buckets, reach=reach)
    assert_same(scheme.rows(distances), row.long().clamp(0, 2 * buckets - 1))


@pytest.mark.parametrize(("buckets", "reach"), [(0, 6), (0, 64), (8, 40)])
def test_deberta_is_that_of_deberta_v2(buckets: int, reach: int) -> None:
    scheme: Any = make("deberta", buckets=buckets, reach=reach)
    config = load("transformers", "models.deberta_v2").DebertaV2Config(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=buckets or -1,
        max_relative_positions=reach,
    )
    module = models("deberta_v2").DisentangledSelfAttention(config)
    with torch.no_grad():
        module.pos_key_proj.weight.copy_(scheme.to_keys.weight)
        module.pos_query_proj.weight.copy_(scheme.to_queries.weight)
        module.pos_key_proj.bias.zero_()
        module.pos_query_proj.bias.zero_()
    q, k = Q.flatten(0, 1), K.flatten(0, 1)
    added = module.disentangled_attention_bias(q, k, None, scheme.table, 3)
    theirs = Q @ K.mT * (3 * WIDTH) ** -0.5 + added.unflatten(0, (BATCH, HEADS))
    assert_near(logits(scheme), theirs)


def test_transformer_xl_is_that_of_xlnet() -> None:
    module = models("xlnet")
    scheme: Any = make("transformer_xl")
    width = HEADS * WIDTH
    inverse = 1 / torch.pow(10_000, torch.arange(0, width, 2) / width)
    distances = torch.arange(LENGTH, -LENGTH, -1.0)
    waves = module.XLNetModel.positional_embedding(distances, inverse)[:, 0]
    rows = scheme.project(waves).unflatten(-1, (HEADS, WIDTH))
    by_row = torch.einsum("bhid,rhd->bhir", Q + scheme.v, rows)
    shifted = module.XLNetRelativeAttention.rel_shift_bnij(by_row, klen=LENGTH)
    theirs = products(Q + scheme.u, K) + shifted * WIDTH**-0.5
    assert_near(logits(scheme), theirs)


def test_transformer_xl_is_that_of_the_conformer() -> None:
    module = models("wav2vec2_conformer")
    scheme: Any = make("transformer_xl")
    width = HEADS * WIDTH
    config = SimpleNamespace(max_source_positions=LENGTH, hidden_size=width)
    embedding = module.Wav2Vec2ConformerRelPositionalEmbedding(config)
    # Its sines and cosines take turns; ours are all sines, then all cosines.
    columns = scheme.project.weight.unflatten(1, (2, -1)).mT.flatten(1)
    layer = SimpleNamespace(
        linear_pos=lambda waves: waves @ columns.T,
        pos_bias_u=scheme.u[:, 0],
        pos_bias_v=scheme.v[:, 0],
        head_size=WIDTH,
        scaling=WIDTH**-0.5,
    )
    waves = embedding(torch.zeros(BATCH, LENGTH, width))
    q, bias = module._apply_relative_position_encoding(layer, Q, K, waves)
    assert_near(logits(scheme), products(q, K) + bias)


@pytest.mark.parametrize("limit", [3, 5, 15])
def test_cope_is_that_of_x_transformers(limit: int) -> None:
    scheme: Any = make("cope", limit=limit)
    module = x_transformers().CoPE(WIDTH, HEADS, limit)
    module.pos_emb = scheme.table
    future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    plain = products(Q, K)
    masked = plain.masked_fill(future, torch.finfo(plain.dtype).min)
    theirs = plain + module(Q, masked)
    ours = logits(scheme, causal=True)
    assert_near(below_diagonal(ours), below_diagonal(theirs))


def test_fox_is_that_of_x_transformers() -> None:
    scheme: Any = make("fox")
    module = x_transformers().DataDependentAlibi(HEADS * WIDTH, HEADS)
    module.to_forget_gates[0].load_state_dict(scheme.gate.state_dict())
    theirs = products(Q, K) + module.double()(X.double())
    ours = logits(scheme, causal=True, state=scheme.token_state(X))
    assert_near(below_diagonal(ours), below_diagonal(theirs))


@pytest.mark.parametrize("reach", [1, 5, 20])
def test_inkling_is_that_of_transformers(reach: int) -> None:
    scheme: Any = make("inkling", reach=reach)
    module = models("inkling").InklingRelativeLogits(16, reach)
    module.proj = scheme.profiles
    mixed = (X @ scheme.mix.weight.T).unflatten(-1, (HEADS, 16))
    theirs = products(Q, K) + module(mixed, PLACES, PLACES)
    assert_near(logits(scheme, state=scheme.token_state(X)), theirs)


@pytest.mark.parametrize("clip", [8.0, 32.0])  # of all, and of some
def test_inkling_with_a_clip_is_that_of_inkling2(clip: float) -> None:
    scheme: Any = make("inkling", reach=5, clip=clip)
    config = SimpleNamespace(hidden_size=64, d_rel=16, rel_l2_clip_threshold=clip)
    bias = models("inkling2").Inkling2RelativePositionBias
    module = bias(config, HEADS, 5, log_scaling=False)
    scale = normal(HEADS, 16, seed=6)
    module.norm.scale = torch.nn.Parameter(scale)
    module.linear.weight = torch.nn.Parameter(
        scheme.mix.weight / scale.flatten()[:, None]
    )
    module.proj = scheme.profiles
    theirs = products(Q, K) + module(X, PLACES[:, None] - PLACES, PLACES)
    ours = logits(scheme, state=scheme.token_state(X))
    assert_near(ours, theirs)


@pytest.mark.parametrize("reach", [1, 5, 20])
def test_inkling_is_that_of_x_transformers(reach: int) -> None:
    scheme: Any = make("inkling", reach=reach)
    bias = x_transformers().RelativeProjPositionalBias
    module = bias(HEADS * WIDTH, HEADS, max_dist=reach)
    linear = module.to_distance_weights[0]
    linear.weight, module.distance_bank = scheme.mix.weight, scheme.profiles
    torch.nn.init.zeros_(linear.bias)
    theirs = products(Q, K) + module(X)
    assert_near(logits(scheme, state=scheme.token_state(X)), theirs)


def test_sink_is_that_of_gpt_oss() -> None:
    scheme: Any = make("sink", scheme="rope")
    module = SimpleNamespace(num_key_value_groups=1, sinks=scheme.logit, training=False)
    values = normal(BATCH, HEADS, LENGTH, WIDTH, seed=3)
    future = torch.zeros(LENGTH, LENGTH).masked_fill(
        torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), -torch.inf
    )
    rope = make("rope")
    turned = rope.query(Q, PLACES), rope.key(K, PLACES)
    theirs, _ = models("gpt_oss").eager_attention_forward(
        module, *turned, values, future, WIDTH**-0.5
    )
    ours = attention(Q, K, values, scheme=scheme, positions=PLACES)
    assert_near(ours.transpose(1, 2), theirs)


# Absolute.


def test_sinusoidal_is_that_of_positional_encodings() -> None:
    x = torch.zeros(BATCH, LENGTH, 64)
    theirs = positional_encodings().PositionalEncoding1D(64)(x)
    assert_near(make("sinusoidal").embed(x, PLACES), theirs)


def test_sinusoidal_2d_is_that_of_positional_encodings() -> None:
    grid = torch.zeros(BATCH, 2, 7, 64)
    theirs = positional_encodings().PositionalEncoding2D(64)(grid).flatten(1, 2)
    # There (axis, pair, sin or cos), row first; here (axis, sin or cos, pair).
    theirs = theirs.unflatten(-1, (2, 16, 2)).flip(-3).mT.flatten(-3)
    scheme = make("sinusoidal_2d", layout="moco_v3")
    ours = scheme.embed(grid.flatten(1, 2), cells(2, 7))
    assert_near(ours, theirs)
