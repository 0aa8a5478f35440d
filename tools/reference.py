"""Put the records of a run into the package, for `rank` to compare with.

    python tools/reference.py ARCHIVE FOLDER...

Folders are those of `run --preset ARCHIVE`. The scorecard's measures are kept, without
arrays, which tables do not need.
"""

import sys
from pathlib import Path

from posenc_compare.cli.rank import MEASURES
from posenc_compare.records.store import ARCHIVE, Store, encode_record, pack_records
from posenc_compare.validate import write_file

PLACE = Path(__file__).parent.parent / "posenc_compare" / "reference"


def main(name: str, folders: list[Path]) -> None:
    """Write the packed file."""
    texts = {}
    for body in (body for folder in folders for body in Store(folder).records()):
        key = body.pop("key")
        if body["spec"]["measure"]["name"] in MEASURES.split(","):
            texts[key] = encode_record({**body, "arrays": {}})
    data = pack_records(texts)
    (PLACE / name).mkdir(parents=True, exist_ok=True)
    write_file(PLACE / name / ARCHIVE, data)
    print(f"{len(texts)} records, {len(data)} bytes")


if __name__ == "__main__":
    main(sys.argv[1], list(map(Path, sys.argv[2:])))
