"""The commands: read options, call, print.

What is asked for goes to stdout, everything else to stderr. Exit codes: 0 all done,
1 some cells failed and the rest is written, 2 a wrong option, 130 interrupted.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_compare import __version__
from posenc_compare.errors import PosencError

app = typer.Typer(
    name="posenc-compare",
    help="Compare positional schemes for transformers behind one attention hook.",
    no_args_is_help=True,
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


class Preset(StrEnum):
    """Size of the trained comparison."""

    quick = "quick"
    standard = "standard"
    gpu = "gpu"


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


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
Devices = Annotated[Device, typer.Option(help="Where to compute.")]
Threads = Annotated[int, typer.Option(help="CPU threads; 0: as many as torch takes.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the cells, run none.")]
Folder = Annotated[Path, typer.Argument(help="Folder of a run.")]


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 2."""
    try:
        app()
    except PosencError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


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
    preset: Annotated[Preset | None, typer.Option(help="quick by default.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file that sets any of the options from --preset to --positions."
        ),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="File or folder of text; default: stdlib.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of paired seeds.")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of the decoder.")] = None,
    width: Annotated[int | None, typer.Option(help="Channels of a token.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads.")] = None,
    length: Annotated[int | None, typer.Option(help="Training length, bytes.")] = None,
    longest: Annotated[
        int | None, typer.Option(help="Longest test, in training lengths.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of matrices.")] = None,
    test_bytes: Annotated[
        int | None, typer.Option(help="Held-out bytes per test length.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of training: float32 or bfloat16 (autocast).")
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option("--compiled/--not-compiled", help="Use torch.compile."),
    ] = None,
    positions: Annotated[
        int | None, typer.Option(help="Positions that codes are measured over.")
    ] = None,
    device: Devices = Device.auto,
    threads: Threads = 0,
    out: Out = None,
    format: Formats = Format.table,
    plugin: Plugins = None,
    dry_run: DryRun = False,
) -> None:
    """Measure and train schemes, and write tables and plots.

    A second run of the same command computes only what is not there yet.
    """
    from posenc_compare.cli import commands, settings

    given = {
        "preset": preset and preset.value,
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
    }
    setting = settings.settle(config, given, device.value, threads)
    _finish(
        commands.run(
            schemes, measures, setting, out, format.value, plugin or [], dry_run
        )
    )


@app.command()
def measure(
    schemes: Schemes = "all",
    measures: Annotated[
        str, typer.Option(help="Comma-separated; `all` would train too.")
    ] = "untrained",
    seeds: Annotated[int | None, typer.Option(help="Number of paired seeds.")] = 1,
    width: Annotated[int | None, typer.Option(help="Channels of a token.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads.")] = None,
    positions: Annotated[
        int | None, typer.Option(help="Positions that codes are measured over.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16 or float16.")
    ] = None,
    device: Devices = Device.auto,
    threads: Threads = 0,
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
        "probe_dtype": dtype,
    }
    setting = settings.settle(None, given, device.value, threads)
    where = out or Path("runs/measure")
    _finish(
        commands.run(
            schemes, measures, setting, where, format.value, plugin or [], dry_run
        )
    )


@app.command()
def table(folder: Folder, format: Formats = Format.table) -> None:
    """Print and write the tables of a run again, from its records."""
    from posenc_compare.cli import commands

    commands.table(folder, format.value)


@app.command()
def plot(folder: Folder) -> None:
    """Draw the plots of a run again, from its records."""
    from posenc_compare.cli import commands

    commands.plot(folder)


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
def env(format: Formats = Format.table) -> None:
    """Show versions and devices, for a report of what ran where."""
    from posenc_compare.cli import facts

    facts.show_environment(format.value)


def _finish(code: Any) -> None:
    if code:
        raise typer.Exit(code)
