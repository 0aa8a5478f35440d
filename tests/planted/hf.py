"""Faults of schemes in Hugging Face models; without transformers none is seen."""

from planted import Fault

FILES = ("hf/*.py",)


def fault(file: str, name: str, old: str, new: str, test: str) -> Fault:
    """Return a fault and the test that must see it."""
    return Fault(f"hf/{file}.py", name, old, new, f"tests/test_hf.py::test_{test}")


NETWORKS = "tests/test_hf_networks.py::test_"
EVALUATE = "tests/test_hf_evaluate.py::test_"

FAULTS = [
    fault(
        "measure",
        "rotary tables that still turn",
        "torch.ones_like(pair[0]), torch.zeros_like(pair[1])",
        "pair",
        "rope_by_our_route_is_that_of_the_model",
    ),
    fault(
        "apply",
        "a model's scale that is lost",
        "query = query * gain",
        "pass",
        "attention_is_that_of_the_package_in_a_model_with_any_scale",
    ),
    fault(
        "states",
        "a state of another order of rows",
        "if torch.equal(old, new):",
        "if old.shape == new.shape:",
        "what_came_of_the_wrong_order_of_a_cache_is_refused",
    ),
    fault(
        "apply",
        "a scheme that stays in the model",
        "            delattr(self.model, SCHEMES)\n",
        "",
        "one_scheme_at_a_time",
    ),
    fault(
        "passes",
        "padding that is counted",
        "(real.cumsum(dim=1) - 1).clamp(min=0)",
        "torch.arange(self.tokens, device=device).expand_as(real)",
        "padding_is_not_counted",
    ),
    fault(
        "passes",
        "another mask than the model's",
        "differs = torch.zeros(()) if keep is None else keep != seen",
        "differs = torch.zeros(())",
        "what_a_model_is_told_otherwise_is_refused",
    ),
    fault(
        "states",
        "padding that a state counts",
        "elif states and now.has_holes:",
        "elif False:",
        "a_token_state_takes_no_padding_between_tokens",
    ),
    fault(
        "passes",
        "packed documents in one",
        "if starts.any():",
        "if False:",
        "packed_documents_are_read_as_if_alone",
    ),
    fault(
        "rotary",
        "a base that nobody compares",
        "((one.frequencies - own).abs() - noise)",
        "((own - own).abs() - noise)",
        "a_base_that_is_read_from_a_wrong_place_is_seen",
    ),
    fault(
        "softcap",
        "no cap",
        "return (logits / self.cap).tanh() * self.cap",
        "return logits",
        "rope_by_our_route_is_that_of_the_model",
    ),
    fault(
        "check",
        "a check that reads the same tokens twice",
        "other[:, half:] = (other[:, half:] + 1) % count",
        "pass",
        "a_model_that_looks_ahead_does_not_pass",
    ),
    Fault(
        "hf/scratch.py",
        "a fresh model without its scheme",
        "        self.applied = apply(self, config.posenc_scheme)\n",
        '        self.applied = apply(self, "nope")\n',
        f"{NETWORKS}a_fresh_model_is_that_of_apply",
    ),
    Fault(
        "hf/evaluate.py",
        "a length read under its neighbour's name",
        "            rows.append(Row(READ.name, found, length, case))",
        "            rows.append(Row(READ.name, bits, length, case))",
        f"{EVALUATE}rules_are_those_of_transformers",
    ),
    Fault(
        "hf/evaluate.py",
        "tokens foretold twice",
        "row[stop - within : stop], row[stop - step + 1 : stop + 1]",
        "row[stop - within : stop], row[stop - step : stop + 1]",
        f"{EVALUATE}windows_slide_over_every_token_once",
    ),
    Fault(
        "hf/evaluate.py",
        "what was read is forgotten",
        "            self._kept[name] = nats / self.size / math.log(2)",
        "            self._kept = {name: nats / self.size / math.log(2)}",
        f"{EVALUATE}what_was_read_is_not_read_again",
    ),
    Fault(
        "hf/files.py",
        "weights that no hash is of",
        '        whole.update(f"{path.relative_to(folder)} {digest}\\n".encode())',
        '        whole.update(f"{path.relative_to(folder)}\\n".encode())',
        f"{EVALUATE}other_weights_are_another_cell",
    ),
    Fault(
        "hf/rules.py",
        "an unknown rule is passed over",
        "        if rule not in every:",
        "        if False:",
        f"{EVALUATE}wrong_input_has_one_line",
    ),
    Fault(
        "hf/evaluate.py",
        "weights that are drawn at random",
        "    if lacking:",
        "    if False:",
        f"{EVALUATE}a_checkpoint_that_lacks_weights_is_refused",
    ),
    Fault(
        "hf/evaluate.py",
        "weights that nothing reads",
        "    if left_out:",
        "    if False:",
        f"{EVALUATE}a_checkpoint_with_weights_that_nothing_reads_is_refused",
    ),
    fault(
        "places",
        "a forward that says it is another",
        " or runs is not kind.forward:",
        ":",
        "attention_whose_forward_was_replaced_is_refused",
    ),
    Fault(
        "hf/evaluate.py",
        "another rope than the model's own",
        "        if not apart <= share:",
        "        if False:",
        f"{EVALUATE}a_model_that_reads_otherwise_by_itself_is_refused",
    ),
    Fault(
        "hf/planned.py",
        "frequencies that are off",
        "first.apart is not None and first.apart > APART:",
        "False:",
        f"{EVALUATE}frequencies_that_are_built_otherwise_are_not_read",
    ),
    fault(
        "rotary",
        "a temperature that is passed over",
        "known and not math.isclose(factor, one.factor or 0.0, rel_tol=EXACT)",
        "False",
        "a_rope_that_is_none_here_is_described_as_none",
    ),
]
