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
RECORDS = "tests/test_records.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `analysis`."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/show/tables",
        "reasons alone in a curve",
        "- _without(mine)",
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
        "for mean in reversed(means)",
        "for mean in means",
        f"{TABLES}the_longest_length_decides_the_order_and_then_the_next",
    ),
    fault(
        "analysis/show/format",
        "fewer seeds unsaid",
        "if cell.n < seeds",
        "if seeds < 0",
        f"{TABLES}a_mean_over_fewer_seeds_says_so_and_the_rest_is_listed",
    ),
    fault(
        "analysis/show/tables",
        "median for mean",
        '("value", "mean")',
        '("value", "median")',
        f"{RECORDS}summary_is_the_mean_over_seeds_with_its_records",
    ),
    fault(
        "analysis/engine/plan",
        "portraits for every seed",
        "        if seed == 0 or name not in once\n",
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
        '        (record.measure, "code"): age,\n',
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
]
