"""The scalings by which a checkpoint can be read."""

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.contract import schemes_for_length


def rules_for(own: Scheme, length: int, rules: str) -> dict[str, Scheme]:
    """Return the schemes that read a length under each rule, by name of the rule.

    Args:
        own: the scheme that a checkpoint was trained with.
        length: in tokens; none has rules up to the trained length.
        rules: names by comma, or `all`.

    Raises:
        ConfigError: if a rule is unknown, or none is named.
    """
    every = {n: s for n, (s,) in schemes_for_length([own], length).items()}
    asked = [rule.strip() for rule in rules.split(",") if rule.strip()]
    if asked == ["all"] or (asked and not every):
        return every
    for rule in asked or [rules]:
        if rule not in every:
            raise ConfigError(
                f"rules must be all, or of {', '.join(every)}, got {rule[:40]!r}"
            )
    return {rule: every[rule] for rule in asked}
