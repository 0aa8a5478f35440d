"""Run docs/tour.md, and write its outputs, its figures and the notebook of it.

    python tools/tour.py

The page is the source. Its blocks of Python and of commands run one after another, in
the folder `docs`. What a block prints stands below it, and a figure is an image below
that. The notebook has the same text and outputs.
"""

import ast
import base64
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, NOTEBOOK, FIGURES = DOCS / "tour.md", DOCS / "tour.ipynb", DOCS / "tour"
BLOCK = re.compile(
    r"```(python|sh)\n(.*?)```\n"
    r"(?:\n```text\n(.*?)```\n)?"
    r"(?:\n(!\[[^\]]*\]\(tour/[\w-]+\.png\))\n)?",
    re.DOTALL,
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
SHARP = 80  # dots per inch


@dataclass(frozen=True)
class Block:
    """A block of code of the page."""

    kind: str  # python or sh
    code: str
    printed: str  # what the page shows below it
    image: str  # the line that shows its figure, or empty

    @property
    def file(self) -> Path:
        """Return the file of the figure."""
        return FIGURES / self.image.rpartition("/")[2].rstrip(")")

    def text(self, printed: str) -> str:
        """Return the block as it stands on the page, with what it prints."""
        parts = [f"```{self.kind}\n{self.code}```\n"]
        parts += [f"```text\n{printed}```\n"] * bool(printed)
        return "\n".join([*parts, *[f"{self.image}\n"] * bool(self.image)])

    def run(self, names: dict[str, Any]) -> tuple[str, list[bytes]]:
        """Return what the block prints, and its figures as PNG.

        It binds its names in `names`, which hold those of blocks before it.
        """
        if self.kind == "sh":
            return "".join(map(_said, self.code.splitlines())), []
        said, value = io.StringIO(), None
        tree = ast.parse(self.code)
        last = tree.body[-1]
        with redirect_stdout(said):
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(tree.body[:-1], []), "tour", "exec"), names)
                value = eval(compile(ast.Expression(last.value), "tour", "eval"), names)
            else:
                exec(compile(tree, "tour", "exec"), names)
        return said.getvalue(), [*_drawn(value)]


def _said(command: str) -> str:
    """Return what a command of this package prints."""
    words = shlex.split(command)
    assert words[0] == "posenc-compare", command
    line = [sys.executable, "-m", "posenc_compare", *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    done = subprocess.run(
        line, stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return "".join(f"{row.rstrip()}\n" for row in done.stdout.rstrip().split("\n"))


def _drawn(value: Any) -> Iterator[bytes]:
    """Yield the figures that a notebook would show: of pyplot, and the last value."""
    for number in plt.get_fignums():
        data = io.BytesIO()
        plt.figure(number).savefig(data, format="png", dpi=SHARP)
        yield data.getvalue()
    plt.close("all")
    if hasattr(value, "_repr_png_"):
        yield value._repr_png_()


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page."""
    return [_block(found) for found in BLOCK.finditer(text)]


def _block(found: re.Match[str]) -> Block:
    return Block(*(part or "" for part in found.groups()))


def alike(shown: str, got: str) -> bool:
    """Return whether two outputs agree but for the last digit of a decimal.

    There processors may differ, since they add in another order.
    """
    if NUMBER.sub("#", shown) != NUMBER.sub("#", got):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(got), strict=True)
    return all(_near(Decimal(a), Decimal(b)) for a, b in pairs)


def _near(one: Decimal, other: Decimal) -> bool:
    exponent = one.as_tuple().exponent
    assert isinstance(exponent, int)
    return one == other or (
        exponent < 0 and abs(one - other) <= Decimal(10) ** exponent
    )


def notebook(text: str) -> dict[str, Any]:
    """Return the notebook of a page, with its outputs and figures, in nbformat 4.5."""
    cells, end = [], 0
    for found in BLOCK.finditer(text):
        cells += _prose(text[end : found.start()])
        cells.append(_cell(_block(found)))
        end = found.end()
    cells += _prose(text[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    facts = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": facts, "nbformat": 4, "nbformat_minor": 5}


def _prose(text: str) -> list[dict[str, Any]]:
    text = text.strip()
    cell = {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}
    return [cell] if text else []


def _cell(block: Block) -> dict[str, Any]:
    code, outputs = block.code.rstrip(), []
    if block.kind == "sh":
        code = "\n".join(f"!{line}" for line in code.splitlines())
    if block.printed:
        said = {"output_type": "stream", "name": "stdout"}
        outputs.append({**said, "text": _lines(block.printed)})
    if block.image:
        image = base64.b64encode(block.file.read_bytes()).decode()
        data = {"image/png": image}
        shown = {"output_type": "display_data", "metadata": {}}
        outputs.append({**shown, "data": data})
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}}
    return {**cell, "outputs": outputs, "source": _lines(code)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def as_json(book: dict[str, Any]) -> str:
    """Return a notebook as the text of its file."""
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Run every block, and write page, figures and notebook."""
    mpl.use("Agg")
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {"__name__": "tour"}
    FIGURES.mkdir(exist_ok=True)

    def again(found: re.Match[str]) -> str:
        block = _block(found)
        printed, images = block.run(names)
        assert len(images) == bool(block.image), block.code
        if images:
            block.file.write_bytes(images[0])
        return block.text(printed)

    with chdir(DOCS):
        text = BLOCK.sub(again, text)
    PAGE.write_text(text, "utf-8")
    NOTEBOOK.write_text(as_json(notebook(text)), "utf-8")


if __name__ == "__main__":
    main()
