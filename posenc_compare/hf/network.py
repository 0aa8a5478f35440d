"""A network trained here, as a model of Hugging Face.

Importing this file makes its kind known to the Auto classes. No code travels with the
weights: who loads a folder needs this package, and a plugin scheme its plugin.
"""

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizer,
)
from transformers.modeling_outputs import CausalLMOutput

from posenc_compare.analysis.core.settings import Convolution, Norm
from posenc_compare.analysis.records.cells import Cell
from posenc_compare.analysis.settings.probe import ProbeSetting
from posenc_compare.analysis.training.decoder import BYTES, Decoder
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Geometry, Lengths
from posenc_compare.variants import Variant, labelled

KIND = "posenc_compare"


class PosencConfig(PreTrainedConfig):
    """Sizes of a network, and its scheme.

    Attributes:
        scheme: its label, with options.
        scheme_sha256: hash of the code of the scheme that it was trained with.
        vocab_size: different tokens.
        hidden_size: channels of a token vector.
        num_hidden_layers: layers of the decoder.
        num_attention_heads: heads of each layer.
        norm: LayerNorm or RMSNorm, as `layer` or `rms`.
        convolution: over the tokens before, in every layer, or `none`.
        dropped: whether positions were left out in the end.
        max_position_embeddings: the training length, in tokens.
        lengths: whether numbers of positions were scaled to it, or published.
    """

    model_type = KIND
    scheme: str = "nope"
    scheme_sha256: str = ""
    vocab_size: int = BYTES
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    norm: Norm = "layer"
    convolution: Convolution = "none"
    dropped: bool = False
    max_position_embeddings: int = 128
    lengths: Lengths = "scaled"
    tie_word_embeddings: bool = True
    use_cache: bool = False


class PosencForCausalLM(PreTrainedModel, GenerationMixin):
    """The decoder of the experiments, which reads the whole text for every token.

    Raises:
        ConfigError: if the scheme is not known here, or a size cannot be used.
    """

    config_class = PosencConfig
    base_model_prefix = "decoder"

    def __init__(self, config: PosencConfig) -> None:
        super().__init__(config)
        variant = labelled(config.scheme)
        if config.scheme_sha256 not in ("", code_of(variant)):
            warnings.warn(
                f"{variant.label} has other code here than where it was trained",
                stacklevel=2,
            )
        geometry = Geometry(
            model_dim=config.hidden_size,
            heads=config.num_attention_heads,
            length=config.max_position_embeddings,
            lengths=config.lengths,
        )
        # What a scheme computes when it is built is not in the file of weights.
        with torch.device("cpu"):
            self.decoder = Decoder(
                variant,
                config.num_hidden_layers,
                geometry,
                seed=0,
                vocabulary=config.vocab_size,
                norm=config.norm,
                convolution=config.convolution,
            )
            if config.dropped:
                self.decoder.drop_schemes()
        self.post_init()

    def get_input_embeddings(self) -> torch.nn.Module:
        """Return the embedding, which is that of the output too."""
        return self.decoder.embedding

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        *_: Any,
        attention_mask: Tensor | None = None,
        **__: Any,
    ) -> dict[str, Any]:
        """Return what `forward` is given for the next token: all tokens so far."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        position_ids: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        """Return logits of the next token at each place.

        Args:
            input_ids: `(batch, seq)` int64.
            attention_mask: `(batch, seq)`; padding may follow a text, and not precede
                or interrupt it.
            position_ids: `(batch, seq)` or `(seq,)`, which must count from 0.
            labels: `(batch, seq)` int64, -100 where none; the loss is of the next one.

            output_attentions: must be false.
            output_hidden_states: must be false.

        Returns:
            `logits` of `(batch, seq, vocab_size)`, and `loss` in nats with labels.

        Raises:
            UnsupportedModelError: if a text is padded before its end, if positions do
                not count from 0, or if states or weights are asked for.
            UndefinedPositionError: if it is longer than the scheme is defined for.
        """
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        if attention_mask is not None:
            seen = F.pad(attention_mask.bool(), (1, 0), value=True)
            if (seen[:, 1:] & ~seen[:, :-1]).any() or not seen[:, 1:2].all():
                raise UnsupportedModelError(
                    "attention_mask must hide the end of a text alone, got padding on "
                    "the left or a gap; padding_side='right' would work"
                )
        if position_ids is not None and not (position_ids == positions).all():
            raise UnsupportedModelError("position_ids must count from 0")
        if output_attentions or output_hidden_states:
            raise UnsupportedModelError(
                "output_attentions and output_hidden_states must be left out: the "
                "network returns logits alone"
            )
        logits = self.decoder(input_ids, positions)
        loss = None
        if labels is not None:
            seen = logits[:, :-1].flatten(0, 1)
            loss = F.cross_entropy(seen, labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)


class ByteTokenizer(PreTrainedTokenizer):
    """Bytes as tokens: the number of a token is that of its byte in UTF-8.

    The byte 0 is no text, so it fills rows up behind their end, and ends a text.
    """

    def __init__(self, **more: Any) -> None:
        zero = chr(0)
        given = {"pad_token": zero, "eos_token": zero, "padding_side": "right"}
        super().__init__(**{**given, **more})

    @property
    def vocab_size(self) -> int:
        """Return how many tokens there are."""
        return BYTES

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens with their numbers."""
        return {chr(byte): byte for byte in range(BYTES)}

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        return [chr(byte) for byte in text.encode()]

    def _convert_token_to_id(self, token: str) -> int:
        return ord(token)

    def _convert_id_to_token(self, index: int) -> str:
        return chr(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens; bytes that are no UTF-8 become U+FFFD."""
        return bytes(map(ord, tokens)).decode(errors="replace")

    def save_vocabulary(self, *_: Any, **__: Any) -> tuple[()]:
        """Write nothing: bytes need no list."""
        return ()


def code_of(variant: Variant) -> str:
    """Return the hash of the code of a scheme, as records have it."""
    cell = Cell(variant, "smoothness", ProbeSetting(), threads=1)
    return cell.spec().scheme.source_sha256


AutoConfig.register(KIND, PosencConfig, exist_ok=True)
AutoModelForCausalLM.register(PosencConfig, PosencForCausalLM, exist_ok=True)
AutoTokenizer.register(PosencConfig, tokenizer_class=ByteTokenizer, exist_ok=True)
