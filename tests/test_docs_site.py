"""The site of the documents: it builds without a warning, whole, and loads nothing."""

import html
import importlib
import inspect
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from support.processes import python

import posenc_compare as pc
from posenc_compare.check import built_in
from posenc_compare.registry import MEASURES, REGISTRIES, SCHEMES
from posenc_compare.settings.table import TABLE

ROOT = Path(__file__).parent.parent
PACKAGES = ("furo", "latex2mathml", "myst_parser", "sphinx")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(not (ROOT / "results").exists(), reason="there is no results/"),
]
# What a browser loads with a page, and in a style sheet.
LOADED = re.compile(
    r"<(?:link|script|img|source|iframe|object|embed|video|audio)\b[^>]*?"
    r'\s(?:href|src|srcset|data)="([^"]+)"'
)
# What takes half of the time: sources as pages, and objects in menus.
LESS = ["extensions=myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon,extension"]
LESS += ["toc_object_entries=0"]
IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?!data:)[^"')]+)""")
BUILT_IN = [
    pytest.param(registry, entry.name, id=f"{registry.kind}-{entry.name}")
    for registry in REGISTRIES
    for entry in registry.built_in()
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from a copy of the documents; a warning is an error."""
    root = tmp_path_factory.mktemp("root")
    for path in ROOT.iterdir():
        if path.name != "docs" and not path.name.startswith("."):
            (root / path.name).symlink_to(path)
    made = shutil.ignore_patterns("site", "__pycache__")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=made)
    folder = root / "html"
    build = ["-m", "sphinx", *"-W --keep-going -q -b html".split()]
    build += [f"-D{name}" for name in LESS]
    done = python(*build, "-d", root / "trees", root / "docs", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in site.rglob("*.html")}


def ids(page: str) -> set[str]:
    return set(re.findall(r'\sid="([^"]+)"', page))


def thing(registry: Any, name: str) -> Any:
    found = registry.get(name)
    return found.compute if registry is MEASURES else found


@pytest.mark.parametrize(("registry", "name"), BUILT_IN)
def test_everything_registered_has_a_page(site: Path, registry: Any, name: str) -> None:
    page = (site / "site" / f"{registry.kind}s" / f"{name}.html").read_text("utf-8")
    code = thing(registry, name)
    assert f"<h1>{name}<a" in page
    assert f"{code.__module__}.{code.__qualname__}" in ids(page)
    assert registry.entry(name).summary.partition("`")[0] in html.unescape(page)
    index = (site / "site" / f"{registry.kind}s" / "index.html").read_text("utf-8")
    assert f'href="{name}.html"' in index


@pytest.mark.parametrize("name", built_in())
def test_formulas_are_set_as_mathematics(site: Path, name: str) -> None:
    page = (site / "site" / "schemes" / f"{name}.html").read_text("utf-8")
    header = inspect.getdoc(inspect.getmodule(SCHEMES.get(name))) or ""
    _, _, text = f"\n{header}".partition("\nFormula: ")
    formula = re.split(r"\n(?:\n|\w+: )", text)[0]
    assert page.count("<math ") == formula.count("`") / 2
    assert (">Papers<" in page) == ("arxiv.org/abs" in page)


@pytest.mark.parametrize("name", pc.__all__)
def test_every_public_name_has_an_entry(site: Path, name: str) -> None:
    entries = ids((site / "api.html").read_text("utf-8"))
    assert entries & {f"posenc_compare.{name}", f"module-posenc_compare.{name}"}


def test_every_public_name_of_a_room_has_an_entry(site: Path) -> None:
    entries = ids((site / "api.html").read_text("utf-8"))
    rooms = ["attention", "schemes", *(["hf"] if find_spec("transformers") else [])]
    for room in rooms:
        for name in importlib.import_module(f"posenc_compare.{room}").__all__:
            assert any(entry.endswith(f".{name}") for entry in entries), name


def test_every_setting_and_result_is_shown(site: Path) -> None:
    page = (site / "site" / "settings.html").read_text("utf-8")
    for name in TABLE:
        assert f'<span class="pre">{name}</span>' in page
    for table in ROOT.glob("results/*/*/table.md"):
        name = "-".join(table.parts[-3:-1])
        assert (site / "site" / "results" / f"{name}.html").exists()


def test_no_page_asks_anything_of_the_network(site: Path, pages: Any) -> None:
    assert len(pages) > 100
    for path, page in pages.items():
        for address in LOADED.findall(page):
            place = path.parent / unquote(urldefrag(address)[0].partition("?")[0])
            assert place.exists(), f"{path.name} loads {address}"
    for path in site.rglob("*.css"):
        for address in IN_STYLE.findall(path.read_text("utf-8")):
            assert (path.parent / address).exists(), f"{path.name} loads {address}"


def test_all_links_between_pages_lead_somewhere(pages: dict[Path, str]) -> None:
    known = {path.resolve(): ids(page) for path, page in pages.items()}
    for path, page in pages.items():
        for found in re.findall(r'<a\b[^>]*?\shref="([^"]*)"', page):
            link = html.unescape(found)
            if re.match(r"https?:", link):
                continue
            address, anchor = map(unquote, urldefrag(link))
            target = (path.parent / address).resolve() if address else path.resolve()
            assert target.exists(), f"{path.name} leads to {link}"
            if anchor and target in known:
                assert anchor in known[target], f"{path.name} leads to {link}"


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("p * base ** (-2 m / d)", r"p\cdot \mathrm{base}^{-2\,m/d}"),
        ("w_t w_t'", r"w_{t}\,w_{t}^{\top}"),
        ("H_{j+1} + a_(j-i)", r"H_{j+1}+a_{j-i}"),
        ("sum_m cos(scale_base)", r"\sum _{m}\,\cos (\mathrm{scale\_base})"),
        ("sum of |x| / sqrt(3 d)", r"\mathrm{sum}\,\mathrm{of}\,|x|/\sqrt{3\,d}"),
        ("b[h, i] ~ zeta_h ... 1", r"b[h,i]\sim \zeta_{h}\dots 1"),
    ],
)
def test_a_formula_in_latex(
    monkeypatch: pytest.MonkeyPatch, formula: str, wanted: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    latex: Any = importlib.import_module("extension.formulas").latex
    assert latex(formula).replace(" _", "_") == wanted.replace(" _", "_")
