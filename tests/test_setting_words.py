"""What all records of a plot share, in words."""

from typing import Any

from support.records import curve, labelled

from posenc_compare.show.setting import short_setting


def test_sizes_that_all_share_are_named() -> None:
    sizes: dict[str, Any] = {"layers": 2, "heads": 4, "steps": 7}
    made = [
        curve("rope", [1.0, 2.0], **sizes, batch=batch, seed=batch) for batch in (1, 2)
    ]
    for body in made:
        body["corpus"] = {"name": "a_book"}
    words = short_setting(labelled(made))
    assert "2 layers, width 32, 4 heads, training length 8, 7 steps" in words
    assert "batches" not in words
    assert "text: a_book" in words


def test_what_is_unusual_is_named() -> None:
    made = [curve("rope", [1.0], norm="rms", lengths="published", scheme_rate=3.4)]
    made[0]["spec"]["setting"]["dtype"] = "bfloat16"
    words = short_setting(labelled(made))
    assert "norm: rms, published numbers of positions, rate of" in words
    assert ", in bfloat16" in words
    usual = [curve("rope", [1.0], norm="layer", lengths="scaled", scheme_rate=0.0)]
    usual[0]["spec"]["setting"]["dtype"] = "float32"
    words = short_setting(labelled(usual))
    assert not any(word in words for word in ("norm", "scaled", "rate of"))
