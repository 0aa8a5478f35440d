"""Texts that state facts, and the questions that ask for them.

A needle is a sentence with a key and a value, such as "Marta lives in Lisbon.".
Several stand in one text, evenly from its beginning to its end. A question is the
sentence up to its value. Its candidates are the values of all needles of its kind in
the text, so that knowing which values occur does not answer it.

Source: the needle among distractors of RULER (Hsieh et al. 2024, arXiv:2404.06654,
section 3, multi-key retrieval).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, CorpusError
from posenc_compare.settings.retrieval import DEPTHS

COLOURS = "amber black blue copper golden green grey ivory purple red silver white"
PLACES = "castle garden harbour library mill tower"
NAMES = (
    "Agnes Bruno Carla Dmitri Elena Felix Greta Hamid Ingrid Jonas Keiko Laszlo Marta "
    "Nadia Oskar Petra Rashid Selma Tomas Ursula Viktor Wanda Yusuf Zelda"
)
CITIES = (
    "Ankara Athens Berlin Boston Cairo Chicago Denver Dublin Geneva Havana Helsinki "
    "Kyoto Lima Lisbon London Madrid Manila Moscow Oslo Paris Prague Rome Tokyo Vienna"
)
OBJECTS = (
    "anchor basket bell bottle candle compass drum feather fiddle hammer kettle ladder "
    "lantern mirror needle necklace pencil pillow ribbon saddle shovel teapot umbrella "
    "whistle"
)
ROOMS = (
    "attic barn basement bathroom bedroom cabin cellar chapel church closet factory "
    "forest garage gallery hall hospital hotel kitchen museum office prison school "
    "stable theatre"
)


@dataclass(frozen=True)
class Kind:
    """A kind of needles: a sentence, whose last word is the value, and its words.

    No two needles of a text have the same key, or the same value.
    """

    sentence: str
    keys: tuple[str, ...]
    values: tuple[str, ...]


KINDS = {
    "code": Kind(
        "The code of the {key} is {value}.",
        tuple(f"{c} {p}" for c in COLOURS.split() for p in PLACES.split()),
        tuple(map(str, range(1000, 10_000))),
    ),
    "city": Kind(
        "{key} lives in {value}.", tuple(NAMES.split()), tuple(CITIES.split())
    ),
    "place": Kind(
        "The {key} is in the {value}.", tuple(OBJECTS.split()), tuple(ROOMS.split())
    ),
}


@dataclass(frozen=True)
class Needle:
    """A fact in a text."""

    kind: str
    depth: int  # in which fifth of the text it stands, from 0
    tokens: Tensor  # (token,)
    stem: Tensor  # (token,), the question
    branches: tuple[tuple[int, ...], ...]  # tokens of each candidate, behind `stem`
    answer: int  # index of the right candidate


@dataclass(frozen=True)
class Haystack:
    """A text `(token,)` with needles.

    With any question and answer it is not longer than the length that was asked for.
    """

    tokens: Tensor
    needles: tuple[Needle, ...]


def haystack(
    filler: str, tokenizer: Any, length: int, needles: int, seed: int
) -> Haystack:
    """Return a text of `length` tokens with needles of every kind at every depth.

    The needles stand behind equal shares of the filler, with half a share at each end.
    Which kind comes first at a depth, and all keys and values, are drawn.

    Raises:
        ConfigError: if `length` tokens have no room for the needles.
        CorpusError: if the filler is too short, or has characters that the tokenizer
            does not know.
    """
    ordered = _drawn(filler, tokenizer, needles, seed)
    taken = _taken(ordered)
    free = length - taken
    if free < len(ordered):
        raise ConfigError(
            f"lengths must have room for {len(ordered)} needles, got {length}; "
            f"{2 * taken} would work"
        )
    ids = encoded(tokenizer, filler)[:free]
    if len(ids) < free:
        raise CorpusError(f"corpus: must make {free} tokens, got {len(ids)}")
    count = 2 * len(ordered)
    cuts = [free * part // count for part in range(1, count, 2)]
    first, *others = ids.tensor_split(cuts)
    parts = [first]
    for needle, part in zip(ordered, others, strict=True):
        parts += [needle.tokens, part]
    return Haystack(torch.cat(parts), tuple(ordered))


def least_length(tokenizer: Any) -> int:
    """Return a length with room for the needles of any seed, one of each kind."""
    return 2 * _taken(_drawn("", tokenizer, 1, 0))


def _drawn(filler: str, tokenizer: Any, needles: int, seed: int) -> list[Needle]:
    """Return the needles of a text, in their order."""
    draw = np.random.default_rng(seed)
    made: list[list[Needle]] = [[] for _ in range(DEPTHS)]
    for name, kind in KINDS.items():
        keys = _chosen(kind.keys, filler, DEPTHS * needles, draw)
        values = _chosen(kind.values, filler, DEPTHS * needles, draw)
        for place, key in enumerate(keys):
            depth = place % DEPTHS
            made[depth].append(
                _needle(name, depth, key, values[place:] + values[:place], tokenizer)
            )
    return [some[i] for some in made for i in draw.permutation(len(some))]


def _taken(needles: Sequence[Needle]) -> int:
    """Return the tokens of needles, and of the longest question with its answer."""
    asked = max(len(n.stem) + max(map(len, n.branches)) for n in needles)
    return asked + sum(len(needle.tokens) for needle in needles)


def _chosen(
    words: tuple[str, ...], filler: str, count: int, draw: np.random.Generator
) -> list[str]:
    """Return some words in random order; those that a filler holds come last."""
    if count > len(words):
        raise ConfigError(
            f"needles must be at most {len(words) // DEPTHS}, got {count // DEPTHS}"
        )
    absent: list[str] = []
    held: list[str] = []
    for place in draw.permutation(len(words)):
        (held if words[place] in filler else absent).append(words[place])
        if len(absent) == count:  # a search of the filler for each word takes time
            break
    return [*absent, *held][:count]


def _needle(
    name: str, depth: int, key: str, values: Sequence[str], tokenizer: Any
) -> Needle:
    """Return a needle; its value is the first one."""
    kind = KINDS[name]
    # A line of its own, so that the question begins with the same tokens.
    tokens = encoded(tokenizer, f"\n{kind.sentence.format(key=key, value=values[0])}\n")
    candidates = sorted(values)
    endings = [
        encoded(tokenizer, f"\n{kind.sentence.format(key=key, value=value)}").tolist()
        for value in candidates
    ]
    shared = 0
    while len({ids[shared] for ids in endings}) == 1:
        shared += 1
    return Needle(
        name,
        depth,
        tokens,
        torch.tensor(endings[0][:shared]),
        tuple(tuple(ids[shared:]) for ids in endings),
        candidates.index(values[0]),
    )


def encoded(tokenizer: Any, text: str) -> Tensor:
    """Return the tokens of a text, `(token,)`, which the tokenizer must know."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        raise CorpusError(
            "corpus: texts and needles must be of characters that the tokenizer knows"
        )
    return torch.tensor(ids, dtype=torch.long)


def choice(needle: Needle, read: Callable[[Tensor], Tensor]) -> int:
    """Return the index of the candidate that is generated.

    Tokens are generated greedily among those by which a candidate goes on, until one
    candidate is left. `read` returns logits `(vocabulary,)` behind tokens `(token,)`.
    """
    left = list(range(len(needle.branches)))
    done = 0
    while len(left) > 1:
        said = needle.branches[left[0]][:done]
        logits = read(torch.cat([needle.stem, torch.tensor(said, dtype=torch.long)]))
        tokens = sorted({needle.branches[i][done] for i in left})
        best = max(tokens, key=lambda token: float(logits[token]))
        left = [i for i in left if needle.branches[i][done] == best]
        done += 1
    return left[0]
