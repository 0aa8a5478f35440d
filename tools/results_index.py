"""Write the index of `results/` and the facts of each folder from its records.

    python tools/results_index.py

A folder has a README.md with a question as its heading and a line `- command: ...`.
This tool writes the other lines, the table in `results/README.md`, and in
`docs/evidence.md` a table of what was computed for each built-in scheme.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from posenc_compare.records.load import load_records
from posenc_compare.records.record import Record
from posenc_compare.registry import SCHEMES

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
IMAGES = ("shapes", "digits")
NONE = "\N{EN DASH}"
COLUMNS = (
    *("miniature", "1500 steps", "6000 steps", "tasks", "image tasks"),
    *("learning rates", "cost", "precision"),
)


def facts(records: list[Record]) -> list[str]:
    """Return the lines that records tell: how many, when, where, by which commits."""
    statuses = Counter(record.status for record in records)
    own = {(record.label, record.measured, record.spec.seed) for record in records}
    seeds = Counter((label, measured) for label, measured, _ in own)
    days = sorted(r.made("started")[:10] for r in records)
    commits = Counter(r.made("git_commit")[:7] for r in records)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
    n = sorted(set(seeds.values()))
    hours = sum(record.seconds for record in records) / 3600
    machines = sorted({r.made("arithmetic") for r in records})
    spread = f"{n[0]}" if len(n) == 1 else f"{n[0]} to {n[-1]}"
    named = [commit for commit, _ in commits.most_common(3) if commit]
    more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
    return [
        f"- records: {counts}; n = {spread}",
        f"- computed: {days[0]} to {days[-1]}, {hours:.1f} hours of one process",
        f"- arithmetic: {', '.join(filter(None, machines)) or 'unknown'}",
        f"- commit: {', '.join(named) or 'unknown'}{more}",
    ]


def refreshed(text: str, lines: list[str]) -> str:
    """Return a README with these lines in place of its own."""
    kept = [
        line
        for line in text.splitlines()
        if not re.match(r"- (records|computed|arithmetic|commit): ", line)
    ]
    place = next(i for i, line in enumerate(kept) if line.startswith("- command: "))
    return "\n".join([*kept[: place + 1], *lines, *kept[place + 1 :]]) + "\n"


def evidence(records: Iterable[tuple[str, Record]]) -> list[str]:
    """Return a table of how much there is for each scheme, with any options.

    Records are given with their folder. Cells count seeds, tasks or learning rates;
    schemes with the same counts share a row.
    """
    found: defaultdict[tuple[str, str], set[object]] = defaultdict(set)
    for folder, record in records:
        setting, name = record.spec.setting, record.spec.scheme.name
        steps, tuned = setting.get("steps"), folder.startswith("ablations/rate")
        if record.status != "ok":
            continue
        if record.measure in ("attention_cost", "precision"):
            column = "precision" if record.measure == "precision" else "cost"
            found[name, column].add("yes")
        elif folder == "quick" and record.measure == "extrapolation":
            found[name, "miniature"].add(record.spec.seed)
        elif record.task == "language" and tuned:
            found[name, "learning rates"].add(setting.get("learning_rate"))
        elif record.task == "language" and setting.get("split", "test") == "test":
            if (setting.get("width"), setting.get("length")) == (128, 128):
                found[name, f"{steps} steps"].add(record.spec.seed)
        elif record.task not in ("", "language"):
            column = "image tasks" if record.task in IMAGES else "tasks"
            found[name, column].add(record.task)

    def cell(name: str, column: str) -> str:
        some = found[name, column]
        return "yes" if some == {"yes"} else str(len(some) or NONE)

    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in SCHEMES.entries():
        alike[tuple(cell(name, column) for column in COLUMNS)].append(f"`{name}`")
    return [
        f"| schemes | {' | '.join(COLUMNS)} |",
        "|---|" + "---:|" * len(COLUMNS),
        *(
            f"| {', '.join(names)} | {' | '.join(cells)} |"
            for cells, names in alike.items()
        ),
    ]


def filled(path: Path, lines: list[str]) -> None:
    """Put lines between the marks of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text("\n".join([before + BEGIN, *lines, END + after]))


def read(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    return load_records(folder, lambda line: None, arrays=False)


def main() -> None:
    """Refresh every folder, the index and the table of schemes."""
    rows = ["| folder | question | records |", "|---|---|---|"]
    every = [("quick", one) for one in read(ROOT / "posenc_compare/reference/quick")]
    for path in sorted(RESULTS.glob("*/*/README.md")):
        records = read(path.parent)
        every += [(str(path.parent.relative_to(RESULTS)), one) for one in records]
        lines = facts(records)
        path.write_text(refreshed(path.read_text(), lines))
        name = path.parent.relative_to(RESULTS)
        question = path.read_text().partition("\n")[0].removeprefix("# ")
        records = lines[0].removeprefix("- records: ")
        rows.append(f"| [{name}]({name}) | {question} | {records} |")
    filled(RESULTS / "README.md", rows)
    filled(ROOT / "docs" / "evidence.md", evidence(every))


if __name__ == "__main__":
    main()
