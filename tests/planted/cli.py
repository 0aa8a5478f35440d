"""Faults in the commands."""

from planted import Fault

FILES = ("cli/*.py", "__main__.py")
STREAMS = "cli/test_streams.py::test_"
PATHS = "cli/test_paths.py::test_"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `cli`."""
    return Fault(f"cli/{file}.py", name, old, new, f"tests/{tests}")


FAULTS = [
    fault(
        "config",
        "file before flags",
        "yield {**chosen, **given}",
        "yield {**given, **chosen}",
        "cli/test_cli.py::test_a_toml_file_sets_what_flags_do_not",
    ),
    fault(
        "config",
        "wrong line",
        "text.splitlines(), start=1)",
        "text.splitlines(), start=0)",
        "cli/test_bad_input.py::test_wrong_settings_in_a_file",
    ),
    fault(
        "status",
        "lost cells are well",
        'if s in ("failed", "lost")))',
        'if s == "failed"))',
        "cli/test_status.py::test_status_counts_what_went_wrong",
    ),
    fault(
        "diff",
        "cells of one folder unseen",
        "elif present := left or right:",
        "elif present := left:",
        "cli/test_status.py::test_two_folders_are_compared_cell_by_cell",
    ),
    fault(
        "run",
        "code 0 without a record",
        "bool(bad or without)",
        "bool(bad)",
        "faults/test_trust.py::test_a_run_with_a_cell_without_a_record_ends_with_1",
    ),
    fault(
        "streams",
        "escapes off",
        'errors="backslashreplace"',
        'errors="strict"',
        f"{STREAMS}what_is_not_ascii_is_shown_as_an_escape",
    ),
    fault(
        "streams",
        "stdin left closed",
        "for number in range(3)",
        "for number in range(1, 3)",
        f"{STREAMS}workers_keep_their_pipes_where_stdin_and_stderr_are_closed",
    ),
    fault(
        "streams",
        "the other stream",
        "if self.fileno() == 1",
        "if self.fileno() == 2",
        f"{STREAMS}a_full_stdout_is_one_line_and_code_3",
    ),
    fault(
        "app",
        "no last flush",
        "_code(lambda: sys.stdout.flush())",
        "0",
        f"{STREAMS}a_full_stdout_is_one_line_and_code_3",
    ),
    fault(
        "app",
        "code of a store",
        "3 if isinstance(error, StoreError) else 2",
        "2",
        f"{STREAMS}a_full_stdout_is_one_line_and_code_3",
    ),
    fault(
        "console",
        "raw titles",
        "clean(title), clean(body)",
        "title, body",
        f"{PATHS}a_path_is_shown_as_text",
    ),
    fault(
        "console",
        "JSON not ASCII",
        "json.dumps(rows, indent=2)",
        "json.dumps(rows, indent=2, ensure_ascii=False)",
        f"{STREAMS}json_is_json_whatever_the_letters",
    ),
    fault(
        "console",
        "raw paths",
        "print(clean(text, sys.maxsize), flush=True)",
        "print(text, flush=True)",
        f"{PATHS}a_path_is_shown_as_text",
    ),
    fault(
        "check",
        "numbers tell causes apart",
        're.sub(r"\\d+,?", "", outcome.cause)',
        "outcome.cause",
        "cli/test_check.py::test_one_cause_is_one_row",
    ),
    fault(
        "describe",
        "order of tokens untold",
        "if scheme.facts.by_order:",
        "if not scheme.facts.relative:",
        "cli/test_describe.py::test_what_is_said_of",
    ),
    fault(
        "console",
        "letters counted, not places",
        "cell_len(str(row[0]))",
        "len(str(row[0]))",
        "test_hostile_text.py::test_wide_letters_do_not_break_a_name",
    ),
    fault(
        "console",
        "frame for CSV",
        "print(as_csv(frame), end",
        "print(frame, end",
        "cli/test_cli.py::test_measure_writes_data_to_stdout_alone",
    ),
    fault(
        "predict",
        "nothing to correlate",
        "if not found:",
        "if False:",
        "test_predictions.py::test_a_folder_with_too_little_is_refused_in_one_line",
    ),
    fault(
        "show",
        "built for all positions",
        "probe.build(variant, size.length)",
        "probe.build(variant)",
        "cli/test_show.py::test_the_length_is_that_of_training",
    ),
]
