"""The errors this package raises on purpose.

Every message says who raised it, what must hold, what came, and what would work. The
command line prints it on one line and exits with code 2, or 3 for a StoreError.
"""


class PosencError(Exception):
    """Base of every error raised on purpose."""


class ConfigError(PosencError):
    """A value, name or combination of settings cannot be used.

    Args:
        message: one line for the user.
        field: name of the setting or argument with the wrong value.
    """

    def __init__(self, message: str = "", field: str = "") -> None:
        super().__init__(message)
        self.field = field

    def of(self, scheme: str) -> "ConfigError":
        """Return the error of an option with the scheme's name; others as they are."""
        return ConfigError(f"{scheme}: {self}") if self.field else self


class UnfitError(ConfigError):
    """A scheme has no meaning for the positions or the mask that it is given."""


class CorpusError(ConfigError):
    """A corpus cannot be read, is too small, or differs from the planned one."""


class ShapeError(PosencError):
    """A tensor has the wrong axes, sizes or dtype."""


class HookError(ShapeError):
    """A hook of a scheme returned a result that attention cannot use."""


class PluginError(PosencError):
    """A plugin cannot be imported, or its declarations are wrong."""


class StoreError(PosencError):
    """A folder of records, or an output path, cannot be used."""


class NonFiniteError(PosencError):
    """A result is NaN or infinite where it must be finite."""


class NoCodeError(PosencError):
    """A scheme has no code for positions or distances alone."""


class UndefinedPositionError(PosencError):
    """A position is outside the range that the scheme defines.

    Args:
        scheme: registry name of the scheme.
        limit: end of the range; `least ... limit - 1` are valid.
        got: the invalid position.
        what: the quantity that is out of range.
        advice: a change that would work.
        least: start of the range.
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
