"""Write the index of `results/` and the facts of each folder from its records.

    python tools/results_index.py

A folder has a README.md with a question as its heading and a line `- command: ...`.
This tool writes the other lines, and the table in `results/README.md`.
"""

import re
from collections import Counter
from pathlib import Path

from posenc_compare.records.load import load_records
from posenc_compare.records.record import Record

RESULTS = Path(__file__).parent.parent / "results"
BEGIN, END = "<!-- index: begin -->", "<!-- index: end -->"


def facts(records: list[Record]) -> list[str]:
    """Return the lines that records tell: how many, when, and by which commits."""
    statuses = Counter(record.status for record in records)
    own = {(record.label, record.measured, record.spec.seed) for record in records}
    seeds = Counter((label, measured) for label, measured, _ in own)
    days = sorted(r.provenance.text("started")[:10] for r in records)
    commits = Counter(r.provenance.text("git_commit")[:7] for r in records)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
    n = sorted(set(seeds.values()))
    spread = f"{n[0]}" if len(n) == 1 else f"{n[0]} to {n[-1]}"
    named = [commit for commit, _ in commits.most_common(3) if commit]
    more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
    return [
        f"- records: {counts}; n = {spread}",
        f"- computed: {days[0]} to {days[-1]}",
        f"- commit: {', '.join(named) or 'unknown'}{more}",
    ]


def refreshed(text: str, lines: list[str]) -> str:
    """Return a README with these lines in place of its own."""
    kept = [
        line
        for line in text.splitlines()
        if not re.match(r"- (records|computed|commit): ", line)
    ]
    place = next(i for i, line in enumerate(kept) if line.startswith("- command: "))
    return "\n".join([*kept[: place + 1], *lines, *kept[place + 1 :]]) + "\n"


def main() -> None:
    """Refresh every folder and the index."""
    rows = ["| folder | question | records |", "|---|---|---|"]
    for path in sorted(RESULTS.glob("*/*/README.md")):
        lines = facts(load_records(path.parent, lambda line: None, arrays=False))
        path.write_text(refreshed(path.read_text(), lines))
        name = path.parent.relative_to(RESULTS)
        question = path.read_text().partition("\n")[0].removeprefix("# ")
        records = lines[0].removeprefix("- records: ")
        rows.append(f"| [{name}]({name}) | {question} | {records} |")
    index = RESULTS / "README.md"
    before, _, rest = index.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    table = "\n".join(rows)
    index.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
