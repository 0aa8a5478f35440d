"""Describe the rotary positions of every causal type that transformers knows.

    python tools/describe_sweep.py                     a line for each type, and totals
    python tools/describe_sweep.py llama falcon        of these types alone
    python tools/describe_sweep.py --write docs/models.md

Configurations are the defaults of each type, with four layers where it takes that.
"""

import argparse
import logging
import signal
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from posenc_compare.errors import ConfigError
from posenc_compare.hf import rotary_of

LIMIT = 25  # seconds for a type
ODD = ("Traceback", "AssertionError", "KeyError", "NoneType", "TypeError", "Error:")
HEAD = ("type", "layers", "described as", "logits off by", "why not")
PAGE = """# Rotary positions of all causal types

Made by `tools/describe_sweep.py` with transformers {transformers} and torch {torch},
from the default configuration of each type, with four layers where it takes that.
`logits off by` is the largest difference between logits of a small random model by
itself and under the scheme, in parts of the largest logit.

"""


def config_of(kind: str) -> Any:
    """Return the default configuration of a type, with four layers if it takes that."""
    several: list[dict[str, Any]] = [{"num_hidden_layers": n} for n in (4, 8)]
    for sizes in several:
        try:
            config = CONFIG_MAPPING[kind](**sizes)
            with torch.device("meta"):
                AutoModelForCausalLM.from_config(config)
            return config
        except Exception:  # lists by layer, or another name of their number
            continue
    return CONFIG_MAPPING[kind]()


def described(kind: str) -> tuple[str, list[tuple[str, ...]]]:
    """Return the class of a type's description, and its rows of the table.

    The class is `described`, `n/a`, `refused`, `not measured` or `odd`.
    """
    try:
        config = config_of(kind)
    except Exception:  # its own check
        why = "transformers refuses its default configuration"
        return "refused", [(kind, "", "refused", "", why)]
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LIMIT)
    try:
        found = rotary_of(config)
    except _Stopped:
        return "not measured", [(kind, "", "not measured", "", f"above {LIMIT} s")]
    except ConfigError as error:
        text = str(error).split("; ")[0]
        return _odd(text) or "refused", [(kind, "", "refused", "", text)]
    except Exception as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        return "odd", [(kind, "", "error", "", text)]
    finally:
        signal.alarm(0)
    rows, proved = [], False
    for one in found:
        if not one.pairs and not one.reason:
            label = "no rotation"
        else:
            proved |= bool(one.variant and not one.reason)
            label = one.variant.label if one.variant and not one.reason else "n/a"
        off = "" if one.off is None else f"{one.off:.0e}"
        why = one.reason.split("; ")[0]
        rows.append((kind, one.layers, label, off, why))
    odd = next(filter(None, (_odd(row[-1]) for row in rows)), "")
    return odd or ("described" if proved else "n/a"), rows


class _Stopped(BaseException):
    """A type took too long; no handler of errors may catch it."""


def _stop(*_: object) -> None:
    raise _Stopped


def _odd(text: str) -> str:
    return "odd" if any(word in text for word in ODD) else ""


def main() -> int:
    """Print the table; return 1 if a description failed in an odd way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", help="default: all")
    parser.add_argument("--write", type=Path, help="a page for the table")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    totals: Counter[str] = Counter()
    table: list[tuple[str, ...]] = []
    for kind in given.types or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        start = time.perf_counter()
        total, rows = described(kind)
        totals[total] += 1
        table += rows
        for row in rows:
            print(*row[:4], row[4], sep=" | ", end="")
            print(f" | {time.perf_counter() - start:.1f} s", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    if given.write:
        lines = [HEAD, tuple("---" for _ in HEAD), *table]
        body = "\n".join(f"| {' | '.join(_cell(c) for c in row)} |" for row in lines)
        versions = {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }
        given.write.write_text(PAGE.format(**versions) + body + "\n")
    return int(totals["odd"] > 0)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
