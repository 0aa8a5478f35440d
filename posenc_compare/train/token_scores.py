"""The tests of one training: each is made once and kept in its checkpoints."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from posenc_compare.schemes import Scheme
from posenc_compare.tasks.task import Batch, check_batch
from posenc_compare.train.evaluation import evaluate
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer

KEPT = "tested."  # of a tensor in a checkpoint; behind it the length and the case
READS = 160  # times that the tokens of a test are read, at the most
WINDOWS = 3  # further times per token of the training length, if windows move by one


class Tests:
    """Tests of the network of a trainer."""

    def __init__(
        self, trainer: Trainer, score: str, tokens: int, lengths: Collection[int]
    ) -> None:
        self.trainer = trainer
        self.score = score
        self.lengths = set(map(str, lengths))
        times = READS + WINDOWS * trainer.setting.length
        self.limit = trainer.most + times * (4 * tokens + 4096)
        self._kept: dict[str, Tensor] = {}

    def resume(self, progress: Progress) -> None:
        """Go on from the newest checkpoint that fits, of training or of tests."""
        step, _ = progress.checkpoints.load(self._restore, self.limit)
        progress(step)

    def run(
        self, batch: Batch, case: str, schemes: Sequence[Scheme], progress: Progress
    ) -> Tensor:
        """Return the score of every token, `(sequence, length)` float32.

        `case` distinguishes this test from others of the same length.

        Raises:
            PluginError: if a task that is not of this package made no such batch.
        """
        if self.trainer.own_task:
            name = self.trainer.setting.task
            check_batch(f"{name}: test {case!r}", batch, 0, name)
        name = f"{KEPT}{batch.tokens.shape[1]}.{case}"
        found = self._kept.get(name)
        if found is None or found.shape != batch.tokens.shape:
            model, autocast = self.trainer.model, self.trainer.autocast
            with model.use_schemes(schemes):
                found = evaluate(model, batch, autocast, self.score)
            self._kept[name] = found
            if progress.checkpoints.due():
                state = {**self.trainer.state(), **self._kept}
                progress.checkpoints.save(self.trainer.setting.steps, state)
        return found

    def _restore(self, step: int, tensors: dict[str, Tensor]) -> None:
        kept = {n: scores for n, scores in tensors.items() if n.startswith(KEPT)}
        if kept and step < self.trainer.setting.steps:
            raise ValueError(f"{min(kept)} is of a network that is not trained")
        for name, scores in kept.items():
            length = name.removeprefix(KEPT).partition(".")[0]
            known = length in self.lengths and scores.dtype == torch.float32
            known = known and scores.dim() == 2 and str(scores.shape[1]) == length
            if not known or not (scores.isfinite() & (scores >= 0)).all():
                raise ValueError(f"{name} is not of this test")
        rest = {n: tensor for n, tensor in tensors.items() if n not in kept}
        self.trainer.restore(step, rest)
        self._kept = kept
