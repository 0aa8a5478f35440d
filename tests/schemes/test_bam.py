"""BAM against the formula, one pair at a time."""

import math

from schemes.reference import BiasTests, Inputs


def slow(factor: float, exponent: float, middle: float, offset: int) -> float:
    peak = math.exp(middle) - math.exp(-middle)
    return -math.exp(factor) * (abs(offset - peak) + 1e-5) ** exponent


class TestBam(BiasTests):
    name = "bam"
    sizes = {"heads": 6, "head_dim": 8, "model_dim": 48}
    noise = 0.5
    # The bias is up to 300 ** 2 and more, and the rounding error grows with it.
    rtol, half_atol = 1e-13, 1e-4
    cases = [{}, {"location": True}, {"exponent": 0.0}]
    identities = [({"exponent": 0.0}, {"exponent": 0}, "nope")]
    starts_as = [({}, "alibi")]  # but for a constant
    changes = [{"exponent": 0.5}, {"location": True}]
    errors = [({"exponent": math.nan}, "exponent must be a finite number, got")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        scheme = t.scheme
        middle = 0.0 if scheme.location is None else scheme.location[h].item()
        numbers = scheme.factor[h].item(), scheme.exponent[h].item(), middle
        return slow(*numbers, key - query)
