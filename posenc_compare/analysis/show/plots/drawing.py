"""Draw one plot: here, or for a plugin's in a process of its own.

The function of a plugin may hang, exit or crash; that costs its own plot.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.paper import PAPER, on_paper, paper_of
from posenc_compare.analysis.show.plots.style import render
from posenc_compare.fresh import python, search_path
from posenc_compare.registry import PLOTS, Entry, load

SECONDS = 120.0  # that the plot of a plugin may take
DRAW = "from posenc_compare.analysis.show.plots.drawing import main; main()"

Files = dict[str, bytes]


def of_plugin(entry: Entry) -> bool:
    """Return whether a plot is none of this package."""
    return not PLOTS.owns(entry.module)


def draw(
    name: str, records: list[Record], endings: Sequence[str], dpi: int
) -> tuple[Files, str]:
    """Return the files of a plot by name, and why there are none, if it fails.

    Args:
        name: of the plot.
        records: it is drawn from; there are no files if they hold nothing for it.
        endings: formats.
        dpi: resolution of PNG.
    """
    try:
        figure = PLOTS.get(name)(records)
        if figure is None:
            return {}, ""
        return {f"{name}.{e}": render(figure, e, dpi) for e in endings}, ""
    except (Exception, SystemExit) as error:  # odd arrays fail in many ways
        return {}, f"{type(error).__name__}: {error}"


def draw_apart(
    entry: Entry, records: list[Record], endings: Sequence[str], dpi: int
) -> tuple[Files, str]:
    """Return what `draw` does; a new process draws, for `SECONDS` at most."""
    paper = PAPER.get()
    asked = {
        "path": search_path(),
        "plot": [entry.module, str(entry.path), entry.origin],
        "style": str(paper.style or ""),
        "width": paper.width,
        "given": [entry.name, list(endings), dpi],
        "records": [{**record.to_json(), "key": record.key} for record in records],
    }
    with subprocess.Popen(
        python(DRAW),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            answer, _ = process.communicate(json.dumps(asked).encode(), SECONDS)
        except subprocess.TimeoutExpired:
            return {}, f"it took more than {SECONDS:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    try:
        files, problem = json.loads(answer)
        return {n: base64.b64decode(text) for n, text in files.items()}, str(problem)
    except (ValueError, TypeError, AttributeError):
        return {}, f"its process ended with exit code {process.returncode}"


def main() -> None:
    """Draw the plot that stdin asks for; answer on stdout, where nothing else goes."""
    answers = os.dup(1)
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    module, path, origin = asked["plot"]
    load(module, Path(path), origin)
    name, endings, dpi = asked["given"]
    style = Path(asked["style"]) if asked["style"] else None
    paper = replace(paper_of("", style), width=asked["width"])
    with on_paper(paper):
        records = [Record.from_json(body) for body in asked["records"]]
        files, problem = draw(name, records, endings, dpi)
    texts = {n: base64.b64encode(data).decode() for n, data in files.items()}
    with os.fdopen(answers, "w") as stream:
        json.dump([texts, problem], stream)
    os._exit(0)  # whatever the plot has started
