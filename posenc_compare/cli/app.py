"""The commands: read options, call, print.

What is asked for goes to stdout, everything else to stderr. Exit codes: 0 all done,
1 some cells failed and the rest is written, 2 a wrong option, 3 a folder, a file to
write or stdout that cannot be used, 130 interrupted.
"""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_compare import __version__
from posenc_compare.cli.streams import open_streams
from posenc_compare.errors import PosencError, StoreError
from posenc_compare.validate import hint, number

app = typer.Typer(
    name="posenc-compare",
    help="Compare positional schemes for transformers behind one attention hook.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Format(StrEnum):
    """How a table is written to stdout."""

    table = "table"
    json = "json"
    csv = "csv"
    md = "md"


# Whatever typer raises for a wrong command line.
UsageError: Any = typer.BadParameter.__base__


def whole(help: str) -> Any:
    """Return an option for a whole number; what is none is left for a check."""
    return typer.Option(
        help=help, parser=lambda text: number(text, int), metavar="INTEGER"
    )


def real(help: str) -> Any:
    """Return an option for a number; what is none is left for a check."""
    return typer.Option(
        help=help, parser=lambda text: number(text, float), metavar="FLOAT"
    )


Schemes = Annotated[
    str,
    typer.Option(
        help="Comma-separated: names, `all`, families (absolute, relative, ...), "
        "globs, or variants as name:key=value;key=value."
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", help="File or module that registers schemes; may be repeated."
    ),
]
Out = Annotated[Path | None, typer.Option(help="Folder for records and what is shown.")]
Formats = Annotated[Format, typer.Option("--format", help="Format of stdout.")]
Devices = Annotated[
    str,
    typer.Option(
        help="Where to compute; auto: train on a GPU if there is one, all else on the "
        "CPU.",
        metavar="[auto|cpu|cuda]",
    ),
]
Threads = Annotated[int, whole("CPU threads of one worker.")]
Workers = Annotated[int, whole("Processes; 0: one for each core, or one on a GPU.")]
Timeout = Annotated[float, real("Seconds a cell may go on without progress.")]
Memory = Annotated[float, real("GiB of data a worker may hold; 0: all. On CPUs.")]
Retry = Annotated[
    str, typer.Option(help="Compute these again: failed, lost, or both by comma.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Compute every cell again.")
]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="Stop at the first cell that fails.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Compute however many cells there are.")
]
Written = Annotated[
    Path | None, typer.Option("--out", help="Where to write instead of the folder.")
]
Grid = Annotated[
    str | None,
    typer.Option(
        help="Compare schemes of two axes on a grid, as 16x16, or of three.",
        metavar="ROWSxCOLUMNS",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the cells, run none.")]
Folder = Annotated[Path, typer.Argument(help="Folder of a run.")]


def main() -> None:
    """Run the command line; what is wrong with it becomes one line and an exit code."""
    words = sys.argv[1:] or ["--help"]
    code = _code(open_streams) or _code(lambda: app(words, standalone_mode=False))
    printed = _code(lambda: sys.stdout.flush())
    sys.exit(code or printed)


def _code(act: Callable[[], Any]) -> int:
    """Return the exit code of an act, and say in one line what is wrong, if it is."""
    try:
        return act() or 0
    except BrokenPipeError:  # nobody reads on
        return 1
    except UsageError as error:
        return _refuse(_usage(error), 2)
    except PosencError as error:
        return _refuse(str(error), 3 if isinstance(error, StoreError) else 2)
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        return _refuse(f"{name} must be installed, and is not; `pip install {name}`", 2)
    except OSError as error:  # of a folder or a stream that nobody looked at before
        return _refuse(str(error), 3)


def _refuse(reason: str, code: int) -> int:
    from posenc_compare.cli.say import say

    say(f"error: {reason}")
    return code


def _usage(error: Any) -> str:
    """Return what typer says of a wrong command line; the nearest option first."""
    if not getattr(error, "possibilities", None):
        return error.format_message()
    names = [name.strip("-") for p in error.ctx.command.params for name in p.opts]
    return f"{error.message}{hint(error.option_name.strip('-'), names)}"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"posenc-compare {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show it."),
    ] = False,
) -> None:
    """Compare positional schemes for transformers behind one attention hook."""


@app.command()
def run(
    schemes: Schemes = "all",
    measures: Annotated[str, typer.Option(help="Comma-separated, or `all`.")] = "all",
    preset: Annotated[
        str | None,
        typer.Option(help="quick by default.", metavar="[quick|standard|gpu]"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file that sets any of the options from --preset to --grid."
        ),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="File or folder of text; default: stdlib.")
    ] = None,
    seeds: Annotated[int | None, whole("Number of paired seeds.")] = None,
    layers: Annotated[int | None, whole("Layers of the decoder.")] = None,
    width: Annotated[int | None, whole("Channels of a token.")] = None,
    heads: Annotated[int | None, whole("Attention heads.")] = None,
    length: Annotated[int | None, whole("Training length, bytes.")] = None,
    longest: Annotated[int | None, whole("Longest test, in training lengths.")] = None,
    steps: Annotated[int | None, whole("Optimiser steps.")] = None,
    batch: Annotated[int | None, whole("Sequences per step.")] = None,
    learning_rate: Annotated[float | None, real("Peak rate.")] = None,
    weight_decay: Annotated[float | None, real("Of matrices.")] = None,
    test_bytes: Annotated[int | None, whole("Held-out bytes per test length.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of training: float32 or bfloat16 (autocast).")
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option("--compiled/--not-compiled", help="Use torch.compile."),
    ] = None,
    positions: Annotated[
        int | None, whole("Positions that codes are measured over.")
    ] = None,
    grid: Grid = None,
    device: Devices = "auto",
    threads: Threads = 1,
    workers: Workers = 0,
    timeout: Timeout = 3600.0,
    memory: Memory = 0.0,
    checkpoint_every: Annotated[
        float, real("Seconds between checkpoints of a training.")
    ] = 180.0,
    retry: Retry = "",
    overwrite: Overwrite = False,
    fail_fast: FailFast = False,
    shard: Annotated[
        str, typer.Option(help="I/N: the share of this run, of N that run at once.")
    ] = "1/1",
    yes: Yes = False,
    out: Out = None,
    format: Formats = Format.table,
    plugin: Plugins = None,
    dry_run: DryRun = False,
) -> None:
    """Measure and train schemes, and write tables, plots and a report.

    A second run of the same command computes only what is not there yet.
    """
    from posenc_compare.cli import commands, settings

    given = {
        "preset": preset,
        "corpus": corpus,
        "seeds": seeds,
        "layers": layers,
        "width": width,
        "heads": heads,
        "length": length,
        "longest": longest,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "test_bytes": test_bytes,
        "dtype": dtype,
        "compiled": compiled,
        "positions": positions,
        "grid": grid,
    }
    setting = settings.settle(config, given, device, threads)
    work = commands.Work(
        workers,
        timeout,
        memory,
        checkpoint_every,
        retry,
        overwrite,
        fail_fast,
        shard,
        yes,
    )
    _finish(
        commands.run(
            schemes, measures, setting, work, out, format.value, plugin or [], dry_run
        )
    )


@app.command()
def measure(
    schemes: Schemes = "all",
    measures: Annotated[
        str, typer.Option(help="Comma-separated; `all` would train too.")
    ] = "untrained",
    seeds: Annotated[int | None, whole("Number of paired seeds.")] = 1,
    width: Annotated[int | None, whole("Channels of a token.")] = None,
    heads: Annotated[int | None, whole("Attention heads.")] = None,
    positions: Annotated[
        int | None, whole("Positions that codes are measured over.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16 or float16.")
    ] = None,
    grid: Grid = None,
    device: Devices = "auto",
    threads: Threads = 1,
    workers: Workers = 0,
    timeout: Timeout = 3600.0,
    memory: Memory = 0.0,
    retry: Retry = "",
    overwrite: Overwrite = False,
    fail_fast: FailFast = False,
    yes: Yes = False,
    out: Out = None,
    format: Formats = Format.table,
    plugin: Plugins = None,
    dry_run: DryRun = False,
) -> None:
    """Measure schemes without training: seconds, not minutes."""
    from posenc_compare.cli import commands, settings

    given = {
        "seeds": seeds,
        "width": width,
        "heads": heads,
        "positions": positions,
        "grid": grid,
        "probe_dtype": dtype,
    }
    setting = settings.settle(None, given, device, threads)
    where = out or (None if grid else Path("runs/measure"))
    work = commands.Work(
        workers=workers,
        timeout=timeout,
        memory=memory,
        retry=retry,
        overwrite=overwrite,
        fail_fast=fail_fast,
        yes=yes,
    )
    _finish(
        commands.run(
            schemes, measures, setting, work, where, format.value, plugin or [], dry_run
        )
    )


@app.command()
def table(folder: Folder, format: Formats = Format.table, out: Written = None) -> None:
    """Print the tables of a run again, from its records."""
    from posenc_compare.cli import shown

    shown.table(folder, format.value, out)


@app.command()
def plot(folder: Folder, out: Written = None) -> None:
    """Draw the plots of a run again, from its records."""
    from posenc_compare.cli import shown

    shown.plot(folder, out)


@app.command()
def report(folder: Folder, out: Written = None) -> None:
    """Write one HTML file with tables, plots and provenance of a run."""
    from posenc_compare.cli import shown

    shown.report(folder, out)


@app.command()
def status(folder: Folder, format: Formats = Format.table) -> None:
    """Say what a folder of records holds, and what went wrong."""
    from posenc_compare.cli import inspect

    _finish(inspect.status(folder, format.value))


@app.command()
def rerun(
    key: Annotated[str, typer.Argument(help="Of a record, or how it begins.")],
    folder: Folder,
    corpus: Annotated[str, typer.Option(help="Where the text of a training is.")] = (
        "stdlib"
    ),
    timeout: Timeout = 3600.0,
    memory: Memory = 0.0,
    plugin: Plugins = None,
) -> None:
    """Compute one record again and say whether the result is the same."""
    from posenc_compare.cli import commands, inspect

    work = commands.Work(workers=1, timeout=timeout, memory=memory)
    _finish(inspect.rerun(key, folder, corpus, plugin or [], work))


@app.command()
def diff(
    one: Folder,
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    format: Formats = Format.table,
) -> None:
    """Compare the records of two folders, cell by cell."""
    from posenc_compare.cli import inspect

    _finish(inspect.diff(one, other, format.value))


@app.command()
def pack(folder: Folder) -> None:
    """Put the records of a finished run into one compressed file."""
    from posenc_compare.cli import pack as packing

    _finish(packing.pack(folder))


@app.command()
def unpack(folder: Folder) -> None:
    """Give every packed record a file of its own again."""
    from posenc_compare.cli import pack as packing

    _finish(packing.unpack(folder))


@app.command(name="list")
def list_(format: Formats = Format.table, plugin: Plugins = None) -> None:
    """List schemes and measures. Imports none of them."""
    from posenc_compare.cli import facts

    facts.show_list(format.value, plugin or [])


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="Scheme or measure.")],
    plugin: Plugins = None,
) -> None:
    """Describe a scheme (formula, source, options, doors) or a measure."""
    from posenc_compare.cli import facts

    facts.show_description(name, plugin or [])


@app.command()
def check(
    scheme: Annotated[
        str,
        typer.Argument(
            help="As for run; or file.py; or file.py:Class for one class of it."
        ),
    ],
    plugin: Plugins = None,
    format: Formats = Format.table,
) -> None:
    """Check schemes, yours or ours, against what every scheme must do."""
    from posenc_compare.cli import conform

    _finish(conform.check(scheme, plugin or [], format.value))


@app.command()
def reproduce(format: Formats = Format.table) -> None:
    """Compute figures that papers have published, and compare."""
    from posenc_compare.cli import facts

    _finish(facts.show_published(format.value))


@app.command()
def env(format: Formats = Format.table) -> None:
    """Show versions and devices, for a report of what ran where."""
    from posenc_compare.cli import facts

    facts.show_environment(format.value)


def _finish(code: Any) -> None:
    if code:
        raise typer.Exit(code)
