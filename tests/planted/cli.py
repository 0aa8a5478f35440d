"""Faults in the commands."""

from planted import Fault

FILES = ("cli/*.py", "__main__.py")
MACHINE = "cli/test_machine.py::test_"
STREAMS = "cli/test_streams.py::test_"
PATHS = "cli/test_paths.py::test_"


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
        "inspect",
        "any device",
        "cell = here(cell_of(old.spec, corpus))",
        "cell = cell_of(old.spec, corpus)",
        f"{MACHINE}a_stranger_s_record_that_cannot_be_computed_here_is_refused",
    ),
    fault(
        "inspect",
        "any memory",
        "    check_memory([cell], limits.memory)\n",
        "",
        f"{MACHINE}a_stranger_s_record_that_cannot_be_computed_here_is_refused",
    ),
    fault(
        "commands",
        "code 0 without a record",
        "bool(bad or without)",
        "bool(bad)",
        "faults/test_trust.py::test_a_run_with_a_cell_without_a_record_ends_with_1",
    ),
    fault(
        "commands",
        "limit ignored",
        "if self.memory and not on_cpu",
        "if False",
        "test_devices.py::test_a_limit_of_memory_is_refused_where_it_would_not_hold",
    ),
    fault(
        "machine",
        "a pipe forgotten",
        "PIPES = 3",
        "PIPES = 2",
        f"{MACHINE}too_few_open_files_are_one_line_before_work_starts",
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
        "show",
        "raw titles",
        "clean(title), clean(body)",
        "title, body",
        f"{PATHS}a_path_is_shown_as_text",
    ),
    fault(
        "show",
        "JSON not ASCII",
        "indent=2)",
        "indent=2, ensure_ascii=False)",
        f"{STREAMS}json_is_json_whatever_the_letters",
    ),
    fault(
        "say",
        "raw paths",
        "print(clean(text, sys.maxsize), flush=True)",
        "print(text, flush=True)",
        f"{PATHS}a_path_is_shown_as_text",
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
