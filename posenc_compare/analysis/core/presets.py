"""Named presets of sizes for a comparison."""

from posenc_compare.analysis.core.settings import Training

PRESETS: dict[str, tuple[Training, int]] = {
    "quick": (Training(steps=150, longest=8, test_bytes=4096), 3),
    "standard": (
        Training(length=128, steps=1500, learning_rate=4e-3, test_bytes=65_536),
        6,
    ),
    "gpu": (
        Training(
            layers=6,
            width=384,
            heads=6,
            length=512,
            steps=5000,
            batch=64,
            learning_rate=1e-3,
            test_bytes=524_288,
            dtype="bfloat16",
            compiled=True,
        ),
        10,
    ),
}
"""Training setting and number of seeds by preset."""
