"""The command that prints a script for Slurm."""

import contextlib
import io
import re
import shlex
import sys
from typing import Annotated

import typer

from posenc_compare.errors import ConfigError

LEAST = 120  # seconds before the limit in which a training saves what it has
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=posenc-compare
#SBATCH --array=1-{jobs}
#SBATCH --cpus-per-task={cpus}
#SBATCH --time={time}
{more}#SBATCH --signal=B:USR1@{least}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=posenc-compare-%A_%a.log

# Each job computes its share in the folder that all see, and then helps the others.
# Before its time is up it saves its checkpoints, and is queued again.
cd "$SLURM_SUBMIT_DIR" || exit
late=0
trap 'late=1; kill -USR1 "$run"' USR1
trap 'kill -TERM "$run"' TERM
{command} --shard "$SLURM_ARRAY_TASK_ID/{jobs}" --workers {workers} &
run=$!
wait "$run"
code=$?
while kill -0 "$run" 2> /dev/null; do  # a signal ends a wait
    wait "$run"
    code=$?
done
if [ "$late" = 1 ] && [ "$code" = 130 ]; then
    exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit "$code"
"""
BY_SCRIPT = "is set by the script"
ANEW = "would begin anew whenever a job is queued again"
CLUSTER = "is for a cluster of its own, and each job computes where it is"
LEFT_OUT = {
    **dict.fromkeys(("--shard", "--workers", "--dry-run", "--format"), BY_SCRIPT),
    **dict.fromkeys(("--overwrite", "--retry"), ANEW),
    **dict.fromkeys(("--engine", "--address", "--gpu-share"), CLUSTER),
}
# Minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S, as `sbatch` reads them.
TIME = re.compile(r"\d{1,9}(:\d{1,9}){0,2}|\d{1,9}-\d{1,9}(:\d{1,9}){0,2}", re.ASCII)


def slurm(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs.")] = 8,
    cpus: Annotated[
        int, typer.Option(min=1, max=1024, help="Cores, and workers, of a job.")
    ] = 1,
    time: Annotated[str, typer.Option(help="Limit of a job.")] = "4:00:00",
    partition: Annotated[str, typer.Option(help="Where jobs run.")] = "",
    gpus: Annotated[
        int, typer.Option(min=0, max=1, help="GPUs of a job, which computes on one.")
    ] = 0,
) -> int:
    """Print an array job for Slurm; it takes the options of `run`.

    Nothing is submitted: `posenc-compare slurm --schemes all > job.sh; sbatch job.sh`.
    """
    _check_words(partition=partition)
    _check_time(time)
    asked = list(context.args)
    for word in asked:
        name = word.partition("=")[0]
        if name in LEFT_OUT:
            raise ConfigError(
                f"slurm: {name} {LEFT_OUT[name]}, so it must be left out, got {word!r}"
            )
    threads = _threads(asked)
    if threads > cpus:
        raise ConfigError(
            f"cpus must be at least the {threads} threads of a worker, got {cpus}; "
            f"`--cpus {threads}` would work"
        )
    _try(context, asked, anywhere=gpus > 0)
    wanted = {"partition": partition, "gpus-per-task": gpus}
    lines = [f"#SBATCH --{name}={value}\n" for name, value in wanted.items() if value]
    command = shlex.join([sys.executable, "-m", "posenc_compare", "run", *asked])
    print(
        SCRIPT.format(
            jobs=jobs,
            cpus=cpus,
            workers=cpus // threads,
            time=time,
            more="".join(lines),
            least=LEAST,
            command=command,
        ),
        end="",
    )
    return 0


def _check_words(**given: str) -> None:
    """Refuse what would begin another line of the script, or another option."""
    for name, word in given.items():
        if not re.fullmatch(r"[\w.,:-]*", word, re.ASCII):
            raise ConfigError(
                f"{name} must be letters, digits and any of .,:_-, got {word[:40]!r}"
            )


def _check_time(time: str) -> None:
    """Refuse a limit that Slurm does not read, or that is over before the warning.

    Raises:
        ConfigError: if it is one.
    """
    days, dash, rest = (time if TIME.fullmatch(time) else "0").rpartition("-")
    parts = rest.split(":")
    if not dash:
        parts = ["0"] * (len(parts) < 3) + parts
    hours, minutes, seconds = map(int, [*parts, "0", "0"][:3])
    whole = int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
    if whole <= LEAST:
        raise ConfigError(
            f"time must be more than {LEAST} seconds, as Slurm reads them, got "
            f"{time[:40]!r}; 4:00:00 would work"
        )


def _threads(asked: list[str]) -> int:
    """Return the threads of a worker that are asked for, or 1."""
    for word, after in zip(asked, [*asked, ""][1:], strict=True):
        name, _, value = word.partition("=")
        if name == "--threads" and (value or after).isdecimal():
            return max(1, int(value or after))
    return 1


def _try(context: typer.Context, asked: list[str], *, anywhere: bool) -> None:
    """Plan the run, so that a wrong option is named here and not in every job.

    Args:
        context: of the command.
        asked: options of the run.
        anywhere: whether it may be planned where there is no GPU.

    Raises:
        ConfigError: if something of it cannot be used.
    """
    if anywhere:
        asked = [*asked, "--device", "auto"]
    command = context.find_root().command
    with contextlib.redirect_stdout(io.StringIO()):
        command.main(["run", *asked, "--dry-run"], standalone_mode=False)
