"""The setting of measures that train a network."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASKS
from posenc_compare.settings.setting import SEEDS, Setting, register_setting
from posenc_compare.settings.table import Choices, Network, check_fields
from posenc_compare.validate import check_choice, check_heads, check_whole

NetworkKind = Literal["decoder", "encoder", "classifier"]
LARGE = 1e9  # operations of a step; one of the preset quick has 0.15e9


@register_setting("training", order=1, heading="Settings of training")
@dataclass(frozen=True, kw_only=True)
class Training(Network, Setting):
    """All settings of a trained measure, except the scheme.

    Attributes:
        task: the task that the network is trained and tested on.
        seed: seed of initial weights and batches.
        device: device of the training.
        corpus_sha256: hash of the corpus; empty if the task reads none.
    """

    task: str = Choices.tasks
    corpus_sha256: str = ""

    resumes: ClassVar[bool] = True
    placed: ClassVar[tuple[str, ...]] = ("corpus", "test_corpus")
    late: ClassVar[tuple[str, ...]] = ("pool",)
    read: ClassVar = {"tasks", *Network.__dataclass_fields__}  # choices of a user

    def __post_init__(self) -> None:
        check_fields(self)
        check_heads(self.width, self.heads)
        if self.task != Choices.tasks:  # which is there, and whose module imports torch
            TASKS.entry(self.task)
        check_whole("seed", self.seed, 0, SEEDS)
        check_choice("longest", self.longest, tuple(1 << i for i in range(11)))
        if self.test_bytes < self.length * self.longest:
            raise ConfigError(
                f"test_bytes must hold a text of length * longest, {self.length} * "
                f"{self.longest}, got {self.test_bytes}; --set "
                f"test_bytes={self.length * self.longest} would work",
                field="test_bytes",
            )
        if self.drop and not self.dropped_steps:
            raise ConfigError(
                f"drop must be 0 or a step of {self.steps} at least, got {self.drop}",
                field="drop",
            )
        if self.pool != Network.pool and self.network != "classifier":
            raise ConfigError(
                f"pool must be {Network.pool} for {self.task}, which trains no "
                f"classifier, got {self.pool}; the task shapes would work",
                field="pool",
            )
        if self.convolution == "peg" and self.network == "decoder":
            raise ConfigError(
                f"convolution must be causal for {self.task}, which trains a decoder, "
                f"got peg; canon would work",
                field="convolution",
            )

    @property
    def work(self) -> int:
        """Return the units of progress of one cell: its steps."""
        return self.steps

    @property
    def on_gpu(self) -> bool:
        """Return whether a step is large enough to be faster on a GPU than on a CPU."""
        weights = 12 * self.layers * self.width**2
        return 6 * weights * self.batch * self.length >= LARGE

    @property
    def dropped_steps(self) -> int:
        """Return how many steps, the last ones, are trained without positions."""
        return round(self.drop * self.steps)

    @property
    def reads_corpus(self) -> bool:
        """Return whether the task reads the corpus."""
        return TASKS.entry(self.task).facts.get("corpus", False)

    def takes(self, axes: int) -> bool:
        """Return whether a task has positions for a scheme of so many axes."""
        return axes == 1 or 1 < TASKS.entry(self.task).facts.get("axes", 1) <= axes

    @property
    def network(self) -> NetworkKind:
        """Return the kind of network that the task trains."""
        return TASKS.entry(self.task).facts.get("network", "decoder")

    @property
    def test_lengths(self) -> list[int]:
        """Return the test lengths in tokens, from the training length up.

        Images, which classifiers read, are tested at half the sides of training too,
        and at twice these sides, up to `longest` times as many tokens.
        """
        if self.network == "classifier":
            larger = {self.length * 4**i for i in range(6) if 4**i <= self.longest}
            return sorted({max(1, self.length // 4), *larger})
        return [self.length << i for i in range(self.longest.bit_length())]

    def resolve(self, load: Callable[..., Any]) -> Self:
        """Return the setting with the hash of its corpus, if that is large enough."""
        if not self.reads_corpus:
            return self
        text = load(*self.places)
        text.windows(self.split, self.test_lengths[-1], self.test_bytes)
        text.batch(1, self.length, seed=0, step=0)
        return replace(self, corpus_sha256=text.sha256)
