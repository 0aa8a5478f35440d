"""The options that several commands share; those of settings come from their table."""

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from posenc_compare.registry import add_plugin
from posenc_compare.settings.presets import default_text
from posenc_compare.settings.table import TABLE, Work, parse_value


class Format(StrEnum):
    """How a table is written to stdout."""

    table = "table"
    json = "json"
    csv = "csv"
    md = "md"
    tex = "tex"


Folders = Annotated[list[Path], typer.Argument(help="One or more run folders.")]
OnlySchemes = Annotated[
    str,
    typer.Option(
        "--schemes",
        help="Show only these schemes: comma-separated names, variants, families or "
        "globs.",
    ),
]
OnlyMeasures = Annotated[
    str,
    typer.Option(
        "--measures",
        help="Show only these measures: names, globs, `trained` or `untrained`.",
    ),
]
OnlyTasks = Annotated[
    str,
    typer.Option(
        "--tasks", help="Show only training runs on these tasks: names or globs."
    ),
]
NoFloors = Annotated[
    bool,
    typer.Option(
        "--no-floors",
        metavar="",
        help="Leave out the reference rows and lines: n-gram models, constant answers.",
    ),
]
Folder = Annotated[Path, typer.Argument(help="Folder of a run.")]
Formats = Annotated[Format, typer.Option("--format", help="Format of stdout.")]
OnPaper = Annotated[  # of tables that are no numbers for programs
    Literal["table", "md", "tex"], typer.Option("--format", help="Format of stdout.")
]
Written = Annotated[
    Path | None,
    typer.Option(
        "--out", help="HTML file to write; default: report.html in the first folder."
    ),
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
        help="Python file or module that registers schemes, measures, tasks or plots; "
        "may be repeated.",
        rich_help_panel="Settings",
    ),
]


OWN: dict[str, tuple[Any, str, str]] = {  # type, panel and help
    "schemes": (
        str,
        "Comparison",
        "Comma-separated names, families (absolute, rotary, bias, ...), globs, `all`, "
        "or variants as name:key=value;key=value.",
    ),
    "measures": (
        str,
        "Comparison",
        "Comma-separated measures, or 'trained', 'untrained' or 'all'. 'all' excludes "
        "'attention_cost', 'inside' and 'precision', which must be named.",
    ),
    "config": (
        Path,
        "Settings",
        "TOML file with settings and options; the command line overrides it.",
    ),
    "set": (
        list[str],
        "Settings",
        "A setting; repeat the option, or separate pairs with commas. "
        "'posenc-compare describe settings' lists them.",
    ),
    "out": (Path, "Output", "Folder for records, tables and plots."),
    "format": (Format, "Output", "Format of stdout."),
    "track": (
        str,
        "Output",
        "Send new records to a tracker: tensorboard, wandb, mlflow or trackio.",
    ),
    "dry_run": (bool, "Output", "List the cells without computing them."),
}
"""Options of commands that are no settings."""

Command = TypeVar("Command", bound=Callable[..., Any])
METAVARS = {int: "<int>", float: "<float>", int | str: "<seeds>", str: "<str>"}
METAVARS |= {list[str]: "NAME=VALUE", bool: ""}
COMMON = ("config", "set", "plugins", "out", "format", "track", "dry_run")
WORK = ("device", "workers", "timeout", "memory", "retry", "overwrite")
WORK += ("reuse", "shard", "engine")


def with_options(*names: str, **defaults: str) -> Callable[[Command], Command]:
    """Give a command these options instead of `**options`.

    An option that is not given is None.

    Args:
        *names: of settings, or of `OWN`.
        **defaults: of the command, for the help; otherwise those of the table.
    """

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
        made = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_annotation(name, defaults.get(name, "")),
            )
            for name in names
        ]
        made = signature.replace(parameters=[*own, *made])
        # Typer takes options from a signature alone, and these come from the table.
        command.__signature__ = made  # type: ignore[attr-defined]
        return command

    return give


def _annotation(name: str, default: str) -> Any:
    """Return the annotation from which typer makes an option."""
    if name == "plugins":
        return Plugins
    parser: Any = None
    if name in OWN:
        (kind, panel, text), shown = OWN[name], default
    else:
        one, shown = TABLE[name], default or default_text(name)
        panel = "Execution" if name in Work.__dataclass_fields__ else "Comparison"
        kind, text = one.type, one.metadata["sentence"]
        if kind is not bool:
            parser = functools.partial(parse_value, one)
    text += f" [{shown}]" if shown and kind is not bool else ""
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=text,
        rich_help_panel=panel,
        metavar=_metavar(kind),
        parser=parser,
        show_default=False,
    )
    return Annotated[Any if parser else kind | None, option]


def _metavar(kind: Any) -> str | None:
    """Return what stands for a value in the help."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return METAVARS.get(kind)
