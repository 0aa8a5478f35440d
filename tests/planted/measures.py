"""Faults in measures and their input."""

from planted import Fault

FILES = (
    "analysis/core/progress.py",
    "analysis/core/quantities.py",
    "analysis/core/seeds.py",
    "analysis/measures/*.py",
    "reproduce/*.py",
)
CONTEXT = "tests/training/test_context.py::test_"
TRAINING = "tests/training/test_training.py::test_"
ATTENTION = "tests/measures/test_attention_measures.py::test_"
LINEARITY = "tests/measures/test_shift_linearity.py::test_"
VECTORS = "tests/measures/test_vector_measures.py::test_"
UNIQUENESS = "tests/measures/test_uniqueness.py::test_"
PORTRAIT = "tests/measures/test_portrait.py::test_"
GRID = "tests/measures/test_grid.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a measure."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/measures/extrapolation",
        "last fifth of the losses",
        "len(losses) // 10",
        "len(losses) // 5",
        f"{TRAINING}figures_are_those_of_the_network_as_trained",
    ),
    fault(
        "analysis/measures/extrapolation",
        "bits of the last reader",
        "at_places if case else places",
        "places.tolist() if case else at_places or places",
        f"{TRAINING}figures_are_those_of_the_network_as_trained",
    ),
    fault(
        "analysis/measures/context",
        "other bytes compared",
        "return placed.reshape(-1, length)[:, self.length :]",
        "return placed.reshape(-1, length)",
        f"{CONTEXT}effective_length_compares_the_same_bytes",
    ),
    fault(
        "analysis/measures/context",
        "gain turned round",
        "sliding - _mean(full)",
        "_mean(full) - sliding",
        f"{CONTEXT}gain_is_what_a_sliding_window_has_not",
    ),
    fault(
        "analysis/measures/shift_error",
        "mean for largest",
        ".abs().max()",
        ".abs().mean()",
        f"{ATTENTION}shift_error_is_the_largest_change_of_any_logit",
    ),
    fault(
        "analysis/measures/shift_linearity",
        "spread around 0",
        "(target - target.mean(dim=0)).norm()",
        "target.norm()",
        f"{LINEARITY}what_a_map_misses_is_seen_beside_the_spread_around_the_mean",
    ),
    fault(
        "analysis/measures/shift_linearity",
        "scored on what was fitted",
        "fit, held_out = starts",
        "held_out, fit = starts",
        f"{LINEARITY}what_a_map_misses_is_seen_beside_the_spread_around_the_mean",
    ),
    fault(
        "analysis/measures/order_sensitivity",
        "one projection for both layers",
        'f"query {layer}"',
        '"query 0"',
        f"{ATTENTION}order_sensitivity_is_that_of_two_layers_of_their_own",
    ),
    fault(
        "analysis/measures/distance_decay",
        "ties by place",
        "(np.cumsum(counts) - (counts - 1) / 2)[inverse]",
        "values.argsort().argsort()",
        f"{ATTENTION}decay_is_spearmans_correlation_with_mean_ranks_of_ties",
    ),
    fault(
        "analysis/measures/perturbation",
        "half the angle",
        "rad2deg(2 * half)",
        "rad2deg(half)",
        f"{VECTORS}angles_are_in_degrees",
    ),
    fault(
        "analysis/measures/perturbation",
        "spread over all keys",
        "(kept - mean)[seen]",
        "kept[seen]",
        f"{VECTORS}bias_spread_counts_what_differs_between_keys_alone",
    ),
    fault(
        "analysis/measures/smoothness",
        "unevenness upside down",
        "largest / mean if mean",
        "mean / largest if mean",
        f"{VECTORS}the_largest_step_is_seen_beside_the_mean_step",
    ),
    fault(
        "analysis/measures/uniqueness",
        "pairs with themselves",
        "max(1, count - 1)",
        "max(1, count)",
        f"{UNIQUENESS}typical_distance_is_the_root_mean_square_over_pairs",
    ),
    fault(
        "analysis/measures/uniqueness",
        "next row left out",
        "> here[:, None]",
        "> here[:, None] + 1",
        f"{UNIQUENESS}nearest_distance_equals_all_pairs",
    ),
    fault(
        "analysis/measures/portrait",
        "zero codes count",
        "cosines[both].mean()",
        "cosines.mean()",
        f"{PORTRAIT}similarity_leaves_out_the_zero_code",
    ),
    Fault(
        "analysis/measures/codes.py",
        "future distances for past ones",
        "-session.ids, probe.heads",
        "session.ids, probe.heads",
        f"{UNIQUENESS}nope_has_one_code_and_t5_as_many_as_buckets",
    ),
    Fault(
        "analysis/measures/probe.py",
        "one seed for all",
        "stream_seed(purpose, self.seed)",
        "stream_seed(purpose, 0)",
        f"{VECTORS}another_seed_is_another_probe",
    ),
    Fault(
        "analysis/measures/probe.py",
        "rows apart alone",
        "difference.norm(dim=-1) if",
        "difference[..., 0].abs() if",
        f"{GRID}cells_are_apart_as_the_ruler_says",
    ),
    Fault(
        "reproduce/published.py",
        "odd slopes for even",
        "[0::2]",
        "[1::2]",
        "tests/test_published.py::test_a_published_figure_is_reproduced",
    ),
]
