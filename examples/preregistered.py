"""Does an untrained layer predict who extrapolates? The test that docs/log.md fixed.

    python examples/preregistered.py FIGURE.png

The predictor is the attention of an untrained layer to keys at least L/2 back, the
outcome the change in bits per byte from the training length to 16 times that length.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd

import posenc_compare as pc
from posenc_compare.show.plots.style import in_style, new_figure, render
from posenc_compare.stats.correlation import correlation
from posenc_compare.stats.intervals import half_width

RESULTS = Path(__file__).parent.parent / "results"


def numbers(folder: str, measure: str) -> tuple[pd.DataFrame, list[pc.Record]]:
    """Return a row per number, where a scheme has one name on every processor."""
    results = pc.load(RESULTS / folder, measures=measure)
    scheme = results.frame["scheme"].str.partition(" [")[0]
    return results.frame.assign(scheme=scheme), results.records


untrained, _ = numbers("numerics/attention_reach", "attention_reach")
reach = untrained.query("quantity == 'attention_beyond' and case == 'L' and x == 0.5")
predictor = {scheme: of["value"].mean() for scheme, of in reach.groupby("scheme")}

trained, records = numbers("language/1500-predicted", "extrapolation")
bits = trained.query("quantity == 'bits_per_byte' and case == ''")
scores = bits.pivot(index=["scheme", "family", "seed"], columns="x", values="value")
change = (scores[2048] - scores[128]).dropna()
groups = change.groupby(["scheme", "family"])
found = groups.agg(["mean", half_width]).reset_index()
found["predictor"] = [predictor[scheme] for scheme in found["scheme"]]

absolute = (found["family"] == "absolute").astype(float)
test = correlation(found["predictor"], found["mean"], absolute)
assert test is not None
low, high = test.over_schemes
print(f"rho {test.rho:.2f}, 95% over schemes {low:.2f} to {high:.2f}")
print(f"p {test.p:.3f} (permutations), n {test.n} schemes")
named = ["randomized_distance", "sandwich", "kerple_power", "grape_ap", "grape_a"]
print(found.set_index("scheme").loc[named, ["predictor", "mean"]].round(3).to_string())

bare = [replace(one, label=one.spec.scheme.name) for one in records]
look = pc.looks(bare)
with in_style():
    figure = new_figure(2.8)
    axes = figure.subplots()
    for row in found.sort_values("predictor").to_dict("records"):
        style = look[row["scheme"]]
        axes.errorbar(
            row["predictor"],
            row["mean"],
            row["half_width"],
            fmt=style.marker,
            color=style.colour,
            markersize=5,
            markeredgecolor="w",
            markeredgewidth=0.4,
            elinewidth=0.8,
            label=row["scheme"],
        )
    axes.axhline(0.1, color="0.6", linewidth=0.6, linestyle="--")
    axes.set_xlabel("attention to keys at least 32 back in 64 tokens, untrained")
    axes.set_ylabel("bits per byte, at 2048 minus at 128")
    axes.set_title(
        f"Spearman's rho {test.rho:.2f} (95% {low:.2f} to {high:.2f}), n = {test.n}"
    )
    figure.legend(loc="outside right center")
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_bytes(render(figure, "png", 150))
