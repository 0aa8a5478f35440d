"""Describe or check the positions of every type of models that transformers knows.

    python tools/describe_sweep.py                     a line for each type, and totals
    python tools/describe_sweep.py llama falcon        of these types alone
    python tools/describe_sweep.py --write docs/models.md
    python tools/describe_sweep.py --write docs/models.md llama    its rows alone
    python tools/describe_sweep.py --group image    of images, speech or image-text
    python tools/describe_sweep.py --check    small random models, encoders too

Configurations are the defaults of each type, with four layers where it takes that.
"""

import argparse
import copy
import logging
import re
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
)
from transformers.models.auto import modeling_auto
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from posenc_compare.errors import ConfigError
from posenc_compare.hf import check, describe
from posenc_compare.hf.measure import layers_of
from posenc_compare.hf.tiny import tiny

# What transformers builds no model without, and its defaults leave open.
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
LINEAR = ["linear_attention", "full_attention"] * 2
HYBRID = ["linear_attention", "hybrid"] * 2
ASSISTANT = {
    "model_type": "gemma4_text",
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 4,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
    "use_double_wide_mlp": False,
}
INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 512,
    "indexer_compress_ratio": 4,
}
STATED: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"layer_types": LINEAR},
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": PLAIN}},
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "clip_qkv": 8.0}},
    "dory": {"n_input_layers": 1, "n_output_layers": 1},
    "glm4_moe": {"head_dim": 128},  # as released; half of 42 are no pairs
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma4_assistant": {"text_config": ASSISTANT},
    "gemma3n_text": {"num_hidden_layers": 5, "num_kv_shared_layers": 0},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"] * 2,
        "position_embedding_type": "rope",
    },
    "kimi_linear": {"layer_types": LINEAR},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "qwen4_exp_text": INDEXER,
    "reformer": {"is_decoder": True},
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"layers_block_type": HYBRID, "use_mem_rope": True},
}
# Auto classes whose types are in a group, as their mappings are named.
GROUPS = {
    "causal": ("CAUSAL_LM",),
    "image": ("IMAGE_CLASSIFICATION", "IMAGE", "BACKBONE", "VIDEO_CLASSIFICATION"),
    "detection": ("OBJECT_DETECTION", "MASK_GENERATION"),
    "speech": ("CTC", "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ"),
    "image-text": ("IMAGE_TEXT_TO_TEXT",),
}
OTHER_PART = re.compile("(?!language: ).*: ")  # begins layers of an image's model
LIMIT = 60  # seconds of the processor for a type
ODD = ("Traceback", "AssertionError", "KeyError", "NoneType", "TypeError", "Error:")
WIDTH = 7  # cells of a line: type, layers, kind, scheme, off by, logits off by, note
HEAD = ("kind", "scheme", "types", "off by", "logits off by", "note")


def config_of(kind: str) -> Any:
    """Return the default configuration of a type, with four layers if it takes that.

    What no model can be built without, and the defaults leave open, is stated.
    """
    more = STATED.get(kind, {})
    for layers in (4, 8):
        few = {"num_hidden_layers": layers, **more}
        try:
            config = CONFIG_MAPPING[kind](**few)
            if isinstance(getattr(config, "text_config", None), PreTrainedConfig):
                text = config.text_config.model_type
                few = {"num_hidden_layers": layers, **STATED.get(text, {})}
                config = CONFIG_MAPPING[kind](**{**more, "text_config": few})
            if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
                return config
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(copy.deepcopy(config))
            if layers_of(model):
                return config
        except Exception:  # lists by layer, or another name of their number
            continue
    return CONFIG_MAPPING[kind](**more)


def described(kind: str) -> tuple[str, list[tuple[str, ...]]]:
    """Return the class of a type's description, and its rows of the table.

    The class is `scheme` if each row has one, else `no scheme`, `refused`, `not
    measured` or `odd`.
    """
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        found = describe(config_of(kind))
    except _Stopped:
        return "not measured", [_row(kind, note=f"above {LIMIT} s")]
    except ConfigError as error:
        text = str(error).split("; ")[0]
        return _odd(text) or "refused", [_row(kind, note=text)]
    except Exception as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        return "odd", [_row(kind, note=text)]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    rows = []
    for one in found:
        offs = ["" if n is None else f"{n:.0e}" for n in (one.off, one.logits_off)]
        note = one.note.split("; ")[0]
        rows.append((kind, one.layers, one.kind, one.label, *offs, note))
    odd = next(filter(None, (_odd(row[-1]) for row in rows)), "")
    lacks = any(one.variant is None for one in found)
    return odd or ("no scheme" if lacks else "scheme"), rows


def types_of(group: str) -> set[str]:
    """Return the types of models of a group."""
    names = [f"MODEL_FOR_{name}_MAPPING_NAMES" for name in GROUPS[group]]
    return {kind for name in names for kind in getattr(modeling_auto, name)}


def _row(kind: str, *cells: str, note: str = "") -> tuple[str, ...]:
    """Return a row of the table whose other cells are empty."""
    empty = [""] * (WIDTH - 2 - len(cells))
    return (kind, *cells, *empty, note)


def checked(kind: str) -> tuple[str, list[tuple[str, ...]]]:
    """Return whether checks of a type's small model passed, and a row for each fault.

    The class is `passed`, `failed`, `refused` or `not measured`. What fails in float32
    counts if it fails in float64 too: random weights magnify rounding, and masks of
    some types overflow in float64.
    """
    is_causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    form = AutoModelForCausalLM if is_causal else AutoModelForMaskedLM
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        model = tiny(config_of(kind), form)
        found = check(copy.deepcopy(model).float())
        if any(one.state == "failed" for one in found):
            exact = {one.check: one for one in check(model)}
            found = [exact[o.check] if o.state == "failed" else o for o in found]
    except _Stopped:
        return "not measured", [_row(kind, note=f"above {LIMIT} s")]
    except Exception as error:  # no such model
        return "refused", [_row(kind, note=str(error).split("; ")[0])]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    states = Counter(one.state for one in found)
    counts = ", ".join(f"{n} {state}" for state, n in sorted(states.items()))
    rows = [_row(kind, "", "", counts)]
    for one in found:
        if one.state == "failed":
            apart = "" if one.largest is None else f"{one.largest:.0e}"
            rows.append(_row(kind, one.check, "", "failed", apart, note=one.reason))
    return "failed" if states["failed"] else "passed", rows


class _Stopped(BaseException):
    """A type took too long; no handler of errors may catch it."""


def _stop(*_: object) -> None:
    raise _Stopped


def _odd(text: str) -> str:
    return "odd" if any(word in text for word in ODD) else ""


def main() -> int:
    """Print the table; return 1 if a check failed, or a description in an odd way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", help="default: all")
    parser.add_argument("--write", type=Path, help="the page whose table it is")
    parser.add_argument("--check", action="store_true", help="instead of describing")
    parser.add_argument("--group", choices=GROUPS, default="causal", help="of types")
    given = parser.parse_args()
    if given.check and given.write:
        parser.error("--write is of descriptions; leave out --check")
    warnings.filterwarnings("ignore")
    logging.disable()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    totals: Counter[str] = Counter()
    table: list[tuple[str, ...]] = []
    known = types_of(given.group)
    if given.check:
        known |= {*MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    for kind in given.types or sorted(known):
        start = time.process_time()
        total, rows = checked(kind) if given.check else described(kind)
        if given.group == "causal":  # rows of the language model
            rows = [row for row in rows if not OTHER_PART.match(row[1])]
        totals[total] += 1
        table += rows
        for row in rows:
            print(*row, sep=" | ", end="")
            print(f" | {time.process_time() - start:.1f} s", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    if given.write:
        if given.types:
            table = sorted(table + others(given.write, given.types), key=_kind)
        given.write.write_text(page(table, given.write.read_text()))
    return int(totals["odd"] + totals["failed"] > 0)


def page(table: list[tuple[str, ...]], written: str) -> str:
    """Return a page with another table, after what is written above its own."""
    lines = [HEAD, tuple("---" for _ in HEAD), *grouped(table)]
    body = "\n".join(f"| {' | '.join(_cell(c) for c in row)} |" for row in lines)
    return written.partition(f"| {HEAD[0]} |")[0] + body + "\n"


def grouped(table: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return a row for each scheme and note: its types and largest differences."""
    alike: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for row in table:
        alike[row[2], row[3], row[6]].append(row)
    rows = []
    for (kind, scheme, note), group in sorted(alike.items()):
        names = dict.fromkeys(
            name if layers in ("", "all") or kind == "table" else f"{name} ({layers})"
            for name, layers, *_ in group
        )
        offs = [
            max((row[cell] for row in group), key=lambda off: float(off or 0))
            for cell in (4, 5)
        ]
        rows.append((kind, scheme, ", ".join(names), *offs, note))
    return rows


def others(written: Path, kinds: list[str]) -> list[tuple[str, ...]]:
    """Return the rows of a page that are of other types, one for each type."""
    lines = written.read_text().splitlines()
    rows = [
        re.split(r" (?<!\\)\| ", f"{line[2:-2]} ") for line in lines if line[:1] == "|"
    ]
    cells = [[cell.strip().replace("\\|", "|") for cell in row] for row in rows[2:]]
    return [
        (name, layers or "all", kind, scheme, *offs, note)
        for kind, scheme, types, *offs, note in cells
        for name, layers in re.findall(r"([^ ,(]+)(?: \(([^)]*)\))?", types)
        if name not in kinds
    ]


def _kind(row: tuple[str, ...]) -> str:
    return row[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
