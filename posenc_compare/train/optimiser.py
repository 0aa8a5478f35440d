"""What the optimiser does with each parameter: its learning rate and its decay.

A step of Adam moves every number by about the rate. A matrix of the network multiplies
as many channels as a token has, so it moves its output by the sum of so many steps. A
scheme's table is added to tokens or logits as it is, and its layers multiply a few
numbers made of positions. So there is one rule for a scheme's parameters, by what they
act on: those that multiply token vectors get the rate, as the network's matrices do;
all others get the rate times sqrt(width), by which token vectors move as well, as their
rows are multiplied by sqrt(width). The rule asks what a parameter does, not which layer
it is part of. No parameter of a scheme is decayed: no paper of theirs decays one.
"""

import copy
from typing import Literal, TypedDict

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from posenc_compare.schemes import Scheme
from posenc_compare.train.decoder import Decoder

Target = Literal["activations", "tokens or logits"]
TOKENS = 4  # in the sequence that a scheme is asked with


class Group(TypedDict):
    """Parameters that share a weight decay and a share of the learning rate."""

    params: list[nn.Parameter]
    weight_decay: float
    rate: float


class AdamW:
    """AdamW with the fused kernel of torch.

    `torch.optim.AdamW` computes the same, and imports torch's compiler for it, which
    takes every process two seconds.
    """

    def __init__(self, groups: list[Group]) -> None:
        self.param_groups = groups
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every parameter that has a gradient; `rate` is the learning rate."""
        for group in self.param_groups:
            moved: list[Tensor] = [p for p in group["params"] if p.grad is not None]
            states = [self.state.get(p) or self._begin(p) for p in moved]
            adamw(
                moved,
                [p.grad for p in moved if p.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.95,
                lr=rate * group["rate"],
                weight_decay=group["weight_decay"],
                eps=1e-8,
                maximize=False,
            )

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        zeros = torch.zeros_like(parameter)
        count = torch.zeros((), device=parameter.device)
        state = {"step": count, "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
        self.state[parameter] = state
        return state


def acts_on(scheme: Scheme) -> dict[nn.Parameter, Target]:
    """Return what each trained parameter of a scheme acts on.

    A parameter multiplies token vectors if numbers of it that have an effect on what
    `embed` or `token_state` returns have none once the token vectors are zero.
    """
    parameters = [p for p in scheme.parameters() if p.requires_grad]
    if not parameters:
        return {}
    draw = torch.Generator().manual_seed(0)
    count = min(TOKENS, scheme.geometry.length)
    x = torch.randn(1, count, scheme.geometry.model_dim, generator=draw)
    x = x.to(parameters[0])
    twin = copy.deepcopy(scheme)  # what a scheme counts is its own
    felt, left = _felt(twin, x), _felt(twin, torch.zeros_like(x))
    found = zip(parameters, felt, left, strict=True)
    return {
        parameter: "activations" if (felt & ~left).any() else "tokens or logits"
        for parameter, felt, left in found
    }


def _felt(scheme: Scheme, x: Tensor) -> list[Tensor]:
    """Return which numbers of each trained parameter change tokens or their state."""
    parameters = [p for p in scheme.parameters() if p.requires_grad]
    positions = torch.arange(x.shape[1], device=x.device)
    if scheme.facts.axes > 1:
        positions = positions[:, None].expand(-1, scheme.facts.axes)
    made = [scheme.embed(x, positions), scheme.token_state(x)]
    total = sum(
        (
            part.square().sum() + part.sum()
            for part in made
            if part is not None and part.requires_grad
        ),
        start=torch.zeros((), device=x.device),
    )
    if not total.requires_grad:
        return [torch.zeros_like(p, dtype=torch.bool) for p in parameters]
    gradients = torch.autograd.grad(
        total, parameters, allow_unused=True, materialize_grads=True
    )
    return [gradient != 0 for gradient in gradients]


def groups(model: Decoder, weight_decay: float, scheme_rate: float) -> list[Group]:
    """Return AdamW's groups; `rate` of each multiplies the learning rate.

    `scheme_rate`, if it is not 0, is that of all parameters of schemes.
    """
    raised = model.embedding.embedding_dim**0.5
    rates = {
        parameter: scheme_rate or (1.0 if target == "activations" else raised)
        for scheme in model.own
        for parameter, target in acts_on(scheme).items()
    }
    network = [p for p in model.parameters() if p.requires_grad and p not in rates]
    matrices = [p for p in network if p.dim() > 1]
    vectors = [p for p in network if p.dim() < 2]
    return [
        {"params": matrices, "weight_decay": weight_decay, "rate": 1.0},
        {"params": vectors, "weight_decay": 0.0, "rate": 1.0},
        *(
            {
                "params": [p for p, own in rates.items() if own == rate],
                "weight_decay": 0.0,
                "rate": rate,
            }
            for rate in sorted(set(rates.values()))
        ),
    ]
