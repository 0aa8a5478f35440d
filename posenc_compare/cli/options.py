"""The options that several commands share; those of settings come from their table."""

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from posenc_compare.analysis.settings.presets import default_text
from posenc_compare.analysis.settings.table import TABLE, parse_value
from posenc_compare.registry import add_plugin


class Format(StrEnum):
    """How a table is written to stdout."""

    table = "table"
    json = "json"
    csv = "csv"
    md = "md"
    tex = "tex"


Folders = Annotated[list[Path], typer.Argument(help="Folders of runs, read together.")]
OnlySchemes = Annotated[
    str,
    typer.Option(
        "--schemes", help="Show these: comma-separated labels, families or globs."
    ),
]
OnlyMeasures = Annotated[
    str,
    typer.Option(
        "--measures", help="Show these: names or globs, `trained` or `untrained`."
    ),
]
OnlyTasks = Annotated[
    str, typer.Option("--tasks", help="Show trainings on these: names or globs.")
]
AllVersions = Annotated[
    bool,
    typer.Option(
        "--all-versions", help="Show what older versions of a scheme have made, too."
    ),
]
Folder = Annotated[Path, typer.Argument(help="Folder of a run.")]
Formats = Annotated[Format, typer.Option("--format", help="Format of stdout.")]
Written = Annotated[
    Path | None, typer.Option("--out", help="Where to write instead of the folder.")
]


def _declare(plugins: list[str] | None) -> list[str] | None:
    for plugin in plugins or []:
        add_plugin(plugin)
    return plugins


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        callback=_declare,
        is_eager=True,  # names of a plugin may stand in any other option
        metavar="FILE",
        help="File or module that registers schemes, measures, tasks or plots; may be "
        "repeated.",
        rich_help_panel="Settings",
    ),
]

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Setting of `describe settings`; may be repeated or separated by commas.",
        rich_help_panel="Settings",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file of settings and options; the command line wins over it.",
        rich_help_panel="Settings",
    ),
]

Command = TypeVar("Command", bound=Callable[..., Any])
METAVARS = {int: "INTEGER", float: "FLOAT", int | str: "SEEDS", str: "TEXT"}
DATA = ("preset", "tasks", "seeds", "corpus", "test_corpus")
WORK = ("device", "workers", "threads", "timeout", "memory", "retry", "overwrite")
WORK += ("reuse", "shard", "engine", "yes")


def with_options(*names: str, **defaults: str) -> Callable[[Command], Command]:
    """Give a command an option for each of these settings instead of `**options`.

    An option that is not given is None.

    Args:
        *names: of the settings.
        **defaults: of the command, where they are not those of the table.
    """

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
        made = [_option(name, defaults.get(name, default_text(name))) for name in names]
        command.__signature__ = signature.replace(parameters=[*own, *made])  # type: ignore[attr-defined]
        return command

    return give


def _option(name: str, default: str) -> inspect.Parameter:
    """Return the parameter from which typer makes the option of a setting."""
    one = TABLE[name]
    facts: dict[str, Any] = {"metavar": METAVARS.get(one.type)}
    if get_origin(one.type) is Literal:
        facts["metavar"] = f"[{'|'.join(get_args(one.type))}]"
    if one.type is not bool:  # a wrong value is left for its check
        facts["parser"] = lambda text: parse_value(one, text)
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=one.metadata["sentence"] + (f" [{default}]" if default else ""),
        rich_help_panel="Execution" if name in WORK else "Comparison",
        **facts,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[bool | None if one.type is bool else Any, option],
    )
