"""Check a model: what must not change its outputs does not, and it does as stated."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.hf.checkpoint import reason_of
from posenc_compare.hf.measure import evaluating
from posenc_compare.hf.places import check_converted
from posenc_compare.hf.readings import (
    READINGS,
    NotApplicableError,
    Reader,
    compared,
    mixes,
)
from posenc_compare.hf.stated import STATEMENTS, Stated

# Which convolutions and states of layers change, as they see padding too.
MIXED = ("cached", "stepwise", "offset", "static", "padded", "padded right")
MIXED += ("padded cached", "packed")
State = Literal["passed", "failed", "n/a"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name.
        compares: what is compared, and `transformers` or the configuration with what.
        most: the largest difference; None if nothing was compared.
        bound: of differences that rounding explains.
        state: passed, failed, or n/a if the model does not take what the check needs.
        reason: why it is n/a or failed; empty if it passed.
    """

    check: str
    compares: str
    most: float | None
    bound: float | None
    state: State
    reason: str = ""


def check(model: Any, tokens: int = 0, *, causal: bool | None = None) -> list[Finding]:
    """Check the positions of a model as it is, without a scheme of this package.

    It reads random tokens in several ways that must give the same logits, or the same
    states if it has no head. Its rotations are measured on a copy with random weights,
    and compared with its configuration and with transformers.

    Args:
        model: of transformers, or a port: a module with a `config` of transformers,
            whose forward pass takes `input_ids` first.
        tokens: of a text, at least 8; 0: 64, or fewer if the model is for fewer.
        causal: whether no token sees the later ones; None: as the model states.

    Returns:
        An outcome for each check, in a fixed order.

    Raises:
        ConfigError: if the model has no such configuration, has a scheme of this
            package, is a copy of `hf convert`, or the tokens are too few.
    """
    config: Any = getattr(model, "config", None)
    if not (isinstance(model, torch.nn.Module) and hasattr(config, "get_text_config")):
        raise ConfigError(
            f"model must be a module with a configuration of transformers, got "
            f"{type(model).__name__}"
        )
    check_converted(config)
    if hasattr(model, "posenc_compare_applied"):
        raise ConfigError("model must be without a scheme, got one that has one")
    if getattr(config, "is_encoder_decoder", False) or hasattr(
        config, "encoder_layers"
    ):
        raise ConfigError(
            f"model must be causal or an encoder, got {config.model_type}, which is "
            f"an encoder with a decoder, or a part of it"
        )
    with evaluating(model):
        try:
            reader = Reader(model, tokens, causal)
        except PosencError:
            raise
        except Exception as error:  # whatever a model makes of such a call
            raise ConfigError(
                f"model must read token ids, got one that raises {reason_of(error)}"
            ) from error
        found = [_reading(reader, name) for name in READINGS]
        try:
            stated = Stated(model, reader.causal)
        except Exception as error:  # whatever a model makes of a copy
            why = f"no copy of it can be made: {reason_of(error)}"
            return [*found, *(_missing(n, STATEMENTS[n][0], why) for n in STATEMENTS)]
        return [*found, *(_statement(stated, name) for name in STATEMENTS)]


def _reading(reader: Reader, name: str) -> Finding:
    """Return the outcome of a way to read; what a model raises is one too."""
    compares, read = READINGS[name]
    other = name in MIXED and mixes(reader.model)
    try:
        found = _found(name, compares, *compared(*read(reader), reader.bound))
    except (NotApplicableError, ValueError, NotImplementedError) as why:
        return _missing(name, compares, str(why).partition("\n")[0])
    except Exception as error:  # a fault of the model, unless it was not made for that
        text = f"raises {reason_of(error)}"
        found = Finding(name, compares, None, None, "failed", text)
    if found.state == "failed" and other:
        return replace(found, state="n/a", reason="has layers other than attention")
    return found


def _statement(stated: Stated, name: str) -> Finding:
    """Return the outcome of a comparison with what is stated."""
    compares, measure = STATEMENTS[name]
    try:
        return _found(name, compares, *measure(stated))
    except NotApplicableError as why:
        return _missing(name, compares, str(why))
    except Exception as error:  # what cannot be measured is no fault of a model
        reason = reason_of(error)
        if name == "length" and isinstance(error, IndexError):  # a table too short
            return Finding(name, compares, None, None, "failed", f"raises {reason}")
        return _missing(name, compares, f"cannot be measured: {reason}")


def _found(name: str, compares: str, most: float, bound: float, why: str) -> Finding:
    if most <= bound:
        return Finding(name, compares, most, bound, "passed")
    return Finding(name, compares, most, bound, "failed", why)


def _missing(name: str, compares: str, why: str) -> Finding:
    return Finding(name, compares, None, None, "n/a", why)
