"""Faults in schemes: those that conformance sees, and those that it cannot know.

Whether a formula is that of the paper, only the scheme's own tests can tell.
"""

from pathlib import Path

from planted import Fault

FILES = (
    "schemes/*.py",
    "schemes/shared/*.py",
)


def fault(file: str, name: str, old: str, new: str, label: str = "") -> Fault:
    """Return a fault that conformance sees, and behind it the scheme's own tests."""
    label = label or file
    return Fault(
        f"schemes/{file}.py", name, old, new, f"tests/schemes/test_{label}.py", label
    )


def formula(
    file: str,
    name: str,
    old: str,
    new: str,
    test: str = "equals_the_slow_reference",
    scheme: str = "",
) -> Fault:
    """Return a fault that makes another scheme of it, as sound as the right one."""
    tests = f"tests/schemes/test_{scheme or Path(file).name}.py::test_{test}"
    return Fault(f"schemes/{file}.py", name, old, new, tests)


ROTATION, ONCE = "shared/rotation", "once(self, what, positions"
POSITIONS, HEAT = "positions[..., None]", "0.1 * math.log(self.factor) + 1"
SPEEDS, LOGITS = (
    f"{what}_equal_the_slow_reference" for what in ("frequencies", "logits")
)
NOW, THEN = "here[b, i, h]", "there[b, j, h]"

FAULTS = [
    # What rotates
    fault(ROTATION, "key's sign", "(k, positions", "(k, -positions", "rope"),
    formula(
        ROTATION,
        "sign of rotation",
        "factor), angles",
        "factor), -angles",
        scheme="rope",
    ),
    formula(
        ROTATION,
        "a table for all positions",
        ONCE,
        "once(self, what, call.q_positions",
        "a_table_is_made_once",
    ),
    fault(
        "rope", "cast before multiply", f"{POSITIONS}.d", f"{POSITIONS}.bfloat16().d"
    ),
    formula(
        "shared/frequencies",
        "exponent",
        "=device) / pairs",
        "=device) * 2 / pairs",
        scheme="rope",
    ),
    fault(ROTATION, "dtype lost", "rotated.to(x.dtype)", "rotated", "rope"),
    formula("p_rope", "slow pairs kept", "self.kept :] = 0", ": self.kept] = 0"),
    formula("xpos", "exponent's sign", ".double() / self.s", ".double() / -self.s"),
    fault("xpos", "keys grow too", "self.shrinking)", "self.growing)"),
    formula("fope", "the other pad", 'pad == "official"', 'pad == "paper"'),
    formula("rope_2d", "row for column", 'self.first == "w"', 'self.first == "h"'),
    formula(
        "shared/scaling", "ramp inverted", "1 - share.clamp", "share.clamp", SPEEDS
    ),
    formula("shared/scaling", "temperature squared", HEAT, f"({HEAT}) ** 2", LOGITS),
    # What is added to tokens
    formula(
        "sinusoidal", "sine for cosine", ".sin(), angle.cos(", ".cos(), angle.sin("
    ),
    formula("sinusoidal", "base forgotten", "shape[-1]), self.base", "shape[-1]), 1e4"),
    # What is added to logits
    formula("alibi", "slopes reversed", "(geometry.heads)", "(geometry.heads)[::-1]"),
    formula("alibi", "far for near", "return -slope[:, None]", "return slope[:, None]"),
    formula(
        "t5_bias",
        "bucket edge",
        "right=True",
        "right=False",
        "buckets_equal_exact_fractions",
    ),
    fault("t5_bias", "future for past", "(-offsets).clamp", "offsets.clamp"),
    formula("sandwich", "start", 'indices == "from_one"', 'indices == "from_zero"'),
    formula("shaw", "clip off by one", ".clamp(-self.reach,", ".clamp(1 - self.reach,"),
    # What looks at the text
    formula("deberta", "the other index", 'index == "code"', 'index == "paper"'),
    fault("deberta", "query for key", "column.mT)", "column)"),
    formula("cope", "no diagonal", ".flip(-1).clamp(", ".flip(-1).sub(gates).clamp("),
    fault("cope", "future counted", ".sigmoid() * call.keep()", ".sigmoid()"),
    formula("fox", "gates reward", f"{NOW} - {THEN}", f"{THEN} - {NOW}"),
    fault("fox", "cached state ignored", "before + total", "total"),
    fault("path", "cached keys ignored", ".tril(call.past - start)", ".tril(-start)"),
    # Readers of long texts
    fault("string_rope", "no window", "self.shift + self.window", "self.shift"),
    fault("dual_chunk", "one query more", "< self.local", "<= self.local"),
    fault("mr_rope", "the whole factor", "self.factor**exponent", "self.factor"),
    fault(
        "log_length",
        "own products stay",
        "(logits, self._with_grown(call))",
        "(logits, call)",
    ),
    # Of 2025 and 2026
    fault("wall", "later gates divide", "between.clamp(max=0).exp()", "between.exp()"),
    fault("ca_rope", "a power more", "(said**powers)", "(said ** (powers + 1))"),
    fault(
        "wavelet",
        "sideways",
        "distances[..., None] - shift",
        "distances[..., None] + shift",
    ),
    # The doors
    fault("call", "mask > for >=", "(key <= query", "(key < query", "rope"),
]
