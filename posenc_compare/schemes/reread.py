"""A trained scheme, read by another.

A wrapper trains the scheme inside and lets a longer text be read by another one with
the same weights: without positions, as DroPE drops them, or by one that maps far
tokens to near ones.

Formula: that of the scheme inside; beyond the training length also that of `by`.
Source: Gelberg et al. 2025, arXiv:2512.12167 (DroPE), abstract only; the paper trains
on for a while after it has dropped RoPE, as the setting `drop` does with any scheme;
what is seen here is where that training begins.
Convention: `by` brings no parameters, since none would be trained. Its own readings of
a longer text are tried too.
"""

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.call import Geometry
from posenc_compare.schemes.contract import check_axes
from posenc_compare.schemes.scheme import Scheme, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register("reread", family="rotary", source="Gelberg et al. 2025, arXiv:2512.12167")
class Reread(Wrapper):
    """Train one scheme, and read longer texts by another too.

    Args:
        geometry: of both.
        scheme: the scheme that is trained.
        by: the one that reads; it has no parameters.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("rope"),
        by: Variant = Variant("nope"),
    ) -> None:
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.reader = by.build(geometry)
        check_axes(self.reader)
        own = sum(part.numel() for part in self.reader.parameters())
        if own:
            raise ConfigError(
                f"reread: by must have no parameters, for none would be trained, got "
                f"{by.label} with {own}"
            )
        self.by = by.label

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        found = self.inner.schemes_for_length(length)
        further = self.reader.schemes_for_length(length)
        further = {f"{self.by}, {name}": reader for name, reader in further.items()}
        return {**found, self.by: self.reader, **further}
