"""Faults in the commands."""

from planted import Fault

FILES = ("cli/*.py", "__main__.py")


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `cli`."""
    return Fault(f"cli/{file}.py", name, old, new, f"tests/{tests}")


FAULTS = [
    fault(
        "settings",
        "file before flags",
        "{**chosen, **flags}",
        "{**flags, **chosen}",
        "cli/test_cli.py::test_a_toml_file_sets_what_flags_do_not",
    ),
    fault(
        "settings",
        "wrong line",
        "text.splitlines(), start=1)",
        "text.splitlines(), start=0)",
        "cli/test_bad_input.py::test_wrong_settings_in_a_file",
    ),
    fault(
        "settings",
        "training on a grid",
        "chosen.keys() - UNTRAINED if",
        "() if",
        "cli/test_bad_input.py::test_what_has_no_place_on_a_grid",
    ),
    fault(
        "inspect",
        "lost cells are well",
        'if s in ("failed", "lost")))',
        'if s == "failed"))',
        "cli/test_inspect.py::test_status_counts_what_went_wrong",
    ),
    fault(
        "inspect",
        "cells of one folder unseen",
        "for cell in {**records[0], **records[1]}",
        "for cell in records[0]",
        "cli/test_inspect.py::test_two_folders_are_compared_cell_by_cell",
    ),
    fault(
        "conform",
        "numbers tell causes apart",
        're.sub(r"\\d+,?", "", outcome.cause)',
        "outcome.cause",
        "cli/test_check.py::test_one_cause_is_one_row",
    ),
    fault(
        "facts",
        "order of tokens untold",
        "if scheme.by_order:",
        "if not scheme.relative:",
        "cli/test_describe.py::test_what_is_said_of",
    ),
    fault(
        "show",
        "letters counted, not places",
        "cell_len(str(row[0]))",
        "len(str(row[0]))",
        "test_hostile_text.py::test_wide_letters_do_not_break_a_name",
    ),
    fault(
        "shown",
        "frame for CSV",
        "print(as_csv(long), end",
        "print(long, end",
        "cli/test_cli.py::test_measure_writes_data_to_stdout_alone",
    ),
]
