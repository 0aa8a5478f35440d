"""The files of a checkpoint."""

import hashlib
from pathlib import Path


def sha256_of(place: Path) -> str:
    """Return the hash of all files of a checkpoint, with their names.

    Those of a folder are in its folders too; those of a GGUF file are itself and what
    lies beside it as JSON, which transformers reads with it.
    """
    folder = place if place.is_dir() else place.parent
    found = folder.rglob("*") if place.is_dir() else [place, *folder.glob("*.json")]
    whole = hashlib.sha256()
    for path in sorted(filter(Path.is_file, found)):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder)} {digest}\n".encode())
    return whole.hexdigest()
