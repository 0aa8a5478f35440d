"""A hint at the sign of a bias; one that grows with the distance is no fault."""

import torch

from posenc_compare.attention import Session
from posenc_compare.check.global_state import preserve_state
from posenc_compare.check.harness import Subject, normal, tokens

DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 255)


def sign_hint(subject: Subject) -> str:
    """Return a question if the bias of all heads grows with the distance, else "".

    The bias is the logits of queries and keys of zeros, of a scheme as it is built.
    """
    if subject.declared.axes > 1:
        return ""
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
