"""The options that several commands share.

Those of `run` and `measure` are made from the choices of a comparison, which stand in
`analysis.engine.choices` with their types and help.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from posenc_compare.analysis.engine.choices import Choices, Work
from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.settings.probe import ProbeSetting
from posenc_compare.analysis.settings.training import Training
from posenc_compare.registry import add_plugin
from posenc_compare.validate import number


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
        help="File or module that registers schemes, measures, tasks or plots; may be "
        "repeated.",
    ),
]

Command = TypeVar("Command", bound=Callable[..., Any])
CHOICES = get_type_hints(Choices, include_extras=True)
DEFAULTS = {field.name: field.default for field in fields(Work)}
METAVARS = {int: "INTEGER", float: "FLOAT", "seeds": "SEEDS", "grid": "ROWSxCOLUMNS"}


def with_choices(
    names: Iterable[str], flags: dict[str, str] | None = None, **defaults: object
) -> Callable[[Command], Command]:
    """Give a command an option for each choice in place of its `**chosen`.

    A choice is None where the user makes none and there is no default.

    Args:
        names: of the choices, in the order of the help.
        flags: of some of them, instead of their names.
        **defaults: of some of them, instead of those of `Work`.
    """

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
        values = {**DEFAULTS, **defaults}
        trains = "steps" in names
        made = [
            _option(name, values.get(name), (flags or {}).get(name), trains)
            for name in names
        ]
        command.__signature__ = signature.replace(parameters=[*own, *made])
        return command

    return give


def _option(
    name: str, default: object, flag: str | None, trains: bool
) -> inspect.Parameter:
    """Return the parameter from which typer makes the option of a choice."""
    kind, help = get_args(CHOICES[name])
    help += _presets(name, trains) if default is None else ""
    facts: dict[str, Any] = {"metavar": METAVARS.get(name, METAVARS.get(kind))}
    flag = flag or f"--{name.replace('_', '-')}"
    if kind == int | str:
        kind = str  # what it reads as is found out later
    elif get_origin(kind) is Literal:
        kind, facts = str, {"metavar": f"[{'|'.join(get_args(kind))}]"}
    elif kind in (int, float):  # other text is left for a later check
        facts["parser"] = lambda text: number(text, kind)
    elif kind is bool and default is None:
        flag = f"{flag}/--not-{name}"
    option = typer.Option(flag, help=help, **facts)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None, option],
    )


def _presets(name: str, trains: bool) -> str:
    """Return what a choice is in each preset, or by default where none is trained."""
    if name == "seeds":
        values = {preset: of.seeds for preset, of in PRESETS.items()}
    elif trains and hasattr(Training, name):
        values = {preset: getattr(of.training, name) for preset, of in PRESETS.items()}
    else:
        values = {"default": getattr(ProbeSetting, name.removeprefix("probe_"), None)}
    if len(set(values.values())) == 1:
        values = {"default": next(iter(values.values()))}
    if set(map(type, values.values())) & {type(None), bool, str}:
        return ""
    return f" [{', '.join(f'{of}: {value}' for of, value in values.items())}]"
