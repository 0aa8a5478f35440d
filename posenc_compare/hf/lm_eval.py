"""Networks trained here in the evaluation harness of EleutherAI.

lm_eval.simple_evaluate(model=PosencLM("out/alibi-0"), tasks=["lambada_openai"])

Versions of the harness that read the entry point `lm_eval.models` know the model as
`posenc-compare`. Networks of the size of `standard` are at chance in most tasks.
"""

from typing import Any

from lm_eval.models.huggingface import HFLM  # pyright: ignore[reportMissingImports]
from transformers import AutoModelForCausalLM, AutoTokenizer

from posenc_compare.errors import ConfigError
from posenc_compare.hf.network import PosencConfig

NEWLINE = 10  # the byte before a text, since the harness asks for one


class PosencLM(HFLM):
    """A folder that `hf.export` has written.

    Args:
        pretrained: the folder.
        max_length: most bytes of a text with its context; None: the training length,
            beyond which the harness drops the beginning.
        **more: as `HFLM` takes them.

    Raises:
        ConfigError: if the folder holds another model.
    """

    def __init__(
        self, pretrained: str, max_length: int | None = None, **more: Any
    ) -> None:
        model = AutoModelForCausalLM.from_pretrained(pretrained)
        if not isinstance(model.config, PosencConfig):
            raise ConfigError(
                f"pretrained must be a folder of `hf.export`, got {pretrained!r} with "
                f"{type(model).__name__}; the model `hf` would work"
            )
        super().__init__(
            pretrained=model,
            tokenizer=AutoTokenizer.from_pretrained(pretrained),
            max_length=max_length or model.config.max_position_embeddings,
            prefix_token_id=NEWLINE,
            **more,
        )

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Return the texts that follow, one after the other.

        The harness fills rows of a batch up on the left, which this network refuses.
        """
        before, self.batch_size_per_gpu = self.batch_size_per_gpu, 1
        try:
            return super().generate_until(requests, disable_tqdm)
        finally:
            self.batch_size_per_gpu = before
