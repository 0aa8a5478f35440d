"""Whether the default corpus is the text of the results of record.

`stdlib.sha256` has the hash of every file of it, as `sha256sum` writes and checks them.
"""

from importlib.resources import files

from posenc_compare.tasks.corpus import Corpus

OF = "Python 3.11.7"  # whose standard library is pinned


def other_text(corpus: Corpus) -> list[str]:
    """Return a line if the default corpus is another text than the pinned one.

    `corpus` is the default one of this machine.
    """
    place = files("posenc_compare.tasks") / "stdlib.sha256"
    lines = place.read_text("utf-8").splitlines()
    pinned = {name: sha256 for sha256, name in (line.split("  ", 1) for line in lines)}
    either = pinned.keys() | corpus.files.keys()
    unlike = sorted(n for n in either if pinned.get(n) != corpus.files.get(n))
    if not unlike:
        return []
    return [
        f"the corpus is another text than that of the results of record, which is the "
        f"standard library of {OF}: {len(unlike)} of {len(either)} files differ, such "
        f"as {unlike[0]}; numbers of the two cannot be compared"
    ]
