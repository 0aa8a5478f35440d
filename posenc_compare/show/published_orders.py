"""The orders of schemes that papers have published, and what shows them here."""

from itertools import pairwise

from posenc_compare.show.differences import ALIKE
from posenc_compare.show.orders import RANKS, Claim, PublishedOrder, Score

SMALL = ("addition", "copy", "counting", "parity", "reverse", "sort")


def _chain(
    *schemes: str, quantity: str = "bits_per_byte", times: int = 1
) -> tuple[Claim, ...]:
    """Return a claim for each scheme and the next one, which is worse."""
    scores = [Score(scheme, quantity, times) for scheme in schemes]
    return tuple(Claim(*pair) for pair in pairwise(scores))


def _ahead(first: str, second: str, *lengths: int) -> tuple[Claim, ...]:
    """Return a claim for each length, in training lengths, that the first is better."""
    return tuple(Claim(Score(first, times=n), Score(second, times=n)) for n in lengths)


def _no_worse(first: str, *others: str) -> tuple[Claim, ...]:
    """Return, for each of the other schemes, a claim that the first is no worse."""
    return tuple(Claim(Score(first), Score(one), "no worse", ALIKE) for one in others)


ORDERS: dict[str, PublishedOrder] = {
    "learned": PublishedOrder(
        "learned positions and sinusoids give nearly identical results",
        "Vaswani et al. 2017, arXiv:1706.03762, table 3, row E",
        (Claim(Score("learned"), Score("sinusoidal"), "alike", ALIKE),),
    ),
    "beyond": PublishedOrder(
        "beyond the training length sinusoids fail first, then RoPE, then T5's bias; "
        "ALiBi does not fail, and KERPLE's logarithm is better than ALiBi",
        "Press et al. 2022, arXiv:2108.12409, figure 1; Chi et al. 2022, "
        "arXiv:2205.09921, table 3",
        (
            *_chain("t5_bias", "rope", "sinusoidal", times=2),
            *_chain("kerple_log", "alibi", "t5_bias", "rope", "sinusoidal", times=16),
        ),
        why="In results/language/1500 T5's bias is ahead of ALiBi at 16 L because it "
        "is ahead at L; in results/language/6000 it is ahead at neither. "
        "KERPLE's logarithm is ahead of ALiBi after 1500 steps and behind it after "
        "6000, at L as well: ALiBi learns later.",
    ),
    "sliding": PublishedOrder(
        "longer inputs improve ALiBi over windows that do not overlap, but not over "
        "sliding windows",
        "Press et al. 2022, arXiv:2108.12409, appendix B",
        (
            Claim(
                Score("alibi", "full_bits_per_byte", times=0),
                Score("alibi", "fresh_bits_per_byte", times=0),
            ),
            Claim(
                Score("alibi", "full_bits_per_byte", times=0),
                Score("alibi", "sliding_bits_per_byte", times=0),
                "alike",
                ALIKE,
            ),
        ),
    ),
    "algorithmic": PublishedOrder(
        "on small algorithmic tasks the mean reciprocal ranks are .687 for NoPE, .549 "
        "for T5, .502 for ALiBi, .330 for RoPE on a quarter of the channels, and .215 "
        "for sinusoids",
        "Kazemnejad et al. 2023, arXiv:2305.19466",
        _chain(
            *("nope", "t5_bias", "alibi", "rope:fraction=0.25", "sinusoidal"),
            quantity=RANKS,
            times=2,
        ),
        {"tasks": ",".join(SMALL)},
    ),
    "flip_flop": PublishedOrder(
        "where writes are sparse, PaTH recalls every bit and RoPE errs in 40 %",
        "Yang et al. 2025, arXiv:2505.16381; Liu et al. 2023, arXiv:2306.00946",
        tuple(
            Claim(
                Score("path", "read_accuracy", times, "sparse", "flip_flop"),
                Score("rope", "read_accuracy", times, "sparse", "flip_flop"),
            )
            for times in (1, 16)
        ),
        {"tasks": "flip_flop"},
    ),
    "scalings": PublishedOrder(
        "without fine-tuning, changing the base (NTK) is better than interpolation "
        "(PI), and YaRN is better than both",
        "Peng et al. 2023, arXiv:2309.00071",
        tuple(
            Claim(
                Score("rope", "read_bits_per_byte", times, first),
                Score("rope", "read_bits_per_byte", times, second),
            )
            for times in (2, 16)
            for first, second in (("yarn", "ntk"), ("ntk", "pi"))
        ),
    ),
    "p_rope": PublishedOrder(
        "RoPE without its lowest frequencies is no worse than RoPE",
        "Barbero et al. 2024, arXiv:2410.06205",
        _no_worse("p_rope", "rope"),
    ),
    "randomized": PublishedOrder(
        "random positions improve length generalisation",
        "Ruoss et al. 2023, arXiv:2305.16843",
        tuple(
            Claim(
                Score(better, "accuracy", times=4, task=task),
                Score(worse, "accuracy", times=4, task=task),
            )
            for task in ("copy", "reverse")
            for better, worse in (
                ("randomized", "sinusoidal"),
                ("randomized:scheme=rope", "rope"),
            )
        ),
        {"tasks": "copy,reverse"},
    ),
    "after_rope": PublishedOrder(
        "HoPE, FoPE, PoPE and RoPE++ are better than RoPE beyond the training length",
        "Chen et al. 2024, arXiv:2410.21216; Hua et al. 2024, arXiv:2412.17739; "
        "Gopalakrishnan et al. 2025, arXiv:2509.10534; Liu et al. 2025, "
        "arXiv:2512.07525",
        tuple(
            Claim(Score(scheme, times=16), Score("rope", times=16))
            for scheme in ("hope", "fope", "pope", "rope_pp")
        ),
    ),
    "nope": PublishedOrder(
        "language models without positions are competitive with those with sinusoids, "
        "learned positions or ALiBi",
        "Haviv et al. 2022, arXiv:2203.16634, abstract and section 1",
        _no_worse("nope", "sinusoidal", "learned", "alibi"),
    ),
    "bam": PublishedOrder(
        "BAM, which unifies NoPE and ALiBi, improves generalisation to long contexts "
        "by a generalised Gaussian prior, at a comparable perplexity",
        "Bianchessi et al. 2025, arXiv:2505.22842, abstract",
        (
            *_no_worse("bam", "nope", "alibi"),
            *_ahead("bam", "nope", 16),
            *_ahead("bam", "alibi", 16),
        ),
    ),
    "stick_breaking": PublishedOrder(
        "in place of softmax and RoPE, stick-breaking is competitive in length "
        "generalisation; at 8 times the training length its perplexity improves",
        "Tan et al. 2024, arXiv:2410.17980, abstract",
        (
            Claim(
                Score("stick_breaking", times=8),
                Score("rope", times=8),
                "no worse",
                ALIKE,
            ),
            Claim(Score("stick_breaking", times=8), Score("stick_breaking")),
        ),
    ),
    "ca_rope": PublishedOrder(
        "CARoPE has a significantly lower perplexity than RoPE, even at longer "
        "context lengths",
        "Veisi et al. 2025, arXiv:2507.23083, abstract",
        _ahead("ca_rope", "rope", 1, 16),
    ),
    "ssmax": PublishedOrder(
        "with SSMax the loss falls faster in pretraining, and performance in long "
        "contexts is significantly better",
        "Nakanishi 2025, arXiv:2501.19399, abstract",
        _ahead("log_length", "rope", 1, 16),
    ),
    "canon": PublishedOrder(
        "Canon layers lift networks without positions to match RoPE",
        "Allen-Zhu 2025, arXiv:2512.17351, abstract",
        (Claim(Score("nope", convolution="canon"), Score("rope"), "no worse", ALIKE),),
    ),
}
"""By name."""
