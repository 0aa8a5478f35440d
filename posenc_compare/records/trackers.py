"""Records to an experiment tracker: TensorBoard, Weights & Biases, MLflow or Trackio.

Every cell is a run of the tracker, with the settings, the training loss by step and the
results. A tracker of your own needs the three methods of `Tracker`.
"""

import re
from pathlib import Path
from typing import Any, Protocol

from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import Scalar
from posenc_compare.validate import check_choice, import_extra

PROJECT = "posenc-compare"
LOSS = "training_bits"


class Tracker(Protocol):
    """What records are sent to, one run after the other."""

    def start(self, cell: str, settings: dict[str, Scalar]) -> None:
        """Begin the run of a cell.

        Args:
            cell: name of the run: scheme, measure, seed and the start of the key.
            settings: by name; also key, scheme, measure, status, error and seconds.
        """

    def log(self, step: int, values: dict[str, float]) -> None:
        """Add numbers by name: the loss of a step, or after the last all results."""

    def finish(self) -> None:
        """End the run."""


class TensorBoard:
    """A folder for each cell; `tensorboard --logdir DIR/tensorboard` shows them."""

    def __init__(self, folder: Path) -> None:
        self.module = import_extra("torch.utils.tensorboard", "tensorboard", "track")
        self.folder = folder / "tensorboard"

    def start(self, cell: str, settings: dict[str, Scalar]) -> None:
        name = re.sub(r"[^\w.=-]+", "_", cell)
        self.writer = self.module.SummaryWriter(str(self.folder / name))
        lines = [f"    {name}: {value}" for name, value in settings.items()]
        self.writer.add_text("settings", "\n".join(lines))

    def log(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self.writer.close()


class WandB:
    """A run of Weights & Biases for each cell; Trackio has the same functions."""

    def __init__(self, folder: Path, module: str = "wandb") -> None:
        self.module = import_extra(module, module, "track")
        self.group = folder.resolve().name

    def start(self, cell: str, settings: dict[str, Scalar]) -> None:
        about = {"name": cell, "group": self.group, "config": settings}
        self.module.init(project=PROJECT, **about)

    def log(self, step: int, values: dict[str, float]) -> None:
        self.module.log(values, step=step)

    def finish(self) -> None:
        self.module.finish()


class MLflow:
    """A run of MLflow for each cell; MLFLOW_TRACKING_URI says where."""

    def __init__(self, folder: Path) -> None:
        self.module = import_extra("mlflow", "mlflow", "track")
        self.module.set_experiment(PROJECT)

    def start(self, cell: str, settings: dict[str, Scalar]) -> None:
        self.module.start_run(run_name=cell)
        self.module.log_params(settings)

    def log(self, step: int, values: dict[str, float]) -> None:
        names = {name: re.sub(r"[^\w./: -]", "_", name) for name in values}
        found = {allowed: values[name] for name, allowed in names.items()}
        self.module.log_metrics(found, step=step)

    def finish(self) -> None:
        self.module.end_run()


TRACKERS: dict[str, Any] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
    "trackio": lambda folder: WandB(folder, "trackio"),
}


def tracker_of(track: str | Tracker, folder: Path) -> Tracker:
    """Return the tracker of a name, or one of the user's own as it is.

    `folder` is for files of a tracker that writes files.
    """
    if not isinstance(track, str):
        return track
    check_choice("track", track, tuple(TRACKERS))
    return TRACKERS[track](folder)


def track_record(tracker: Tracker, record: Record) -> None:
    """Send one record to a tracker."""
    spec, label = record.spec, record.label
    name = f"{label} {record.measured} seed {spec.seed} {record.key[:8]}"
    settings: dict[str, Scalar] = {
        **spec.setting,
        "key": record.key,
        "scheme": label,
        "measure": record.measured,
        "status": record.status,
        "error": record.error,
        "seconds": record.seconds,
    }
    tracker.start(name, settings)
    losses = record.arrays.get(LOSS)
    steps = losses if isinstance(losses, list) else []
    for step, loss in enumerate(steps):
        if isinstance(loss, float):
            tracker.log(step, {LOSS: loss})
    values = {}
    for row in record.rows:
        if row.value is not None:
            x = "" if row.x is None else f"{row.x:g}"
            values["/".join(filter(None, (row.quantity, row.case, x)))] = row.value
    if values:
        tracker.log(len(steps), values)
    tracker.finish()
