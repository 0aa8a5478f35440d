"""A notebook as a script: compare schemes, look at the results, add one of your own."""

from pathlib import Path

import torch

import posenc_compare as pc

# %% Compare two schemes by all measures that train nothing.
results = pc.compare("rope,alibi", measures="untrained", positions=128, seeds=1)
print(results)

# %% Every number is in a pandas table. In a notebook, `table` shows those of a run.
frame = results.frame
nearest = frame.query("quantity == 'nearest_distance_relative'")
print(nearest[["scheme", "value"]].to_string(index=False))
results.table("uniqueness")

# %% A plot is a figure of matplotlib.
results.plot("uniqueness")


# %% A scheme of your own works at once, in your model or by hand.
@pc.register("ramp", family="absolute", source="own example")
class Ramp(pc.Scheme):
    """Add the share of the length to all channels."""

    def embed(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the tokens, moved."""
        return x + (positions / self.geometry.length)[..., None].to(x.dtype)


moved = pc.create("ramp", length=4).embed(torch.zeros(1, 4, 8), torch.arange(4))
print("ramp adds", moved[0, :, 0].tolist())

# %% To compare it, put it into a file: worker processes import it from there.
plugin = Path(__file__).with_name("my_scheme.py")
results = pc.compare("log_bias,alibi", "uniqueness", positions=128, plugins=[plugin])
print(results)
