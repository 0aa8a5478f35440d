"""Faults in code, cells, workers and records: what is kept, and what goes on."""

from planted import Fault

FILES = (
    "analysis/__init__.py",
    "analysis/core/__init__.py",
    "analysis/core/canonical.py",
    "analysis/core/files.py",
    "analysis/engine/[!p]*.py",
    "analysis/engine/provenance.py",
    "analysis/records/__init__.py",
    "analysis/records/[acprs]*.py",
    "analysis/training/checkpoints.py",
    "fresh.py",
    "global_state.py",
    "sources.py",
    "transfer.py",
)
SOURCES = "tests/test_sources.py::test_"
TRUST = "tests/faults/test_trust.py::test_"
STORE = "tests/faults/test_store.py::test_"
PACK = "tests/faults/test_pack.py::test_"
REUSE = "tests/faults/test_reuse.py::test_"
CHECKPOINTS = "tests/faults/test_checkpoints.py::test_"
RECORDS = "tests/test_records.py::test_"
PROVENANCE = "tests/test_provenance.py::test_"
DEVICES = "tests/test_devices.py::test_"
API = "tests/test_api.py::test_"
MACHINE = "tests/cli/test_machine.py::test_"
MEMORY = "tests/faults/test_memory.py::test_"
PLUGINS = "tests/cli/test_bad_input.py::test_files_that_are_no_plugins"


def fault(file: str, name: str, old: str, new: str, tests: str) -> Fault:
    """Return a fault in a file of `analysis`."""
    return Fault(f"{file}.py", name, old, new, tests)


FAULTS = [
    Fault(
        "transfer.py",
        "sent again in every step",
        "                    return there\n",
        "                    return _copied(x, device)\n",
        "tests/training/test_captured.py"
        "::test_what_was_sent_is_given_back_only_if_it_is_the_same",
    ),
    # What code a number depends on
    Fault(
        "sources.py",
        "imports in functions unseen",
        "ast.walk(tree):\n        if isinstance(node, ast.Import)",
        "ast.iter_child_nodes(tree):\n        if isinstance(node, ast.Import)",
        f"{SOURCES}the_closure_of_a_package_follows_imports_of_all_kinds",
    ),
    Fault(
        "sources.py",
        "parents of a module left out",
        "        *((above, None) for above in _with_parents(module)[:-1]),\n",
        "",
        f"{SOURCES}the_packages_around_a_module_are_in_its_closure",
    ),
    Fault(
        "sources.py",
        "given text is forgotten",
        "if path not in _kept:",
        "if True:",
        f"{SOURCES}given_text_is_never_forgotten",
    ),
    Fault(
        "sources.py",
        "docstrings count",
        "if ast.get_docstring(node) is not None:",
        "if False:",
        f"{SOURCES}comments_docstrings_and_layout_change_no_key",
    ),
    Fault(
        "sources.py",
        "what the file holds now runs",
        "        return read(Path(path))\n",
        "        return Path(path).read_bytes()\n",
        f"{SOURCES}given_text_is_what_runs",
    ),
    Fault(
        "sources.py",
        "a parser without memory",
        "RecursionError, MemoryError) as error",
        "RecursionError) as error",
        PLUGINS,
    ),
    Fault("sources.py", "any depth", "if level:", "if False:", PLUGINS),
    fault(
        "analysis/engine/compute",
        "a row that hides another",
        "elif place in seen:",
        "elif False:",
        f"{RECORDS}rows_that_tables_cannot_show_are_a_failure_of_one_line",
    ),
    fault(
        "analysis/records/cells",
        "threads left out",
        "            self.threads,\n",
        "            1,\n",
        f"{RECORDS}every_field_changes_the_key",
    ),
    fault(
        "analysis/records/cells",
        "schemes inside do not count",
        "_scheme_modules(schemes_of(self.variant))",
        "_scheme_modules([self.variant.name])",
        f"{SOURCES}every_scheme_that_is_inside_counts",
    ),
    fault(
        "analysis/records/cells",
        "texts of a plugin unread",
        "texts |= constants(path)",
        "pass",
        f"{SOURCES}a_scheme_that_a_plugin_names_in_any_way_counts",
    ),
    fault(
        "analysis/records/cells",
        "schemes of a measure left out",
        "return found | _scheme_modules(_schemes_beside(cell))",
        "return found",
        f"{SOURCES}a_scheme_that_the_measure_of_a_plugin_names_counts",
    ),
    Fault(
        "sources.py",
        "neighbours of a plugin left out",
        "module.startswith(PLUGIN) and file_of(top) in beside",
        "False",
        f"{SOURCES}what_lies_beside_a_plugin_and_is_imported_counts",
    ),
    fault(
        "analysis/records/cells",
        "callers of a measure left out",
        "found = closure(COMPUTE, module_path(COMPUTE))",
        "found = {}",
        f"{SOURCES}an_edit_changes_the_keys_of_what_depends_on_it",
    ),
    # Where it runs
    Fault(
        "fresh.py",
        "strangers' modules",
        '"-P", "-c", BOOT',
        '"-c", BOOT',
        f"{TRUST}a_fresh_process_imports_nothing_of_the_current_folder",
    ),
    Fault(
        "fresh.py",
        "current folder on the path",
        'if place not in ("", ".")',
        "if True",
        f"{TRUST}a_fresh_process_looks_in_no_current_folder",
    ),
    Fault(
        "global_state.py",
        "environment kept",
        "    os.environ.clear()\n",
        "",
        "tests/test_conformance_faults.py::test_every_part_of_the_process_is_put_back",
    ),
    fault(
        "analysis/engine/devices",
        "current folder",
        '"-P", "-c"',
        '"-c"',
        f"{DEVICES}nothing_of_the_current_folder_is_imported",
    ),
    fault(
        "analysis/engine/devices",
        "probes on the GPU",
        "if on_gpu and graphics()",
        "if graphics()",
        f"{DEVICES}auto_means_the_gpu_for_trainings_alone",
    ),
    fault(
        "analysis/engine/memory",
        "context unseen",
        "(error.__cause__, error.__context__, inner)",
        "(error.__cause__, inner)",
        f"{MEMORY}causes_are_looked_along",
    ),
    fault(
        "analysis/engine/memory",
        "compilers hide it",
        'inner = vars(error).get("inner_exception")',
        "inner = None",
        f"{MEMORY}want_of_memory_is_known",
    ),
    fault(
        "analysis/engine/provenance",
        "lock taken",
        '"git", "--no-optional-locks",',
        '"git",',
        f"{PROVENANCE}a_checkout_is_looked_at_and_left_as_it_is",
    ),
    fault(
        "analysis/engine/provenance",
        "peak kept",
        "torch.cuda.reset_peak_memory_stats()",
        "pass",
        f"{PROVENANCE}each_cell_has_its_own_peak_of_the_device",
    ),
    fault(
        "analysis/engine/provenance",
        "notes make it dirty",
        '"--", PACKAGE.name]',
        "]",
        f"{PROVENANCE}a_change_of_the_package_is_noticed",
    ),
    # What comes of a cell
    fault(
        "analysis/engine/compute",
        "a scheme ends the run",
        "if problem is progress.checkpoints.raised:",
        'if type(problem).__name__ in ("Stopped", "StoreError"):',
        f"{TRUST}what_a_scheme_raises_as_if_it_were_a_store_is_a_failure",
    ),
    fault(
        "analysis/engine/compute",
        "refusals after building",
        "building and isinstance(problem, Conf",
        "isinstance(problem, Conf",
        f"{TRUST}what_a_scheme_refuses_once_it_is_built_is_a_failure",
    ),
    fault(
        "analysis/engine/compute",
        "denormal numbers stay off",
        "set_flush_denormal(False)",
        "set_flush_denormal(True)",
        f"{RECORDS}computing_leaves_the_process_as_it_was",
    ),
    fault(
        "analysis/engine/worker",
        "code that was edited runs",
        'if cell.key() == request["key"]:',
        "if True:",
        f"{TRUST}a_cell_whose_code_is_not_what_was_planned_is_refused",
    ),
    fault(
        "analysis/engine/workers",
        "last words unread",
        "        self.listen()\n",
        "",
        "tests/cli/test_machine.py::test_last_words_that_nobody_has_read_yet_are_read",
    ),
    fault(
        "analysis/engine/scheduler",
        "a record of another cell",
        "canonical(body[n]) != canonical(planned[n])",
        "False",
        f"{TRUST}an_answer_for_another_cell_is_no_record",
    ),
    fault(
        "analysis/engine/scheduler",
        "handlers act at once",
        "self._asked.append(number)",
        "self.stop(signal.Signals(number).name, 0)",
        f"{TRUST}a_signal_does_nothing_but_tell_the_loop",
    ),
    fault(
        "analysis/engine/scheduler",
        "folder not looked after",
        "            self.store.check()\n            self._looked",
        "            self._looked",
        f"{TRUST}a_folder_that_goes_is_looked_after",
    ),
    # What is kept
    fault(
        "analysis/core/canonical",
        "infinite numbers",
        "parse_float=_finite",
        "parse_float=float",
        f"{TRUST}a_number_beyond_all_is_refused",
    ),
    fault(
        "analysis/core/canonical",
        "keys given twice",
        "if len(found) != len(pairs):",
        "if False:",
        f"{CHECKPOINTS}a_key_that_is_given_twice_is_refused",
    ),
    fault(
        "analysis/records/record",
        "nothing for None",
        "if value is ABSENT or not fits(value):",
        "if not fits(None if value is ABSENT else value):",
        f"{TRUST}a_field_that_is_missing_is_no_none",
    ),
    fault(
        "analysis/records/record",
        "truth for a number",
        "type(value) in (int, float) and",
        "isinstance(value, int | float) and",
        "tests/test_tables.py::test_a_malformed_record_is_left_out_with_one_line",
    ),
    fault(
        "analysis/engine/comparison",
        "records that were not deterministic unsaid",
        "if self.limits.deterministic and",
        "if False and",
        f"{PROVENANCE}a_run_says_which_records_are_of_runs_that_were_not_deterministic",
    ),
    fault(
        "analysis/records/store",
        "too many lists",
        "> NESTED:",
        "> LIMIT:",
        f"{TRUST}a_record_of_many_lists_is_not_read",
    ),
    fault(
        "analysis/records/store",
        "any key",
        '        and spec_key(body["spec"]) == key\n',
        "",
        f"{RECORDS}a_record_under_another_key_is_not_read",
    ),
    fault(
        "analysis/records/packed",
        "any size",
        "if size > LONG or",
        "if",
        f"{PACK}a_packed_file_of_endless_text_is_not_read",
    ),
    fault(
        "analysis/records/asked",
        "code that was left is the newest",
        "if r.key in noted",
        "if not noted",
        "tests/test_selection.py::test_code_that_a_run_came_back_to_is_the_newest",
    ),
    fault(
        "analysis/records/reuse",
        "timings of another day are copied",
        'return record.status == "ok" and not timed',
        'return record.status == "ok"',
        f"{REUSE}what_came_out_well_is_copied_and_nothing_else",
    ),
    fault(
        "analysis/records/pack",
        "what another run wrote goes",
        "if read_file(path, LIMIT) == text:",
        "if True:",
        f"{PACK}a_record_that_another_run_writes_meanwhile_stays",
    ),
    fault(
        "analysis/core/files",
        "not on the disk",
        "            files.fsync(descriptor)\n",
        "",
        f"{STORE}a_record_is_written_by_these_calls",
    ),
    fault(
        "analysis/records/store",
        "litter of this minute",
        "if old and LITTER",
        "if LITTER",
        f"{STORE}unfinished_files_are_swept_after_a_day_of_the_folders_own_clock",
    ),
    fault(
        "analysis/training/checkpoints",
        "nobody else's",
        'entry["run"] != self.run',
        "False",
        f"{TRUST}a_record_says_whose_checkpoint_it_went_on_from",
    ),
    fault(
        "analysis/training/checkpoints",
        "the newest alone",
        "[: KEPT - 1]",
        "[:0]",
        f"{CHECKPOINTS}a_checkpoint_is_kept_by_these_calls",
    ),
    fault(
        "analysis/training/checkpoints",
        "checksum unseen",
        'hexdigest() != entry["sha256"]:',
        'hexdigest() == "":',
        f"{CHECKPOINTS}without_an_older_one_training_begins_from_zero",
    ),
    fault(
        "analysis/training/checkpoints",
        "links lead outside",
        "if folder.is_symlink():",
        "if False:",
        f"{CHECKPOINTS}a_link_in_place_of_the_folder_leads_nowhere",
    ),
    fault(
        "analysis/engine/choices",
        "training on a grid",
        "chosen.keys() - ON_GRID if",
        "() if",
        "tests/cli/test_bad_input.py::test_what_has_no_place_on_a_grid",
    ),
    fault(
        "analysis/engine/comparison",
        "any device",
        "cell = here(cell_of(record.spec, places))",
        "cell = cell_of(record.spec, places)",
        f"{MACHINE}a_stranger_s_record_that_cannot_be_computed_here_is_refused",
    ),
    fault(
        "analysis/engine/comparison",
        "any memory",
        "    check_memory([cell], again.limits.memory)\n",
        "",
        f"{MACHINE}a_stranger_s_record_that_cannot_be_computed_here_is_refused",
    ),
    fault(
        "analysis/engine/machine",
        "limit ignored",
        "if work.memory and not on_cpu",
        "if False",
        "tests/test_devices.py::test_a_limit_of_memory_is_refused_where_it_would_not_hold",
    ),
    fault(
        "analysis/engine/machine",
        "a pipe forgotten",
        "PIPES = 2",
        "PIPES = 1",
        f"{MACHINE}too_few_open_files_are_one_line_before_work_starts",
    ),
    fault(
        "analysis/engine/comparison",
        "a scheme from no file",
        "if entry.path is None:",
        "if False:",
        f"{API}a_scheme_in_a_notebook_says_what_to_do",
    ),
    fault(
        "analysis/engine/comparison",
        "a folder left behind",
        "weakref.finalize(results,",
        "weakref.finalize(lambda: None,",
        f"{API}a_folder_of_its_own_goes_with_the_results",
    ),
    fault(
        "sources",
        "names of the package unseen",
        "        found += _with_parents(EXPORTS[name])\n",
        "        found += _with_parents(OURS)\n",
        f"{API}a_key_covers_what_is_taken_from_the_package_itself",
    ),
    # On a cluster
    fault(
        "analysis/engine/engines",
        "an address without a cluster is passed over",
        "        if given != default:\n",
        "        if False:\n",
        "tests/test_cluster.py::test_what_is_of_no_use_for_an_engine_is_refused",
    ),
]
