"""Thirty planted faults: `python tests/mutants.py` takes some minutes.

Plants each fault, one line long, in a copy of the package and lets the conformance
checks of the scheme look for it, and after them the scheme's own tests. Name faults to
plant only those: `python tests/mutants.py "mask > for >="`. The exit code is 1 if any
survives.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("posenc_compare", "tests", "examples", "docs", "pyproject.toml", "README.md")
WORKERS = 2
# Prints the first check that fails. Those left out look at speed and at processes.
CONFORM = """
import sys
import posenc_compare.conformance as c
from posenc_compare.variants import parse_variants

assert c.__file__.startswith(sys.argv[1]), c.__file__
for label in sys.argv[2:]:
    (variant,) = parse_variants(label)
    for code in sorted(set(c.CHECKS) - {"C09", "C23", "C24"}):
        if c.run_check(c.Subject(variant), code).state == "failed":
            sys.exit(print(code))
"""


@dataclass(frozen=True)
class Fault:
    """One line, wrong.

    Attributes:
        name: what is wrong, in a few words.
        file: of the package, a name in `schemes` or a path.
        old: text that occurs in it exactly once.
        new: what takes its place.
        label: scheme to check, with its options; nothing means that of the file.
        tests: arguments of pytest; nothing means the tests of the file's scheme.
    """

    name: str
    file: str
    old: str
    new: str
    label: str = ""
    tests: str = ""

    @property
    def path(self) -> str:
        """Return the path of the file."""
        inner = self.file if "." in self.file else f"schemes/{self.file}.py"
        return f"posenc_compare/{inner}"

    @property
    def own_tests(self) -> list[str]:
        """Return arguments of pytest."""
        return (self.tests or f"tests/schemes/test_{self.file}.py").split()


STRIDED = "tests/test_attention.py::test_strided_at_lengths_around_the_block"
TERMS = "to_row[b, h, i, row[b, i, j]] + to_column[b, h, j, column[b, i, j]]"
TURNED_KEY = "turn_pairs(k, unit_turns(self.angles(positions)), {})"
PAIRS = "torch.arange(pairs, dtype=torch.float64, device=device) / {}"

FAULTS = [
    # What rotates
    Fault(
        "keys turned backwards", "rope", "_turn(k, positions)", "_turn(k, -positions)"
    ),
    Fault("sign of rotation", "rope", "polar(size, angle)", "polar(size, -angle)"),
    Fault(
        "cast before multiply",
        "rope",
        "positions[..., None].double() * speeds",
        "positions[..., None].bfloat16() * speeds.bfloat16()",
    ),
    Fault(
        "frequency exponent",
        "frequencies",
        PAIRS.format("pairs"),
        PAIRS.format("max(pairs - 1, 1)"),
        "rope",
        "tests/schemes/test_rope.py",
    ),
    Fault(
        "dtype not given back",
        "frequencies",
        "torch.cat([turned, wide[..., width:]], dim=-1).to(x.dtype)",
        "torch.cat([turned, wide[..., width:]], dim=-1)",
        "rope",
        "tests/schemes/test_rope.py",
    ),
    Fault(
        "mixed layouts",
        "p_rope",
        TURNED_KEY.format("self.layout"),
        TURNED_KEY.format('"half"'),
    ),
    Fault("low frequencies kept", "p_rope", "self.kept :] = 0", ": self.kept] = 0"),
    Fault(
        "growth exponent's sign", "xpos", "(positions) ** sign", "(positions) ** -sign"
    ),
    Fault(
        "keys grow as queries do",
        "xpos",
        "_turn(k, positions, -1)",
        "_turn(k, positions, 1)",
    ),
    Fault("pad of the other code", "fope", 'pad == "official"', 'pad == "paper"'),
    Fault("row for column", "rope_2d", 'self.first == "w"', 'self.first == "h"'),
    Fault(
        "ramp inverted",
        "scaling",
        "return 1 - share.clamp(0, 1)",
        "return share.clamp(0, 1)",
        "rope:scaling=yarn;factor=4",
    ),
    Fault(
        "temperature squared",
        "scaling",
        "return 0.1 * math.log(self.factor) + 1",
        "return (0.1 * math.log(self.factor) + 1) ** 2",
        "rope:scaling=yarn;factor=4",
    ),
    # What is added to tokens
    Fault(
        "sine and cosine swapped",
        "sinusoidal",
        "[angle.sin(), angle.cos()]",
        "[angle.cos(), angle.sin()]",
    ),
    Fault(
        "base forgotten",
        "sinusoidal",
        "width // 2, self.base)",
        "width // 2, 10_000.0)",
    ),
    # What is added to logits
    Fault(
        "slopes reversed",
        "alibi",
        "slopes(geometry.heads)",
        "slopes(geometry.heads)[::-1]",
    ),
    Fault(
        "far for near",
        "alibi",
        "-slope[:, None] * distance",
        "slope[:, None] * distance",
    ),
    Fault("bucket edge", "t5_bias", "right=True", "right=False"),
    Fault(
        "future for past",
        "t5_bias",
        "(-offsets).clamp(min=0)",
        "offsets.clamp(min=0)",
    ),
    Fault("frequencies from one", "sandwich", '== "from_one"', '== "from_zero"'),
    Fault(
        "clip off by one",
        "shaw",
        "clamp(-self.reach, self.reach)",
        "clamp(-self.reach + 1, self.reach)",
    ),
    # What looks at the text
    Fault("the other index", "deberta", 'p2c_index == "code"', 'p2c_index == "paper"'),
    Fault("key's term by query", "deberta", TERMS, TERMS.replace("h, j, c", "h, i, c")),
    Fault(
        "own gate left out", "cope", ".flip(-1).clamp(", ".flip(-1).sub(gates).clamp("
    ),
    Fault(
        "future counted", "cope", "logits.sigmoid() * call.keep()", "logits.sigmoid()"
    ),
    Fault(
        "gates reward",
        "fox",
        "total[b, i + first, h] - total[b, j, h]",
        "total[b, j, h] - total[b, i + first, h]",
    ),
    Fault("cached state ignored", "fox", "past[:, -1:] + total", "total"),
    Fault("past of the cache ignored", "path", ".tril(call.past)", ".tril()"),
    # The attention itself
    Fault(
        "mask > for >=",
        "schemes/base.py",
        "key <= query + self.past",
        "key < query + self.past",
        "rope",
        STRIDED,
    ),
    Fault(
        "one key too many", "attention.py", ">= keys\n", "> keys\n", "alibi", STRIDED
    ),
]


@contextmanager
def planted(fault: Fault | None) -> Iterator[Path]:
    """Yield a folder with a copy of the package that has the fault, or none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for part in PARTS:
            if (ROOT / part).is_dir():
                skip = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(ROOT / part, folder / part, ignore=skip)
            else:
                shutil.copy(ROOT / part, folder / part)
        if fault:
            file = folder / fault.path
            text = file.read_text()
            found = text.count(fault.old)
            if found != 1:
                sys.exit(
                    f"{fault.name}: {fault.old!r} is {found} times in {fault.path}"
                )
            file.write_text(text.replace(fault.old, fault.new))
        yield folder


def python(folder: Path, *words: str) -> tuple[int, str]:
    """Run python in a folder, on one core; return its exit code and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-B", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def failed_check(folder: Path, *labels: str) -> str:
    """Return the code of a conformance check that fails, or nothing."""
    code, said = python(folder, "-c", CONFORM, str(folder), *labels)
    assert code == 0, said  # a package that cannot be imported proves no test
    return said.strip()


def failed_test(folder: Path, *words: str) -> str:
    """Return the name of the first test that fails, or nothing."""
    code, said = python(folder, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *words)
    assert code in (0, 1), said
    found = re.search(r"^FAILED \S+?::(\w+)", said, re.MULTILINE)
    return found[1] if found else ""


def killer(fault: Fault) -> str:
    """Return what turned red."""
    with planted(fault) as folder:
        if check := failed_check(folder, fault.label or fault.file):
            return f"conformance {check}"
        test = failed_test(folder, *fault.own_tests)
        return f"tests {test}" if test else "SURVIVED"


def chosen(names: list[str]) -> list[Fault]:
    """Return the faults of these names, or all."""
    there = [fault.name for fault in FAULTS]
    if unknown := set(names) - set(there):
        sys.exit(f"no such fault: {', '.join(sorted(unknown))}; there are {there}")
    return [fault for fault in FAULTS if not names or fault.name in names]


def main() -> None:
    """Plant the faults named, or all, and print a line for each."""
    faults = chosen(sys.argv[1:])
    with planted(None) as folder:  # what is red before proves nothing
        labels = {fault.label or fault.file for fault in faults}
        words = {word for fault in faults for word in fault.own_tests}
        red = failed_check(folder, *labels) or failed_test(folder, *sorted(words))
        if red:
            sys.exit(f"{red} fails without a fault")
    found: list[str] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for fault, red in zip(faults, pool.map(killer, faults), strict=True):
            print(f"{fault.file:18} {fault.name:26} {red}", flush=True)
            found.append(red)
    killed = len(found) - found.count("SURVIVED")
    alone = sum(red.startswith("conformance") for red in found)
    print(f"{killed} of {len(found)} killed, {alone} by conformance alone")
    sys.exit(killed < len(found))


if __name__ == "__main__":
    main()
