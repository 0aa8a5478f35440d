"""Pages made from what the repository holds: registries, README and results."""

import inspect
import itertools
import re
from pathlib import Path
from typing import Any

from tabulate import tabulate

from posenc_compare.cli.describe import facts_of
from posenc_compare.references import ARXIV, find_bibtex
from posenc_compare.registry import MEASURES, PLOTS, SCHEMES, TASKS, Entry, Registry
from posenc_compare.schemes import Geometry
from posenc_compare.settings.presets import default_text
from posenc_compare.settings.table import TABLE, type_text
from posenc_compare.show.ranking import by_family

from .formulas import with_mathematics
from .links import HOMES, page_of_results, relink

FORMULA = re.compile(r"^Formula: (.*?)(?=^\w+: |^$|\Z)", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"^(\w+): ", re.MULTILINE)  # of the header of a scheme
COMMANDS = {
    "scheme": "`posenc-compare describe NAME` prints what a page of these says, "
    "`check NAME` tests a scheme, and `show NAME` draws it.",
    "measure": "`posenc-compare run --measures NAME` computes one.",
    "task": "`posenc-compare run --tasks NAME` trains networks on one.",
    "plot": "`posenc-compare plot DIR --plots NAME` draws one.",
}


def write_pages(docs: Path) -> None:
    """Write all pages to `docs/site`, and remove those of an earlier build.

    A page that stays the same keeps its time, so that it is not built again.
    """
    made = {docs / "site" / path: text for path, text in _pages(docs).items()}
    for path in {*(docs / "site").rglob("*.md")} - made.keys():
        path.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _pages(docs: Path) -> dict[str, str]:
    """Return the text of each page by its path in `docs/site`."""
    root, site = docs.parent, docs / "site"
    pages = {"examples.md": _examples(root / "examples"), "settings.md": _settings()}
    page_of = {SCHEMES: _scheme, MEASURES: _measure, TASKS: _task, PLOTS: _plot}
    for registry, page in page_of.items():
        entries = _built_in(registry)
        pages[f"{registry.kind}s/index.md"] = _index(registry, entries)
        for entry in entries:
            text = _listed(page(entry, root), f"All {registry.kind}s")
            pages[f"{registry.kind}s/{entry.name}.md"] = text
    for origin, home in HOMES.items():
        if origin.endswith(".md"):
            text = (root / origin).read_text("utf-8")
            folder, place = (root / origin).parent, (site / home).parent
            pages[home] = relink(text, docs, folder, place)
    for table in sorted(root.glob("results/*/*/table.md")):
        name = page_of_results(table.parent)
        pages[f"results/{name}.md"] = _listed(_result(table.parent), "All results")
    pages["guide.md"] = _guide(pages["guide.md"])
    return pages


def _built_in(registry: Registry) -> list[Entry]:
    """Return the entries of this package; schemes by family."""
    known = registry.entries().values()
    own = [e for e in known if e.module.startswith("posenc_compare.")]
    return sorted(own, key=lambda e: by_family(e.facts.get("family", ""), e.name))


def _listed(page: str, all_of_them: str) -> str:
    """Return a page that its index lists and the menu does not, with a link back."""
    title, _, text = page.partition("\n")
    back = f"[{all_of_them}](index.md)"
    return f"---\norphan: true\n---\n\n{title}\n\n{back}\n{text}"


def _table(head: list[str], body: list[list[object]]) -> str:
    """Return a table in Markdown."""
    cells = [[str(cell).replace("|", r"\|") for cell in row] for row in body]
    return tabulate(cells, head, "pipe", disable_numparse=True)


def _index(registry: Registry, entries: list[Entry]) -> str:
    """Return the page that lists all entries of a registry, schemes by family."""
    parts = [f"# {registry.kind.capitalize()}s", COMMANDS[registry.kind]]
    for family, members in itertools.groupby(entries, lambda e: e.facts.get("family")):
        parts += [f"## {family}"] * (family is not None)
        parts += [_line(entry, registry) for entry in members]
    return "\n\n".join(parts) + "\n"


def _line(entry: Entry, registry: Registry) -> str:
    """Return what a list says of an entry."""
    formula = _formula(entry) if registry is SCHEMES else ""
    below = f"\\\n  {formula}" if formula else ""
    return f"- [`{entry.name}`]({entry.name}.md): {entry.summary}{below}"


def _formula(entry: Entry) -> str:
    """Return the formula in the header of a scheme's module."""
    module = inspect.getmodule(SCHEMES.get(entry.name))
    found = FORMULA.search(inspect.getdoc(module) or "")
    return with_mathematics(" ".join(found[1].split())) if found else ""


def _texts(entry: Entry, thing: Any) -> tuple[str, str]:
    """Return the title of a page and the text of the module behind it."""
    title, _, text = (inspect.getdoc(inspect.getmodule(thing)) or "").partition("\n")
    return f"# {entry.name}\n\n**{title}**", text.strip()


def _with_links(text: str) -> str:
    """Return Markdown in which every arXiv id leads to its paper."""
    link = r"[arXiv:\1](https://arxiv.org/abs/\1)"
    return re.sub(f"arXiv:({ARXIV.pattern})", link, text)


def _code(directive: str, thing: Any) -> str:
    """Return the documentation of an object and the link to its source."""
    path = f"{thing.__module__}.{thing.__qualname__}"
    return f"```{{eval-rst}}\n.. {directive}:: {path}\n```"


def _facts(facts: dict[str, object]) -> str:
    body = [[name.replace("_", " "), value] for name, value in facts.items()]
    return f"## Facts\n\n{_table(['fact', 'value'], body)}"


def _scheme(entry: Entry, root: Path) -> str:
    """Return the page of a scheme: formula, header, options, facts, papers."""
    scheme = SCHEMES.get(entry.name)
    built = scheme(Geometry())
    title, header = _texts(entry, scheme)
    formula = _formula(entry)
    facts = {
        "family": built.family,
        **facts_of(built),
        **built.facts.known_faults,
    }
    papers = find_bibtex(f"{built.source} {header} {scheme.__doc__}")
    bibtex = [f"```bibtex\n{paper}\n```" for paper in papers]
    parts = [
        title,
        f"{{.formula}}\n{formula}" if formula else "",
        _with_links(ITEM.sub(r"- **\1:** ", FORMULA.sub("", header))),
        "## Options",
        _code("autoclass", scheme),
        _facts(facts),
        "\n\n".join(["## Papers", *bibtex]) if bibtex else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _measure(entry: Entry, root: Path) -> str:
    """Return the page of a measure: question, definition, quantities."""
    measure = MEASURES.get(entry.name)
    quantities = measure.quantities.values()
    rows = [[f"`{q.name}`", q.unit, q.better, q.zero] for q in quantities]
    head = ["quantity", "unit", "better", "0 means"]
    return "\n\n".join(
        [
            *map(_with_links, _texts(entry, measure.compute)),
            f"## Quantities\n\n{_table(head, rows)}" if rows else "",
            "## Function",
            _code("autofunction", measure.compute),
        ]
    )


def _task(entry: Entry, root: Path) -> str:
    """Return the page of a task: what is asked, and its sizes."""
    task = TASKS.get(entry.name)
    return "\n\n".join(
        [*_texts(entry, task), _code("autoclass", task), _facts(entry.facts)]
    )


def _plot(entry: Entry, root: Path) -> str:
    """Return the page of a plot, with one of the results of record."""
    draw = PLOTS.get(entry.name)
    drawn = sorted(root.glob(f"results/*/*/{entry.name}.png"))
    figure = f"![{entry.name}](../../../{drawn[-1].relative_to(root)})" if drawn else ""
    caption = f"*{entry.facts['caption']}*"
    return "\n\n".join(
        [*_texts(entry, draw), figure, caption, _code("autofunction", draw)]
    )


def _settings() -> str:
    """Return the page of the settings of a comparison."""
    rows: list[list[object]] = []
    for name, one in TABLE.items():
        kind, default = type_text(one), default_text(name)
        rows.append([f"`{name}`", kind, default, one.metadata["sentence"]])
    text = "For `run --set NAME=VALUE`, `--config FILE.toml` and `compare(NAME=VALUE)`."
    head = ["name", "type and unit", "default", "meaning"]
    return f"# Settings\n\n{text}\n\n{_table(head, rows)}\n"


def _examples(folder: Path) -> str:
    """Return the page with all examples."""
    parts = ["# Examples"]
    for path in sorted(folder.rglob("*.*")):
        if path.suffix in (".py", ".toml"):
            name = path.relative_to(folder)
            kind = {".py": "python", ".toml": "toml"}[path.suffix]
            parts.append(f"## {name}\n\n````{kind}\n{path.read_text('utf-8')}````")
    return "\n\n".join(parts) + "\n"


def _result(folder: Path) -> str:
    """Return the page of a folder of results: its plots and its tables."""
    plots = [
        f"![{path.stem}](../../../results/{folder.parent.name}/{folder.name}/{path.name})"
        for path in sorted(folder.glob("*.png"))
    ]
    tables = (folder / "table.md").read_text("utf-8").replace(" ± ", "\u00a0±\u00a0")
    question = (folder / "README.md").read_text("utf-8")
    return "\n\n".join([question, tables, *plots]) + "\n"


def _guide(readme: str) -> str:
    """Return the README as a page: its title and its list of documents left out."""
    _, _, text = readme.partition("\n")
    return f"# Guide\n{text.partition('## More')[0]}"
