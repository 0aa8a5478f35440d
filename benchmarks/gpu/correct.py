"""Every scheme on every path and dtype, against float64 on the CPU: the most worth.

Each scheme has a process of its own, so that one that crashes leaves the others.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from benchmarks.gpu.common import Options, fault, shown
from posenc_compare.attention import Path as Way
from posenc_compare.attention import attention
from posenc_compare.schemes import Geometry, Scheme
from posenc_compare.variants import parse_variants

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
# Relative to the norm of what is right: rounding with room for sums over all keys.
ALLOWED = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 5e-2}
SMALLEST = 1e-3  # of the largest gradient: below it, differences count as if so large


def run(options: Options) -> None:
    """Compute every scheme, and print the cases that are wrong."""
    waiting = options.names(most=3)
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    rows: list[dict[str, Any]] = []
    while waiting or running:
        while waiting and len(running) < options.processes:
            name = waiting.pop(0)
            words = [sys.executable, "-m", "benchmarks.gpu.correct"]
            words += [name, options.device, "small" if options.small else "full"]
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            running[name] = process, time.monotonic()
        for name, (process, since) in list(running.items()):
            late = time.monotonic() - since > options.limit
            if process.poll() is None and not late:
                continue
            if late:
                process.kill()
            said = process.communicate()[0]
            rows += [json.loads(line) for line in said.splitlines() if line[:1] == "{"]
            if late or process.returncode:
                reason = "over the limit" if late else f"exit {process.returncode}"
                rows.append({"scheme": name, "error": reason})
            del running[name]
            options.keep("correct", rows)
        time.sleep(0.05)
    wrong = [row for row in rows if is_wrong(row)]
    print(f"correct: {len(rows)} cases, {len(wrong)} wrong")
    for row in wrong:
        print(shown(row))


def is_wrong(row: dict[str, Any]) -> bool:
    """Return whether a case failed, lost a gradient, or is off beyond rounding."""
    if "error" in row or row["lost"]:
        return True
    return max(row["forward"], row["gradients"]) > ALLOWED[row["dtype"]]


def cases(name: str, device: str, *, small: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each dtype and path that serves a scheme."""
    (variant,) = parse_variants(name)
    side, heads, width = (6, 4, 16) if small else (16, 4, 32)
    length = side * side
    torch.manual_seed(0)
    scheme = variant.build(
        Geometry(model_dim=heads * width, heads=heads, length=length)
    )
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    parts = [*torch.randn(3, 2, heads, length, width).unbind()]
    parts.append(torch.randn(2, length, heads * width))
    ids = _ids(scheme.facts.axes, side)
    places = scheme.positions(ids, torch.Generator().manual_seed(0))
    ids = ids if places.is_floating_point() else places  # as a session has them
    right = _computed(scheme, parts, ids, "cpu", torch.float64, "plain")
    biased = scheme.acts_at("offset_bias") or scheme.acts_at("pair_bias")
    for dtype in DTYPES:
        for path in get_args(Way):
            if path == "flex" and not biased and name != "nope":
                continue  # the same kernel as that of nope, and seconds to compile
            row: dict[str, Any] = {"scheme": name, "dtype": str(dtype)[6:]}
            row["path"] = path
            try:
                found = _computed(scheme, parts, ids, device, dtype, path)
            except Exception as error:
                row |= fault(error)
                if "refused" in row:
                    continue
                yield row
                continue
            yield row | _apart(right, found)


def _ids(axes: int, side: int) -> Tensor:
    """Return positions of a text, or of a grid with `side` cells along two axes."""
    if axes == 1:
        return torch.arange(side * side)
    grid = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return torch.cat([torch.zeros(len(grid), axes - 2, dtype=torch.int64), grid], dim=1)


def _computed(
    scheme: Scheme,
    parts: list[Tensor],
    ids: Tensor,
    device: str,
    dtype: torch.dtype,
    path: Way,
) -> list[Tensor | None]:
    """Return the output and all gradients in float64 on the CPU."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    scheme.to(device, wide).zero_grad()
    *heads, x = parts
    leaves = [part.to(device, dtype).clone().requires_grad_() for part in heads]
    out = attention(
        *leaves,
        scheme=scheme,
        positions=ids.to(device),
        state=scheme.token_state(x.to(device, wide)),
        path=path,
    )
    out.double().square().sum().backward()
    found = [leaf.grad for leaf in (*leaves, *scheme.parameters())]
    return [
        None if one is None else one.detach().double().cpu().clone()
        for one in (out, *found)
    ]


def _apart(right: list[Tensor | None], found: list[Tensor | None]) -> dict[str, Any]:
    """Return how far numbers are off, relative to their norms, and what is lost."""
    known = [one for one in right[1:] if one is not None]
    least = SMALLEST * max(float(one.norm()) for one in known)
    errors = [
        float((a - b).norm() / a.norm().clamp(min=least))
        for a, b in zip(right, found, strict=True)
        if a is not None and b is not None
    ]
    lost = [
        place
        for place, (a, b) in enumerate(zip(right, found, strict=True))
        if (a is None) != (b is None)
    ]
    return {"forward": errors[0], "gradients": max(errors[1:]), "lost": lost}


if __name__ == "__main__":
    for case in cases(sys.argv[1], sys.argv[2], small=sys.argv[3] == "small"):
        print(json.dumps(case), flush=True)
