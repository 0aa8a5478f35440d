"""A cell: one measure of one variant under one setting, fully specified.

The key of a cell is the hash of its specification: the scheme with the source of its
file, the measure with its version, the setting, and the versions of torch and of this
package, which stand for all other code. All of it is known without importing torch
or a scheme.
"""

import ast
import functools
import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import posenc_compare
from posenc_compare.analysis.checks import check_whole
from posenc_compare.analysis.settings import ProbeSetting, Training
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.variants import Variant


@dataclass(frozen=True)
class Cell:
    """One measure of one variant under one setting."""

    variant: Variant
    measure: str
    setting: ProbeSetting | Training
    threads: int

    def spec(self) -> dict[str, Any]:
        """Return everything the result depends on, ready for JSON."""
        return {
            "scheme": {
                "name": self.variant.name,
                "options": self.variant.options,
                "source_sha256": source_sha256(SCHEMES.entry(self.variant.name).path),
            },
            "measure": {
                "name": self.measure,
                "version": MEASURES.entry(self.measure).facts.get("version", 1),
            },
            "setting": self.setting.spec(),
            "threads": self.threads,
            "package": posenc_compare.__version__,
            "torch": _torch_version(),
        }

    def key(self) -> str:
        """Return the 32 hex digits that name this cell."""
        return spec_key(self.spec())

    def header(self) -> dict[str, Any]:
        """Return what every record of this cell begins with, whatever becomes of it."""
        source = SCHEMES.entry(self.variant.name).facts.get("source", "")
        return {
            "spec": self.spec(),
            "label": self.variant.label,
            "family": self.variant.family,
            "source": source,
        }


def cell_of(spec: dict[str, Any], corpus: str) -> Cell:
    """Return the cell of a specification; a training finds its text at `corpus`.

    Raises:
        ConfigError: if a name or a value is not known here.
    """
    setting = spec["setting"]
    name = spec["measure"]["name"]
    check_whole("threads", spec["threads"], 1, 1024)
    return Cell(
        Variant(spec["scheme"]["name"], spec["scheme"]["options"]),
        name,
        Training(**setting, corpus=corpus)
        if MEASURES.entry(name).facts.get("trained")
        else ProbeSetting(**setting),
        spec["threads"],
    )


def spec_key(spec: dict[str, Any]) -> str:
    """Return the hash of a specification, whatever the order of its fields."""
    return hashlib.sha256(canonical(spec)).hexdigest()[:32]


def canonical(value: Any) -> bytes:
    """Return the one JSON text of a value: sorted, compact, without NaN."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )
    return text.encode()


def source_sha256(path: Path | None) -> str:
    """Return a hash of Python source that comments and docstrings do not change.

    A scheme defined outside any file has none, and gets the empty string.
    """
    return "" if path is None else _code_sha256(path.read_bytes())


@functools.cache
def _torch_version() -> str:
    return importlib.metadata.version("torch")


@functools.lru_cache(maxsize=256)
def _code_sha256(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()
