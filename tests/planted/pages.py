"""Faults of the report: pages made of tables, plots and cards."""

from planted import Fault

FILES = (
    "analysis/show/cards.py",
    "analysis/show/contents.py",
    "analysis/show/figures.py",
    "analysis/show/installed.py",
    "analysis/show/made_with.py",
    "analysis/show/page.py",
    "analysis/show/report.py",
    "analysis/show/sections.py",
    "analysis/show/verdict.py",
)
REPORT = "tests/test_report.py::test_"
CARDS = "tests/test_cards.py::test_"
VERDICT = "tests/test_verdict.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `analysis`."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    fault(
        "analysis/show/cards",
        "each scheme as all",
        "_card(label, words[label], behind[label], sections)",
        "_card(label, words[label], [*records], sections)",
        "tests/test_report.py"
        "::test_it_says_what_the_numbers_mean_and_what_they_were_made_with",
    ),
    fault(
        "analysis/show/installed",
        "doors that no scheme overrides",
        ' or parent.name == "Scheme":',
        ":",
        f"{CARDS}doors_and_options_of_every_scheme_are_read_as_they_are",
    ),
    fault(
        "analysis/show/installed",
        "doors that a base passes on",
        "            if parent is not node:\n                break\n",
        "",
        f"{CARDS}doors_and_options_of_every_scheme_are_read_as_they_are",
    ),
    fault(
        "analysis/show/installed",
        "a formula without an end",
        "(?=^\\w+: |^$|\\Z)",
        "(?=\\Z)",
        f"{CARDS}a_plugin_is_read_and_not_run",
    ),
    fault(
        "analysis/show/cards",
        "every measure is a cost",
        "if record.measure == COST]",
        "if record.measure]",
        f"{CARDS}a_card_has_the_numbers_and_the_cost_of_its_scheme_alone",
    ),
    fault(
        "analysis/show/cards",
        "rows of all schemes",
        "        if line.scheme == label\n",
        "",
        f"{CARDS}a_card_has_the_numbers_and_the_cost_of_its_scheme_alone",
    ),
    fault(
        "analysis/show/sections",
        "one anchor for two names",
        "while word in found.values():",
        "while False:",
        f"{CARDS}anchors_are_plain_and_different",
    ),
    fault(
        "analysis/show/sections",
        "beside the first of its tables",
        "sections[fit[-1]].after",
        "sections[fit[0]].after",
        f"{REPORT}plots_stand_beside_the_tables_of_their_measure",
    ),
    fault(
        "analysis/show/verdict",
        "floors among the schemes",
        "bool(family) and ",
        "",
        f"{VERDICT}the_best_of_the_last_column_that_has_any",
    ),
    fault(
        "analysis/show/verdict",
        "the first column that has a best",
        "column = max(j for",
        "column = min(j for",
        f"{VERDICT}the_best_of_the_last_column_that_has_any",
    ),
    fault(
        "analysis/show/verdict",
        "six seeds are few",
        "if 0 < seeds < FEWEST:",
        "if 0 < seeds <= FEWEST:",
        f"{VERDICT}every_reason_to_claim_less_is_said",
    ),
    fault(
        "analysis/show/figures",
        "heavy plots as SVG",
        "if len(files[name]) > LIGHT",
        "if len(files[name]) < LIGHT",
        f"{REPORT}a_plot_is_svg_or_png_where_that_would_be_heavy",
    ),
    fault(
        "analysis/show/figures",
        "a page without end",
        "if held + len(image) > MOST:",
        "if held > MOST:",
        f"{REPORT}a_full_page_leaves_plots_out_and_says_so",
    ),
    fault(
        "analysis/show/page",
        "any text is markup",
        "autoescape=True",
        "autoescape=False",
        f"{REPORT}a_thousand_hostile_texts_add_no_element",
    ),
    fault(
        "analysis/show/page",
        "the hash of another script",
        "script-src '{_hash(script)}'",
        "script-src '{_hash(style)}'",
        f"{REPORT}a_thousand_hostile_texts_add_no_element",
    ),
]
