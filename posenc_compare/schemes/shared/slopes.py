"""How fast the biases of the heads fall, in ALiBi and what is made of it.

Source: Press et al. 2022, arXiv:2108.12409, section 3; slopes for head counts that
are not powers of two follow the authors' released code.
"""


def slopes(heads: int) -> list[float]:
    """Return the slope of each head, in logits per position.

    For a power of two the slopes are `2 ** (-8 i / heads)`, `i = 1 ... heads`.
    Otherwise the heads beyond the largest power of two take the odd steps of the
    ladder that is twice as fine.
    """
    whole = 1 << (heads.bit_length() - 1)
    steps = [i + 1 for i in range(whole)] + [i + 0.5 for i in range(heads - whole)]
    return [2.0 ** (-8 * step / whole) for step in steps]
