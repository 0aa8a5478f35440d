"""A small pre-norm decoder, the same for every scheme.

Weights start from a generator of their own, separate from the scheme's parameters,
so that the same seed gives every scheme the same initial network.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.attention import CAUSAL, Mask, Session
from posenc_compare.attention.ids import check_placed
from posenc_compare.errors import UnfitError
from posenc_compare.schemes import Geometry, Scheme, Variant, check_axes
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.setting import Convolution, Norm, Pool
from posenc_compare.settings.training import NetworkKind
from posenc_compare.train.convolution import CONVOLUTIONS, Still

BYTES = 256
NORMS: dict[Norm, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class Layer(nn.Module):
    """Pre-norm attention and a two-layer perceptron, each added to its input.

    Queries start as large as the scheme's paper has them: T5, which does not divide
    by sqrt(head_dim), starts them smaller by that factor.
    """

    def __init__(
        self,
        width: int,
        scheme: Scheme,
        heads: int,
        norm: Norm,
        convolution: type[Still],
    ) -> None:
        super().__init__()
        self.heads = heads
        self.query_gain = scheme.query_init_gain(width // heads)
        self.attention_norm = NORMS[norm](width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = NORMS[norm](width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.convolution = convolution(width, heads)

    def forward(
        self, x: Tensor, session: Session, layer: int, first: int = 0
    ) -> Tensor:
        """Return `(batch, seq - first, width)`, with this layer's part added to `x`.

        `x` is `(batch, seq, width)`; the result begins at place `first`.
        """
        q, k, v, seen = self.projected(x)
        near = max(0, first - self.convolution.reach)
        q = q if self.query_gain == 1 else q * self.query_gain
        read = session.attend(layer, q, k, v, x=seen)
        read = rearrange(read[:, :, near:], "b head seq d -> b seq (head d)")
        x = x[:, near:] + self.out(read)
        hidden = self.up(self.convolution.read(self.mlp_norm(x)))
        x = x + self.down(F.gelu(self.convolution.hidden(hidden)))
        return x[:, first - near :]

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries, keys and values, and what they are projections of.

        Returns:
            Three of `(batch, heads, seq, head_dim)`, and `(batch, seq, width)`.
        """
        seen = self.convolution.attended(self.attention_norm(x))
        made = self.convolution.projected(
            self.query(seen), self.key(seen), self.value(seen), seen
        )
        q, k, v = (
            rearrange(part, "b seq (head d) -> b head seq d", head=self.heads)
            for part in made
        )
        return q, k, v, seen


class Decoder(nn.Module):
    """A language model with tied input and output embeddings.

    Positions may have `axes` axes; a scheme of one axis always fits, and one of more
    axes fits where there are several. An encoder has no causal mask. A classifier is an
    encoder that averages its outputs over all places, or reads the output of a class
    token. This token precedes the others and has no position.

    Raises:
        ConfigError: if a scheme has other axes, or needs the causal mask that an
            encoder lacks, or the position that a class token lacks.
    """

    def __init__(
        self,
        variant: Variant,
        layers: int,
        geometry: Geometry,
        seed: int,
        vocabulary: int = BYTES,
        norm: Norm = "layer",
        convolution: Convolution = "none",
        axes: int = 1,
        network: NetworkKind = "decoder",
        pool: Pool = "mean",
    ) -> None:
        super().__init__()
        width = geometry.model_dim
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed("scheme", seed))
            schemes = [variant.build(replace(geometry, layers=layers))]
            own = schemes[0].facts.axes
            if own != 1 and not 1 < axes <= own:
                check_axes(schemes[0], axes)
            if schemes[0].facts.per_layer:
                schemes += [
                    variant.build(replace(geometry, layer=layer, layers=layers))
                    for layer in range(1, layers)
                ]
        self.mask = CAUSAL if network == "decoder" else Mask(causal=False)
        self.averages = network == "classifier"
        for scheme in schemes:
            check_causal(scheme, self.mask, network)
            if pool == "class":
                check_placed(scheme)
        self.embedding = nn.Embedding(vocabulary, width)
        self.own: Sequence[Scheme] = schemes
        self.schemes = nn.ModuleList(schemes)
        self.reading: Sequence[Scheme] = schemes
        kind = CONVOLUTIONS[convolution]
        self.layers = nn.ModuleList(
            Layer(
                width,
                schemes[i % len(schemes)],
                geometry.heads,
                norm,
                Still if i and kind.once else kind,
            )
            for i in range(layers)
        )
        self.final_norm = NORMS[norm](width)
        self.class_token = nn.Parameter(torch.empty(width)) if pool == "class" else None
        self._initialise(seed)

    @property
    def axes(self) -> int:
        """Return how many coordinates a position has."""
        return self.own[0].facts.axes

    def drop_schemes(self) -> None:
        """Go on without positions, for good: `nope` takes the place of every scheme.

        Where a scheme has another `scale` than `nope`, queries take it over. What it
        multiplies at other hooks, as the temperature of YaRN, goes with it.
        """
        nope = Variant("nope")
        dropped = [nope.build(scheme.geometry) for scheme in self.own]
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            before, after = (
                schemes[number % len(schemes)].scale(
                    layer.query.out_features // layer.heads
                )
                for schemes in (self.own, dropped)
            )
            layer.query_gain *= before / after
        self.own = self.reading = dropped

    @contextmanager
    def use_schemes(self, schemes: Sequence[Scheme]) -> Iterator[None]:
        """Use others in place of `schemes`, one for one, with the weights as they are.

        The first of them also acts before the first layer.
        """
        self.reading = schemes
        try:
            yield
        finally:
            self.reading = self.own

    def _initialise(self, seed: int) -> None:
        """Draw the weights, as `docs/training.md` explains.

        Token vectors start at one per channel, so that no code drowns them and they
        drown none.
        """
        generator = torch.Generator().manual_seed(stream_seed("weights", seed))
        others = torch.Generator().manual_seed(stream_seed("convolution", seed))
        if self.class_token is not None:  # as large as a token vector
            draw = torch.Generator().manual_seed(stream_seed("class token", seed))
            nn.init.normal_(self.class_token, 0, 1, draw)
        width = self.embedding.embedding_dim
        nn.init.normal_(self.embedding.weight, 0, width**-0.5, generator)
        for layer in self.layers:
            for name, part in layer.named_children():
                if isinstance(part, Still):
                    part.start(others)
                if isinstance(part, nn.Linear):
                    std = part.in_features**-0.5
                    if name in ("out", "down"):
                        std *= (2 * len(self.layers)) ** -0.5
                    nn.init.normal_(part.weight, 0, std, generator)
                    if part.bias is not None:
                        nn.init.zeros_(part.bias)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        generator: torch.Generator | None = None,
        first: int = 0,
        sides: tuple[int, int] = (0, 0),
    ) -> Tensor:
        """Return logits of the token at each place.

        Args:
            tokens: `(batch, seq)` int64.
            positions: `(seq,)` int64, or `(seq, axes)`.
            generator: of position ids, where the scheme draws them.
            first: the place from which on logits are wanted. In the last layer the
                places before it take part in attention alone.
            sides: rows and columns of an image; of a text, one row of its length.

        Returns:
            `(batch, seq - first, vocabulary)`.
        """
        session = self.session(tokens, positions, generator)
        return self.read(tokens, session, first, sides)

    def session(
        self,
        tokens: Tensor,
        positions: Tensor,
        generator: torch.Generator | None = None,
    ) -> Session:
        """Return the session of a forward pass; it reads ids, which no graph can."""
        placed = None
        if self.class_token is not None:
            positions = torch.cat([positions[:1], positions])
            placed = torch.arange(len(positions)) > 0
        session = Session(
            self.reading,
            positions,
            mask=self.mask,
            generator=generator,
            batch=len(tokens),
            placed=placed,
        )
        session.send(tokens.device)
        return session

    def read(
        self,
        tokens: Tensor,
        session: Session,
        first: int = 0,
        sides: tuple[int, int] = (0, 0),
    ) -> Tensor:
        """Return what `forward` does; torch.compile makes one graph of it."""
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        first_token = 0 if self.class_token is None else 1
        if self.class_token is not None:
            own = self.class_token.expand(len(x), 1, -1).to(x.dtype)
            x = torch.cat([own, x], dim=1)
        x = session.embed(x)
        last = len(self.layers) - 1
        start = first if self.mask.causal else 0
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x = layer(x, session, number, start if number == last else 0)
            x = layer.convolution.behind(x, sides, first_token)
        x = self.final_norm(x)
        if not self.averages:
            return F.linear(x[:, first - start :], self.embedding.weight)
        pooled = x.mean(dim=1, keepdim=True) if self.class_token is None else x[:, :1]
        logits = F.linear(pooled, self.embedding.weight)
        return logits.expand(-1, tokens.shape[1] - first, -1)


def check_causal(scheme: Scheme, mask: Mask, network: NetworkKind) -> None:
    """Refuse a scheme that needs a causal mask, where there is none."""
    if scheme.facts.causal_only and not mask.causal:
        raise UnfitError(
            f"{scheme.name}: needs a causal mask, got the network {network} "
            f"without one; rope would work"
        )


def ids_of(*purpose: str | int) -> torch.Generator:
    """Return the generator of random position ids for one forward pass."""
    return torch.Generator().manual_seed(stream_seed("positions", *purpose))
