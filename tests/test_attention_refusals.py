"""What attention and a session refuse, in one line that names the cure."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.errors import ConfigError, PosencError, ShapeError
from posenc_compare.schemes import create

ones = torch.ones
IDS = torch.arange(6)
OWN = ones(2, 6).long()  # segments of six tokens
BOTH = {"causal": False}
Rows = list[tuple[dict[str, Any], str]]
"""What is changed, and what is said. A mask is given by its fields."""


def whole(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.int64)


def another(**mask: Any) -> dict[str, Any]:
    """Return changes that make keys another text, under a mask that is not causal."""
    return {"key_positions": IDS + 9, "mask": {**BOTH, **mask}}


# Of positions, tokens without one and masks, a session says the same.
POSITIONS: Rows = [
    ({"positions": IDS.half()}, "numbers, float32 or float64, got torch.float16"),
    ({"positions": IDS.bfloat16()}, "or float64, got torch.bfloat16; float32 would"),
    ({"positions": 1 / IDS}, "positions must be finite, got inf"),
    ({"positions": IDS * math.nan}, "must be finite, got nan; placed, False"),
    ({"placed": IDS}, r"placed must be bool, \(6,\) or .*, got torch.int64; tor"),
    ({"placed": IDS[1:] > 0}, r"placed must be bool, .*, got \(5,\)"),
    ({"placed": [True] * 6}, "placed must be bool, .*, got list"),
]
MASKS: Rows = [
    ({"mask": OWN > 0}, r"of torch.bool; Mask\(segments=mask.long\(\)\) would set"),
    ({"mask": torch.ones(9, 9).tril()}, r"got \(9, 9\).*; Mask\(\) hides later"),
    ({"mask": OWN.int()}, r"got .*32; Mask\(segments=mask\) would set padding"),
    ({"mask": ones(2, 1, 6, 6) > 0}, r"got .* Mask\(causal=..., window=..., prefi"),
    ({"mask": ones(6, 6)}, r"got \(6, 6\) of torch.float32; Mask\(causal=..., win"),
    ({"mask": True}, "mask must be a Mask, got True; Mask"),
    ({"mask": "causal"}, "mask must be a Mask, got causal; Mask"),
]
WITHIN = [  # limits that have a meaning within one text alone
    ({}, "causal=True"),
    ({"window": 3}, "causal=True and window=3"),
    ({**BOTH, "window": 3}, "window=3"),
    ({**BOTH, "window": (None, 3)}, r"window=\(None, 3\)"),
    ({**BOTH, "prefix": 2}, "prefix=2"),
    ({**BOTH, "prefix": torch.tensor([0, 2])}, r"prefix=tensor\(\[0, 2"),
]
LIMITS: Rows = [
    ({"key_positions": IDS + 9, "mask": limits}, f"segments only .* got {got}.*, and ")
    for limits, got in WITHIN
]
SHAPES: Rows = [
    *POSITIONS,
    ({"k": ones(1, 3, 6, 8)}, r"k must be \(2, 3, key, 8\) .*, got \(1, 3, 6"),
    ({"k": ones(2, 3, 6, 4)}, r"attention: k must .*\(2, 3, 6, 4\)"),
    (
        {"k": ones(2, 3, 5, 8)},
        r"without key_positions must be \(5,\) or .*, one for each key, got \(6",
    ),
    (
        {"q": ones(2, 3, 2, 8)},
        r"positions must be \(2,\) or .*, one for each query, got \(6,\)",
    ),
    ({"k": ones(2, 2, 6, 8)}, r"or fewer heads that divide 3, got \(2, 2"),
    ({"v": ones(2, 3, 5, 8)}, r"v must have the batch, heads .*6\), got \(2, 3, 5\)"),
    ({"q": ones(3, 6, 8)}, r"attention: q must .*\(3, 6, 8\)"),
    ({part: ones(2, 6, 3, 8) for part in "qkv"}, "with 6 positions; q.transpose"),
    ({part: ones(2, 3, 1, 8) for part in "qkv"} | {"positions": whole(3)}, r"\(1,\)"),
    (
        {"positions": whole(5)},
        r"must be \(6,\) or \(2, 6\), one .*, got \(5,\)",
    ),
    ({"positions": whole(3, 6)}, r"must be \(6,\) or .* query, got \(3, 6\)"),
    ({"positions": whole(2, 6, 3)}, r"must be \(6,\) or .* query, got \(2, 6, 3\)"),
    ({"positions": torch.tensor(3)}, r"must be \(6,\) or .* query, got \(\)"),
    ({"positions": None}, "positions must be a tensor of whole numbers, got NoneType"),
    ({"positions": [0] * 6}, "positions must be a tensor of whole numbers, got list"),
    ({"positions": ones(6) > 0}, "tensor of whole numbers, got torch.bool"),
    ({"key_positions": whole(7)}, r"key_positions must be \(6,\) or .* got \(7,\)"),
    ({"key_positions": [0] * 6}, "key_positions must be a tensor of .*, got list"),
    ({"key_positions": IDS * 1.0}, "and key_positions must both be whole num"),
    (
        {"scheme": create("rope_2d", heads=3, model_dim=24)},
        r"positions must be \(6, 2\) or .*got \(6,\)",
    ),
    ({"state": ones(2, 12, 1)}, r"state must be \(2, 6, ...\), .*, got \(2, 12, 1\)"),
    ({"scheme": create("alibi", heads=2)}, "alibi: q must have the heads .*, 2, got 3"),
    ({"mask": {"segments": whole(2, 5)}}, r"segments must be \(2, 6\), .*\(2, 5\)"),
    ({"mask": {"segments": ones(2, 6)}}, "mask: segments .* whole .* torch.float32$"),
    ({"mask": {"segments": ones(2, 6) > 0}}, "segments .* numbers, got torch.bool$"),
    ({"mask": {"segments": [[0] * 6] * 2}}, "segments must be a tensor .*, got list$"),
    ({"mask": {"prefix": ones(2)}}, "mask: prefix must be a tensor of whole"),
    ({"mask": {"prefix": ones(3).long()}}, r"one number or \(2,\), .* got \(3,\)"),
    (another(segments=OWN, query_segments=OWN > 0), "query_.* whole .* torch.bool"),
    (
        another(segments=OWN, query_segments=OWN[:, :3]),
        r"query_segments must be \(2, 6\), one for each query, got \(2, 3\)",
    ),
]
CHOICES: Rows = [
    *MASKS,
    *LIMITS,
    ({"positions": IDS.flip(0), "key_positions": IDS}, "causal=False\\) would work$"),
    ({"key_positions": torch.stack([IDS, IDS + 1])}, "must have segments only"),
    ({"k": ones(2, 3, 4, 8), "v": ones(2, 3, 4, 8), "key_positions": IDS[:4]}, "only"),
    (
        {"q": ones(2, 3, 1, 8), "positions": IDS[3:4], "key_positions": IDS},
        "of a cache with empty slots, pass the filled ones alone",
    ),
    ({"mask": None}, "attention: mask must be a Mask, got None; Mask"),
    ({"path": "quick"}, "path 'quick' cannot serve alibi here; strided or dense or pl"),
    ({"path": "logits"}, "attention: path 'logits' cannot serve alibi here"),
    ({"scheme": "alibi"}, "what `create` returns, got 'alibi'"),
    ({"scheme": create("fox", heads=3, model_dim=24)}, "^fox: needs the state"),
    (
        {"scheme": create("alibi:direction=causal", heads=3), "mask": BOTH},
        "alibi: needs a causal mask, got causal=False",
    ),
    ({"mask": {"causal": 1}}, "mask: causal must be True or False, got 1; bool"),
    (
        {"mask": {"causal": torch.ones(2, 5).long()}},
        r"causal must be True or False, got \(2, 5\) of torch.int64; Mask\(segments=",
    ),
    ({"mask": {"window": 0}}, "window must be a whole number from 1, .* got 0"),
    ({"mask": {"window": (4, -1)}}, "window must be .* from 1, or None, got -1"),
    ({"mask": {"window": ()}}, "mask: window must have an entry"),
    ({"mask": {"window": True}}, "mask: window must be .* got True"),
    ({"mask": {"prefix": -1}}, "mask: prefix must be at least 0, got -1"),
    (another(segments=whole(2, 6) + IDS), "got several; query_segments would work$"),
    (another(segments=whole(2, 6)), "got 0 alone; query_segments would work$"),
    (another(query_segments=OWN), "query_segments must come with .* keys, got none; "),
    (
        {"mask": {"segments": OWN, "query_segments": OWN}},
        "causal=True, and the mask has query_segments",
    ),
]


def masked(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is given, with a mask where there are the fields of one."""
    fields = given.get("mask")
    return {**given, "mask": Mask(**fields)} if isinstance(fields, dict) else given


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *((change, ShapeError, message) for change, message in SHAPES),
        *((change, ConfigError, message) for change, message in CHOICES),
    ],
)
def test_attention_refuses(
    change: dict[str, Any], error: type[PosencError], message: str
) -> None:
    given: dict[str, Any] = {part: ones(2, 3, 6, 8) for part in "qkv"}
    given |= {"scheme": create("alibi", heads=3, model_dim=24), "positions": IDS}
    attention(**given)  # nothing else is wrong
    with pytest.raises(error, match=message) as caught:
        attention(**masked({**given, **change}))
    assert "\n" not in str(caught.value)


T5, ROPE = create("t5_bias"), create("rope")
LONG = torch.arange(16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *POSITIONS,
        *MASKS,
        *LIMITS,
        *(({"schemes": s}, "one scheme or several") for s in ([], ["rope"], "rope")),
        ({"schemes": T5, "positions": IDS.double()}, "a tensor of whole numbers"),
        ({"schemes": [ROPE, T5], "positions": IDS * 1.0}, "for t5_bias, .*; rope and"),
        ({"schemes": create("rope_2d")}, r"be \(seq, 2\) or .* rope_2d, got \(6,\)"),
        *(
            ({"mask": {"segments": whole(2, n)}, "fed": fed}, r"be \(batch, 6\), one")
            for n, fed in ((5, None), (7, None), (5, 0), (7, 0), (5, 2), (7, 2))
        ),
        (
            {**another(segments=OWN), "key_positions": LONG},
            r"segments must be \(batch, 16\), one .*, got \(2, 6\)",
        ),
        (
            another(segments=OWN, query_segments=OWN[:, 1:]),
            r"query_segments must be \(batch, 6\), one for each token, got \(2, 5",
        ),
    ],
)
def test_a_session_refuses(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"schemes": ROPE, "positions": IDS}
    Session(**given)  # nothing else is wrong
    with pytest.raises(
        PosencError, match=f"^(session|attention): .*{message}"
    ) as caught:
        Session(**masked({**given, **change}))
    assert "\n" not in str(caught.value)


def test_no_more_tokens_than_planned_are_fed() -> None:
    session = Session(ROPE, IDS, fed=4)
    message = "session: extend must have at most the 2 tokens left of 6, got 3"
    with pytest.raises(ShapeError, match=message):
        session.extend(3)
