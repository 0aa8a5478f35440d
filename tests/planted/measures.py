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
ROUNDING = "tests/measures/test_rounding.py::test_"
REACH = "tests/measures/test_attention_reach.py::test_"
NORM = "tests/measures/test_code_norm.py::test_"
BITS = "tests/measures/test_resemblance.py::test_"
PORTRAIT = "tests/measures/test_portrait.py::test_"
GRID = "tests/measures/test_grid.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a measure."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/measures/precision",
        "parameters rounded on one side",
        "exact[name].copy_(parameter)",
        "pass",
        "tests/measures/test_precision.py::test_parameters_are_rounded_on_both_sides",
    ),
    fault(
        "analysis/measures/precision",
        "ids as they are",
        "made = ids.to(self.probe.torch_dtype) if case.rounded else ids",
        "made = ids",
        "tests/measures/test_precision.py::test_phases_of_rope_are_those_of_rounded_ids",
    ),
    fault(
        "analysis/measures/attention_cost",
        "a mean for the median",
        "np.median(taken[1:], axis=0)",
        "np.mean(taken[1:], axis=0)",
        "tests/measures/test_attention_cost.py::test_a_round_that_was_disturbed_changes_"
        "no_median",
    ),
    fault(
        "analysis/measures/memory",
        "what is left for what was held",
        "np.max(np.cumsum(",
        "np.min(np.cumsum(",
        "tests/measures/test_cost.py::test_memory_grows_with_the_batch_and_with_what_a_"
        "scheme_keeps",
    ),
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
        "(moved - still)[seen].abs().max()",
        "(moved - still)[seen].abs().mean()",
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
        "fit, held_out = (half",
        "held_out, fit = (half",
        f"{LINEARITY}what_a_map_misses_is_seen_beside_the_spread_around_the_mean",
    ),
    fault(
        "analysis/measures/shift_linearity",
        "noise of a fit of all positions",
        "min(len(starts) // 2, enough(codes.shape[1]))",
        "len(starts) // 2",
        f"{LINEARITY}of_many_positions_some_are_drawn",
    ),
    fault(
        "analysis/measures/uniqueness",
        "a part that begins at 0",
        "probe.session(scheme, ids)",
        "probe.session(scheme, probe.arange(len(ids)))",
        f"{UNIQUENESS}codes_in_parts_are_those_at_once",
    ),
    fault(
        "analysis/measures/uniqueness",
        "a rounding of float64 for float32",
        "torch.finfo(one.dtype).eps",
        "torch.finfo(points.dtype).eps",
        f"{UNIQUENESS}a_pair_nearer_than_float32_sees_is_found",
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
        "decay before the LayerNorm",
        "x = F.layer_norm(x, x.shape[-1:])",
        "pass",
        f"{ATTENTION}what_a_layernorm_removes_makes_a_scheme_nope",
    ),
    fault(
        "analysis/measures/distance_decay",
        "interval of one sequence",
        "STUDENT * SEQUENCES**-0.5",
        "STUDENT",
        f"{ATTENTION}logit_drop_is_the_mean_over_sequences_and_heads_after_a_layernorm",
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
        "(kept - mean).masked",
        "kept.masked",
        f"{VECTORS}bias_share_counts_what_differs_between_keys_alone",
    ),
    fault(
        "analysis/measures/perturbation",
        "ratio for share",
        "of_bias / (of_bias + of_content)",
        "of_bias / of_content",
        f"{VECTORS}bias_share_of_alibi_is_the_mean_over_heads_of_a_share_of_variance",
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
        "a bound below the nearest pair that is known",
        "<= best / largest**2 + rounding",
        "<= best / 1e6",
        f"{UNIQUENESS}nearest_distance_crosses_tiles",
    ),
    fault(
        "analysis/measures/uniqueness",
        "a tile not compared with itself",
        "range(start, count, TILE)",
        "range(start + TILE, count, TILE)",
        f"{UNIQUENESS}nearest_distance_crosses_tiles",
    ),
    fault(
        "analysis/measures/uniqueness",
        "rows of the last part alone",
        "found |= {",
        "found = {",
        f"{UNIQUENESS}distinct_rows_counts_signed_zero_once",
    ),
    fault(
        "analysis/measures/uniqueness",
        "constants count",
        "(part.double() - origin)",
        "part.double()",
        f"{UNIQUENESS}a_number_added_to_all_codes_tells_none_apart",
    ),
    fault(
        "analysis/measures/uniqueness",
        "one length for all",
        "replace(probe, positions=count)",
        "probe",
        f"{UNIQUENESS}distinct_codes_are_counted_at_three_lengths",
    ),
    fault(
        "analysis/measures/shift_linearity",
        "a fit without variance",
        "1 + min(fitted, channels) / surplus",
        "1 + 0 / surplus",
        f"{LINEARITY}noise_has_the_residual_that_is_said",
    ),
    fault(
        "analysis/measures/order_sensitivity",
        "codes in the size of the output",
        "return F.layer_norm(x[:, -1], x.shape[-1:])",
        "return x[:, -1]",
        f"{ATTENTION}what_a_layernorm_removes_makes_a_scheme_nope",
    ),
    fault(
        "analysis/measures/rounding",
        "rounding in no other",
        "0 < abs(difference) <= limit",
        "0 <= abs(difference) <= limit",
        f"{ROUNDING}zero_is_no_rounding",
    ),
    fault(
        "analysis/measures/attention_reach",
        "entropy for keys",
        ".sum(dim=-1)).exp()",
        ".sum(dim=-1))",
        f"{REACH}without_content_nope_has_all_keys",
    ),
    fault(
        "analysis/measures/attention_reach",
        "one key too near",
        ": count - distance]",
        ": count - distance + 1]",
        f"{REACH}without_content_alibi_is_a_geometric_sum",
    ),
    fault(
        "analysis/measures/code_norm",
        "mean for root mean square",
        "norms.square().mean().sqrt()",
        "norms.mean()",
        f"{NORM}norm_at_a_width_is_the_root_mean_square_over_positions",
    ),
    fault(
        "analysis/measures/resemblance",
        "null of the codes in order",
        "(CHANCE, codes[order])",
        "(CHANCE, codes)",
        f"{BITS}shuffled_bits_are_bits_no_more",
    ),
    fault(
        "analysis/measures/resemblance",
        "covariance for correlation",
        "normalize(centred.masked_fill(constant, 0.0), dim=0)",
        "normalize(values.masked_fill(constant, 0.0), dim=0)",
        f"{BITS}resemblance_is_the_best_correlation_of_any_channel",
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
    fault(
        "analysis/measures/accuracy",
        "a length counts again behind a gap",
        "            break\n        mastered",
        "            continue\n        mastered",
        "tests/measures/test_accuracy.py::test_area_and_length",
    ),
    fault(
        "analysis/measures/accuracy",
        "undefined lengths left out",
        "value or 0.0 for value in accuracies.values()",
        "value for value in accuracies.values() if value is not None",
        "tests/measures/test_accuracy.py::test_area_and_length",
    ),
    fault(
        "analysis/measures/inside",
        "inside before the convolution",
        "q, k, _, seen = layer.projected(states[number])",
        """seen = layer.attention_norm(states[number])
        q, k = (
            part(seen).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
            for part in (layer.query, layer.key)
        )""",
        "tests/measures/test_inside.py"
        "::test_attention_distance_is_that_of_slow_attention",
    ),
    fault(
        "analysis/measures/cost",
        "cost of a step without positions",
        "steps=WARM + TIMED, drop=0.0",
        "steps=WARM + TIMED",
        "tests/training/test_drop.py::test_the_cost_of_a_step_is_that_of_the_scheme",
    ),
    fault(
        "analysis/measures/inside",
        "a probe tested on what it was fitted to",
        "fit, test = slice(0, count // 2), slice(count // 2, None)",
        "fit, test = slice(0, count // 2), slice(0, count // 2)",
        "tests/measures/test_inside.py::test_a_probe_knows_what_is_linear_in_the_place_and_no_more",
    ),
    fault(
        "analysis/measures/inside",
        "a probe whose last digits depend on memory",
        """    factor = torch.linalg.cholesky(gram)
    weights = torch.cholesky_solve(features.T @ answers, factor)[:, 0]""",
        "    weights = torch.linalg.lstsq(gram, features.T @ answers).solution[:, 0]",
        "tests/measures/test_inside.py::test_a_probe_gives_one_number_wherever_its_tensors_lie",
    ),
    fault(
        "analysis/measures/inside",
        "queries without their gain",
        "session.logits(number, q * layer.query_gain, k, x=seen)",
        "session.logits(number, q * 2, k, x=seen)",
        "tests/measures/test_inside.py::test_attention_distance_is_that_of_slow_attention",
    ),
    fault(
        "analysis/measures/inside",
        "slowest pair first",
        "argsort(descending=True)",
        "argsort()",
        "tests/measures/test_inside.py::test_pairs_stand_from_the_fastest_to_the_slowest",
    ),
    fault(
        "reproduce/orders",
        "lower is better",
        'return {name: -1 if end == "lower" else 1',
        'return {name: 1 if end == "lower" else 1',
        "tests/test_published_orders.py::test_an_order_agrees_disagrees_or_cannot_be_told",
    ),
    fault(
        "reproduce/orders",
        "alike without its interval",
        "abs(self.mean) + width <= margin",
        "abs(self.mean) <= margin",
        "tests/test_published_orders.py::test_alike_and_no_worse_go_by_the_interval",
    ),
    fault(
        "reproduce/orders",
        "what cannot be told agrees",
        'for word in ("disagrees", "not separable")',
        'for word in ("disagrees",)',
        "tests/test_published_orders.py::test_one_claim_that_disagrees_decides",
    ),
]
