"""Faults in attention through the hook and its paths."""

from planted import Fault

FILES = ("attention/*.py",)
HERE = "tests/test_attention.py::test_"
INPUT = "tests/test_attention_input.py::test_"
CUDA = "tests/test_flex_on_cuda.py::test_"
DERIVATIVES = "tests/test_derivatives.py::test_"
STEP = f"{HERE}ids_out_of_step_leave_the_strided_path"
CHOICE = f"{CUDA}path_choice_on_cuda"
SIZES = f"{CUDA}every_kernel_is_compiled_for_its_own_sizes"
TWICE = f"{DERIVATIVES}second_derivatives_of_trained_biases_through_strided"
HEADS = f"{INPUT}heads_that_matter_are_refused"


def fault(name: str, old: str, new: str, tests: str, label: str = "alibi") -> Fault:
    """Return a fault, with the scheme whose conformance might see it."""
    return Fault("attention/__init__.py", name, old, new, tests, label)


FAULTS = [
    # Which path
    Fault(
        "attention/__init__.py",
        "one key too many",
        ">= keys\n",
        "> keys\n",
        f"{HERE}strided_at_lengths_around_the_block",
    ),
    fault("starts by row", " and bool((start == start[0]).all())", "", STEP),
    fault(
        "queries with gaps",
        "        for ids in (call.q_positions, call.k_positions)",
        "        for ids in (call.k_positions,)",
        STEP,
    ),
    fault(
        "one bias for all rows",
        " == self.call.k_positions.shape[0] == 1",
        " == 1",
        STEP,
    ),
    fault(
        "span doubled",
        "SPAN = 1 << 24",
        "SPAN = 1 << 25",
        f"{HERE}an_offset_bias_has_a_largest_span",
    ),
    # The fused kernel
    fault(
        "flex blocks of the first",
        "batch = None if self.call.segments is None else",
        "batch = None if True else",
        f"{HERE}flex_skips_the_blocks_that_no_query_of_a_sequence_sees",
    ),
    fault(
        "flex for float64",
        "self.q.dtype in FLEX_DTYPES and not narrow",
        "not narrow",
        CHOICE,
    ),
    fault("flex for small heads", "FLEX_WIDTH = 16", "FLEX_WIDTH = 8", CHOICE),
    fault(
        "flex of any size", "flex_attention, dynamic=False)", "flex_attention)", SIZES
    ),
    fault(
        "eight kernels",
        "max(config.recompile_limit, KERNELS)",
        "config.recompile_limit",
        SIZES,
    ),
    # Input
    fault(
        "overflow unseen",
        "if narrower and bool(",
        "if False and bool(",
        f"{INPUT}what_the_dtype_of_the_values_cannot_hold_is_refused",
        "xpos",
    ),
    fault(
        "any number of heads",
        "alike = turns and len(",
        "alike = turns or len(",
        HEADS,
        "fire",
    ),
    fault(
        "heads shared out",
        "for part in parts}) == 1",
        "for part in parts}) >= 1",
        HEADS,
        "mix",
    ),
    fault(
        "any head_dim",
        "head_dim, not looks)",
        "head_dim, True)",
        f"{INPUT}head_dim_other_than_the_scheme_was_built_for",
        "rope",
    ),
    fault(
        "segments of NaN",
        'segments = whole_numbers("attention: segments", segments)',
        "segments = segments.long()",
        f"{INPUT}segments_that_are_no_whole_numbers",
    ),
    # Derivatives
    fault(
        "second derivative lost",
        "bias = _reversed_bias(values, rows",
        "bias = _reversed_bias(values.detach(), rows",
        TWICE,
        "t5_bias",
    ),
    fault(
        "output held fixed",
        "(grads * outs).sum",
        "(grads * outs.detach()).sum",
        TWICE,
        "t5_bias",
    ),
    fault(
        "strided not vmapped",
        "generate_vmap_rule = True",
        "generate_vmap_rule = False",
        f"{DERIVATIVES}the_table_of_derivatives",
        "t5_bias",
    ),
]
