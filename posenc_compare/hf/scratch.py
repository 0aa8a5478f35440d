"""Fresh models of Hugging Face with a scheme, which save and load with it.

transformers loads what `save_pretrained` wrote of a model under `apply` without the
scheme, and reports no more than an unexpected key. So a model made here has a kind of
its own, which nobody takes for the plain architecture.
"""

import functools
import json
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from posenc_compare.errors import ConfigError
from posenc_compare.hf.apply import apply
from posenc_compare.hf.checkpoint import PREFIX
from posenc_compare.hf.layers import MARK, SCHEMES
from posenc_compare.variants import labelled


def from_scratch(config: PreTrainedConfig, scheme: str) -> Any:
    """Return a new model of an architecture with a scheme in all its layers.

    `save_pretrained` writes the scheme and its parameters too, and `load` reads them.

    Args:
        config: sizes of a causal model that `apply` serves.
        scheme: a label such as `alibi` or `path:forget=true`.

    Raises:
        UnsupportedModelError: if the model leaves a scheme no place to act.
        ConfigError: if there is no such scheme, or it cannot be used.
    """
    if not isinstance(config, PreTrainedConfig):
        raise ConfigError(
            f"config must be a configuration of transformers, got "
            f"{type(config).__name__}; LlamaConfig() would work"
        )
    if not isinstance(scheme, str):
        raise ConfigError(
            f"scheme must be a label, which is saved with the model, got "
            f"{type(scheme).__name__}; 'alibi' would work"
        )
    fields = config.to_dict()
    for name in ("model_type", "transformers_version", "architectures"):
        fields.pop(name, None)
    own = _kind(config.model_type)
    return AutoModelForCausalLM.from_config(
        own(**fields, posenc_scheme=labelled(scheme).label)
    )


def load(folder: str | Path, **more: Any) -> Any:
    """Return a model that `from_scratch` made and `save_pretrained` wrote.

    Args:
        folder: that was written.
        **more: as `from_pretrained` takes them.

    Raises:
        ConfigError: if the folder holds no such model.
    """
    try:
        found = json.loads((Path(folder) / "config.json").read_text("utf-8"))
        kind = str(found["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"folder must hold a model, got {str(folder)!r}: {error}"
        ) from error
    if not kind.startswith(PREFIX):
        raise ConfigError(
            f"folder must hold a model of `from_scratch`, got one of type {kind!r}; "
            f"`AutoModelForCausalLM` and `hf.apply` would work"
        )
    _kind(kind.removeprefix(PREFIX))
    return AutoModelForCausalLM.from_pretrained(folder, **more)


@functools.cache
def _kind(architecture: str) -> Any:
    """Return the configuration of an architecture with a scheme, made known to Auto."""
    plain = CONFIG_MAPPING[architecture] if architecture in CONFIG_MAPPING else None
    if plain is None or plain not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ConfigError(f"config must be of a causal model, got {architecture}")
    base: Any = MODEL_FOR_CAUSAL_LM_MAPPING[plain]

    def begin(self: Any, config: Any) -> None:
        base.__init__(self, config)
        self.applied = apply(self, config.posenc_scheme)

    own = type(
        f"Posenc{plain.__name__}",
        (plain,),
        {
            "__module__": __name__,
            "__annotations__": {"posenc_scheme": str},
            "model_type": PREFIX + architecture,
            "posenc_scheme": "nope",
        },
    )
    ignored = base._keys_to_ignore_on_load_missing or ()
    model = type(
        f"Posenc{base.__name__}",
        (base,),
        {
            "__module__": __name__,
            "__init__": begin,
            "config_class": own,
            "plain_class": base,
            "_keys_to_ignore_on_load_missing": [*ignored, rf"{SCHEMES}\.{MARK}"],
        },
    )
    AutoConfig.register(PREFIX + architecture, own)
    AutoModelForCausalLM.register(own, model)
    return own
