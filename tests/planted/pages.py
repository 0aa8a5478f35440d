"""Faults of the report."""

from planted import Fault

FILES = (
    "analysis/show/made_with.py",
    "analysis/show/report.py",
    "analysis/show/verdict.py",
)
REPORT = "tests/test_report.py::test_"


def fault(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault in a file of `analysis/show`."""
    return Fault(f"analysis/show/{file}.py", name, old, new, f"{REPORT}{test}")


FAULTS = [
    fault(
        "report",
        "below the first of its tables",
        "(fit[-1].plates",
        "(fit[0].plates",
        "plots_stand_below_the_last_table_of_their_measure",
    ),
    fault(
        "report",
        "any text is markup",
        "autoescape=True",
        "autoescape=False",
        "a_thousand_hostile_texts_add_no_element",
    ),
    fault(
        "report",
        "the hash of another script",
        "script-src '{_hash(script)}'",
        "script-src '{_hash(style)}'",
        "a_thousand_hostile_texts_add_no_element",
    ),
    fault(
        "verdict",
        "floors among the schemes",
        "bool(family) and ",
        "",
        "the_best_of_the_last_column_that_has_any",
    ),
    fault(
        "verdict",
        "the first column that has a best",
        "column = max(j for",
        "column = min(j for",
        "the_best_of_the_last_column_that_has_any",
    ),
    fault(
        "verdict",
        "six seeds are few",
        "if 0 < seeds < FEWEST:",
        "if 0 < seeds <= FEWEST:",
        "every_reason_to_claim_less_is_listed",
    ),
]
