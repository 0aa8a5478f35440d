"""What a scheme refuses: options, sizes and positions, each in one line."""

from typing import Any

import pytest
import torch
from schemes.tools import seeded

from posenc_compare.attention import Session
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes import Geometry, Scheme
from posenc_compare.variants import labelled

SIZES: dict[str, Any] = {"model_dim": 16, "heads": 2, "head_dim": 8, "length": 64}
ON_GRIDS = ["com_rope", "decomposed", "fourier_random_2d", "learned_2d"]
ON_GRIDS += ["learned_axes", "levit", "lie_re", "mlp_bias_2d", "perceiver"]
ON_GRIDS += ["rope_dinov3", "rope_pixel", "sinusoidal_detr", "swin"]
# What the option of a label must be, and is not.
MUST_BE = {
    "at least 1": (
        "bilevel:places=-1 cope:limit=-2 dape:width=0 erpe:length=-1 "
        "fourier_learned:hidden=0 inkling:rank=0 learned:length=-1 "
        "learned_axial:columns=-1 learned_axial:rows=-1 learned_hierarchical:length=-1 "
        "log_length:floor=0 mix:every=0 mlp_bias:hidden=0 mlp_bias_2d:hidden=0 "
        "mr_rope:factor=0.5 path:rank=0 perceiver:bands=0 pose:target=-1 "
        "randomized:longest=-1 randomized_distance:longest=-1 repo:hidden=-1 "
        "selective_rope:rank=0 self_extend:group=0 shape:reach=0 shaw:reach=0 "
        "tape:length=-1 tisa:kernels=0 tupe:length=-1"
    ),
    "greater than 0": (
        "bilevel:base=0 fire:c=0 fire:hidden=0 fire:threshold=-1 "
        "fourier_learned:gamma=0.0 fourier_random:sigma=0.0 "
        "fourier_random_2d:sigma=0.0 repo:base=0 rope:base=0 rope_dinov3:base=0 "
        "rope_pixel:max_freq=0.0 rope_resonance:base=0 sandwich:base=0 "
        "selective_rope:base=0 sinusoidal:base=0 sinusoidal_2d:base=0 "
        "sinusoidal_detr:base=0.0 tapa:power=0.0 tape:base=0"
    ),
    "0 or more": (
        "bilevel:std=-1 bilevel:steepness=-1 deberta:reach=-1 fope:gain=-0.1 "
        "fox:std=-1 inkling:clip=-0.5 inkling:reach=-1 learned:std=-1 "
        "learned_2d:std=-1 learned_axial:std=-1 learned_hierarchical:std=-1 "
        "transformer_xl:clamp=-1"
    ),
    "even and at least 2": (
        "fourier_learned:features=-2 fourier_learned:features=3 grape_ap:width=0 "
        "grape_ap:width=3 sandwich:d_bar=0 sandwich:d_bar=7 "
        "sinusoidal_concat:channels=-2 sinusoidal_concat:channels=3"
    ),
    "at least 0": (
        "dual_chunk:chunk=-1 dual_chunk:local=-1 lookhere:slope=-1.0 mix:window=-1 "
        "rerope:window=-1 self_extend:window=-1 string_rope:shift=-1"
    ),
    "in [0, 1]": (
        "p_rope:fraction=-0.1 p_rope:fraction=1.1 rope_clipped:share=-0.1 "
        "rope_clipped:share=1.1"
    ),
    "from 0 to 1": "rerope:leak=-0.1 rerope:leak=1.5 rope_golden:fraction=1.1",
    "greater than 1": "ca_rope:base=1 mr_rope:base=1",
    "from 0 to 62": "binary:bits=-1 binary:bits=63",
    "from 1 to 15": "learned_axial:channels=-1 learned_axial:channels=16",
    "at least 0.5, or 0 for the default": "irpe:ratio=-1.0 irpe:ratio=0.4",
    "even and at least 4": "layoutlm:buckets=2 layoutlm:buckets=7",
    "in (0, 1]": "rope_latent:fraction=0.0 rope_latent:fraction=1.1",
    "from 0 to shift=21": "string_rope:window=-1 string_rope:window=22",
    "between 0 and 1": "tapa:share=0.0 tapa:share=1.0",
    "at least 7": "hope:length=6",
    "at least 2 a side and split evenly": "t5_bias:buckets=1",
    "at least -1": "xpos:centre=-2",
}
# A label, and words that the line has.
OPTIONS = [
    *(
        (label, f"{option} must be {wanted}, got {value}")
        for wanted, labels in MUST_BE.items()
        for label in labels.split()
        for option, value in [label.partition(":")[2].split("=")]
    ),
    ("bam:exponent=nan", "exponent must be a finite number"),
    ("cape:global_shift=-1", "shifts must be at least 0"),
    ("cape:local_shift=-0.1", "shifts must be at least 0"),
    ("cape:scaling=0.9", "shifts must be at least 0"),
    ("com_rope:block=1", "block must be at least 2 and divide head_dim, got 1 and 8"),
    ("com_rope:block=3", "block must be at least 2 and divide head_dim, got 3 and 8"),
    ("com_rope:block=8;kind=ap", "block must divide half of head_dim, got 8 and 8"),
    ("dape:base=rope", "base must be a scheme that adds a bias and "),
    ("dape:base=alibie", "unknown scheme 'alibie'; did you mean alibi"),
    ("deberta:buckets=2;reach=10", "buckets must be even, at least 4 and less than "),
    ("deberta:buckets=7;reach=10", "buckets must be even, at least 4 and less than "),
    ("deberta:buckets=18;reach=10", "buckets must be even, at least 4 and less than "),
    ("dual_chunk:chunk=6;far=8;local=4", "far must be 0 or at least 9, "),
    ("dual_chunk:chunk=3;far=4;local=7", "far must be 0 or at least 5, "),
    ("dual_chunk:far=-1", "far must be 0 or at least 47, "),
    *(
        (f"learned_hierarchical:alpha={alpha}", f"and not 0.5, got {alpha}; 0.4 would")
        for alpha in (0.0, 0.5, 1.0, -0.4)
    ),
    ("layoutlm:max_distance=16", "must exceed the 16 exact buckets, got 16"),
    ("mix:second=sinusoidal", "must act inside the layers, got sinusoidal"),
    ("mix:every=1;first=shape", "must act inside the layers, got shape"),
    ("nope:base=1", "no option 'base'; it takes none"),
    ("randomized:scheme=rope_2d", "needs positions of 2 axes"),
    ("randomized_distance:scheme=rope", "must have a bias of the offset alone "),
    ("randomized_distance:scheme=mlp_bias", "one instance for all layers, got mlp"),
    ("rope:fraction=0.1", "(0, 1] and rotate at least one pair of 8 channels"),
    ("rope:fraction=1.5", "(0, 1] and rotate at least one pair of 8 channels"),
    ("rope_2d:base=-1;kind=mixed", "base must be greater than 0, got -1.0"),
    ("rope_dinov3:jitter=0.5", "must be at least 0, jitter and rescale at least 1"),
    ("rope_dinov3:rescale=0", "must be at least 0, jitter and rescale at least 1"),
    ("rope_golden:slowest=0", "slowest must be greater than 0 and at most fastest"),
    ("rope_golden:slowest=30", "slowest must be greater than 0 and at most fastest"),
    ("rope_pixel:kind=eva_02;base=0", "base must be greater than 0, got 0.0"),
    ("rope_dinov3:shift=-1", "must be at least 0, jitter and rescale at least 1"),
    ("rope_latent:scaling=yarn", "scaling=yarn must have a factor, got none; "),
    ("sink:scheme=stick_breaking", "must not replace the softmax, got stick_breaking"),
    ("t5_bias:bidirectional=true;buckets=7", "a side and split evenly, got 7"),
    ("t5_bias:max_distance=16", "must exceed the 16 exact buckets, got 16"),
    ("t5_bias:bidirectional=true;max_distance=8", "exceed the 8 exact buckets, got 8"),
    ("tupe:relative=rope", "that adds a bias of the offset and nothing else"),
    ("wavelet:scales=-1", "scales must be from 1 to 64 and"),
    ("wavelet:scales=3", "scales must be from 1 to 64 and"),
    ("xpos:gamma=0", "gamma and scale_base must be above 0, got 0.0 and "),
    ("xpos:scale_base=-1", "gamma and scale_base must be above 0, got 0.4 and -1.0"),
    *(
        (f"{name}:{side}=-1", f"{side} must be at least 1, got -1")
        for name in ON_GRIDS
        for side in ("height", "width")
    ),
    # Rules that scale rope.
    ("rope:scaling=yarn", "scaling=yarn must have a factor, got none; factor=4 would"),
    ("rope:factor=0.5;scaling=pi", "factor must be at least 1, got 0.5"),
    ("rope:factor=4;scaling=pi;truncate=false", "truncate must not be given with "),
    ("rope:attention=-1;factor=4;scaling=yarn", "0 is as published, got -1.0"),
    ("rope:alpha=0;factor=4;scaling=yarn", "above 0 and below beta, got 0.0 and 32.0"),
    ("rope:alpha=32;factor=4;scaling=yarn", "0 and below beta, got 32.0 and 32.0"),
    ("rope:factor=4;original=-1;scaling=yarn", "must be at least 1, or 0 for"),
    ("rope:factors=1/2;scaling=longrope", "must hold one number for each of 4 pairs"),
    ("rope:factors=1/two;scaling=longrope", "must be positive numbers parted by /"),
    ("rope:factors=1/0;scaling=longrope", "must be positive numbers parted by /"),
    ("rope:factor=4;original=1;scaling=longrope", "an original length of 2, got 1"),
    ("rope:base=1;factor=2;scaling=yarn", "yarn needs a base above 1, got 1.0"),
]
# Sizes that differ from `SIZES`, a label, and words that the line has.
GEOMETRIES = [
    *(
        ({"head_dim": 16}, f"m_rope:order={order};sections={sections}", said)
        for order, sections, said in (
            ("sections", "2/3/4", "got 2 / 3 / 4"),
            ("sections", "2/6", "got 2 / 6"),
            ("sections", "2/2/2/2", "got 2 / 2 / 2 / 2"),
            ("sections", "0/4/4", "got 0 / 4 / 4"),
            ("sections", "2/x/6", "got 2 / 0 / 6"),
            # Interleaved has every third pair for each, so at most 3 of 8.
            ("interleaved", "2/3/3", "8 in all and in reach of the order interleaved"),
            # Height and width take turns.
            ("time_last", "2/4/2", "8 in all and in reach of the order time_last"),
        )
    ),
    ({"head_dim": 4}, "m_rope", "head_dim must be at least 6, "),
    ({"head_dim": 6}, "rope_2d", "head_dim must be a multiple of 4, got 6"),
    ({"head_dim": 6}, "rope_dinov3", "head_dim must be a multiple of 4, got 6"),
    ({"head_dim": 6}, "rope_pixel", "head_dim must be a multiple of 4, got 6"),
    ({"head_dim": 12}, "rope:fraction=0.25", "fraction * head_dim must be even, got 3"),
    ({"head_dim": 2}, "fope", "to leave one pair above the floor, got 64 and 2"),
    ({"length": 6}, "fope", "to leave one pair above the floor, got 6 and 8"),
    ({"length": 6}, "hope", "length must be at least 7, got 6"),
    ({"head_dim": 65}, "wavelet:scales=65", "scales must be from 1 to 64 and"),
    ({"head_dim": 1}, "tapa", "head_dim must be at least 2, got 1"),
    ({"length": 1}, "log_length:rule=log", "log needs a length of at least 2, got 1"),
    ({"length": 1}, "rerope:stretched=true", "stretched needs a length of at"),
    ({"model_dim": 1}, "learned_axial", "model_dim must be at least 2, got 1"),
    ({"head_dim": 7}, "bilevel", "head_dim must be even, got 7; 8 would work"),
    ({"model_dim": 9}, "fourier_random", "model_dim must be even, got 9"),
    ({"model_dim": 9}, "fourier_random_2d", "must be even, got 9; 10 would work"),
    ({"model_dim": 9}, "learned_axes", "model_dim must be even, got 9; 10 would work"),
    ({"model_dim": 9}, "transformer_xl", "model_dim must be even, got 9"),
    ({"heads": 3}, "selective_rope", "heads must divide model_dim, got 3 and 16"),
    *(
        ({"head_dim": 2}, f"rope:factor=2;scaling={rule}", f"{rule} needs at least 2")
        for rule in ("ntk", "ntk_dynamic", "longrope")
    ),
]
CASES = [*(({}, *case) for case in OPTIONS), *GEOMETRIES]


def read(scheme: Scheme, ids: torch.Tensor) -> None:
    """Embed tokens at positions, and attend to them."""
    sizes = scheme.geometry
    x = torch.zeros(1, len(ids), sizes.model_dim)
    q = torch.zeros(1, sizes.heads, len(ids), sizes.head_dim)
    session = Session(scheme, ids[None], generator=seeded())
    session.embed(x)
    session.attend(0, q, q, q, x=x)


@pytest.mark.parametrize(("sizes", "label", "words"), CASES, ids=str)
def test_what_a_scheme_refuses_is_told_in_one_line(
    sizes: dict[str, int], label: str, words: str
) -> None:
    def build() -> None:
        scheme = labelled(label).build(Geometry(**{**SIZES, **sizes}))
        axes = scheme.facts.axes
        place = 0 if axes == 1 else [0] * axes
        read(scheme, torch.tensor([place, place]))

    with pytest.raises(ConfigError) as caught:
        build()
    said = str(caught.value)
    assert words in said
    assert said.startswith(f"{label.partition(':')[0]}: ")
    assert "\n" not in said


# A label, positions, and how the line begins.
PLACES: list[tuple[str, Any, str]] = [
    ("binary", [0, 64], "binary: positions must be from 0 to 63, got 64"),
    ("erpe", [0, 64], "erpe: distances must be from 0 to 63, got 64; `length=65` "),
    ("erpe:length=7", [9, 2], "erpe: distances must be from 0 to 6, got 7; "),
    ("learned", [0, -1], "learned: positions must be from 0 to 63, got -1"),
    ("learned", [0, 64], "learned: positions must be from 0 to 63, got 64"),
    *(
        ("learned_axes:height=7;width=5", [[1, 1], cell], f"{said} {most}, got {got}")
        for said in ("learned_axes: positions must be from 0 to",)
        for cell, most, got in (([-1, 0], 6, -1), ([7, 0], 6, 7), ([6, 5], 4, 5))
    ),
    *(
        (f"bilevel:between={between}", [[0, 0], [3, place]], f"{said} got {place}")
        for said in ("bilevel: positions must be from 0 to 63,",)
        for between in ("rope", "alibi")
        for place in (-1, 64)
    ),
    ("learned_axial", [0, -1], "learned_axial: positions must be from 0 to 63, got -1"),
    ("learned_axial", [0, 64], "learned_axial: positions must be from 0 to 63, got 64"),
    *(
        ("learned_hierarchical:length=9", [0, place], f"{said} got {place}")
        for said in ("learned_hierarchical: positions must be from 0 to 80,",)
        for place in (-1, 81)
    ),
    ("randomized:longest=8", range(9), "randomized: positions must be from 0 to 7, "),
    ("randomized:longest=2048;scheme=learned", range(9), "learned: positions must be "),
    ("randomized_distance:longest=8", range(9), "randomized_distance: positions must "),
    ("shape:scheme=learned", range(60), "learned: positions must be from 0 to 63, "),
    ("tupe", [0, 64], "tupe: positions must be from 0 to 63, got 64"),
    *(
        (
            f"{name}:height=3;width=4",
            [[5, 5], [5 + row, 5 + column]],
            f"{name}: {axis} between two cells must be from 0 to {most}, got {apart}; ",
        )
        for name in ("levit", "swin")
        for row, column, axis, most, apart in (
            (3, 0, "rows", 2, 3),
            (-4, 0, "rows", 2, 4),
            (0, 4, "columns", 3, 4),
            (1, -6, "columns", 3, 6),
        )
    ),
]


@pytest.mark.parametrize(("label", "places", "words"), PLACES, ids=str)
def test_positions_without_a_number_are_refused(
    label: str, places: Any, words: str
) -> None:
    scheme = labelled(label).build(Geometry(**SIZES))
    with pytest.raises(UndefinedPositionError) as caught:
        read(scheme, torch.tensor([*places]))
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
