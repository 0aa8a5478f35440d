"""A trained scheme, read by another, against the two by themselves."""

from typing import Any

import pytest
import torch
from schemes.tools import build, vectors

from posenc_compare.attention import attention
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.reread import Reread
from posenc_compare.variants import labelled

LENGTH = 16
SIZES: dict[str, Any] = {"model_dim": 12, "heads": 2, "length": LENGTH}
LONG = torch.arange(2 * LENGTH)


def make(**options: object) -> Reread:
    return build(Reread, options, **SIZES)


def read(scheme: Scheme) -> torch.Tensor:
    q, k, v = vectors(1, 2, len(LONG), 6)
    return attention(q, k, v, scheme=scheme, positions=LONG)


@pytest.mark.parametrize("inside", ["rope", "alibi", "nope"])
def test_what_is_trained_is_the_scheme_inside(inside: str) -> None:
    assert torch.equal(read(make(scheme=inside)), read(create(inside, **SIZES)))


def test_a_longer_text_is_read_without_positions() -> None:
    readers = make().schemes_for_length(len(LONG))
    assert torch.equal(read(readers["nope"]), read(create("nope", **SIZES)))
    assert (read(readers["nope"]) - read(make())).abs().max() > 1e-2


def test_the_readings_of_both_stay() -> None:
    rope = create("rope", **SIZES).schemes_for_length(len(LONG))
    by = labelled("self_extend:group=1")  # which a longer text needs to regroup
    other = create(by.name, options=by.options, **SIZES).schemes_for_length(len(LONG))
    further = {f"{by.label}, {name}": reader for name, reader in other.items()}
    readers = make(by=by).schemes_for_length(len(LONG))
    assert rope
    assert further
    assert [*readers] == [*rope, by.label, *further]
    for name, reader in {**rope, **further}.items():
        assert torch.equal(read(readers[name]), read(reader))
        assert not torch.equal(read(readers[name]), read(readers[by.label]))


def test_a_reader_brings_no_parameters() -> None:
    message = "reread: by must have no parameters, .* got t5_bias with 64"
    with pytest.raises(ConfigError, match=message):
        make(by="t5_bias")


def test_axes_other_than_one_are_refused() -> None:
    for option in ("scheme", "by"):
        with pytest.raises(ConfigError, match="positions of 2 axes, got 1"):
            make(**{option: "alibi_2d"})
