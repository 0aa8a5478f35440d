"""Faults in names, options and what users give."""

from planted import Fault

FILES = (
    "__init__.py",
    "bases.py",
    "errors.py",
    "references.py",
    "registry.py",
    "validate.py",
    "variants.py",
)
NAMES = "tests/test_names.py::test_"
VARIANTS = "tests/test_variants.py::test_"
REGISTRY = "tests/test_registry.py::test_"
INHERITED = "tests/test_inherited_options.py::test_"
FAULTS = [
    Fault(
        "bases.py",
        "the first binding of a name",
        "in reversed(above):",
        "in above:",
        f"{INHERITED}all_options_of_the_parent",
    ),
    Fault(
        "variants.py",
        "options that are not passed on",
        "            if node.args.kwarg is None:\n                return options\n",
        "",
        f"{INHERITED}a_constructor_that_passes_nothing_on_takes_its_own_alone",
    ),
    Fault(
        "variants.py",
        "an option that is dropped",
        "for n, o in own.items() if n not in chosen}",
        "for n, o in own.items()}",
        f"{INHERITED}what_a_constructor_passes_on_by_name_is_no_option",
    ),
    Fault(
        "variants.py",
        "options changed on their way",
        "node.id == rest and id(node) not in whole",
        "node.id == rest and id(node) in ()",
        f"{INHERITED}options_that_are_changed_before_they_are_passed_on_are_refused",
    ),
    Fault(
        "validate.py",
        "swapped letters are two slips",
        "before[j - 1] + 1)",
        "before[j - 1] + 2)",
        f"{NAMES}slips_are_counted",
    ),
    Fault(
        "validate.py",
        "pipes are read",
        "if not stat.S_ISREG(facts.st_mode):",
        "if stat.S_ISDIR(facts.st_mode):",
        f"{NAMES}only_regular_files_of_a_fair_size_are_read",
    ),
    Fault(
        "validate.py",
        "true is a number",
        "not isinstance(value, int)\n        or isinstance(value, bool)\n",
        "not isinstance(value, int)\n",
        "tests/training/test_training.py::test_bad_settings_are_refused",
    ),
    Fault(
        "registry.py",
        "a name taken twice",
        "known.module != module or name in names",
        "known.module != module",
        f"{REGISTRY}a_file_cannot_declare_one_name_twice",
    ),
    Fault(
        "registry.py",
        "facts that are no literals",
        "word.arg is None or word.arg in typed",
        "word.arg is None",
        f"{REGISTRY}facts_that_are_planned_with_are_written_out",
    ),
    Fault(
        "registry.py",
        "names in the order given",
        "return dict(sorted(self._known.items()))",
        "return dict(self._known)",
        f"{REGISTRY}a_plugin_joins_its_family",
    ),
    Fault(
        "registry.py",
        "what cannot be used is untold",
        "            self.broken[origin] = str(error)\n",
        "",
        f"{REGISTRY}broken_installed_plugins_are_told_and_others_work",
    ),
    Fault(
        "variants.py",
        "defaults in the label",
        " if v != known[k][1]}",
        "}",
        f"{VARIANTS}labels",
    ),
    Fault(
        "variants.py",
        "two zeros",
        "return value + 0.0 if kind is float",
        "return float(value) if kind is float",
        f"{NAMES}one_variant_has_one_label_however_it_is_written",
    ),
    Fault(
        "references.py",
        "a paper twice",
        "dict.fromkeys(ARXIV.findall(text))",
        "ARXIV.findall(text)",
        "tests/cli/test_describe.py::test_a_paper_named_twice_is_cited_once",
    ),
]
