"""Questions about likely mistakes in a scheme that fail no check."""

from collections.abc import Iterator

import torch

from posenc_compare.attention import Session
from posenc_compare.check.global_state import preserve_state
from posenc_compare.check.harness import Layer, Subject, normal, tokens

DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 255)
LENGTH = 64  # of the text of other questions


def hints(subject: Subject) -> Iterator[str]:
    """Yield questions about a scheme of one axis, each with its label."""
    if subject.declared.axes > 1:
        return
    for hint in (_sign(subject), _clamped(subject), _untrained(subject)):
        if hint:
            yield f"{subject.variant.label}: {hint}"


def _clamped(subject: Subject) -> str:
    """Return a question if all far positions have the code of the last one, else ""."""
    try:
        with preserve_state(), torch.no_grad():
            scheme = subject.build(LENGTH, noise=0)
            x = 0 * tokens(LENGTH, batch=1)
            near = scheme.embed(x, torch.arange(LENGTH))[0]
            far = scheme.embed(x, torch.arange(LENGTH, 2 * LENGTH))[0]
    except Exception:  # undefined there, or a check names it
        return ""
    if (far != near[-1]).any() or torch.equal(near[-1], near[-2]):
        return ""
    return (
        f"built for {LENGTH} positions, it gives all later ones the code of position "
        f"{LENGTH - 1}; are ids clamped? A scheme without codes there raises "
        f"UndefinedPositionError"
    )


def _sign(subject: Subject) -> str:
    """Return a question if the bias of all heads grows with the distance, else "".

    The bias is the logits of queries and keys of zeros, of a scheme as it is built.
    """
    count = DISTANCES[-1] + 1
    try:
        with preserve_state(), torch.no_grad():
            scheme = subject.build(count, noise=0)
            sizes, session = scheme.geometry, Session(scheme, torch.arange(count))
            zeros = 0 * normal(1, sizes.heads, count, sizes.head_dim)
            logits = session.logits(0, zeros, zeros, x=0 * tokens(count, batch=1))
    except Exception:  # of a scheme: a check names it
        return ""
    bias = logits[0, :, -1].flip(-1)[:, DISTANCES]
    if not (bias.diff() > 0).all():
        return ""
    return (
        f"the bias of every head grows with the distance, in head 0 from "
        f"{bias[0, 0]:.3g} at 0 to {bias[0, -1]:.3g} at {DISTANCES[-1]}: it attends "
        f"most to the farthest key; is the sign right?"
    )


def _untrained(subject: Subject) -> str:
    """Return a question if no gradient reaches a parameter, else "".

    At the initial values, a gradient of 0 is no fault if that of another parameter is
    not 0.
    """
    unused = [name for name, reached in _reached(subject, noise=0.5) if not reached]
    if unused:
        names = ", ".join(unused)
        text = f"in a text of {LENGTH} tokens"
        return f"{text}, no gradient reaches {names}: unused or detached?"
    start = [reached for _, reached in _reached(subject, noise=0)]
    if start and not any(start):
        return "all parameters start with a gradient of 0: do they train?"
    return ""


def _reached(subject: Subject, noise: float) -> list[tuple[str, bool]]:
    """Return parameters, and whether a gradient other than 0 reaches them."""
    try:
        with preserve_state():
            scheme = subject.build(LENGTH, noise=noise)
            named = [(n, p) for n, p in scheme.named_parameters() if p.requires_grad]
            x = tokens(LENGTH, batch=1).requires_grad_()
            out = Layer(scheme)(x, subject.positions(LENGTH)).square().sum()
            inputs = [x, *(parameter for _, parameter in named)]
            _, *found = torch.autograd.grad(out, inputs, allow_unused=True)
    except Exception:  # of a scheme: a check names it
        return []
    reached = [gradient is not None and bool(gradient.any()) for gradient in found]
    return [(name, got) for (name, _), got in zip(named, reached, strict=True)]
