"""The scalings by which a checkpoint can be read."""

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Geometry, Scheme, Variant
from posenc_compare.schemes.contract import schemes_for_length

AS_TRAINED = "as trained"


def rules_for(own: Scheme, length: int, rules: str) -> dict[str, Scheme]:
    """Return the schemes that read a length under each rule, by name of the rule.

    Up to the trained length there is none. `rules` are comma-separated, or `all`.
    """
    every = {n: s for n, (s,) in schemes_for_length([own], length).items()}
    asked = [rule.strip() for rule in rules.split(",") if rule.strip()]
    if asked == ["all"] or (asked and not every):
        return every
    known = {name.partition(" ")[0]: name for name in every}  # as records have them
    known |= {name: name for name in every}
    for rule in asked or [rules]:
        if rule not in known:
            raise ConfigError(
                f"rules must be all, or of {', '.join(every)}, got {rule[:40]!r}"
            )
    return {known[rule]: every[known[rule]] for rule in asked}


def variants_for(
    own: Variant, geometry: Geometry, length: int, rules: str
) -> dict[str, Variant]:
    """Return the variants that read a length under each rule, and that as trained.

    All have the factor of this length. `ntk_dynamic` is left out: at one length it is
    `ntk`. Args and errors are those of `rules_for`.
    """
    found = {AS_TRAINED: own}
    for name in rules_for(own.build(geometry), length, rules):
        rule, factor = name.partition(" ")[0], length / geometry.length
        if rule != "ntk_dynamic":
            options = {**own.options, "scaling": rule, "factor": factor}
            found[rule] = Variant(own.name, options)
    return found
