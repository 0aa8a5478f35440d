"""The portrait's arrays against direct computation."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from support.schemes import SEQUENCE

from posenc_compare.errors import ConfigError
from posenc_compare.measures import portrait as measure
from posenc_compare.measures.portrait import portrait
from posenc_compare.measures.probe import Probe
from posenc_compare.run.compute import round_array
from posenc_compare.schemes import SCHEMES, Variant
from posenc_compare.settings.canonical import canonical
from posenc_compare.train.progress import Progress

PROBE = Probe(width=32, heads=4, positions=64)
LIMIT = 1 << 20  # bytes of a record


def arrays_of(name: str, probe: Probe = PROBE, **options: object) -> dict[str, Any]:
    return portrait(Variant(name, options), probe, Progress()).arrays


@pytest.mark.parametrize("name", SEQUENCE)
def test_every_scheme_has_a_portrait_that_fits_into_a_record(name: str) -> None:
    probe = Probe(dtype="bfloat16", heads=8)
    arrays = {key: round_array(array) for key, array in arrays_of(name, probe).items()}
    assert len(canonical(arrays)) < LIMIT
    assert not SCHEMES.get(name).family == "none" or not arrays
    shapes = {key: np.array(array, dtype=float).shape for key, array in arrays.items()}
    wanted = {
        "code": (128, 512),
        "code_small": (16, 32),
        "bias_map": (8, 48, 48),
        "bias_heads": (8,),
        "angles": (64, 3 if name == "rope_latent" else 8),  # a third of the channels
        "similarity": (128,),
    }
    assert shapes == {key: wanted[key] for key in shapes}


def test_sinusoidal_code_is_sine_and_cosine() -> None:
    arrays = arrays_of("sinusoidal")
    for name, width in (("code", 512), ("code_small", 32)):
        for position in (0, 1, 7, 15):
            row = arrays[name][position]
            for m in (0, 1, width // 2 - 1):
                angle = position * 10_000 ** (-m / (width / 2))
                assert row[2 * m] == pytest.approx(math.sin(angle), abs=1e-4)
                assert row[2 * m + 1] == pytest.approx(math.cos(angle), abs=1e-4)


def test_codes_stand_where_the_scheme_places_them() -> None:
    still: dict[str, Any] = {"global_shift": 0.0, "local_shift": 0.0, "scaling": 1.0}
    centred = arrays_of("cape", centred=True, **still)["code_small"]
    for position, row in enumerate(centred):
        assert row[0] == pytest.approx(math.sin(position - 7.5), abs=1e-4)
    drawn = arrays_of("randomized", longest=2048)["code_small"]
    ids = torch.randperm(2048, generator=PROBE.generator("ids"))[:16].sort().values
    for place, row in zip(ids.tolist(), drawn, strict=True):
        assert row[0] == pytest.approx(math.sin(place), abs=1e-4)
    near = arrays_of("randomized", scheme="rope")["similarity"][1]
    assert near < arrays_of("rope")["similarity"][1] - 0.1  # neighbours lie apart


def test_bias_map_of_alibi_is_minus_slope_times_distance() -> None:
    bias = np.array(arrays_of("alibi")["bias_map"])
    distance = np.abs(np.arange(48)[:, None] - np.arange(48))
    for head, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):
        assert bias[head] == pytest.approx(-slope * distance, rel=1e-3)


def test_bias_map_hides_the_future_of_a_causal_scheme() -> None:
    arrays = arrays_of("alibi", direction="causal")
    bias = np.array(round_array(arrays["bias_map"]), dtype=float)
    assert (np.isnan(bias) == np.triu(np.ones((48, 48), dtype=bool), 1)).all()


def test_bias_map_keeps_heads_spread_over_all() -> None:
    arrays = arrays_of("alibi", Probe(width=64, heads=16))
    assert arrays["bias_heads"] == [0, 2, 4, 6, 9, 11, 13, 15]
    slopes = [-(2 ** (-8 * (head + 1) / 16)) for head in arrays["bias_heads"]]
    assert [head[1][0] for head in arrays["bias_map"]] == pytest.approx(
        slopes, rel=1e-3
    )
    grid = Probe(width=64, heads=16, positions=6, grid="2x3")
    assert arrays_of("alibi_2d", grid)["bias_heads"] == arrays["bias_heads"]


def test_bias_map_is_built_for_its_own_size() -> None:
    small, own = (Probe(width=32, heads=4, positions=n) for n in (16, 48))
    maps = [arrays_of("fire", probe)["bias_map"] for probe in (small, own)]
    assert maps[0] == maps[1]


def test_similarity_of_rope_is_the_mean_cosine_of_its_angles() -> None:
    arrays = arrays_of("rope")
    speeds = [10_000 ** -(pair / 4) for pair in range(4)]
    slow = [sum(math.cos(o * w) for w in speeds) / 4 for o in range(128)]
    assert arrays["similarity"] == pytest.approx(slow, abs=1e-3)


def test_similarity_is_the_mean_over_heads_and_positions_that_have_a_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One head has 0, 1, 2, ... in a channel, the other one 2, -2, 2, ...
    place = torch.arange(256.0)
    signs = 2 * (-1.0) ** place
    codes = torch.stack([torch.stack([place, 0 * place], 1), signs.repeat(2, 1).T])
    draw = lambda count: codes[:, :count].double()  # noqa: E731
    monkeypatch.setattr(measure, "_coded", lambda *_: draw)
    found = arrays_of("nope")["similarity"]
    odd, even = (127 - 128) / 255, 1.0  # position 0 of the first head is zero
    assert found[:3] == pytest.approx([even, odd, even], abs=1e-6)
    assert found[126:] == pytest.approx([1.0, (128 - 1 - 128) / 255], abs=1e-6)


def test_arrays_are_those_of_float64_and_of_any_number_of_heads() -> None:
    wide = arrays_of("sinusoidal", Probe(width=36, heads=3, positions=64))
    assert wide.keys() == {"code", "code_small", "similarity"}
    for name in ("sinusoidal", "alibi", "rope"):
        half = Probe(width=32, heads=4, positions=64, dtype="bfloat16")
        assert arrays_of(name, half) == arrays_of(name)


def test_a_size_that_fails_leaves_the_other_arrays() -> None:
    arrays = arrays_of("binary", Probe(width=4, heads=1))  # no room for 9 bits
    assert set(arrays) == {"code", "code_small"}


def test_a_scheme_that_comes_in_no_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="bits must be from 0 to 62"):
        arrays_of("binary", bits=63)
