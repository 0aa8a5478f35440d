"""The command line: options are parsed, one function is called, its result is printed.

Each command has its file. It imports heavy packages only when it runs.

What is asked for goes to stdout, everything else to stderr. Exit codes: 0 all done,
1 some cells failed and the rest is written, 2 a wrong option, 3 a folder, a file to
write or stdout that cannot be used, 130 interrupted.
"""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from posenc_compare.cli.check import check
from posenc_compare.cli.console import say
from posenc_compare.cli.describe import describe
from posenc_compare.cli.diff import diff
from posenc_compare.cli.hf import app as hf
from posenc_compare.cli.list import list_
from posenc_compare.cli.plot import plot
from posenc_compare.cli.rank import rank
from posenc_compare.cli.recommend import recommend
from posenc_compare.cli.report import report
from posenc_compare.cli.reproduce import reproduce
from posenc_compare.cli.run import cost, measure, run
from posenc_compare.cli.show import show_
from posenc_compare.cli.status import status
from posenc_compare.cli.table import table
from posenc_compare.errors import ConfigError, PosencError, StoreError
from posenc_compare.settings.table import TABLE
from posenc_compare.validate import hint, near
from posenc_compare.version import __version__

SYNONYMS: dict[str, str] = {"compare": "run", "train": "run", "benchmark": "cost"}
CLOSED = "stdout: must take what is printed"
FORMATS = {"latex": "tex", "markdown": "md", "text": "table"}


class Commands(TyperGroup):
    """Commands that an interruption ends in one line, also while they import."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is asked for."""
        if not args[0].startswith("-") and args[0] not in self.commands:
            known = [*self.commands]
            for name, command in self.commands.items():
                known += [
                    f"{name} {inner}" for inner in getattr(command, "commands", ())
                ]
            meant = hint(SYNONYMS.get(args[0], args[0]), known)
            raise ConfigError(f"unknown command {args[0][:40]!r}{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Call the command that is asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted")
            return 130


app = typer.Typer(
    name="posenc-compare",
    cls=Commands,
    help="Compare positional encodings for transformers: published ones and your own.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


# Whatever typer raises for a wrong command line.
UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Run the command line; what is wrong with it becomes one line and an exit code."""
    words = sys.argv[1:] or ["--help"]
    if sys.stdout is None:
        sys.exit(_refuse("stdout: must be open; `> /dev/null` would work", 3))
    streams: list[Any] = [s for s in (sys.__stdout__, sys.__stderr__) if s]
    for stream in streams:  # escape characters that their encoding lacks
        stream.reconfigure(errors="backslashreplace")
    code = _code(lambda: app(words, standalone_mode=False))
    try:
        print(end="", flush=True)
    except OSError as error:
        # Python writes what is left as it ends: that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        ended = isinstance(error, BrokenPipeError)  # the reader has seen enough
        code = code or (1 if ended else _refuse(f"{CLOSED}, got {error}", 3))
    sys.exit(code)


def _code(act: Callable[[], int | None]) -> int:
    """Return the exit code of an act; if it fails, print why in one line."""
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
        return _refuse(str(error) if error.filename else f"{CLOSED}, got {error}", 3)


def _refuse(reason: str, code: int) -> int:
    say(f"error: {reason}")
    return code


def _usage(error: Any) -> str:
    """Return what typer says of a wrong command line; the nearest option first."""
    if not hasattr(error, "possibilities"):
        message = error.format_message().replace("Value error, ", "")
        # Which is all that typer gives.
        more = "; commas separate names" if "extra argument" in message else ""
        more = "; --plugin FILE adds a file" if ".py)" in message else more
        other = next((n for n in FORMATS if f"'{n}' is not one of" in message), "")
        more = f" '{FORMATS[other]}' would work" if other else more
        return f"{message}{more}"
    word = error.option_name.removeprefix("--")
    options = [name for p in error.ctx.command.params for name in p.opts]
    known = {option.removeprefix("--"): option for option in options}
    setting = word.replace("-", "_").removeprefix("not_")
    if "set" in known:
        if setting in TABLE:
            return f"{error.option_name} is a setting: --set {setting}=VALUE"
        known = {name: f"--set {name}=VALUE" for name in TABLE} | known
    meant = [f"; did you mean {known[name]}?" for name in near(word, known)[:1]]
    return "".join([error.message, *meant])


def _version(wanted: bool) -> None:
    if wanted:
        print(f"posenc-compare {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Compare positional encodings for transformers: published ones and your own."""


for command in (
    run,
    measure,
    cost,
    rank,
    recommend,
    table,
    plot,
    report,
    status,
    diff,
    list_,
    describe,
    show_,
    check,
    reproduce,
):
    app.command(command.__name__.strip("_"))(command)
app.add_typer(hf, name="hf")
