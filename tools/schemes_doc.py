"""Write the tables of schemes in README.md and docs/schemes.md.

    python tools/schemes_doc.py

Names, families and hooks come from the code, and the other columns from docstrings and
from the arguments of `@register`. Only the sources of defaults that depend on the
training length are written in docs/schemes.md itself. A scheme without pinned numbers
gets them, too.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from posenc_compare.check import CHECKS, built_in
from posenc_compare.references import ARXIV
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import HOOKS, Scheme, create
from posenc_compare.show.ranking import by_family
from posenc_compare.variants import Variant, option_types

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "pinned" / "pins.json"
NONE = "\N{EN DASH}"
LENGTHS = 64, 128, 512  # of training, as in the head of that table
FAMILIES = {
    "none": "no positions",
    "absolute": "absolute: added to token embeddings",
    "rotary": "rotary: rotate queries and keys",
    "bias": "bias on logits",
    "contextual": "contextual: most depend on the content of tokens",
}
AROUND = "around another scheme"
AXES = (
    "two or three axes, for [grids](docs/start.md#on-a-grid), "
    "[images](docs/tasks.md#images) and video"
)


def names() -> list[str]:
    """Return the names of the built-in schemes, by family."""
    return sorted(built_in(), key=lambda n: by_family(SCHEMES.get(n).family, n))


def group(name: str) -> str:
    """Return the group of a scheme in README.md."""
    if create(name).facts.axes > 1:
        return AXES
    if any(kind is Variant for kind, _ in option_types(name).values()):
        return AROUND
    return FAMILIES[SCHEMES.get(name).family]


def groups() -> list[list[str]]:
    """Return the rows of README.md: a group and its schemes."""
    members: dict[str, list[str]] = {g: [] for g in (*FAMILIES.values(), AROUND, AXES)}
    for name in built_in():
        members[group(name)].append(f"`{name}`")
    return [[title, ", ".join(found)] for title, found in members.items()]


def row(name: str) -> list[str]:
    """Return the cells of a scheme in docs/schemes.md."""
    scheme, entry = create(name), SCHEMES.entry(name)
    checked = entry.facts.get("checked", "")
    return [
        f"[`{name}`](../posenc_compare/schemes/{name}.py)",
        re.split(r"\.(?: |$)", entry.summary)[0],
        paper(scheme.source),
        scheme.family,
        ", ".join(f"`{hook}`" for hook in HOOKS if scheme.acts_at(hook)),
        parameters(scheme),
        ", ".join(f"`{option}`" for option in option_types(name)),
        entry.facts.get("identities", ""),
        entry.facts.get("oracles", ""),
        checks(scheme),
        checked.replace("unverified:", "**unverified**:"),
    ]


def paper(source: str) -> str:
    """Return a link to the source of a scheme; nothing if it has no address."""
    authors, _, place = source.partition(", ")
    if ids := ARXIV.findall(place):
        return f"[{authors}][{ids[0]}]"
    return f"[{authors}][{place}]" if "/" in place else ""


def with_links(text: str) -> str:
    """Return a page with the targets of its links at the end."""
    body = re.split(r"^\[[^]]+\]: ", text, maxsplit=1, flags=re.M)[0]
    links = sorted(set(re.findall(r"\]\[([^]]+)\]", body)))
    papers = {key: f"arxiv.org/abs/{key}" for key in links if ARXIV.fullmatch(key)}
    return body + "".join(f"[{key}]: https://{papers.get(key, key)}\n" for key in links)


def parameters(scheme: Scheme) -> str:
    """Return the number of parameters, and the formula in the class's docstring."""
    count = sum(parameter.numel() for parameter in scheme.parameters())
    layer = " each layer" if scheme.facts.per_layer and count else ""
    doc = " ".join((type(scheme).__doc__ or "").split())
    formula = re.search("(`[^`]+`) parameters", doc)
    return f"{count}{layer}" + (f", {formula[1]}" if formula and count else "")


def checks(scheme: Scheme) -> str:
    """Return how many conformance checks pass, and why others do not.

    `tests/test_conformance.py` runs them: all pass but declared deviations, and the
    check that looks at one head alone, where heads are mixed.
    """
    faults, mixes = len(scheme.facts.known_faults), scheme.facts.mixes_heads
    texts = [str(len(CHECKS) - faults - mixes)]
    texts += [f"{faults} declared deviation{'s' * (faults > 1)}"] * bool(faults)
    texts += ["1 does not apply"] * mixes
    return ", ".join(texts)


def defaults(name: str, option: str, sources: dict[str, str]) -> list[str]:
    """Return the cells of an option whose default depends on the training length."""
    scheme = SCHEMES.get(name)
    of = scheme.published[option]
    at = [scheme.defaults_at(length)[option] for length in LENGTHS]
    numbers = map(str, (of.positions, of.trained_at, *at))
    first = f"`{name}` | `{option}`"
    return [first, *numbers, sources.get(first, "")]


def fill(text: str, head: str, rows: Iterable[list[str]]) -> str:
    """Return a page with these rows in the table whose head starts so."""
    before, start, rest = text.partition(head)
    columns, line, old = rest.split("\n", 2)
    body = [f"| {' | '.join(cell or NONE for cell in cells)} |" for cells in rows]
    below = old.partition("\n\n")[2]
    return "\n".join([before + start + columns, line, *body, "", below])


def pages() -> dict[Path, str]:
    """Return the text of each page with its tables as the code has them."""
    readme, schemes = (ROOT / "README.md", ROOT / "docs" / "schemes.md")
    text = fill(schemes.read_text("utf-8"), "| scheme | what", map(row, names()))
    sources = dict(re.findall(r"^\| (`\w+` \| `\w+`) .* \| ([^|]+) \|$", text, re.M))
    options = [(name, o) for name in names() for o in SCHEMES.get(name).published]
    rows = [defaults(*pair, sources) for pair in options]
    return {
        readme: fill(readme.read_text("utf-8"), "| group | schemes", groups()),
        schemes: with_links(fill(text, "| scheme | option | published", rows)),
    }


def has_pins() -> bool:
    """Return whether `tests/pinned` has numbers of every scheme."""
    known = json.loads(PINS.read_text("utf-8"))["of"]
    return all(f"attention of {name}" in known for name in built_in())


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
    if not has_pins():
        subprocess.run([sys.executable, PINS.with_name("pins.py")], check=True)
