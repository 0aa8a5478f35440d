"""Faults in the statistics of comparisons."""

from planted import Fault

FILES = ("stats/*.py",)


def fault(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault, and the test that must turn red."""
    return Fault(f"stats/{file}.py", name, old, new, f"tests/stats/test_{test}")


FAULTS = [
    fault(
        "intervals",
        "normal for Student's",
        "stdtrit(freedom,",
        "stdtrit(10**6 + freedom,",
        "intervals.py::test_the_half_width_is_student_s",
    ),
    fault(
        "intervals",
        "a seed too many",
        "math.sqrt(len(known))",
        "math.sqrt(len(array))",
        "intervals.py::test_the_half_width_is_student_s",
    ),
    fault(
        "documents",
        "every window a document",
        "np.unique(documents, return_inverse=True)",
        "np.unique(np.arange(len(scores)), return_inverse=True)",
        "intervals.py::test_windows_of_one_document_are_drawn_together",
    ),
    fault(
        "documents",
        "documents alone",
        "math.hypot(half_width(array.mean(1)), ",
        "math.hypot(0.0, ",
        "intervals.py::test_documents_alike_leave_the_interval_of_seeds",
    ),
    fault(
        "documents",
        "seeds alone",
        "means.std() *",
        "0 *",
        "intervals.py::test_crossed_intervals_cover_the_truth_and_those_of_seeds_do_not",
    ),
    fault(
        "rounding",
        "spread without scale",
        "NOTHING * np.max(np.abs(array))",
        "NOTHING",
        "intervals.py::test_what_is_rounding",
    ),
    fault(
        "pairs",
        "each pair alone",
        "np.maximum.accumulate(t[:, ::-1], axis=1)[:, ::-1]",
        "t",
        "false_claims.py::test_false_claims_in_a_thousand_null_tables",
    ),
    fault(
        "pairs",
        "single step",
        "np.maximum.accumulate(t[:, ::-1], axis=1)[:, ::-1]",
        "np.maximum.accumulate(t[:, ::-1], axis=1)[:, -1:]",
        "pairs.py::test_it_is_the_step_down_of_the_paper",
    ),
    fault(
        "pairs",
        "p values fall again",
        "np.maximum.accumulate(reached / flips)",
        "reached / flips",
        "pairs.py::test_it_is_the_step_down_of_the_paper",
    ),
    fault(
        "pairs",
        "larger alone",
        "largest >= least",
        "largest > observed[order]",
        "pairs.py::test_schemes_that_are_equal_never_differ",
    ),
    fault(
        "pairs",
        "five seeds will do",
        "FEWEST = 6",
        "FEWEST = 5",
        "pairs.py::test_below_six_seeds_nothing_is_tested",
    ),
    fault(
        "pairs",
        "a sample that ends early",
        "range(0, 1 << (EXACT - 1), BLOCK)",
        "range(0, 1, BLOCK // 16)",
        "pairs.py::test_a_sample_of_flips_agrees_with_all_of_them",
    ),
    fault(
        "order",
        "neighbours decide",
        "below[:m, m:].all()",
        "below[m - 1, m]",
        "order.py::test_neighbours_that_differ_do_not_make_a_cut",
    ),
    fault(
        "order",
        "whichever way round",
        " & (gaps > 0)",
        "",
        "order.py::test_what_differs_the_wrong_way_round_is_no_order",
    ),
    fault(
        "correlation",
        "ranks of equals",
        "below + equal / 2",
        "below + equal",
        "correlation.py::test_it_is_spearman_s",
    ),
    fault(
        "correlation",
        "rounding foretells",
        "rounded_away(x), rounded_away(y)",
        "np.asarray(x, float), np.asarray(y, float)",
        "correlation.py::test_rounding_foretells_nothing",
    ),
    fault(
        "correlation",
        "families one by one",
        "spearman(x, y, blocks)",
        "spearman(x, y, schemes)",
        "correlation.py::test_families_are_drawn_whole",
    ),
    fault(
        "correlation",
        "control of one side",
        "(xy - xz * yz)",
        "(xy - yz)",
        "correlation.py::test_the_partial_correlation_is_that_of_what_the_control_leaves",
    ),
    fault(
        "correlation",
        "Bonferroni",
        "np.arange(len(ranked), 0, -1)",
        "len(ranked)",
        "correlation.py::test_holm_multiplies_by_the_tests_that_are_left",
    ),
]
