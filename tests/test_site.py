"""A report as a site: pages that lead to each other and nowhere else."""

import re
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from conftest import Command
from support.pages import Page
from support.records import HOSTILE, curve, stored
from test_several_tasks import trained

from posenc_compare.analysis.records.load import load_records, sound, tell_apart
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.site import write_site
from posenc_compare.errors import StoreError


def records() -> list[Record]:
    made = [
        trained(label, task, seed, 0.1 * i + 0.3 * seed)
        for i, label in enumerate(("rope", "alibi", "rope:base=3", "../x"))
        for task in ("copy", "sort", "../y")
        for seed in range(2)
    ]
    return tell_apart(sound(made), print)


def linked(folder: Path) -> dict[str, list[str]]:
    """Return the links of every page, after a look at each; all must lead somewhere."""
    pages = {path.resolve(): Page(path.read_text()) for path in folder.rglob("*.html")}
    found: dict[str, list[str]] = {}
    for path, page in pages.items():
        page.check(site=True)
        links = [value for name, value in page.attributes if name == "href"]
        found[str(path.relative_to(folder.resolve()))] = links
        for link in links:
            if link.startswith("https://arxiv.org/"):
                continue
            address, anchor = urldefrag(link)
            target = (path.parent / address).resolve() if address else path
            assert target in pages, link
            ids = {v for n, v in pages[target].attributes if n == "id"}
            assert not anchor or anchor in ids, link
    return found


def test_pages_of_an_earlier_site_go_and_files_of_others_stay(tmp_path: Path) -> None:
    write_site(records(), "all", tmp_path, plots=False)
    (tmp_path / "schemes" / "notes.html").write_text("<p>mine</p>")
    (tmp_path / "tasks" / "copy.txt").write_text("mine")
    some = [r for r in records() if r.label != "alibi" and r.task != "sort"]
    written = write_site(some, "some", tmp_path, plots=False)
    others = {tmp_path / "schemes" / "notes.html", tmp_path / "tasks" / "copy.txt"}
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {*written} | others
    assert tmp_path / "schemes" / "alibi.html" not in found


def test_every_scheme_and_task_has_a_page_and_all_links_lead_somewhere(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "outer" / "site"
    written = write_site(records(), "home & <b>", folder, plots=False)
    assert written[0] == folder / "index.html"
    assert set(written) == {p for p in tmp_path.rglob("*") if p.is_file()}
    links = linked(folder)
    schemes = {"alibi", "rope", "rope_base_3", "_._x"}
    tasks = {"copy", "sort", "_._y"}
    pages = {f"schemes/{name}.html" for name in schemes}
    pages |= {f"tasks/{name}.html" for name in tasks}
    assert set(links) == {"index.html"} | pages
    assert pages <= {*links["index.html"]}
    for page in pages:
        assert "../index.html" in links[page]
        assert "home & <b>" in Page((folder / page).read_text()).text
    assert {f"../schemes/{n}.html" for n in schemes} <= {*links["tasks/copy.html"]}
    assert "../tasks/copy.html#table-1" in links["schemes/rope.html"]
    text = Page((folder / "tasks/copy.html").read_text()).words
    assert "copy: accuracy ↑ by test length" in text
    assert "sort: accuracy" not in text


def test_plots_of_a_task_are_of_its_records_alone(tmp_path: Path) -> None:
    write_site(records(), "home", tmp_path, pytest.fail)
    found = {
        name: Page((tmp_path / name).read_text()).elements["img"]
        for name in ("index.html", "tasks/copy.html", "schemes/rope.html")
    }
    assert found == {"index.html": 2, "tasks/copy.html": 2, "schemes/rope.html": 0}
    images = [
        re.findall(r'src="([^"]*)"', (tmp_path / name).read_text())
        for name in ("index.html", "tasks/copy.html", "tasks/sort.html")
    ]
    assert images[0] != images[1]


def test_hostile_names_stay_in_the_folder_and_are_text(tmp_path: Path) -> None:
    made = [trained(text, text, 0, 0.5) for text in HOSTILE]
    write_site(tell_apart(sound(made), print), "t", tmp_path / "site", plots=False)
    assert {p.name for p in tmp_path.iterdir()} == {"site"}
    links = linked(tmp_path / "site")
    labels = {one["label"] for one in made}
    tasks = labels - {""}  # without a name, none
    assert len(links) == 1 + len(labels) + len(tasks)


def test_a_site_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="must take a site"):
        write_site(records(), "t", tmp_path / "file", plots=False)


def test_the_command_writes_a_site_of_several_folders(
    tmp_path: Path, posenc: Command
) -> None:
    one = stored(tmp_path / "one", [curve("rope", [1.0, 2.0])])
    two = stored(tmp_path / "two", [curve("alibi", [1.5, 2.5])])
    site = tmp_path / "site"
    done = posenc("report", one, two, "--site", site)
    assert (done.returncode, done.stdout) == (0, f"{site / 'index.html'}\n")
    assert {p.name for p in (site / "schemes").iterdir()} == {"rope.html", "alibi.html"}
    assert "<h1>one + two</h1>" in (site / "index.html").read_text()
    assert not (one / "report.html").exists()
    assert len(load_records([one, two], print)) == 2
    done = posenc("report", one, "--site", site, "--out", tmp_path / "a.html")
    assert done.returncode == 2
    assert "report must have --out FILE or --site FOLDER, got both" in done.stderr
