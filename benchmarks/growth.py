"""Fit how time and memory of attention grow with the length of a text.

One layer with two heads of 16 channels reads a text forward and backward, once per
length. The exponent of n is the slope between the logarithms of the last two lengths.
Memory is the most that the C library (glibc) has handed out at a time, looked up at
short intervals: at 512 tokens a run may end between two looks. Schemes are built for
the shortest length; those that are not defined beyond, for the longest or, if they have
several axes, for each. Lengths expected to take a scheme more than `MOST` seconds are
left out. Schemes of several axes read square images.

    python -m benchmarks growth [scheme ...]
"""

import ctypes
import gc
import json
import math
import multiprocessing
import threading
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.rounds import RECORDS
from posenc_compare.attention import Mask, Session
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.registry import SCHEMES
from posenc_compare.run.provenance import place
from posenc_compare.schemes import Geometry, Scheme, Variant

LENGTHS = (512, 2048, 8192, 32768)
CELLS = (256, 1024, 4096, 32_761)  # squares; the last is 181 x 181
HEADS, WIDTH = 2, 32
MOST = 1200.0  # seconds
INTERVAL = 2e-3  # seconds between two looks at the memory


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (field, ctypes.c_size_t)
        for field in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def handed_out() -> int:
    """Return the bytes that the C library has handed out and not got back."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return found.uordblks + found.hblkhd


def most_memory(run: Callable[[], object]) -> int:
    """Return the most bytes that a run adds at a time, by looks at short intervals."""
    gc.collect()
    before, ended = handed_out(), threading.Event()
    sizes = [before]

    def look() -> None:
        pause = INTERVAL
        while not ended.wait(pause):
            start = time.perf_counter()
            sizes.append(handed_out())  # which walks through all freed blocks
            pause = max(INTERVAL, 4 * (time.perf_counter() - start))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run()
    finally:
        ended.set()
        watcher.join()
    return max(sizes) - before


def reads(scheme: Scheme, length: int) -> float:
    """Read a text forward and backward, and return the processor's seconds.

    Those of the thread that looks up the memory do not count.
    """
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1, length, WIDTH, generator=draw)
    heads = torch.randn(3, 1, HEADS, length, WIDTH // HEADS, generator=draw)
    x.requires_grad_()
    q, k, v = heads.requires_grad_()
    start = time.thread_time()
    positions, axes = torch.arange(length), scheme.facts.axes
    if axes > 1:
        side = torch.arange(math.isqrt(length))
        positions = F.pad(torch.cartesian_prod(side, side), (axes - 2, 0))
    mask = Mask(causal=axes == 1)
    session = Session(scheme, positions, mask=mask)
    session.attend(0, q, k, v, x=session.embed(x)).sum().backward()
    return time.thread_time() - start


def built(name: str, length: int) -> Scheme:
    """Return a scheme of a training length."""
    return Variant(name).build(Geometry(model_dim=WIDTH, heads=HEADS, length=length))


def measured(name: str) -> list[dict[str, float]]:
    """Return seconds and MiB of a scheme by length."""
    on_grids = SCHEMES.get(name).facts.axes > 1
    lengths = CELLS if on_grids else LENGTHS
    scheme, each = built(name, lengths[0]), False
    try:
        reads(scheme, lengths[1])
    except UndefinedPositionError:
        scheme, each = built(name, lengths[-1]), on_grids
    found: list[dict[str, float]] = []
    for length in lengths:
        scheme = built(name, length) if each else scheme
        if found and found[-1]["seconds"] * (length / found[-1]["length"]) ** 2 > MOST:
            break
        try:
            found.append(once(scheme, length))
        except UndefinedPositionError:
            break
    return found


def once(scheme: Scheme, length: int) -> dict[str, float]:
    """Return seconds and MiB of one text."""
    seconds: list[float] = []
    size = most_memory(lambda: seconds.append(reads(scheme, length)))
    return {"length": length, "seconds": seconds[0], "mib": size / 2**20}


def exponent(found: list[dict[str, float]], what: str) -> float:
    """Return the exponent of n between the last two lengths."""
    before, last = found[-2:]
    ratio = last[what] / before[what]
    return math.log(ratio) / math.log(last["length"] / before["length"])


def prepared() -> None:
    """Set what torch keeps for a process."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def main(words: list[str]) -> None:
    """Print and keep the exponents, after every scheme."""
    names = words or [*SCHEMES.entries()]
    path = RECORDS / "growth.json"
    schemes: dict[str, list[dict[str, float]]] = {}
    print("| scheme | time | memory | seconds by length |")
    print("|---|" + "---:|" * 3)
    fresh = multiprocessing.get_context("spawn")
    for name in names:
        with fresh.Pool(1, prepared) as pool:  # whose memory goes with it
            found = schemes[name] = pool.apply(measured, (name,))
        body = {"benchmark": "growth", "machine": place(), "schemes": schemes}
        path.write_text(json.dumps(body, indent=1, default=str) + "\n")
        numbers = [f"{exponent(found, what):.2f}" for what in ("seconds", "mib")]
        seconds = (f"{one['length']}: {one['seconds']:.2f}" for one in found)
        numbers.append(", ".join(seconds))
        print(f"| {name} | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    main([])
