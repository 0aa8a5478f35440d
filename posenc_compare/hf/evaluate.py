"""A checkpoint under every scaling of its rotary positions, beyond its length too.

The same tokens are read at every length: a window of the longest, and pieces of it. The
seed is the index of the window in a text, so that several seeds give an interval and a
test. Every token is predicted from the tokens before it in its window, the first of a
window from one. Bits are divided by the bytes of the text, so that tokenizers can be
compared.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from posenc_compare.errors import ConfigError, CorpusError
from posenc_compare.hf.apply import apply
from posenc_compare.hf.candidates import geometry_of
from posenc_compare.hf.checkpoint import sha256_of
from posenc_compare.hf.proof import proof
from posenc_compare.hf.rules import rules_for
from posenc_compare.measures.measure import (
    ByCase,
    Curve,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.settings.checkpoint import BYTES, Checkpoint
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress

ROWS = 512  # positions whose logits are held at once
TOLERANCE = 2.0**-10  # of logits that should be the same, in parts of the largest
CHECKED = 64  # tokens that are read with the model's own positions and with ours

BITS = Quantity(
    "bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every token is predicted",
    x="test length, in tokens",
    title="bits per byte of a checkpoint",
)
READ = Quantity(
    "read_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every token is predicted",
    x="test length, in tokens",
    title="bits per byte of a checkpoint, with RoPE scaling",
)
SLIDING = Quantity(
    "sliding_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every token is predicted in windows of the trained length that slide",
    title="bits per byte in sliding windows",
)
SLIDES = 4  # steps in which a sliding window moves by its length


@register_measure(
    "checkpoint",
    quantities=(BITS, READ, SLIDING),
    views=(Curve(BITS), ByCase(READ, of=BITS), Headline(SLIDING)),
    setting="checkpoint",
    extra=True,
)
def checkpoint(variant: Variant, setting: Checkpoint, progress: Progress) -> Result:
    """Bits per byte of a checkpoint at every length, under every rule.

    Returns:
        A row for each length, and with the rule as case for each length and rule. Rules
        take the factor of the length; with `static` before its name, a rule takes the
        factor of the longest length at all of them. One row for windows of the trained
        length that slide, if longer ones are read.

    Raises:
        ConfigError: if the checkpoint cannot be loaded, has changed since it was
            planned, or has other logits under the identified scheme than by itself.
        CorpusError: if the text is too small, or the tokenizer lacks a character.
    """
    model, tokenizer = loaded(setting.place, setting.dtype)
    if sha256_of(Path(setting.place)) != setting.model_sha256:
        raise ConfigError(f"model {setting.model}: has changed since this was planned")
    model.to(torch.device(setting.device)).eval()
    tokens, size = _window(setting, tokenizer)
    geometry = geometry_of(model.config.get_text_config(), setting.trained)
    own: Scheme = variant.build(geometry)
    reader = Reader(model, tokens, size, progress)
    reader.check_own(own)
    rows: list[Row] = []
    lengths = setting.test_lengths
    longest = rules_for(own, lengths[-1], setting.rules)
    for length in lengths:
        bits = reader.bits(own, "", length)
        rows.append(Row(BITS.name, bits, length))
        cases = rules_for(own, length, setting.rules)
        static = {f"static {name}": scheme for name, scheme in longest.items()}
        for case, scheme in {**cases, **static}.items():
            if case in static and length == lengths[-1]:
                continue
            found = reader.bits(scheme, case, length)
            rows.append(Row(READ.name, found, length, case))
        progress(1)
    if lengths[-1] > setting.trained:
        bits = reader.bits(own, "sliding", lengths[-1], setting.trained)
        rows.append(Row(SLIDING.name, bits))
    return Result(rows)


def loaded(place: str, dtype: str) -> tuple[Any, Any]:
    """Return the model and the tokenizer of a checkpoint."""
    path = Path(place)
    given = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    source = str(path.parent) if given else place
    try:
        read: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
            trust_remote_code=False,
            **given,
        )
        model, found = read
        tokenizer = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, **given
        )
    except Exception as error:  # whatever a file makes transformers raise
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        raise ConfigError(
            f"model must be a folder, a name on the hub or a GGUF file of a causal "
            f"model with its tokenizer, got {place[:200]!r}: {reason}"
        ) from error
    lacking = sorted(map(str, {*found["missing_keys"], *found["mismatched_keys"]}))
    if lacking:  # transformers draws such weights at random
        raise ConfigError(
            f"model {path.name}: must have all weights, lacks {len(lacking)}, the "
            f"first of them {lacking[0][:120]}"
        )
    # Transformers leaves these out, as layers that the configuration does not count.
    left_out = sorted(map(str, found["unexpected_keys"]))
    left_out = [key for key in left_out if not key.endswith("rotary_emb.inv_freq")]
    if left_out:
        raise ConfigError(
            f"model {path.name}: must have a place for all its weights, has none for "
            f"{len(left_out)}, the first of them {left_out[0][:120]}"
        )
    return model, tokenizer


class Reader:
    """A model that reads a window; what it has read is kept in checkpoints.

    `tokens` are `(longest + 1,)`; `size` counts the bytes of all but the first.
    """

    def __init__(
        self, model: PreTrainedModel, tokens: Tensor, size: int, progress: Progress
    ) -> None:
        self.model = model
        self.tokens = tokens
        self.size = size
        self.progress = progress
        self.head: Any = model.get_output_embeddings()
        self._check_head()
        self._kept: dict[str, Tensor] = {}
        progress.checkpoints.load(self._restore, 1 << 24)

    def bits(self, scheme: Scheme, case: str, length: int, within: int = 0) -> float:
        """Return the bits per byte of the window under a scheme, whose name is `case`.

        Pieces have `length` tokens. With `within`, windows of so many tokens slide.
        """
        name = f"{length}.{case}"
        if name not in self._kept:
            with apply(self.model, scheme), torch.inference_mode():
                read = parts(self.tokens, length, within)
                nats = torch.stack([self._nats(*part) for part in read]).sum()
            self._kept[name] = nats / self.size / math.log(2)
            if self.progress.checkpoints.due():
                self.progress.checkpoints.save(len(self._kept), self._kept)
        return float(self._kept[name])

    def _nats(self, text: Tensor, targets: Tensor) -> Tensor:
        """Return the nats of the last tokens, each predicted from all before it."""
        device = self.model.device
        states = self._states(text.to(device)[None])[0, -len(targets) :]
        whole = torch.zeros((), dtype=torch.float64)
        for some, aims in zip(states.split(ROWS), targets.split(ROWS), strict=True):
            logits = self.head(some).float()
            whole += F.cross_entropy(logits, aims.to(device), reduction="sum").cpu()
        return whole

    def _states(self, ids: Tensor) -> Tensor:
        return self.model.base_model(input_ids=ids, use_cache=False)[0]

    def _check_head(self) -> None:
        """Refuse a model whose logits are more than its head of its last states."""
        ids = self.tokens[None, :8].to(self.model.device)
        with torch.inference_mode():
            whole = self.model(input_ids=ids, use_cache=False).logits.float()
            parted = self.head(self._states(ids)).float()
        if (whole - parted).abs().max() > TOLERANCE * whole.abs().max():
            raise ConfigError(
                f"{type(self.model).__name__}: logits must be the output of its head "
                f"on the last hidden states, got logits that are changed after it"
            )

    def check_own(self, own: Scheme) -> None:
        """Refuse a scheme under which the model has other logits than by itself."""
        ids = self.tokens[None, :CHECKED].to(self.model.device)
        # Another frequency or temperature moves logits by a tenth and more.
        share = max(TOLERANCE, 8 * torch.finfo(self.model.dtype).eps)
        apart = proof(self.model, own, ids=ids, alone=False)["all"]
        if not apart <= share:
            raise ConfigError(
                f"{type(self.model).__name__}: its logits under {own.name} must equal "
                f"its own within {share:.1e} of the largest, got {apart:.1e}"
            )

    def _restore(self, step: int, tensors: dict[str, Tensor]) -> None:
        if len(tensors) != step:
            raise ValueError(f"it must have {step} tests, got {len(tensors)}")
        for name, bits in tensors.items():
            if bits.shape or bits.dtype != torch.float64:
                raise ValueError(f"{name} is not of this test")
            if not (bits.isfinite() & (bits >= 0)).all():
                raise ValueError(f"{name} must be finite and not negative")
        self._kept = dict(tensors)


def parts(row: Tensor, length: int, within: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what is read of a window, and the tokens that are predicted at its end.

    Of `(longest + 1,)` tokens, pieces of `length` are read one by one. With `within`,
    windows of so many tokens slide instead.
    """
    if not within:
        for start in range(0, len(row) - 1, length):
            piece = row[start : start + length + 1]
            yield piece[:-1], piece[1:]
        return
    yield row[:within], row[1 : within + 1]
    step = math.gcd(max(1, within // SLIDES), len(row) - 1 - within)
    for stop in range(within + step, len(row), step):
        yield row[stop - within : stop], row[stop - step + 1 : stop + 1]


def _window(setting: Checkpoint, tokenizer: Any) -> tuple[Tensor, int]:
    """Return the tokens of the setting's window, and the bytes that they predict."""
    corpus = load_corpus(*setting.places[:2])
    if corpus.sha256 != setting.corpus_sha256:
        raise CorpusError(f"corpus {corpus.name}: has changed since this was planned")
    wanted = setting.test_lengths[-1] + 1
    size = BYTES * (wanted - 1)
    documents = corpus.test if setting.split == "test" else corpus.validation
    text = window_of(documents, size, setting.seed).decode(errors="ignore")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:wanted]
    if len(ids) < wanted:
        raise CorpusError(
            f"corpus {corpus.name}: {size} bytes must make {wanted} tokens, got "
            f"{len(ids)}"
        )
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        raise CorpusError(
            f"corpus {corpus.name}: must be of characters that the tokenizer "
            f"knows, for unknown ones have no number of bytes"
        )
    return torch.tensor(ids), len(tokenizer.decode(ids[1:]).encode())


def window_of(documents: Sequence[bytes], size: int, number: int) -> bytes:
    """Return one of the windows of a text, which do not overlap, by its number from 0.

    The first is at the beginning; however many are taken, they are spread over all of
    the text, by the numbers of van der Corput. `size` is in bytes.
    """
    places = [
        (document, start)
        for document in documents
        for start in range(0, len(document) - size + 1, size)
    ]
    spread: dict[int, None] = {}  # in their order
    for count in itertools.count():
        turned = int(f"{count:b}"[::-1], 2) / 2 ** count.bit_length()
        spread[int(turned * len(places))] = None
        if len(spread) > number:
            break
    document, start = places[[*spread][number]]
    return document[start : start + size]
