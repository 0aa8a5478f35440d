"""SCAN: output the actions of a command, from a file of the user's.

Source: Lake, Baroni 2018, arXiv:1711.00350. The file has a line for each command, as
`IN: jump twice OUT: I_JUMP I_JUMP`.
"""

import functools

import numpy as np

from posenc_compare.errors import CorpusError
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.tasks.drawn import Drawn, Sequence
from posenc_compare.tasks.task import register_task

WORDS = (
    *("jump", "walk", "run", "look", "turn", "left", "right", "around", "opposite"),
    *("twice", "thrice", "and", "after"),
    *("I_JUMP", "I_WALK", "I_RUN", "I_LOOK", "I_TURN_LEFT", "I_TURN_RIGHT"),
)
MARK, END, FIRST = 1, 2, 3
TOKENS = {word: FIRST + i for i, word in enumerate(WORDS)}
TEST, VALIDATION = 0, 1  # the hashes of their lines, modulo 10
EXAMPLE = "IN: jump twice OUT: I_JUMP I_JUMP"


@register_task(
    "scan",
    vocabulary=22,
    score="accuracy",
    chance=0.0455,
    needs_file=True,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Scan(Drawn):
    """Output the actions of a command, and then an end mark.

    A line is trained on if it fits the training length. A test of a longer length has
    lines that need more than half of it, so none that a shorter one has. The file to
    test on, if there is one, is a published split; its lines are not trained on.

    Raises:
        CorpusError: if the file has another form, or no line of some length.
    """

    def __init__(self, setting: Training) -> None:
        super().__init__(setting)
        corpus = load_corpus(*setting.places)
        own, tested = [corpus.train.tobytes(), *corpus.validation], [*corpus.test]
        if not setting.test_corpus:
            own, tested = [*own, *tested], []
        # A single file is cut into parts, wherever in a line that is.
        known = _lines(own, b"" if len(corpus.files) == 1 else b"\n")
        apart = dict.fromkeys(_lines(tested, b"\n"))
        read = [*map(_read, (line for line in known if line not in apart))]
        held_out = {VALIDATION: "validation"} | ({} if apart else {TEST: "test"})
        self.splits = [
            held_out.get(stream_seed("scan", *text) % 10, "train") for text, _ in read
        ] + ["test"] * len(apart)
        self.lines = [*read, *map(_read, apart)]
        self.fitting = functools.cache(self._fitting)

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        fit = self.fitting(length, self.setting.split if largest else "train")
        return Sequence.spoken(*fit[int(rng.integers(len(fit)))])

    def _fitting(self, length: int, wanted: str) -> list[tuple[np.ndarray, int]]:
        """Return the lines of a split that a length is for."""
        least = length // 2 if length > self.setting.length else 0
        fit = [
            line
            for line, split in zip(self.lines, self.splits, strict=True)
            if split == wanted and least < len(line[0]) - 1 <= length
        ]
        if not fit:
            raise CorpusError(
                f"scan: {self.setting.corpus} must have lines of {least + 1} to "
                f"{length} tokens for {wanted}, and has none; another length or "
                f"longest would work"
            )
        return fit


def _lines(parts: list[bytes], between: bytes) -> list[str]:
    """Return the lines of texts that are not empty."""
    text = between.join(parts).replace(b"\0", b"\n").decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()]


def _read(line: str) -> tuple[np.ndarray, int]:
    """Return the tokens of a line, and the place of its first action.

    Raises:
        CorpusError: if it is none.
    """
    command, mark, actions = line.removeprefix("IN:").partition("OUT:")
    words = [part.split() for part in (command, actions)]
    if not words[0] or not mark or not {*words[0], *words[1]} <= TOKENS.keys():
        raise CorpusError(f"scan: a line must read like {EXAMPLE!r}, got {line[:60]!r}")
    before, after = ([TOKENS[word] for word in part] for part in words)
    return np.array([*before, MARK, *after, END]), len(before) + 1
