"""Dual chunk attention (DCA).

Cuts the text into chunks and rotates within each as RoPE does. Keys of earlier chunks
keep their place in their chunk, and queries see them from one constant place; only the
first queries of a chunk see the chunk before at its true distances.

Formula: RoPE's logit where query i and key j are of one chunk, and, at
`i % chunk < local`, where j is of the chunk before; else that of a query at `far` and a
key at `j % chunk`.
Source: An et al. 2024, arXiv:2402.17463, sections 3 and 4; its released code,
ChunkLlama (chunkllama_attn_replace.py, chunkqwen_attn_replace.py, and
DualChunkRotaryEmbedding of its vLLM).
Direction: causal.
Convention: the code's chunk_len is `chunk`, its chunk_size `chunk + local`. Where the
paper's successive attention is not at `far`, its positions differ as the ids do.
Departs: the paper's `far` is the last position of training; released, it is
`chunk + local`, or `2 * chunk - 1` if that is less. The paper's chunk is 3/4 of the
training length and its local window the rest; with these, the released `far` was never
trained.
Left out: the code's temperature for longer texts; the paper's results do without it.
Chunks begin at multiples of `chunk`, so logits are no function of the distance alone.
It is meant for evaluating networks trained with RoPE; training with it is our
extension. Each pair needs two products, so it runs on the execution path `plain`.
"""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Published, Scheme, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "dual_chunk",
    family="rotary",
    source="An et al. 2024, arXiv:2402.17463",
    identities="equals `rope` within one chunk; is not relative; reads no distance "
    "beyond the training length, for training lengths of 4 and more",
    checked="paper, authors' code; they differ, see `far`",
)
class DualChunk(Wrapper):
    """Rotate by the relative position within chunks. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated; `length` is that of training.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        chunk: positions of a chunk; 0 means 5/8 of the training length, 2560 of 4096
            in the code's defaults.
        local: queries at the start of a chunk that see the chunk before as RoPE does;
            0 means 1/8 of the training length, 512 of 4096 in the code's defaults.
        far: where queries stand for other keys of earlier chunks; 0 means
            `chunk + local`, as released; the paper has the training length minus 1.
    """

    published: ClassVar = {
        "chunk": Published(2560, trained_at=4096),
        "local": Published(512, trained_at=4096),
    }

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        chunk: int = 0,
        local: int = 0,
        far: int = 0,
    ) -> None:
        for option, value in (("chunk", chunk), ("local", local)):
            if value < 0:
                raise ConfigError(
                    f"dual_chunk: {option} must be at least 0, got {value}"
                )
        inner = Variant("rope", {"base": base, "layout": layout})
        super().__init__(geometry, inner.build(geometry))
        self.chunk = chunk or geometry.positions(self.published["chunk"])
        self.local = local or geometry.positions(self.published["local"])
        near = self.chunk + min(self.local, self.chunk) - 1
        if far != 0 and far < near:
            raise ConfigError(
                f"dual_chunk: far must be 0 or at least {near}, where the last local "
                f"query stands, got {far}"
            )
        self.far = far or self.chunk + min(self.local, self.chunk - 1)
        self.facts = replace(self.facts, causal_only=True, relative=False)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        q_far, k_far, near = call.once(
            self, "far", call.q_positions, lambda: self._far(call)
        )
        q = super().query(call.q, q_far, call)
        k = super().key(call.k, k_far, call)
        far = q.to(logits.dtype) @ k.to(logits.dtype).mT * self.scale(q.shape[-1])
        return torch.where(near, logits, far)

    def _far(self, call: Call) -> tuple[Tensor, Tensor, Tensor]:
        """Return where far pairs read queries and keys, and which pairs are near."""
        queries, keys = call.q_positions[:, :, None], call.k_positions[:, None, :]
        behind = queries // self.chunk - keys // self.chunk
        reach = (queries % self.chunk < self.local).long()
        return (
            torch.full_like(call.q_positions, self.far),
            call.k_positions % self.chunk,
            (behind <= reach)[:, None],
        )

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        return {}  # its numbers serve texts of any length
