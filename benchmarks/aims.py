"""Hold what was timed against what was aimed at before the paths were written.

It reads the records of the other benchmarks. An aim is a ratio to the floor of its
column, or seconds, or MiB.

    python -m benchmarks aims [folder of records]
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks import rounds

Unit = Literal["ratio", "s", "MiB"]
GYM = {"alibi": ("attention-gym, ALiBi",)}  # timed forward


@dataclass(frozen=True)
class Aim:
    """What a case should not be above."""

    operation: str
    benchmark: str
    column: str
    case: str
    most: float  # what was aimed at, in `unit`
    unit: Unit = "ratio"
    peers: tuple[str, ...] = ()  # cases beside it in its column, where they were timed


def _rotations() -> list[Aim]:
    peers = {
        "adjacent": ("x-transformers, adjacent", "torchtune, adjacent"),
        "half": ("transformers, half", "torchembed, half"),
    }
    aims = (
        ("float32, forward", 1.5, 5),
        ("float32, with gradient", 2.5, 5),
        ("bfloat16, forward", 3.5, 5),
    )
    return [
        Aim(
            f"rotation, {layout}: {column}",
            "rotation",
            column,
            layout,
            most,
            "ratio",
            p,
        )
        for column, *most_of in aims
        for (layout, p), most in zip(peers.items(), most_of, strict=True)
    ]


def _biases() -> list[Aim]:
    """Biases of the distance; the peer is the mask that others write out."""
    return [
        Aim(
            f"{name}, {length}, {column}",
            "attention",
            f"{length}, {column}",
            f"{name}, strided",
            most,
            peers=(f"{name}, dense", *GYM.get(name, ())),
        )
        for name in ("alibi", "t5_bias", "kerple_log", "sandwich")
        for column, most in (("forward", 1.1), ("with gradient", 1.2))
        for length in (512, 2048, 8192)
    ]


def _pairs() -> list[Aim]:
    aims = {
        "fox, dense": 1.3,
        "pope, fused": 2.5,
        "shaw, plain": 4,
        "transformer_xl, dense": 4,
        "deberta, dense": 4,
        "fire, dense": 3.5,
        "cope, plain": 6,
        "dape, plain": 6,
        "path, plain": 10,
    }
    column = "2048, forward"
    return [
        Aim(f"{case.split(',')[0]}, {column}", "attention", column, case, most)
        for case, most in aims.items()
    ]


def _networks() -> list[Aim]:
    models = {"alibi": (0.85, ("x-transformers, ALiBi",)), "t5_bias": (1.05, ())}
    steps = {"rope": 1.02, "t5_bias": 1.05, "fox": 1.1, "shaw": 1.4, "path": 2}
    read = ("rope", "fire", "shaw", "cope", "deberta", "path", "dape")
    peers = ("transformers, Llama", "x-transformers, rotary")
    column = "eight texts of 2048"
    return [
        *(
            Aim(f"model that reads 8192: {n}", "models", "8192", n, most, peers=p)
            for n, (most, p) in models.items()
        ),
        *(
            Aim(
                f"step of training: {n}",
                *("steps", "step", n, most),
                peers=peers if n == "rope" else (),
            )
            for n, most in steps.items()
        ),
        Aim("step of the miniature: nope", "steps", "miniature", "nope", 1.05),
        Aim("step of the miniature: wall", "steps", "miniature, to nope", "wall", 2),
        *(
            Aim(f"bits of {column} bytes: {n}", "reading", column, n, 1.5, "s")
            for n in read
        ),
        Aim("decoding: rope", "decode", "one token after 1900", "rope", 1.15),
    ]


def _measures() -> list[Aim]:
    aims = (
        ("uniqueness", 32_768, 3),
        ("uniqueness", 131_072, 60),
        ("uniqueness", 1_000_000, 60),
        ("shift_linearity", 32_768, 2),
        ("shift_linearity", 131_072, 60),
    )
    return [
        Aim(f"{measure}, {n} positions", "measures", str(n), measure, most, "s")
        for measure, n, most in aims
    ]


def _memory() -> list[Aim]:
    column = "8192, with gradient"
    return [
        Aim(f"{n}, {column}", "attention", column, f"{n}, strided", 250, "MiB")
        for n in ("alibi", "t5_bias", "kerple_log")
    ]


def aims() -> list[Aim]:
    """Return all of them."""
    parts = (_rotations, _biases, _pairs, _networks, _measures, _memory)
    return [aim for part in parts for aim in part()]


def table(folder: Path = rounds.RECORDS) -> str:
    """Return a Markdown table of every aim, of what is reached, and of peers."""
    columns: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for name in sorted({aim.benchmark for aim in aims()}):
        record = json.loads((folder / f"{name}.json").read_text())
        for title, timings in record["columns"].items():
            columns[name, title] = {timing["case"]: timing for timing in timings}

    def reached(aim: Aim, case: str) -> float:
        timing = columns[aim.benchmark, aim.column][case]
        of_unit = {"ratio": "ratio", "s": "ms", "MiB": "mib"}[aim.unit]
        return timing[of_unit] / (1000 if aim.unit == "s" else 1)

    lines = [
        "| operation | aim | reached | missed by | peers, same run |",
        "|---|---:|---:|---:|---|",
    ]
    for aim in aims():
        if (aim.benchmark, aim.column) not in columns:  # older records lack it
            continue
        got, unit = (
            reached(aim, aim.case),
            "" if aim.unit == "ratio" else f" {aim.unit}",
        )
        digits = 0 if aim.unit == "MiB" else 2
        # What rounds to the aim has met it: quartiles are wider than its last digit.
        over = round(got, digits) / aim.most - 1
        missed = f"{over:.0%}" if over > 0 else ""
        timed = columns[aim.benchmark, aim.column]
        peers = [f"{p} {reached(aim, p):.2f}" for p in aim.peers if p in timed]
        lines.append(
            f"| {aim.operation} | {aim.most:g}{unit} | {got:.{digits}f}{unit} "
            f"| {missed} | {', '.join(peers)} |"
        )
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Print the table."""
    print(table(*map(Path, words)))
