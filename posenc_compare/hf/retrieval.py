"""Retrieval: does a checkpoint find facts in a text of a length, and at which depth?

The model reads a text once, and then each question with the cached keys. A needle is
found if its value is generated, greedily and from the values of its kind in the text.
A model that knows only which values occur finds one of `DEPTHS * needles`: chance.
Bits per byte are of the same pass over the text, needles included.
"""

import inspect
import math
import random
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from posenc_compare.errors import ConfigError, CorpusError
from posenc_compare.hf.apply import apply
from posenc_compare.hf.candidates import geometry_of
from posenc_compare.hf.checkpoint import sha256_of
from posenc_compare.hf.evaluate import ROWS, Reader, loaded, window_of
from posenc_compare.hf.needles import KINDS, choice, haystack
from posenc_compare.hf.states import cache_name
from posenc_compare.measures.measure import (
    Curve,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.schemes import Variant
from posenc_compare.settings.checkpoint import BYTES
from posenc_compare.settings.retrieval import DEPTHS, Retrieval
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.setting import STDLIB
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress

LENGTH = "length, in tokens"
FOUND = Quantity(
    "retrieval",
    unit="share",
    better="higher",
    zero="no needle is found",
    x=LENGTH,
    title="share of needles found",
)
NEEDLES = Quantity(
    "needles", unit="needles", better="neither", zero="none was asked for", x=LENGTH
)
BITS = {
    filler: Quantity(
        f"{filler}_bits_per_byte",
        unit="bits per byte",
        better="lower",
        zero="every token is predicted",
        x=LENGTH,
        title=f"bits per byte of {words} with needles",
    )
    for filler, words in (("text", "text"), ("source", "source code"))
}


@register_measure(
    "retrieval",
    quantities=(FOUND, NEEDLES, *BITS.values()),
    views=(Curve(FOUND), *map(Curve, BITS.values())),
    setting="retrieval",
    extra=True,
)
def retrieval(variant: Variant, setting: Retrieval, progress: Progress) -> Result:
    """Needles that a checkpoint finds in texts of one length, by filler.

    Returns:
        The share of needles found and their number, over all fillers, and the bits per
        byte of each filler but noise. Arrays `found` and `asked` count needles,
        `(filler, kind, depth)`.

    Raises:
        ConfigError: if the checkpoint cannot be loaded, has changed since it was
            planned, or has other logits under the identified scheme than by itself.
        CorpusError: if a text is too small, or the tokenizer lacks a character.
    """
    if sha256_of(Path(setting.place)) != setting.model_sha256:
        raise ConfigError(f"model {setting.model}: has changed since this was planned")
    model, tokenizer = loaded(setting.place, setting.dtype)
    model.to(torch.device(setting.device)).eval()
    scheme = variant.build(geometry_of(model.config.get_text_config(), setting.trained))
    fillers, rows = setting.read_fillers, list[Row]()
    found, asked = torch.zeros(2, len(fillers), len(KINDS), DEPTHS).unbind()
    kinds = [*KINDS]
    for place, filler in enumerate(fillers):
        text, seed = filler_of(setting, filler), stream_seed(filler, setting.seed)
        made = haystack(text, tokenizer, setting.read_length, setting.needles, seed)
        if not place and "scaling" not in variant.options:
            Reader(model, made.tokens, 1, progress).check_own(scheme)
        with apply(model, scheme), torch.inference_mode():
            reading = Reading(model, made.tokens)
            if filler in BITS:
                size = len(tokenizer.decode(made.tokens[1:]).encode())
                bits = reading.nats / size / math.log(2)
                rows.append(Row(BITS[filler].name, bits, setting.read_length))
            for needle in made.needles:
                at = place, kinds.index(needle.kind), needle.depth
                asked[at] += 1
                found[at] += choice(needle, reading.logits) == needle.answer
        progress(1)
    share, count = float(found.sum() / asked.sum()), float(asked.sum())
    rows.append(Row(FOUND.name, share, setting.read_length))
    rows.append(Row(NEEDLES.name, count, setting.read_length))
    there = [BITS[filler] for filler in fillers if filler in BITS]
    return Result(
        rows,
        {"found": found.tolist(), "asked": asked.tolist()},
        (FOUND, NEEDLES, *there),
    )


class Reading:
    """A text that a model has read, and goes on from.

    `tokens` are `(token,)`. `nats` are those of all tokens but the first, each
    predicted from those before it.
    """

    def __init__(self, model: PreTrainedModel, tokens: Tensor) -> None:
        self.model: Any = model
        self.head: Any = model.get_output_embeddings()
        self.cache = DynamicCache()
        states, aims = self._states(tokens)[:-1], tokens[1:].to(model.device)
        self.nats = 0.0
        for some, targets in zip(states.split(ROWS), aims.split(ROWS), strict=True):
            logits = self.head(some).float()
            self.nats += float(F.cross_entropy(logits, targets, reduction="sum"))

    def logits(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token, `(vocabulary,)`, on the CPU.

        `tokens`, `(token,)`, stand behind the text; so do those of the next call.
        """
        last = self._states(tokens)[-1]
        self.cache.crop(-len(tokens))
        return self.head(last).float().cpu()

    def _states(self, tokens: Tensor) -> Tensor:
        """Return the last states of tokens behind those in the cache."""
        base = self.model.base_model
        name = cache_name(inspect.signature(base.forward).parameters)
        given = {"input_ids": tokens.to(self.model.device)[None], name: self.cache}
        return base(**given, use_cache=True)[0][0]


def filler_of(setting: Retrieval, filler: str) -> str:
    """Return the text of a filler, from the held-out documents one behind the other."""
    places, wanted = setting.places[:2], setting.corpus_sha256
    if filler == "source":
        places, wanted = (STDLIB, ""), setting.source_sha256
    corpus = load_corpus(*places)
    if corpus.sha256 != wanted:
        raise CorpusError(f"corpus {corpus.name}: has changed since this was planned")
    documents = corpus.test if setting.split == "test" else corpus.validation
    joined, size = b"\n".join(documents), BYTES * setting.read_length
    least = size * (setting.seed + 1)
    if len(joined) < least:
        raise CorpusError(
            f"corpus {corpus.name}: must hold out {least} bytes for {setting.split}, "
            f"got {len(joined)}; shorter lengths or fewer windows would work"
        )
    text = window_of([joined], size, setting.seed).decode(errors="ignore")
    if filler != "noise":
        return text
    words = text.split()
    random.Random(setting.seed).shuffle(words)
    return " ".join(words)
