"""Faults in schemes, which their own conformance may see."""

from planted import Fault

FILES = ("schemes/*.py",)


def fault(
    file: str, name: str, old: str, new: str, label: str = "", tests: str = ""
) -> Fault:
    """Return a fault that the scheme of the file, or another, must not hide."""
    own = f"tests/schemes/test_{label or file}.py"
    return Fault(f"schemes/{file}.py", name, old, new, tests or own, label or file)


STRIDED = "tests/test_attention.py::test_strided_at_lengths_around_the_block"
YARN = "rope:scaling=yarn;factor=4", "tests/schemes/test_scaling.py"
KEY, HALF = "turn_pairs(k, unit_turns(self.angles(positions)), ", '"half")'
POSITIONS, HEAT = "positions[..., None]", "0.1 * math.log(self.factor) + 1"
NOW, THEN = "total[b, i + first, h]", "total[b, j, h]"

FAULTS = [
    # What rotates
    fault("rope", "key's sign", "_turn(k, positions)", "_turn(k, -positions)"),
    fault("rope", "sign of rotation", "polar(size, angle)", "polar(size, -angle)"),
    fault(
        "rope", "cast before multiply", f"{POSITIONS}.d", f"{POSITIONS}.bfloat16().d"
    ),
    fault(
        "frequencies", "exponent", "=device) / pairs", "=device) * 2 / pairs", "rope"
    ),
    fault("frequencies", "dtype lost", "dim=-1).to(x.dtype)", "dim=-1)", "rope"),
    fault("p_rope", "mixed layouts", f"{KEY}self.layout)", KEY + HALF),
    fault("p_rope", "slow pairs kept", "self.kept :] = 0", ": self.kept] = 0"),
    fault("xpos", "exponent's sign", "(positions) ** sign", "(positions) ** -sign"),
    fault("xpos", "keys grow too", "positions, -1)", "positions, 1)"),
    fault("fope", "the other pad", 'pad == "official"', 'pad == "paper"'),
    fault("rope_2d", "row for column", 'self.first == "w"', 'self.first == "h"'),
    fault("scaling", "ramp inverted", "1 - share.clamp", "share.clamp", *YARN),
    fault("scaling", "temperature squared", HEAT, f"({HEAT}) ** 2", *YARN),
    # What is added to tokens
    fault("sinusoidal", "sine for cosine", ".sin(), angle.cos(", ".cos(), angle.sin("),
    fault(
        "sinusoidal", "base forgotten", "width // 2, self.base", "width // 2, 10_000.0"
    ),
    # What is added to logits
    fault("alibi", "slopes reversed", "(geometry.heads)", "(geometry.heads)[::-1]"),
    fault("alibi", "far for near", "return -slope[:, None]", "return slope[:, None]"),
    fault("t5_bias", "bucket edge", "right=True", "right=False"),
    fault("t5_bias", "future for past", "(-offsets).clamp", "offsets.clamp"),
    fault("sandwich", "start", 'indices == "from_one"', 'indices == "from_zero"'),
    fault("shaw", "clip off by one", ".clamp(-self.reach,", ".clamp(1 - self.reach,"),
    # What looks at the text
    fault("deberta", "the other index", 'index == "code"', 'index == "paper"'),
    fault("deberta", "query for key", "to_column[b, h, j,", "to_column[b, h, i,"),
    fault("cope", "no diagonal", ".flip(-1).clamp(", ".flip(-1).sub(gates).clamp("),
    fault("cope", "future counted", ".sigmoid() * call.keep()", ".sigmoid()"),
    fault("fox", "gates reward", f"{NOW} - {THEN}", f"{THEN} - {NOW}"),
    fault("fox", "cached state ignored", "before + total", "total"),
    fault("path", "cached keys ignored", ".tril(call.past)", ".tril()"),
    # The doors
    fault("base", "mask > for >=", "(key <= q", "(key < q", "rope", STRIDED),
]
