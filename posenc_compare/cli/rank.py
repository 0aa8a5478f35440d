"""The command that finds the rank of a scheme among all built-in ones."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_compare.cli.check import by_cause, checked, schemes_in
from posenc_compare.cli.config import configured
from posenc_compare.cli.console import progress, say, say_stopped, show_tables
from posenc_compare.cli.options import OnPaper, with_options
from posenc_compare.errors import ConfigError
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work
from posenc_compare.variants import labelled

if TYPE_CHECKING:
    from posenc_compare.records.cells import Cell
    from posenc_compare.records.record import Record
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import Comparison
    from posenc_compare.show.format import Table

MEASURES = "extrapolation,uniqueness,shift_linearity,shift_error,perturbation,cost"
CONTROLS = ("nope", "alibi", "rope")  # trained again where the machine differs
ALLOWED = {"preset", "seeds", *Work.__dataclass_fields__}


@with_options(
    *("config", "set", "plugins", "preset", "out", "workers", "timeout"),
    out="runs/rank-PRESET/NAME",
)
def rank(
    scheme: Annotated[
        str,
        typer.Argument(
            help="Schemes, as in run --schemes, or a Python file that registers some."
        ),
    ],
    format: OnPaper = "table",
    **options: Any,
) -> int:
    """Rank your own scheme among the built-in ones.

    The command checks, measures and trains the scheme with the settings of the preset.
    Records of the built-in schemes come with the package. There are none for the preset
    gpu, which is therefore refused.
    """
    with configured(options, ALLOWED) as given:
        chosen: Body = dict(given)
        preset = str(chosen.setdefault("preset", "quick"))
        reference_of(preset)
        if scheme.endswith(".py"):
            chosen["plugins"] = [*chosen.get("plugins", []), scheme]
            scheme, folder = schemes_in(scheme), Path(scheme).stem
        else:
            folder = _file_name(scheme)
        out = Path(chosen.pop("out", None) or f"runs/rank-{preset}/{folder}")
        return _rank(scheme, chosen, out, preset, format)


def _file_name(label: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", label)[:64]


def reference_of(preset: str) -> Path:
    """Return the folder of the records that come with the package."""
    from posenc_compare.records.load import REFERENCE

    places = {one.name: one for one in sorted(REFERENCE.glob("[!_]*/"))}
    if preset not in places:
        raise ConfigError(
            f"preset must have reference records, got {preset}; "
            f"{' or '.join(places)} would work",
            field="preset",
        )
    return places[preset]


def reference_records(preset: str) -> "list[Record]":
    """Return the records that come with the package, by the labels of their schemes.

    A scheme has one row: seeds may come from several processors, and of several
    versions of its code the newest counts.
    """
    from posenc_compare.records.labels import without_settings
    from posenc_compare.records.load import load_records
    from posenc_compare.records.selection import newest

    known = load_records(reference_of(preset), lambda line: None, arrays=False)
    return newest(map(without_settings, known))


def _rank(schemes: str, chosen: Body, out: Path, preset: str, format: str) -> int:
    from posenc_compare.records.labels import without_settings
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import plan_comparison
    from posenc_compare.show.differences import rank_table, unranked_table
    from posenc_compare.show.frame import Numbers
    from posenc_compare.show.scorecard import scorecard
    from posenc_compare.show.tables import without_result, write_tables

    known = reference_records(preset)
    # What made cells fail may have been repaired where no key counts it.
    chosen.setdefault("retry", "failed,lost")
    comparison = plan_comparison(schemes, MEASURES, **chosen)
    _check_seeds(known, comparison.cells)
    store = Store(out)
    store.create()  # or refuse the folder, before checks that take a while
    plugins = [str(plugin) for plugin in chosen.get("plugins", [])]
    checked = dict.fromkeys(cell.variant.label for cell in comparison.cells)
    bad = {clean(label, SHORT): _check(label, plugins) for label in checked}
    _compute(comparison, store)
    results = comparison.results(store, say, arrays=False)
    made = [without_settings(one) for one in results.records]
    # Only these records know the documents of the text, so ranks leave them out.
    own = [replace(one, arrays={}) for one in made]
    scored = [r for r in own if r.measure == "extrapolation" and r.status == "ok"]
    # Times of the reference are of another machine.
    others = [r for r in known if r.label not in bad and r.measure != "cost"]
    every = Numbers([*others, *own])
    facts = _differing(known, scored)
    if facts:
        facts.append(_control(known, chosen, Store(out / "control")))
    placed = [k for k in bad if any(r.label == k for r in scored)]
    places = {}
    for label, why in bad.items():
        table = rank_table if label in placed else unranked_table
        found = table(_of_common_seeds(every, label, bad), label)
        first = [f"{label} {why}"] if why else []
        places[label] = replace(found, lines=(*first, *found.lines, *facts))
    numbers = Numbers(made)
    card = scorecard(numbers)
    failed = without_result([r for r in own if r.label in placed])
    tables = [*filter(None, [card]), *places.values(), *failed]
    show_tables(tables, format)
    written = write_tables(numbers, out, tables)
    _write(every, places, placed, out, written)
    if placed:
        say(
            f"`posenc-compare table {shlex.quote(str(out))} "
            f"{shlex.quote(str(reference_of(preset)))} --baseline "
            f"{shlex.quote(placed[0])}` compares it with all others"
        )
    for label, why in bad.items():
        if why:
            say(f"{label} {why}")
    return int(any(bad.values()) or bool(results.failed))


def _compute(comparison: "Comparison", store: "Store") -> None:
    """Compute what is missing; if that is stopped, end the command."""
    with progress() as listen:
        stopped_by = comparison.compute(store, listen)
    if stopped_by and stopped_by != "fail_fast":
        say_stopped(comparison, store, stopped_by)
        raise typer.Exit(130)


def _check_seeds(known: "list[Record]", cells: "Iterable[Cell]") -> None:
    """Refuse seeds that no scheme of the reference has, before anything is trained."""
    there = {r.spec.seed for r in known if r.task}
    here = {cell.spec().seed for cell in cells}
    if not there & here:
        raise ConfigError(
            f"rank: seeds must be among those of the reference, {min(there)} to "
            f"{max(there)}, got {min(here)} to {max(here)}; seeds=3 would work",
            field="seeds",
        )
    if unused := ", ".join(map(str, sorted(here - there))):
        say(f"no records of the reference have seed {unused}: ranks leave it out")


def _check(label: str, plugins: list[str]) -> str:
    """Check a scheme and return how many checks failed, in words; "" if none did."""
    _, outcomes = checked(labelled(label), plugins)
    states = Counter(outcome.state for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for codes, _, _, detail in by_cause(failed):
        say(f"{label}: check{'s' * (' ' in codes)} {codes} failed: {detail}")
    say(f"{label}: {states['passed']} checks passed, {states['failed']} failed")
    many = f"{states['failed']} check{'s' * (states['failed'] != 1)}"
    why = f"failed {many}: its scores may mean nothing"
    return why if states["failed"] else ""


def _of_common_seeds(
    records: "list[Record]", label: str, ranked: Collection[str]
) -> "list[Record]":
    """Return records without trainings of seeds that a scheme or the reference lacks.

    Means then differ by the difference that the table prints.
    """
    trained = [r for r in records if r.measure == "extrapolation" and r.status == "ok"]
    own = {r.spec.seed for r in trained if r.label == label}
    seeds = own & {r.spec.seed for r in trained if r.label not in ranked}
    kept = [r for r in records if r.measure != "extrapolation" or r.spec.seed in seeds]
    return kept if seeds else records


def _write(
    every: "list[Record]",
    places: "dict[str, Table]",
    placed: list[str],
    out: Path,
    written: list[Path],
) -> None:
    """Write a plot and all differences of each scheme with a rank, and a page of all.

    Then the names of these files are printed after those `written` before.
    """
    from posenc_compare.show.differences import baseline_tables
    from posenc_compare.show.format import as_csv
    from posenc_compare.show.frame import cell_table
    from posenc_compare.show.plots.rank import rank_plot
    from posenc_compare.show.report import Plate, report_html
    from posenc_compare.validate import write_file

    plates = []
    for label in placed:
        name = f"rank-{_file_name(label)}"
        images = {f: rank_plot(every, label, f) for f in ("png", "pdf")}
        numbers = as_csv(cell_table(baseline_tables(every, label))).encode()
        for ending, data in {**images, "csv": numbers}.items():
            written.append(out / f"{name}.{ending}")
            write_file(written[-1], data)
        caption = "Scores minus those of the scheme, at the length on the axis."
        plates.append(Plate(name, caption, "extrapolation", images["png"]))
    title = f"{', '.join(places)} among all schemes"
    page = report_html(every, title, plates, [*places.values()])
    write_file(out / "rank.html", page.encode())
    for path in [*written, out / "rank.html"]:
        say(str(path))


def _control(known: "list[Record]", chosen: Body, store: "Store") -> str:
    """Compute cells of the reference here and return how far their scores are off.

    `store` is not that of the scheme, whose plots and tables would show them.
    """
    from posenc_compare.run.comparison import plan_comparison

    wanted = {**chosen, "seeds": "0-0", "plugins": []}
    comparison = plan_comparison(",".join(CONTROLS), "extrapolation", **wanted)
    _compute(comparison, store)
    there = _scores(r for r in known if r.spec.seed == 0 and r.label in CONTROLS)
    here = _scores(comparison.results(store, say, arrays=False).records)
    both = there.keys() & here.keys()
    if not both:
        return f"reference cells ({', '.join(CONTROLS)}, seed 0): none to compare"
    off = {place: abs(here[place] - there[place]) for place in sorted(both)}
    most = max(off, key=off.__getitem__)
    label, x = most
    return (
        f"reference cells computed here ({', '.join(CONTROLS)}, seed 0): {len(off)} of "
        f"{len(there)} scores compared; they differ by {mean(off.values()):.2g} bits "
        f"on average, and by {off[most]:.2g} at most ({label} at {x:g}); a "
        f"difference from a neighbour that is no larger may come from the processor"
    )


def _scores(records: "Iterable[Record]") -> dict[tuple[str, float], float]:
    """Return bits per byte by scheme and test length."""
    return {
        (record.label, row.x): row.value
        for record in records
        if record.measure == "extrapolation" and record.status == "ok"
        for row in record.rows
        if row.quantity == "bits_per_byte" and not row.case
        if row.value is not None and row.x is not None
    }


def _differing(known: "list[Record]", own: "list[Record]") -> list[str]:
    """Return lines on what differs between the reference and this machine."""
    lines = []
    for what, facts in (
        ("arithmetic", lambda r: r.made("arithmetic")),
        ("device", lambda r: r.spec.graphics or "CPU"),
        ("number of threads", lambda r: r.spec.threads),
        ("torch", lambda r: r.spec.torch),
        ("package", lambda r: r.spec.modified[:8] or "unmodified"),
        ("version of shared code", lambda r: str(r.spec.numbers)),
    ):
        there = {str(facts(record)) for record in known if record.task}
        here = {str(facts(record)) for record in own if record.task}
        if here - there:
            lines.append(
                f"{what} differs from the reference: {', '.join(sorted(here))} here, "
                f"{', '.join(sorted(there))} there"
            )
    return lines
