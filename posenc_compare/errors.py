"""The errors this package raises on purpose.

Every message reads: who, what must hold, what came, and what would work. The
command line prints it as one line and exits with code 2, or 3 for a StoreError.
"""


class PosencError(Exception):
    """Base of every error raised on purpose."""


class ConfigError(PosencError):
    """A value, name or combination of settings cannot be used."""


class CorpusError(ConfigError):
    """A text cannot be read, is too small, or is not the one that was planned."""


class ShapeError(PosencError):
    """A tensor does not have the axes, sizes or dtype it must have."""


class DoorError(ShapeError):
    """A door of a scheme returned what attention must not go on with."""


class PluginError(PosencError):
    """A plugin cannot be imported, or does not declare what it promises."""


class StoreError(PosencError):
    """A folder of records, or a place to write to, cannot be used."""


class NonFiniteError(PosencError):
    """A number came out as NaN or infinite where it must be finite."""


class NoCodeError(PosencError):
    """A scheme turns neither positions nor distances into codes of their own."""


class UndefinedPositionError(PosencError):
    """A position lies outside what the scheme defines.

    Args:
        scheme: registry name of the scheme.
        limit: number of positions the scheme defines; `least ... limit - 1` are valid.
        got: the offending position.
        what: what is counted.
        advice: what would work.
        least: the first that is valid.
    """

    def __init__(
        self,
        scheme: str,
        limit: int,
        got: int,
        what: str = "positions",
        advice: str = "",
        least: int = 0,
    ) -> None:
        super().__init__(
            f"{scheme}: {what} must be from {least} to {limit - 1}, got {got}"
            + (f"; {advice} would work" if advice else "")
        )
        self.limit = limit
