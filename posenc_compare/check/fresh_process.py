"""Importing and building a scheme in a fresh process, to observe side effects."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from posenc_compare.check.checks import ContractError, expect
from posenc_compare.check.global_state import changes, preserve_state, process_state
from posenc_compare.check.harness import Layer, Subject, tokens
from posenc_compare.fresh import python, search_path
from posenc_compare.registry import SCHEMES, add_plugin
from posenc_compare.variants import parse_variants

ACTS = {"subprocess.Popen", "os.fork", "os.system", "socket.connect", "socket.bind"}
SCRIPT = """
import contextlib, json, sys
*asked, sys.path[:] = json.loads(sys.argv[1])
from posenc_compare.check.fresh_process import look_from_inside
with contextlib.redirect_stdout(sys.stderr):  # a scheme may print
    found = look_from_inside(*asked)
print(json.dumps(found))
"""
TIMEOUT = 120.0  # seconds that the process may take

Found = dict[str, Any]
"""What a fresh process saw of one scheme.

`seconds` that the import took, audited `acts` of the import, `threads` after it, parts
of the global state that the import (`imported`) and the first build (`built`) changed,
and the `digest` of the outputs, which is empty if they cannot be computed.
"""


def elsewhere(subject: Subject) -> Found:
    """Import and build a scheme in a fresh process, and return what it saw.

    The built-in schemes share a process.
    """
    label, own = subject.variant.label, built_in()
    shared = not subject.plugin and label in own
    labels = tuple(own) if shared else (label,)
    return _elsewhere(subject.plugin, labels)[label]


@functools.cache
def _elsewhere(plugin: str, labels: tuple[str, ...]) -> dict[str, Found]:
    """Return the findings of one fresh process by label."""
    asked = json.dumps([plugin, labels, search_path()])
    try:
        done = subprocess.run(
            python(SCRIPT, asked),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = f"a process that ends within {TIMEOUT:g} s"
        raise ContractError(f"expected {said}, got none") from error
    last = done.stderr.strip().rpartition("\n")[2]
    expect(done.returncode == 0, "a process that ends well", last or "nothing")
    return json.loads(done.stdout.splitlines()[-1])


def built_in() -> list[str]:
    """Return the names of this package's own schemes."""
    return [entry.name for entry in SCHEMES.built_in()]


def look_from_inside(plugin: str, labels: list[str]) -> dict[str, Found]:
    """Import and build schemes in this process; `elsewhere` calls it in a fresh one."""
    acts: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and set(str(arguments[1] or "r")) & set("wax+")
        if writes or event in ACTS:
            acts.append(event)

    sys.addaudithook(watch)
    found: dict[str, Found] = {}
    for label in labels:
        with preserve_state():
            before, start = process_state(), time.monotonic()
            acts.clear()
            if plugin:
                add_plugin(plugin)
            SCHEMES.get(label.partition(":")[0])
            facts: Found = {
                "seconds": time.monotonic() - start,
                "acts": list(acts),
                "threads": threading.active_count(),
                "imported": changes(before),
                "digest": "",
            }
            (variant,) = parse_variants(label)
            subject = Subject(variant)
            before = process_state()
            with suppress(Exception):  # other checks report failures
                subject.build()
            facts["built"] = changes(before)
            with suppress(Exception):
                facts["digest"] = digest(subject)
            found[label] = facts
    return found


def digest(subject: Subject) -> str:
    """Return a hash of the outputs and logits of the scheme."""
    layer = Layer(subject.build())
    x, positions = tokens(9), subject.positions(9)
    parts = (layer(x, positions), layer.logits(x, positions))
    whole = b"".join(part.detach().numpy().tobytes() for part in parts)
    return hashlib.sha256(whole).hexdigest()
