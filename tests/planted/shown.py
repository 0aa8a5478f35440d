"""Faults between records and what is shown: plans, tables, text and report."""

from planted import Fault

FILES = (
    "analysis/core/presets.py",
    "analysis/core/sanitize.py",
    "analysis/core/settings.py",
    "analysis/engine/plan.py",
    "analysis/records/diff.py",
    "analysis/records/load.py",
    "analysis/show/*.py",
)
TABLES = "tests/test_tables.py::test_"
ORDERS = "tests/test_orders.py::test_"
PREDICTIONS = "tests/test_predictions.py::test_"
RECORDS = "tests/test_records.py::test_"
SENSITIVITY = "tests/test_sensitivity.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `analysis`."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/show/sensitivity",
        "claims alone may turn",
        "turned = claimed & (np.min(signs, axis=0) < 0) & (np.max(signs, axis=0) > 0)",
        "turned = (np.min(claims, axis=0) < 0) & (np.max(claims, axis=0) > 0)",
        f"{SENSITIVITY}a_claim_turns_even_where_the_other_value_claims_nothing",
    ),
    fault(
        "analysis/show/sensitivity",
        "the worst value for all",
        "shared = min(whole, key",
        "shared = max(whole, key",
        f"{SENSITIVITY}of_many_values_the_best_of_each_scheme_is_shown",
    ),
    fault(
        "analysis/show/seconds",
        "the slowest sets the time",
        "limit = min(whole.values())",
        "limit = max(whole.values())",
        f"{SENSITIVITY}trainings_are_compared_after_the_same_time",
    ),
    fault(
        "analysis/show/tables",
        "reasons alone in a curve",
        "            own -= _without(mine)\n",
        "",
        f"{TABLES}a_curve_leaves_out_schemes_with_reasons_alone",
    ),
    fault(
        "analysis/show/tables",
        "points in the order of text",
        "if mean.x == mean.x})",
        "if mean.x == mean.x}, key=str)",
        f"{TABLES}points_of_a_curve_stand_in_the_order_of_their_size",
    ),
    fault(
        "analysis/show/tables",
        "first column decides",
        "for mean in reversed(row)",
        "for mean in row",
        f"{TABLES}the_longest_length_decides_the_order_and_then_the_next",
    ),
    fault(
        "analysis/show/tables",
        "cases share a row",
        '") if m.case else m',
        '") if not m else m',
        f"{TABLES}a_curve_has_a_row_for_every_scheme_and_case",
    ),
    fault(
        "analysis/show/tables",
        "another curve as trained",
        "_of(view.of, measure, means) if view.of",
        "[m for m in means if m.quantity != quantity.name] if view.of",
        f"{TABLES}as_trained_is_of_the_quantity_that_is_read",
    ),
    fault(
        "analysis/show/format",
        "fewer seeds unsaid",
        "if cell.n < seeds",
        "if seeds < 0",
        f"{TABLES}a_mean_over_fewer_seeds_says_so_and_the_rest_is_listed",
    ),
    fault(
        "analysis/show/means",
        "median for mean",
        "np.mean([*self",
        "np.median([*self",
        f"{RECORDS}summary_is_the_mean_over_seeds_with_its_records",
    ),
    fault(
        "analysis/engine/plan",
        "portraits for every seed",
        "        if seed == seeds[0] or name not in once\n",
        "",
        f"{RECORDS}what_draws_and_does_not_rank_is_planned_for_one_seed",
    ),
    fault(
        "analysis/engine/plan",
        "one shard too far",
        "% count == mine - 1",
        "% count == mine",
        f"{RECORDS}shards_share_out_all_cells",
    ),
    fault(
        "analysis/engine/plan",
        "nothing tried again",
        ' or record["status"] in retry',
        "",
        f"{RECORDS}failed_cells_are_tried_again_if_asked",
    ),
    fault(
        "analysis/records/load",
        "damage untold",
        "if store.damaged:",
        "if False:",
        "tests/faults/test_store.py::test_reading_writes_nothing",
    ),
    fault(
        "analysis/records/load",
        "code of any age",
        '        (record.measured, "code"): age,\n',
        "",
        f"{TABLES}what_other_code_or_processors_made_is_told_apart",
    ),
    fault(
        "analysis/records/load",
        "any processor",
        '    "cpu": ("arithmetic", "unknown"),\n',
        "",
        f"{TABLES}what_other_code_or_processors_made_is_told_apart",
    ),
    fault(
        "analysis/records/diff",
        "relative to the second",
        "/ max(abs(a), abs(b))",
        "/ abs(b)",
        "tests/test_difference.py::test_numbers_are_compared_relative_to_the_larger",
    ),
    fault(
        "analysis/records/diff",
        "one record of a cell",
        "[side].append(records[key])",
        "[side][:] = [records[key]]",
        "tests/test_difference.py::test_records_made_most_alike_are_compared",
    ),
    fault(
        "analysis/show/format",
        "spaces hide a formula",
        'r"\\s*[=+\\-@',
        'r"[=+\\-@',
        f"{TABLES}cells_that_would_be_formulas_get_a_quote",
    ),
    fault(
        "analysis/core/settings",
        "lengths grow evenly",
        "self.length << i for",
        "self.length * (i + 1) for",
        "tests/training/test_training.py::test_presets_are_as_large_as_promised",
    ),
    fault(
        "analysis/show/report",
        "each scheme as all",
        " if r.label == row[0]])",
        "])",
        "tests/test_report.py"
        "::test_it_says_what_the_numbers_mean_and_what_they_were_made_with",
    ),
    fault(
        "analysis/core/sanitize",
        "cut without a hash",
        "…{digest}",
        "…",
        "tests/test_tables.py::test_long_labels_that_differ_at_the_end_stay_apart",
    ),
    fault(
        "analysis/show/listing",
        "strange families first",
        "else len(FAMILIES), label)",
        "else -1, label)",
        "tests/test_plots.py::test_looks_are_ordered_by_family_then_name",
    ),
    fault(
        "analysis/show/listing",
        "points alike are schemes alike",
        "if len({text for column in printed for _, text in column}) > 1:",
        "if printed:",
        f"{ORDERS}scores_at_the_end_of_a_scale_are_no_sign_of_likeness",
    ),
    fault(
        "analysis/show/listing",
        "the newest stands for all",
        "min(int(year[0])",
        "max(-int(year[0])",
        f"{ORDERS}of_rows_alike_the_scheme_published_first_is_shown",
    ),
    fault(
        "analysis/show/orders",
        "ranked on one scheme",
        "for mean in column.values()) >= 2",
        "for mean in column.values()) >= 0",
        f"{ORDERS}few_seeds_rank_nothing",
    ),
    fault(
        "analysis/show/orders",
        "the worst first",
        "named = [group[::-1] for group in named[::-1]]",
        "pass",
        f"{ORDERS}where_higher_is_better_the_highest_is_first",
    ),
    fault(
        "analysis/show/documents",
        "documents of the first seed",
        "np.array_equal(first, one) for one",
        "len(one) for one",
        f"{ORDERS}seeds_that_read_other_documents_keep_their_own_interval",
    ),
    fault(
        "analysis/show/means",
        "documents unheard",
        "if not case else 0",
        "if case else 0",
        f"{ORDERS}an_interval_covers_the_documents_too",
    ),
    fault(
        "analysis/show/means",
        "a spread of rounding",
        "spread = not settled(values)",
        "spread = True",
        f"{ORDERS}rounding_has_no_spread",
    ),
    fault(
        "analysis/show/means",
        "rounding as a number",
        "rounding=any(values) and",
        "rounding=not values and",
        f"{ORDERS}rounding_has_no_spread",
    ),
    fault(
        "analysis/show/predictions",
        "the gap turned round",
        "last - first",
        "first - last",
        f"{PREDICTIONS}measures_and_controls_are_correlated_with_every_outcome",
    ),
    fault(
        "analysis/show/predictions",
        "controls among the tests",
        "math.nan if key[1] else one.p",
        "one.p",
        f"{PREDICTIONS}measures_and_controls_are_correlated_with_every_outcome",
    ),
    fault(
        "analysis/show/predictions",
        "twins count twice",
        "labels = [label for label in labels if label not in same]",
        "labels = [label for label in labels]",
        f"{PREDICTIONS}schemes_that_cannot_be_told_apart_count_once",
    ),
    fault(
        "analysis/show/tasks",
        "lost cells without a rank",
        "np.where(np.isfinite(table), 1 / ranks, 0)",
        "np.where(True, 1 / ranks, 0)",
        "tests/test_several_tasks.py::test_ranks_share_ties_and_count_what_failed",
    ),
    fault(
        "analysis/show/tasks",
        "the lowest is the best",
        "rankdata(-table, axis=1)",
        "rankdata(table, axis=1)",
        "tests/test_several_tasks.py::test_ranks_share_ties_and_count_what_failed",
    ),
    fault(
        "analysis/show/tasks",
        "a page outside of its folder",
        'return STRANGE.sub("_", task)[:64]',
        "return task[:64]",
        "tests/test_several_tasks.py::test_the_page_of_a_strange_task_stays_in_its_folder",
    ),
    fault(
        "analysis/show/floors",
        "no test against floors",
        "if gaps[i] <= 0 or p[i] > ALPHA",
        "if gaps[i] <= 0",
        "tests/test_tables.py::test_who_does_not_beat_the_floor_is_named",
    ),
    fault(
        "analysis/show/code_text",
        "sines without cosines",
        "step += 1 - step % 2",
        "step += step % 2",
        "tests/cli/test_show.py::test_a_map_fits_into_a_terminal",
    ),
]
