"""Check whether outputs and rotations of a model are as they must be."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch

from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.hf.checkpoint import reason_of
from posenc_compare.hf.constants import constants
from posenc_compare.hf.measure import evaluating
from posenc_compare.hf.places import WOULD_WORK, check_converted
from posenc_compare.hf.readings import (
    READINGS,
    Compared,
    FaultError,
    NotApplicableError,
    Reader,
    compared,
    mixes,
)
from posenc_compare.hf.stated import STATEMENTS, Stated

# Which hold of convolutions and states of layers too, as these see padding.
OF_ALL = ("causal", "alone", "position ids")
CONSTANTS = ("constants", "buffers and factors of its class")
State = Literal["passed", "failed", "n/a"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name.
        compares: the outputs or numbers that are compared, and with what.
        largest: the largest difference; None if nothing was compared. If it exceeds
            the bound and the check is n/a, the class in transformers differs, too.
        bound: the largest difference that rounding explains.
        state: passed, failed, or n/a if the model does not take what the check needs.
        reason: why it is n/a or failed; empty if it passed.
    """

    check: str
    compares: str
    largest: float | None
    bound: float | None
    state: State
    reason: str = ""


def check(model: Any, tokens: int = 0, *, causal: bool | None = None) -> list[Finding]:
    """Check the positions of a model as it is, without a scheme of this package.

    It reads random tokens in several ways that must give the same logits, or the same
    states if it has no head. Its rotations are measured on a copy with random weights,
    and compared with those of the class that its configuration names.

    Args:
        model: of transformers, or a port: a module with a `config` of transformers,
            whose forward pass takes `input_ids` first.
        tokens: number of tokens of a text, at least 8; 0 means 64, or fewer if the
            model takes fewer.
        causal: whether no token sees the later ones; None: as the model states.

    Returns:
        An outcome for each check, in a fixed order.

    Raises:
        ConfigError: if the model has no such configuration, has a scheme of this
            package, is a copy of `hf convert`, or the tokens are too few.
    """
    model = _inside(model)
    _check_kind(model)
    with evaluating(model), torch.random.fork_rng(devices=[]):
        reader = _reader(model, tokens, causal)
        stated = _stated(reader)
        found = [_finding(name, reader, stated) for name in READINGS]
        found.append(_outcome(*CONSTANTS, partial(constants, model), "n/a"))
        if isinstance(stated, str):
            return found + [
                _missing(n, one[0], stated) for n, one in STATEMENTS.items()
            ]
        where = ", by a small copy of its configuration" if stated.small else ""
        for name, (compares, measure) in STATEMENTS.items():
            of_copy, measured = compares + where, partial(measure, stated)
            found.append(_outcome(name, of_copy, measured, "n/a"))
        return found


def _inside(model: Any) -> Any:
    """Return the model that PEFT or `torch.compile` wraps."""
    while True:
        if hasattr(model, "get_base_model"):
            model = model.get_base_model()
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def _check_kind(model: Any) -> None:
    """Refuse a model that reads no text, or that cannot be checked as it is."""
    config: Any = getattr(model, "config", None)
    if not (isinstance(model, torch.nn.Module) and hasattr(config, "get_text_config")):
        raise ConfigError(
            f"model must be a module with a configuration of transformers, got "
            f"{type(model).__name__}; a rotation of your own can be compared with "
            f"create('rope:layout=half', heads=8, head_dim=64).query(q, positions)"
        )
    check_converted(config)
    if getattr(config, "return_dict", True) is False:
        raise ConfigError("return_dict of the configuration must be True, got False")
    if hasattr(model, "posenc_compare_applied"):
        raise ConfigError("model must be without a scheme, got one that has one")
    if getattr(config, "is_encoder_decoder", False) or hasattr(
        config, "encoder_layers"
    ):
        raise ConfigError(
            f"model must be causal or an encoder, got {config.model_type}, which is "
            f"an encoder with a decoder, or a part of it"
        )
    for name in ("hidden_size", "num_hidden_layers"):
        if not hasattr(config.get_text_config(), name):
            raise ConfigError(
                f"model must be one stack of layers, with {name} in its "
                f"configuration, got {config.model_type} without it; {WOULD_WORK}"
            )


def _reader(model: Any, tokens: int, causal: bool | None) -> Reader:
    try:
        return Reader(model, tokens, causal)
    except PosencError:
        raise
    except Exception as error:  # whatever a model makes of such a call
        raise ConfigError(
            f"model must read token ids, got one that raises {reason_of(error)}"
        ) from error


def _stated(reader: Reader) -> Stated | str:
    """Return a copy of the model beside its class, or why there is none."""
    try:
        return Stated(reader.model, reader.tokens, reader.causal)
    except NotApplicableError as error:
        return str(error)
    except Exception as error:  # whatever a model makes of a copy
        return f"no copy of it can be made: {reason_of(error)}"


def _finding(name: str, reader: Reader, stated: Stated | str) -> Finding:
    """Return the outcome of a reading, which is n/a if the model may fail in it."""
    compares, read = READINGS[name]
    found = _outcome(
        name, compares, lambda: compared(*read(reader), reader.bound), "failed"
    )
    if found.state != "failed":
        return found
    if name not in OF_ALL and mixes(reader.model):
        return _missing(name, compares, "has layers other than attention")
    if found.largest is not None and found.largest <= reader.amplified:
        why = f"amplified rounding errors explain {found.largest:.1e}, as a fault may"
        return _missing(name, compares, why)
    if isinstance(stated, Stated) and stated.excuses(read):
        kind = f"{stated.kind.__name__} of transformers"
        why = f"{found.reason}, and so does {kind}"
        if found.largest is not None:
            why = f"differs, and so does {kind}"
        return replace(found, state="n/a", reason=why)
    return found


def _outcome(
    name: str, compares: str, measure: Callable[[], Compared], raised: State
) -> Finding:
    """Return the outcome of a check; what a model raises is one too."""
    try:
        most, bound, why = measure()
    except (NotApplicableError, ValueError, NotImplementedError) as error:
        return _missing(name, compares, str(error).partition("\n")[0])
    except FaultError as error:
        return Finding(name, compares, None, None, "failed", str(error))
    except Exception as error:  # a fault of the model, unless a copy was measured
        text = f"raises {reason_of(error)}"
        return Finding(name, compares, None, None, raised, text)
    if most <= bound:
        return Finding(name, compares, most, bound, "passed")
    return Finding(name, compares, most, bound, "failed", why)


def _missing(name: str, compares: str, why: str) -> Finding:
    return Finding(name, compares, None, None, "n/a", why)
