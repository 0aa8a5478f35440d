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
{command} --shard "$SLURM_ARRAY_TASK_ID/{jobs}" --workers {cpus} &
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
TAKEN = ("--shard", "--workers", "--dry-run", "--format")


def slurm(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs.")] = 8,
    cpus: Annotated[
        int, typer.Option(min=1, max=1024, help="Cores, and workers, of a job.")
    ] = 1,
    time: Annotated[str, typer.Option(help="Limit of a job.")] = "4:00:00",
    partition: Annotated[str, typer.Option(help="Where jobs run.")] = "",
    gpus: Annotated[int, typer.Option(min=0, max=64, help="GPUs of a job.")] = 0,
) -> int:
    """Print an array job for Slurm; it takes the options of `run`.

    Nothing is submitted: `posenc-compare slurm --schemes all > job.sh; sbatch job.sh`.
    """
    _check_words(time=time, partition=partition)
    asked = list(context.args)
    for word in asked:
        if word.partition("=")[0] in TAKEN:
            raise ConfigError(
                f"slurm: {word.partition('=')[0]} is set by the script, so it must be "
                f"left out, got {word!r}"
            )
    _try(context, asked)
    wanted = {"partition": partition, "gpus-per-task": gpus}
    lines = [f"#SBATCH --{name}={value}\n" for name, value in wanted.items() if value]
    command = shlex.join([sys.executable, "-m", "posenc_compare", "run", *asked])
    print(
        SCRIPT.format(
            jobs=jobs,
            cpus=cpus,
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


def _try(context: typer.Context, asked: list[str]) -> None:
    """Plan the run, so that a wrong option is named here and not in every job.

    Raises:
        ConfigError: if something of it cannot be used.
    """
    command = context.find_root().command
    with contextlib.redirect_stdout(io.StringIO()):
        command.main(["run", *asked, "--dry-run"], standalone_mode=False)
