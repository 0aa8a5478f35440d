"""Faults in plots."""

from planted import Fault

FILES = ("analysis/show/plots/*.py",)


def fault(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault, and the test that must turn red."""
    tests = f"tests/test_plots.py::test_{test}"
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/show/plots/alike",
        "equal curves whatever their size",
        "apart = EQUAL * float",
        "apart = float",
        "schemes_with_equal_curves_are_drawn_once_with_both_names",
    ),
    fault(
        "analysis/show/plots/stamp",
        "plots made of older records",
        'record.provenance.text("started"), ',
        "",
        "plots_of_the_same_records_are_not_drawn_again",
    ),
    fault(
        "analysis/show/plots/clock_hands",
        "cosine before sine",
        "np.arctan2(sine, cosine)",
        "np.arctan2(cosine, sine)",
        "sinusoids_have_clock_hands_and_rows_alike_are_one",
    ),
    fault(
        "analysis/show/plots/head_maps",
        "largest of each key",
        "np.fmax.reduce(past, axis=-1, keepdims=True)",
        "np.fmax.reduce(past, axis=-2, keepdims=True)",
        "biases_are_counted_from_the_largest_of_each_query",
    ),
    fault(
        "analysis/show/plots/paper",
        "bad keys unsaid",
        "    if said:\n",
        "    if False:\n",
        "a_style_that_cannot_be_used_is_refused",
    ),
    fault(
        "analysis/show/plots/frames",
        "failed records drawn",
        'r.status == "ok" and ',
        "",
        "records_without_a_result_are_passed_over",
    ),
    fault(
        "analysis/show/plots/frames",
        "half width for mean",
        "                mean.mean,\n",
        "                mean.half_width,\n",
        "extrapolation_draws_means_and_marks_ends",
    ),
    fault(
        "analysis/show/plots/extrapolation",
        "one reason for all ends",
        "if len(set(shown.values())) == 1",
        "if len(set(shown.values())) > 0",
        "extrapolation_says_each_end_where_they_differ",
    ),
    fault(
        "analysis/show/plots/lines",
        "ends do not tell lines apart",
        "if same_ends and apart",
        "if apart",
        "lines_that_coincide_are_layered",
    ),
    fault(
        "analysis/show/plots/style",
        "labels that hide",
        'startswith("_")',
        'startswith("__")',
        "safe",
    ),
    fault(
        "analysis/show/plots/style",
        "the user's style",
        "    mpl.rcdefaults()\n",
        "",
        "the_users_own_style_does_not_matter",
    ),
    fault(
        "analysis/show/plots/heat",
        "0 beside the middle",
        "float(max(-low, high))",
        "float(high)",
        "zero_is_pale",
    ),
    fault(
        "analysis/show/plots/position_bits",
        "bins end too early",
        "np.ceil(octave - 1e-9)",
        "np.floor(octave)",
        "bins_share_out_every_position",
    ),
    fault(
        "analysis/show/plots/code_maps",
        "first position below",
        "set_ylim(positions, 0)",
        "set_ylim(0, positions)",
        "code_maps_show_the_numbers_and_grey_the_rest",
    ),
    fault(
        "analysis/show/plots/head_maps",
        "place for number of a head",
        'f"head {names[head]:.0f}"',
        'f"head {head:.0f}"',
        "bias_heads_that_are_alike_are_drawn_once",
    ),
    fault(
        "analysis/show/plots/grid_maps",
        "column for row",
        "columns // 2, rows // 2",
        "rows // 2, columns // 2",
        "the_middle_of_a_grid_is_framed",
    ),
    fault(
        "analysis/show/plots/clock_hands",
        "with the clock",
        "np.sin(angles)",
        "-np.sin(angles)",
        "clock_hands_point_where_the_angles_say",
    ),
    fault(
        "analysis/show/plots/similarity",
        "logits from nowhere",
        "found - found[:, :1] if change",
        "found if change",
        "logits_are_drawn_from_distance_zero",
    ),
    fault(
        "analysis/show/plots/panels",
        "nothing to compare with",
        "guests + own[i * size",
        "own[i * size",
        "many_schemes_have_a_panel_for_each_family",
    ),
    Fault(
        "analysis/show/plots/prediction.py",
        "intervals of families twice",
        "[one.found.over_schemes for one in some]",
        "[one.found.over_families for one in some]",
        "tests/test_predictions.py::test_the_plot_has_a_dot_and_two_bars_for_each",
    ),
    fault(
        "analysis/show/plots/lines",
        "half a band",
        'high = curve["value"] + curve["half_width"]',
        'high = curve["value"]',
        "extrapolation_draws_means_and_marks_ends",
    ),
    fault(
        "analysis/show/plots/dots",
        "bars of no width",
        "max(x - width, least), max(x + width, least)",
        "x, x",
        "dots_are_means_over_seeds_with_their_intervals",
    ),
    fault(
        "analysis/show/plots/dots",
        "0 among numbers",
        "x if abs(x) > NOTHING else place",
        "x",
        "zero_stands_in_a_grey_strip_of_a_logarithmic_axis",
    ),
    fault(
        "analysis/show/plots/perturbation",
        "schemes that change nothing",
        'rows = rows[rows["scheme"].isin(acting)]',
        "rows = rows.copy()",
        "perturbation_shows_schemes_where_they_change_something",
    ),
    fault(
        "analysis/show/plots/head_maps",
        "equal maps drawn twice",
        "groups_alike([*maps], [*maps.values()])",
        "[[one] for one in maps]",
        "schemes_with_equal_maps_are_drawn_once",
    ),
    Fault(
        "analysis/show/plots/prediction_matrix.py",
        "columns mixed up",
        "scores.index(one.curve)",
        "-1",
        "tests/test_predictions.py::test_many_scores_are_a_matrix",
    ),
]
