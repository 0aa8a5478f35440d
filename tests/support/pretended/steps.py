"""Train every scheme for three steps on the pretended GPU, and print what was noted.

    python -m support.pretended.steps FOLDER [scheme ...]     (from the folder of tests)

The guard is compiled into the folder. Printed is one JSON object by scheme: an error,
or how often each line waits in the second step and in the last, where losses are looked
at. Under `itself` stands what the pretended GPU refused of what CUDA refuses.
"""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

from support.pretended.device import Pretended, pretended  # before torch

import torch  # isort: skip

from support.pretended import device

from posenc_compare.attention.backends import flex
from posenc_compare.check import built_in
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Variant
from posenc_compare.settings.training import Training
from posenc_compare.train.trainer import trainer_of

TASKS = {1: "copy", 2: "grid_lookup"}  # by the axes of positions


def attend(
    q: Pretended,
    k: Pretended,
    v: Pretended,
    score_mod: Any,
    *,
    block_mask: Any,
    scale: float,
    enable_gqa: bool,
) -> torch.Tensor:
    """Return what compiled flex attention returns, as one kernel."""
    assert not enable_gqa
    with device.NOTES.one_kernel():
        b, h = (
            torch.arange(n, device=q.device).reshape(-1, *[1] * after)
            for n, after in ((q.shape[0], 3), (q.shape[1], 2))
        )
        i = torch.arange(q.shape[2], device=q.device)[:, None]
        j = torch.arange(k.shape[2], device=q.device)
        scores = score_mod((q.float() @ k.float().mT) * scale, b, h, i, j)
        seen = block_mask.mask_mod(b, h, i, j)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return (weights @ v.float()).to(q.dtype)


def noted(name: str) -> dict[str, Any]:
    """Return what three steps of a scheme do on the GPU, or how they fail."""
    axes = SCHEMES.entry(name).facts.get("axes", 1)
    found: dict[str, Any] = {}
    setting = Training(
        layers=2,
        width=64,
        heads=4,
        length=16,
        steps=3,
        batch=2,
        task=TASKS[axes],
        device="cuda",
        dtype="bfloat16",
    )
    try:
        with pretended() as notes:
            trainer = trainer_of(Variant(name, {}), setting)
            trainer.model.train()
            for step in range(3):
                notes.waits.clear()
                trainer.step(step)
                found[f"waits of step {step}"] = dict(notes.waits)
    except Exception as error:  # whatever a scheme does wrong is what is looked for
        return {"error": f"{type(error).__name__}: {error}"[:400]}
    return found


def refused() -> dict[str, str]:
    """Return the error of each act that CUDA refuses; empty where there was none."""
    with pretended():
        there = torch.ones(4, 4, device="cuda")
        here, whole = torch.ones(4, 4), torch.ones(4, 4, device="cuda").long()
        acts: dict[str, Callable[[], object]] = {
            "two devices": lambda: there + here,
            "product of whole numbers": lambda: whole @ whole,
            "generator of the CPU": lambda: there.normal_(generator=torch.Generator()),
            "array of numpy": there.numpy,
            "number of the CPU": lambda: there + torch.tensor(1.0),
        }
        found = {}
        for name, act in acts.items():
            try:
                act()
                found[name] = ""
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    """Print what was noted of each scheme."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    flex.compiled = lambda: attend  # type: ignore[assignment]
    names = sys.argv[2:] or [
        name for name in built_in() if SCHEMES.entry(name).facts.get("axes", 1) in TASKS
    ]
    print(json.dumps({"itself": refused(), **{name: noted(name) for name in names}}))


if __name__ == "__main__":
    main()
