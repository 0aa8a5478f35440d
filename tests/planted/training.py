"""Faults in text, network and trainer."""

from planted import Fault

FILES = (
    "analysis/training/__init__.py",
    "analysis/training/convolution.py",
    "analysis/training/corpus.py",
    "analysis/training/decoder.py",
    "analysis/training/evaluation.py",
    "analysis/training/ngrams.py",
    "analysis/training/optimiser.py",
    "analysis/training/pinned.py",
    "analysis/training/tasks/*.py",
    "analysis/training/tested.py",
    "analysis/training/trainer.py",
)
TESTS = "tests/training/test_training.py::test_"
CORPUS = "tests/training/test_corpus.py::test_"
NGRAMS = "tests/training/test_ngrams.py::test_"
CONVOLUTION = "tests/training/test_convolution.py::test_"
CANON = "canon_adds_a_sum_of_four_tokens_at_four_places"
GROUPS = "parameters_of_a_scheme_train_by_what_they_act_on"
OWN = 'own == rate],\n                "weight_decay": '


def fault(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault, and the test that must turn red."""
    tests = (CORPUS if file.endswith("corpus") else TESTS) + test
    return Fault(f"{file}.py", name, old, new, tests)


def forged(name: str, old: str, new: str) -> Fault:
    """Return a fault in what is asked of a checkpoint."""
    test = "a_checkpoint_that_does_not_fit_is_not_used"
    tests = f"tests/faults/test_trust.py::test_{test}"
    return Fault("analysis/training/trainer.py", name, old, new, tests)


def convolved(name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault in a convolution."""
    return Fault("analysis/training/convolution.py", name, old, new, CONVOLUTION + test)


def dropped(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault in the dropping of positions."""
    tests = f"tests/training/test_drop.py::test_{test}"
    return Fault(f"analysis/training/{file}.py", name, old, new, tests)


FAULTS = [
    Fault(
        "analysis/training/pinned.py",
        "new files unseen",
        "either = pinned.keys() | corpus.files.keys()",
        "either = pinned.keys()",
        CORPUS + "the_default_corpus_is_pinned_by_the_hashes_of_its_files",
    ),
    # Ids
    fault(
        "analysis/training/evaluation",
        "tested as if in training",
        "    model.eval()\n",
        "",
        "nothing_is_augmented_in_tests",
    ),
    fault(
        "analysis/training/evaluation",
        "no draws in tests",
        'positions, ids_of(start, "test"), first)',
        "positions, None, first)",
        "random_ids_are_drawn_in_tests_too",
    ),
    fault(
        "analysis/training/evaluation",
        "one sequence decides where places begin to count",
        "weights.any(dim=0)",
        "weights[0].bool()",
        "places_before_the_first_that_counts_are_read_and_not_scored",
    ),
    fault(
        "analysis/training/evaluation",
        "a product of one row",
        "length - math.ceil(ROWS / fewest)",
        "length",
        "no_product_is_left_with_few_rows",
    ),
    fault(
        "analysis/training/trainer",
        "one draw for all steps",
        "ids_of(self.seed, step)",
        "ids_of(self.seed, 0)",
        "random_ids_are_drawn_anew_in_every_step",
    ),
    # Steps
    fault(
        "analysis/training/trainer",
        "first step does nothing",
        "return (step + 1) / warm",
        "return step / warm",
        "the_rate_rises_over_a_tenth_and_falls_to_a_tenth",
    ),
    fault(
        "analysis/training/trainer",
        "rate falls to 0",
        "0.55 + 0.45 *",
        "0.5 + 0.5 *",
        "the_rate_rises_over_a_tenth_and_falls_to_a_tenth",
    ),
    fault(
        "analysis/training/optimiser",
        "scheme decayed",
        f"{OWN}0.0",
        f"{OWN}weight_decay",
        GROUPS,
    ),
    fault(
        "analysis/training/optimiser",
        "all raised",
        "(felt & ~left).any()",
        "False",
        GROUPS,
    ),
    fault(
        "analysis/training/optimiser",
        "what is added lowered",
        "(felt & ~left).any()",
        "felt.any()",
        GROUPS,
    ),
    Fault(
        "analysis/training/ngrams.py",
        "lower orders unmixed",
        "(both + kinds * lower)",
        "(both + kinds / 256)",
        f"{NGRAMS}every_order_is_what_the_formula_gives",
    ),
    Fault(
        "analysis/training/ngrams.py",
        "first byte of a window counted",
        "first = max(1, order - 1)",
        "first = order - 1",
        f"{NGRAMS}every_order_is_what_the_formula_gives",
    ),
    Fault(
        "analysis/training/tasks/language.py",
        "floor of another seed",
        "            setting.seed,\n",
        "            0,\n",
        f"{NGRAMS}the_floor_of_language_has_read_what_the_network_has",
    ),
    Fault(
        "analysis/training/tasks/language.py",
        "windows slide too far",
        "self.setting.length + stride - context",
        "self.setting.length - context",
        "tests/training/test_context.py"
        "::test_every_byte_beyond_the_training_length_is_read_once_in_order",
    ),
    fault(
        "analysis/training/trainer",
        "gradients not clipped",
        "parameters(), 1.0, norm)",
        "parameters(), 1e9, norm)",
        "gradients_are_clipped_to_norm_1",
    ),
    fault(
        "analysis/training/tasks/language",
        "foretells what it sees",
        "= text[:, :-1], text[:, 1:]",
        "= text[:, :-1], text[:, :-1]",
        "gradients_are_clipped_to_norm_1",
    ),
    # What it goes on from
    forged("any names", "if tensors.keys() != wanted.keys():", "if False:"),
    forged(
        "any shapes",
        "(tuple(tensor.shape), tensor.dtype) != (shape, dtype)",
        "tensor.dtype != dtype",
    ),
    forged(
        "any dtypes",
        "(tuple(tensor.shape), tensor.dtype) != (shape, dtype)",
        "tuple(tensor.shape) != shape",
    ),
    forged("any numbers", "if not tensor.isfinite().all():", "if False:"),
    forged("any step of the optimiser", " and not 0 < tensor <= step:", " and False:"),
    Fault(
        "analysis/training/trainer.py",
        "any step",
        "if not 0 < step <= self.recipe.steps:",
        "if False:",
        "tests/faults/test_trust.py"
        "::test_a_checkpoint_of_no_step_of_the_training_is_not_used",
    ),
    Fault(
        "analysis/training/trainer.py",
        "moments forgotten",
        'if f"optimiser.step.{name}" in tensors:',
        "if False:",
        "tests/faults/test_checkpoints.py"
        "::test_a_record_says_what_was_refused_and_its_result_is_the_same",
    ),
    # The network
    fault(
        "analysis/training/decoder",
        "one table for all seeds",
        'stream_seed("scheme", seed)',
        'stream_seed("scheme", 0)',
        "parameters_of_a_scheme_have_a_stream_of_their_own_for_each_seed",
    ),
    fault(
        "analysis/training/decoder",
        "first scheme in all layers",
        "Layer(width, schemes[i % len(schemes)]",
        "Layer(width, schemes[0]",
        "every_layer_has_the_scheme_that_is_its_own",
    ),
    fault(
        "analysis/training/decoder",
        "all layers are the first",
        "layer=layer, layers=layers",
        "layers=layers",
        "every_layer_has_the_scheme_that_is_its_own",
    ),
    fault(
        "analysis/training/decoder",
        "readers stay",
        "self.reading = self.own",
        "self.reading = schemes",
        "readers_are_gone_when_they_have_read",
    ),
    fault(
        "analysis/training/decoder",
        "ends of branches too large",
        'in ("out", "down")',
        'in ("out",)',
        "weights_start_as_large_as_the_document_says",
    ),
    # Convolutions
    convolved(
        "taps of queries for all",
        "of_q, of_k, of_v = self.b",
        "of_q = of_k = of_v = self.b[0]",
        CANON,
    ),
    convolved("hidden channels as they are", "_summed(x, self.d)", "x", CANON),
    convolved(
        "reach of one layer",
        "2 * (TAPS - 1)",
        "TAPS - 1",
        "the_last_places_are_those_of_all",
    ),
    convolved(
        "shares of keys for values",
        "_shifted(v, of_values)",
        "_shifted(v, of_keys)",
        "a_shifted_key_is_in_part_that_of_the_token_before",
    ),
    Fault(
        "analysis/training/decoder.py",
        "layers convolve alike",
        "part.start(others)",
        'part.start(torch.Generator().manual_seed(stream_seed("convolution", seed)))',
        f"{CONVOLUTION}a_convolution_leaves_the_other_weights_as_they_are",
    ),
    # Positions that are dropped
    dropped(
        "trainer",
        "dropped a step late",
        "step >= kept",
        "step > kept",
        "the_first_steps_are_those_of_the_scheme",
    ),
    dropped(
        "trainer",
        "positions again after a stop at the end",
        "        self._drop(self.recipe.steps)",
        "        pass",
        "a_training_goes_on_where_it_was_stopped",
    ),
    dropped(
        "decoder",
        "small products where T5 was",
        "layer.query_gain *= before / after",
        "pass",
        "products_keep_their_size_where_a_scheme_does_not_divide_them",
    ),
    # Text
    fault(
        "analysis/training/corpus",
        "windows overlap",
        "window + 1, length)",
        "window + 1, length // 2)",
        "windows_share_out_a_document_to_its_last_byte",
    ),
    fault(
        "analysis/training/corpus",
        "last window left out",
        "window + 1, length)",
        "window, length)",
        "windows_share_out_a_document_to_its_last_byte",
    ),
    fault(
        "analysis/training/corpus",
        "last start never drawn",
        "draw.integers(0, last + 1, size)",
        "draw.integers(0, max(1, last), size)",
        "a_batch_may_begin_at_every_byte_that_has_a_whole_window",
    ),
    fault(
        "analysis/training/corpus",
        "what is tested on is trained on",
        "if text in known]",
        "if text in ()]",
        "texts_to_train_and_to_test_on_share_no_document",
    ),
    fault(
        "analysis/training/corpus",
        "copies trained on",
        "while shuffled and shuffled[-1] == some[-1]:",
        "while False:",
        "copies_of_a_held_out_document_are_not_trained_on",
    ),
    Fault(
        "analysis/training/tasks/drawn.py",
        "tests drawn as training is",
        'stream_seed(setting.task, "train", seed, step)',
        'stream_seed(setting.task, "train", seed)',
        "tests/training/test_tasks.py::test_sequences_depend_on_seed_and_step_alone",
    ),
    Fault(
        "analysis/training/tasks/drawn.py",
        "validation is the test",
        "self.tests(length, self.setting.split)",
        'self.tests(length, "test")',
        "tests/training/test_tasks.py::test_sequences_depend_on_seed_and_step_alone",
    ),
    Fault(
        "analysis/training/tasks/drawn.py",
        "one token too early",
        "np.arange(1, len(text)) >= first",
        "np.arange(1, len(text)) > first",
        "tests/training/test_tasks.py::test_the_floor_is_the_best_constant",
    ),
    Fault(
        "analysis/training/tasks/drawn.py",
        "the rarest answer as a floor",
        "torch.mode(batch.targets[batch.weights > 0]).values",
        "batch.targets.min()",
        "tests/training/test_tasks.py::test_the_floor_is_the_best_constant",
    ),
    Fault(
        "analysis/training/tasks/addition.py",
        "no carry",
        "divmod(int(both) + carry, 10)",
        "divmod(int(both), 10)",
        "tests/training/test_tasks.py::test_a_perfect_answer_has_everything",
    ),
    Fault(
        "analysis/training/tasks/grid_lookup.py",
        "the row above wraps",
        "place % self.columns > 0",
        "place % self.columns >= 0",
        "tests/training/test_tasks.py::test_a_perfect_answer_has_everything",
    ),
    Fault(
        "analysis/training/tasks/state_tracking.py",
        "moves in the other order",
        "PRODUCT[move, state]",
        "PRODUCT[state, move]",
        "tests/training/test_tasks.py::test_a_perfect_answer_has_everything",
    ),
    Fault(
        "analysis/training/tasks/scan.py",
        "tested on what was trained",
        'setting.split if largest else "train"',
        "setting.split",
        "tests/training/test_tasks.py::test_scan_trains_on_no_line_of_a_test",
    ),
    Fault(
        "analysis/training/evaluation.py",
        "tokens that do not count must be right",
        "right |= batch.weights == 0",
        "right &= batch.weights != 0",
        "tests/measures/test_accuracy.py::test_exact_match_wants_every_token_that_counts",
    ),
]
