"""One plugin file with a scheme, a measure, a task and a plot.

    posenc-compare run --plugin examples/everything.py --tasks repeat \
        --schemes alibi,gentle_alibi --measures parameters,extrapolation

Source: own example; no paper, and no claim that any of it helps.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from posenc_compare import (
    Batch,
    Headline,
    Probe,
    Progress,
    Quantity,
    Record,
    Result,
    Row,
    Task,
    Variant,
    looks,
    register,
    register_measure,
    register_plot,
    register_task,
    stream_seed,
    usable,
)
from posenc_compare.schemes.alibi import Alibi


@register("gentle_alibi", family="bias", source="own example")
class GentleAlibi(Alibi):
    """Subtract half of what ALiBi subtracts; takes its options. No parameters."""

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return super().offset_bias(offsets) / 2


COUNT = Quantity(
    "parameters",
    unit="numbers",
    better="neither",
    zero="the scheme holds no numbers",
)


@register_measure(
    "parameters", quantities=(COUNT,), views=(Headline(COUNT),), once=True
)
def parameters(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Count the numbers that a scheme holds."""
    held = probe.build(variant).parameters()
    return Result([Row(COUNT.name, float(sum(tensor.numel() for tensor in held)))])


@register_task("repeat", vocabulary=16, score="accuracy", chance=0.0625)
class Repeat(Task):
    """Repeat random tokens in order. Only the second half counts."""

    def batch(self, step: int, seed: int) -> Batch:
        return self._draw(self.setting.batch, self.setting.length, seed, step)

    def test(self, length: int) -> Batch:
        return self._draw(self.setting.test_bytes // length, length, "test")

    def _draw(self, count: int, length: int, *purpose: str | int) -> Batch:
        generator = torch.Generator().manual_seed(stream_seed("repeat", *purpose))
        half = torch.randint(16, (count, length // 2 + 1), generator=generator)
        text = torch.cat([half, half], dim=1)[:, : length + 1]
        counts = torch.arange(1, length + 1) >= half.shape[1]
        return Batch(text[:, :-1], text[:, 1:], counts.float().expand(count, -1))


@register_plot("parameters", caption="How many numbers each scheme holds.")
def draw_parameters(records: list[Record]) -> Figure | None:
    """Draw a bar for every scheme."""
    styles, chosen = looks(records), usable(records, "parameters")
    if not chosen:
        return None
    figure = Figure(figsize=(3.4, 2), layout="constrained")
    axes = figure.subplots()
    for record in chosen:
        look = styles[record.label]
        axes.barh(look.text, record.rows[0].value or 0.0, color=look.colour)
    axes.set_xlabel("parameters")
    return figure
