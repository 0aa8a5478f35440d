"""Faults in attention through the hook and its paths."""

from functools import partial

from planted import Fault

FILES = ("attention/*.py", "attention/backends/*.py")
HERE = "tests/test_attention.py::test_"
INPUT = "tests/test_attention_input.py::test_"
CUDA = "tests/test_flex_on_cuda.py::test_"
MASKS = "tests/test_mask.py::test_"
DERIVATIVES = "tests/test_derivatives.py::test_"
STEP = f"{HERE}ids_out_of_step_leave_the_strided_path"
CHOICE = f"{CUDA}path_choice_on_cuda"
SIZES = f"{CUDA}every_kernel_is_compiled_for_its_own_sizes"
TWICE = f"{DERIVATIVES}second_derivatives_of_trained_biases_through_strided"
HEADS = f"{INPUT}heads_that_matter_are_refused"


def fault(
    file: str, name: str, old: str, new: str, tests: str, label: str = "alibi"
) -> Fault:
    """Return a fault, with the scheme whose conformance might see it."""
    return Fault(f"attention/{file}.py", name, old, new, tests, label)


plan, request = partial(fault, "plan"), partial(fault, "request")
flex, strided = partial(fault, "backends/flex"), partial(fault, "backends/strided")

FAULTS = [
    # Which path
    strided(
        "one key too many",
        "masked_fill(apart > 0,",
        "masked_fill(apart > 1,",
        f"{HERE}strided_at_lengths_around_the_block",
    ),
    plan("starts by row", " and bool((start == start[0]).all())", "", STEP),
    plan("queries with gaps", "for ids in (queries, keys)", "for ids in (keys,)", STEP),
    request(
        "one bias for all rows",
        " == self.call.k_positions.shape[0] == 1",
        " == 1",
        STEP,
    ),
    request(
        "span doubled",
        "SPAN = 1 << 24",
        "SPAN = 1 << 25",
        f"{HERE}an_offset_bias_has_a_largest_span",
    ),
    # The fused kernel
    fault(
        "backends/fused",
        "NaN hidden at small lengths",
        "KEYS = 16",
        "KEYS = 15",
        f"{HERE}queries_that_are_no_numbers_show_at_every_length",
        "",
    ),
    flex(
        "flex blocks of the first",
        "None if call.alike else",
        "None if True else",
        f"{HERE}flex_skips_the_blocks_that_no_query_of_a_sequence_sees",
    ),
    flex(
        "flex on the call's own tensors",
        "(x.view_as(x) for x in (request.q, request.k, request.v))",
        "(request.q, request.k, request.v)",
        f"{HERE}flex_serves_one_form_after_another",
    ),
    flex("flex for float64", "if q.dtype not in DTYPES", "if False", CHOICE),
    flex("flex for small heads", "WIDTH = 16", "WIDTH = 8", CHOICE),
    flex(
        "flex of any size", "flex_attention, dynamic=False)", "flex_attention)", SIZES
    ),
    flex(
        "eight kernels",
        "max(config.recompile_limit, KERNELS)",
        "config.recompile_limit",
        SIZES,
    ),
    # Masks
    strided(
        "window too wide",
        "apart.abs() >= call.window",
        "apart.abs() > call.window",
        f"{MASKS}every_path_honours_every_mask",
    ),
    request(
        "groups interleaved",
        "else repeated(v, k.shape[1])",
        "else v.repeat(1, k.shape[1] // v.shape[1], 1, 1)",
        f"{MASKS}grouped_queries_share_keys_and_values",
        "shaw",
    ),
    fault(
        "session",
        "state of the first pass alone",
        "self._past.update(self._kept)",
        "self._past = self._past or dict(self._kept)",
        "tests/test_session.py::test_decoding_equals_one_pass",
        "fox",
    ),
    # Input
    request(
        "overflow unseen",
        "if narrower and bool(",
        "if False and bool(",
        f"{INPUT}what_the_dtype_of_the_values_cannot_hold_is_refused",
        "xpos",
    ),
    plan(
        "heads that have angles of their own",
        " and not part.per_head",
        "",
        f"{MASKS}schemes_that_may_tell_heads_apart_see_one_key_for_each",
        "",
    ),
    plan(
        "any number of heads",
        "return turns and not",
        "return turns or not",
        HEADS,
        "fire",
    ),
    plan(
        "heads shared out",
        "or isinstance(part, Wrapper)",
        "or isinstance(part, Scheme)",
        HEADS,
        "mix",
    ),
    plan(
        "any head_dim",
        "head_dim, not looks)",
        "head_dim, True)",
        f"{INPUT}head_dim_other_than_the_scheme_was_built_for",
        "rope",
    ),
    fault(
        "mask",
        "segments of NaN",
        'whole_numbers(f"mask: {name}", getattr(self, name))',
        "getattr(self, name).long()",
        f"{INPUT}segments_that_are_no_whole_numbers",
    ),
    # Derivatives
    strided(
        "second derivative lost",
        "bias = _reversed_bias(values, rows",
        "bias = _reversed_bias(values.detach(), rows",
        TWICE,
        "t5_bias",
    ),
    strided(
        "output held fixed",
        "(grads * outs).sum",
        "(grads * outs.detach()).sum",
        TWICE,
        "t5_bias",
    ),
    strided(
        "strided not vmapped",
        "generate_vmap_rule = True",
        "generate_vmap_rule = False",
        f"{DERIVATIVES}the_table_of_derivatives",
        "t5_bias",
    ),
]
