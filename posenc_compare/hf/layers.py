"""The scheme of a layer, and what one call of its attention is given.

Both are found from the module that is called. So copies of a model, which may be called
in threads, have their own schemes, and a call has what it was given and nothing else.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from posenc_compare.hf.passes import Pass
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Scheme

SCHEMES = "posenc_compare_schemes"  # the submodule of a model that holds the schemes
LAYER = "posenc_compare_layer"  # that of each attention
GIVEN = "posenc_compare_given"  # on the mask of a call
MARK = "scheme_"  # begins the name of a tensor that nothing reads


class Schemes(nn.ModuleList):
    """The schemes of a model, which holds each once.

    Schemes without parameters have a mark in the state dict, so that transformers
    reports an unexpected key when it loads what was saved without the scheme.
    """

    def __init__(
        self, schemes: list[Scheme], device: torch.device | None = None
    ) -> None:
        super().__init__(schemes)
        if schemes and not self.state_dict():
            name = schemes[0].name.replace(".", "_")
            self.register_buffer(MARK + name, torch.zeros(1, device=device))
        self.register_load_state_dict_post_hook(_forgive)


class Layer(nn.Module):
    """One layer of a model under `apply`, a submodule of its attention.

    Whatever copies a model maps its submodules: `copy.deepcopy`, pickle, the replicas
    of `nn.DataParallel`. The parameters of schemes have their names below the model,
    and none here.

    `index` is that of its scheme among `schemes`, which holds each once; None if the
    layer keeps its rotary positions. `generator` is for what schemes draw while the
    layer trains. `owner` names the caches that the model fills, another in each
    `apply`.
    """

    def __init__(
        self,
        number: int,
        index: int | None,
        first: bool,
        schemes: Schemes,
        *,
        keep_rotary: bool,
        generator: torch.Generator | None,
        before: str,
        owner: str,
    ) -> None:
        super().__init__()
        self.number = number
        self.index = index
        self.first = first
        self.schemes = schemes
        self.keep_rotary = keep_rotary
        self.generator = generator
        self.before = before
        self.owner = owner
        self.register_load_state_dict_post_hook(_forgive)

    def state_dict(self, *_: Any, **more: Any) -> dict[str, Any]:
        found = more.get("destination")
        return {} if found is None else found

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        return iter(())

    def named_modules(
        self,
        memo: set[nn.Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Generator[tuple[str, nn.Module]]:
        if memo is None or self not in memo:
            if memo is not None and remove_duplicate:
                memo.add(self)
            yield prefix, self

    def scheme(self, device: torch.device) -> Scheme:
        """Return the scheme of the layer, ready for tensors of a device."""
        assert self.index is not None
        return _ready(self.schemes[self.index], device)

    def every_scheme(self, device: torch.device) -> list[Scheme]:
        """Return the schemes of the model, that of its first layer first."""
        return [_ready(one, device) for one in self.schemes]


@dataclass
class Given:
    """The input of attention in one call, which travels with the mask of that call."""

    layer: Layer  # that is called
    now: Pass
    x: Tensor  # (batch, query, model_dim), its input
    cache: Any  # of the model; None if it has none
    state: Tensor | None = None  # (batch, key, ...) of tokens, once it is asked for
    used: bool = False  # whether attention has been computed

    def put(self) -> Tensor:
        """Return the mask of the pass, in a tensor that no other call has."""
        mask = self.now.seen.view(self.now.seen.shape)
        setattr(mask, GIVEN, self)
        return mask


def layer_of(module: nn.Module) -> Layer:
    """Return the layer whose attention a module is, or refuse the module."""
    layer = getattr(module, LAYER, None)
    if isinstance(layer, Layer):
        return layer
    raise UnsupportedModelError(
        f"{type(module).__name__}: must be attention as hf.apply found it, got one "
        f"without a scheme; hf.apply after all changes of the model would work"
    )


def _ready(module: nn.Module, device: torch.device) -> Scheme:
    scheme = _active(module)
    for path, part in scheme.named_modules():
        found: Any = part
        if getattr(found, "_is_replica", False):  # which has plain tensors instead
            found._parameters.update(found._former_parameters)
        if hasattr(part, "base_layer"):  # of all tuners of PEFT
            raise UnsupportedModelError(
                f"{scheme.name}: reads the weight of {path!r}, so an adapter in its "
                f"place would do nothing; exclude_modules='.*{SCHEMES}.*' would work, "
                f"and modules_to_save=['{SCHEMES}.0'] trains the scheme"
            )
    for tensor in chain(scheme.parameters(), scheme.buffers()):
        if tensor.device != device:
            cure = f"model.to({str(device)!r})"
            if tensor.is_meta:
                cure = "hf.apply after accelerate offloads the model"
            raise UnsupportedModelError(
                f"{scheme.name}: its parameters must be on {device}, got "
                f"{tensor.device}; {cure} would work"
            )
    return scheme


def _active(module: nn.Module) -> Scheme:
    """Return the scheme that is active among the copies that PEFT trains."""
    found: Any = module
    while not isinstance(found, Scheme):
        saved = getattr(found, "modules_to_save", None)
        if not isinstance(saved, nn.ModuleDict):
            raise UnsupportedModelError(
                f"{SCHEMES}: must hold schemes, got {type(found).__name__}; "
                f"modules_to_save=['{SCHEMES}.0'] would work"
            )
        if found._forward_pre_hooks:
            raise UnsupportedModelError(
                f"{SCHEMES}: must have one adapter for all rows, got adapter_names; "
                f"set_adapter(name) would work"
            )
        names = [] if found.disable_adapters else found.active_adapters
        known = names and all(name in saved for name in names)
        found = saved[names[0]] if known else found.original_module
    return found


def _forgive(_: nn.Module, keys: Any) -> None:
    """Report no name as missing that `state_dict` does not have, nor a mark."""
    hidden = f".{LAYER}.", f"{SCHEMES}.{MARK}"
    keys.missing_keys[:] = [
        one for one in keys.missing_keys if not any(part in one for part in hidden)
    ]
