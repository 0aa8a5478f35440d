"""Train a decoder at one length.

Batches, initial weights and the learning rate of every step are pure functions of
the setting and the step, so every scheme sees the same bytes in the same
order, and a training that is stopped goes on as if it had not been.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import NonFiniteError
from posenc_compare.registry import TASKS
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Task, check_batch, check_task
from posenc_compare.train.decoder import Decoder, ids_of
from posenc_compare.train.optimiser import AdamW, groups
from posenc_compare.train.progress import Progress
from posenc_compare.transfer import to_device

LOOK = 64  # steps between looks at the losses on a GPU, which waits for its work then


class Trainer:
    """A decoder in training.

    The seed of `setting` is that of the batches.
    """

    def __init__(self, model: Decoder, task: Task, setting: Training) -> None:
        self.model = model
        self.task = task
        self.setting = setting
        self.own_task = not TASKS.owns(TASKS.entry(setting.task).module)
        self.autocast = setting.dtype == "bfloat16"
        self.read: Callable[..., Tensor] = model.read
        if setting.compiled:
            # On a GPU this also replays launches, as CUDA graphs, where it can.
            self.read = torch.compile(model.read, mode="reduce-overhead")
        self.device = model.embedding.weight.device
        parts = groups(model, setting.weight_decay, setting.scheme_rate)
        self.optimiser = AdamW(parts)
        self.parameters = list(model.parameters())
        self.done = 0  # steps
        self.dropped = False  # whether the network goes without positions by now
        # Nats of every step, in one block: many small ones that stay would lie among
        # the large ones that come and go, and no block as large would fit there again.
        self.losses = torch.zeros(setting.steps, device=self.device)
        self.norms: list[Tensor] = []  # of the gradients of steps not looked at yet
        self.look = LOOK if self.device.type == "cuda" else 1

    def train(self, progress: Progress) -> list[float]:
        """Train in place, from the step already reached, else the newest checkpoint.

        Returns:
            The training loss of every step, in bits per token.
        """
        if not (self.done or progress.checkpoints.refused):
            progress(progress.checkpoints.load(self.restore, self.most)[0])
        self.model.train()
        for step in range(self.done, self.setting.steps):
            self._drop(step)
            self.step(step)
            progress(1)
            if not self.norms and progress.checkpoints.due():
                progress.checkpoints.save(step + 1, self.state())
        self._drop(self.setting.steps)  # it may have been done when it was stopped
        return (self.losses.cpu() / math.log(2)).tolist()

    def _drop(self, step: int) -> None:
        """Leave positions out from their step on, and do so once."""
        kept = self.setting.steps - self.setting.dropped_steps
        if self.setting.dropped_steps and step >= kept and not self.dropped:
            self.model.drop_schemes()
            self.dropped = True

    def step(self, number: int) -> None:
        """Take the step of a number."""
        setting = self.setting
        loss = self._loss(number)
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()
        self.losses[number] = loss.detach()
        self.done = number + 1
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        self.norms.append(norm)
        if len(self.norms) == self.look or self.done == setting.steps:
            self._check_finite()  # clipping spreads a NaN to all gradients
        nn.utils.clip_grads_with_norm_(self.parameters, 1.0, norm)
        self.optimiser.step(setting.learning_rate * _schedule(number, setting.steps))

    def _loss(self, step: int) -> Tensor:
        """Return the mean cross-entropy in nats, each place by its weight."""
        setting = self.setting
        batch = self.task.batch(step, setting.seed)
        if self.own_task:
            who = f"{setting.task}: batch({step}, seed)"
            check_batch(who, batch, setting.length, setting.task, setting.batch)
        tokens = to_device(batch.tokens, self.device)
        targets = to_device(batch.targets.reshape(-1), self.device)
        positions = batch.positions_for(self.model.axes)
        ids = ids_of(setting.seed, step)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            session = self.model.session(tokens, positions, ids)
            logits = self.read(tokens, session, sides=batch.sides)
        logits = logits.float().reshape(-1, logits.shape[-1])
        if batch.weights is None:
            return F.cross_entropy(logits, targets)
        losses = F.cross_entropy(logits, targets, reduction="none")
        weights = to_device(batch.weights.reshape(-1), self.device)
        return (losses * weights).sum() / weights.sum()

    def _check_finite(self) -> None:
        """Look at the steps since the last look, before the last is taken."""
        norms, self.norms = torch.stack(self.norms), []
        losses = self.losses[self.done - len(norms) : self.done]
        both = losses + norms
        if math.isfinite(both.sum().item()):
            return
        finite = torch.isfinite(both)
        if finite.all():  # their sum alone was too large
            return
        first = int(finite.int().argmin())
        step = self.done - len(norms) + first
        if not torch.isfinite(losses[first]):
            raise NonFiniteError(f"the loss became {losses[first]} at step {step}")
        known = first == len(norms) - 1  # gradients are of the last step
        for name, parameter in self.model.named_parameters() if known else ():
            gradient = parameter.grad
            if gradient is not None and not gradient.isfinite().all():
                raise NonFiniteError(
                    f"the gradient of {name} became infinite or NaN at step {step}"
                )
        raise NonFiniteError(
            f"the norm of all gradients became {norms[first]} at step {step}"
        )

    def state(self) -> dict[str, Tensor]:
        """Return all that training goes on from, by name."""
        tensors = {"losses": self.losses[: self.done].clone()}
        for name, tensor in self._named_tensors():
            tensors[f"model.{name}"] = tensor.detach()
            for part, value in self.optimiser.state.get(tensor, {}).items():
                tensors[f"optimiser.{part}.{name}"] = value
        return tensors

    @property
    def most(self) -> int:
        """Return the bytes that `state` takes at the most, with room for names."""
        tensors = [tensor for _, tensor in self._named_tensors()]
        held = sum(3 * t.numel() * t.element_size() + 4096 for t in tensors)
        return held + 4 * self.setting.steps

    def restore(self, step: int, tensors: dict[str, Tensor]) -> None:
        """Go on from what `state` returned after `step` steps.

        It raises `ValueError` and changes nothing if that is not this training's in
        every name, shape and dtype, or has numbers that no training gives.
        """
        self._check(step, tensors)
        self.losses[:step] = tensors["losses"]
        self.done = step
        with torch.no_grad():
            for name, tensor in self._named_tensors():
                tensor.copy_(tensors[f"model.{name}"])
                if f"optimiser.step.{name}" in tensors:
                    moments = {
                        part: tensors[f"optimiser.{part}.{name}"].to(tensor)
                        for part in ("exp_avg", "exp_avg_sq")
                    }
                    count = tensors[f"optimiser.step.{name}"].to(tensor.device)
                    self.optimiser.state[tensor] = {"step": count, **moments}

    def _check(self, step: int, tensors: dict[str, Tensor]) -> None:
        if not 0 < step <= self.setting.steps:
            raise ValueError(f"its step must be up to {self.setting.steps}, got {step}")
        wanted: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
        wanted["losses"] = ((step,), torch.float32)
        for name, tensor in self._named_tensors():
            known = (tuple(tensor.shape), tensor.dtype)
            wanted[f"model.{name}"] = known
            if f"optimiser.step.{name}" in tensors and isinstance(tensor, nn.Parameter):
                wanted[f"optimiser.step.{name}"] = ((), torch.float32)
                for part in ("exp_avg", "exp_avg_sq"):
                    wanted[f"optimiser.{part}.{name}"] = known
        found = {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()}
        names = wanted.keys() | found.keys()
        wrong = [name for name in names if wanted.get(name) != found.get(name)]
        wrong += [name for name, t in tensors.items() if not t.isfinite().all()]
        if wrong:
            raise ValueError(f"{min(wrong)} is missing or not of this training")

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        return [*self.model.named_parameters(), *self.model.named_buffers()]


def trainer_of(variant: Variant, setting: Training) -> Trainer:
    """Return the trainer of a new decoder with a scheme, as a setting has it."""
    entry = TASKS.entry(setting.task)
    facts, task = entry.facts, entry.item(setting)
    geometry = Geometry(
        model_dim=setting.width,
        heads=setting.heads,
        length=setting.length,
        lengths=setting.lengths,
    )
    model = Decoder(
        variant,
        setting.layers,
        geometry,
        setting.seed,
        facts["vocabulary"],
        setting.norm,
        setting.convolution,
        facts.get("axes", 1),
        setting.network,
        setting.pool,
    )
    model.to(setting.device)
    trainer = Trainer(model, task, setting)
    if trainer.own_task:
        check_task(task)
    return trainer


def _schedule(step: int, steps: int) -> float:
    """Return the share of the peak rate: linear warm-up, then a cosine to 0.1."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return 0.55 + 0.45 * math.cos(math.pi * done)
