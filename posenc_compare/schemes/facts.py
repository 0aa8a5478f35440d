"""The facts of a scheme: what others may rely on without looking into it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType


@dataclass(frozen=True)
class Facts:
    """What a scheme declares about itself; `posenc-compare check` tests it.

    Attributes:
        per_layer: True if every layer owns an instance; False if all share one.
        axes: number of coordinates of a position, set by `@register`.
        causal_only: True if the scheme is undefined for keys in the future.
        relative: True if logits depend on differences of positions alone. None lets
            `@register` derive it: True for every family but absolute.
        by_order: True if it counts tokens and never reads position ids.
        mixes_heads: True if a head's logits depend on those of other heads.
        widens: how many times as many channels the heads of queries and keys have
            behind the doors `query` and `key`.
        hides: True if it hides keys that the mask shows.
        window: how many tokens its layer lets a query see, itself included, unless the
            mask has a narrower window. None: no limit.
        known_faults: conformance checks that the scheme fails, each with the reason.
    """

    per_layer: bool = False
    axes: int = 1
    causal_only: bool = False
    relative: bool | None = None
    by_order: bool = False
    mixes_heads: bool = False
    widens: int = 1
    hides: bool = False
    window: int | None = None
    known_faults: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        view = MappingProxyType(dict(self.known_faults))
        object.__setattr__(self, "known_faults", view)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle the fields, since a mapping proxy allows neither."""
        fields = {**vars(self), "known_faults": dict(self.known_faults)}
        return partial(Facts, **fields), ()
