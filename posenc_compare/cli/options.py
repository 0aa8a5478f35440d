"""The options that several commands share; those of settings come from their table."""

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from posenc_compare.registry import add_plugin
from posenc_compare.settings.presets import default_text
from posenc_compare.settings.table import TABLE, parse_value


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


def _own(*flags: str, help: str, panel: str, metavar: str | None = None) -> Any:
    """Return an option of a command that is no setting."""
    return typer.Option(
        *flags, help=help, rich_help_panel=panel, metavar=metavar, show_default=False
    )


SCHEMES = (
    "Comma-separated: names, `all`, families (absolute, relative, ...), globs, or "
    "variants as name:key=value;key=value. [all]"
)
MEASURES = (
    "Comma-separated names of `list`, `trained`, `untrained` or `all`. [all; of "
    "`measure`: untrained]"
)
CONFIG = "TOML file of settings and options; the command line wins over it."
SET = "Setting of `describe settings`; may be repeated or separated by commas."
OUT = "Folder for records, tables and plots."
DRY_RUN = "Show the cells without computing them."
Text = str | None
Words = list[str] | None
OWN: dict[str, Any] = {
    "schemes": Annotated[Text, _own("--schemes", help=SCHEMES, panel="Comparison")],
    "measures": Annotated[Text, _own("--measures", help=MEASURES, panel="Comparison")],
    "config": Annotated[Path | None, _own("--config", help=CONFIG, panel="Settings")],
    "set": Annotated[
        Words, _own("--set", help=SET, panel="Settings", metavar="NAME=VALUE")
    ],
    "plugins": Plugins,
    "out": Annotated[Path | None, _own("--out", help=OUT, panel="Output")],
    "format": Annotated[
        Format | None, _own("--format", help="Format of stdout.", panel="Output")
    ],
    "dry_run": Annotated[bool | None, _own("--dry-run", help=DRY_RUN, panel="Output")],
}
Command = TypeVar("Command", bound=Callable[..., Any])
METAVARS = {int: "INTEGER", float: "FLOAT", int | str: "SEEDS", str: "TEXT"}
COMMON = ("config", "set", "plugins", "out", "format", "dry_run")
WORK = ("device", "workers", "threads", "timeout", "memory", "retry", "overwrite")
WORK += ("reuse", "shard", "engine", "yes")


def with_options(*names: str, **defaults: str) -> Callable[[Command], Command]:
    """Give a command these options instead of `**options`.

    An option that is not given is None.

    Args:
        *names: of settings, or of `OWN`.
        **defaults: of the command, where they are not those of the table.
    """

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
        made = [_option(name, defaults.get(name, "")) for name in names]
        made = signature.replace(parameters=[*own, *made])
        command.__signature__ = made  # type: ignore[attr-defined]
        return command

    return give


def _option(name: str, default: str) -> inspect.Parameter:
    """Return the parameter from which typer makes the option of a setting."""
    if name in OWN:
        return _parameter(name, OWN[name])
    one, default = TABLE[name], default or default_text(name)
    flag, metavar = one.type is bool, METAVARS.get(one.type)
    if get_origin(one.type) is Literal:
        metavar = f"[{'|'.join(get_args(one.type))}]"
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=one.metadata["sentence"] + (f" [{default}]" if default else ""),
        rich_help_panel="Execution" if name in WORK else "Comparison",
        parser=None if flag else lambda text: parse_value(one, text),
        metavar=metavar,
    )
    return _parameter(name, Annotated[bool | None if flag else Any, option])


def _parameter(name: str, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
    )
