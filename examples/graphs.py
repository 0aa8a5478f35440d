"""Train a graph transformer: positions need not be places in a text.

Task: which of two marked nodes is nearer? The position of a node has several axes: its
entries in Laplacian eigenvectors, the chances that a random walk is back after 1, 2,
... steps, or its number and its distances to all nodes. The distances form a matrix of
pairs that comes with the input, and they contain the answer.

Source: released code for Dwivedi et al. 2020, arXiv:2003.00982 (laplacian), Dwivedi et
al. 2021, arXiv:2110.07875 (random_walk), and Ying et al. 2021, arXiv:2106.05234
(shortest_path). The papers were not read. Left out: edge features, codes that layers
update, and Graphormer's degrees and extra node. Different: initial weights; signs drawn
per graph, not per batch; and no limit of 20 on the distance between nodes that attend.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.attention import Mask, Session
from posenc_compare.schemes import Call, Facts, Scheme, create, register
from posenc_compare.schemes.scheme import check_positions
from posenc_compare.schemes.shared.layers import apply_wide

WIDTH, HEADS, CODES, FARTHEST, MOST = 32, 4, 8, 8, 48


@register("random_walk", family="absolute", source="own example", axes=CODES, real=True)
class RandomWalk(Scheme):
    """Add a linear map of the coordinates to each node."""

    def __init__(self, geometry) -> None:
        super().__init__(geometry)
        self.code = nn.Linear(CODES, geometry.model_dim)
        nn.init.normal_(self.code.weight)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return (x + apply_wide(self.code, positions)).to(x.dtype)


@register("laplacian", family="absolute", source="own example", axes=CODES, real=True)
class Laplacian(RandomWalk):
    """Do the same, with random signs of eigenvectors if there is a generator."""

    def positions(self, positions: Tensor, generator=None) -> Tensor:
        if generator is None:
            return positions
        signs = torch.randint(2, positions[..., :1, :].shape, generator=generator)
        return positions * (2 * signs - 1).to(positions)


@register("shortest_path", family="bias", source="own example", axes=1 + MOST)
class ShortestPath(Scheme):
    """Add a trained number per distance and head; the largest distances share one."""

    facts = Facts(relative=False, known_faults={"C23": f"serves only {MOST} nodes"})

    def __init__(self, geometry) -> None:
        super().__init__(geometry)
        self.table = nn.Parameter(torch.zeros(FARTHEST + 1, geometry.heads))

    def pair_bias(self, call: Call):
        check_positions(self.name, call.k_positions[..., 0], MOST)
        number = call.k_positions[..., 0].expand(len(call.q), -1)
        far = call.q_positions[..., 1:].clamp(0, FARTHEST).expand(len(call.q), -1, -1)
        return lambda b, h, i, j: self.table[far[b, i, number[b, j]], h]


def positions(name: str, edges: Tensor, far: Tensor) -> Tensor:
    """Return the positions of nodes from adjacency and distances."""
    degrees, number = edges.sum(dim=1), torch.arange(edges.shape[1])
    if name == "laplacian":
        root = degrees.clamp(min=1).rsqrt()
        own = torch.where(degrees > 0, 1.0, 3.0)  # puts padding behind eigenvalues to 2
        normal = own.diag_embed() - root[:, :, None] * edges * root[:, None]
        return torch.linalg.eigh(normal).eigenvectors[..., 1 : 1 + CODES]
    if name == "random_walk":
        step = edges / degrees.clamp(min=1)[:, None]
        back = [step.matrix_power(n).diagonal(0, 1, 2) for n in range(1, 1 + CODES)]
        return torch.stack(back, dim=-1)
    if name == "shortest_path":
        own = number.expand(len(edges), -1)[..., None]
        return torch.cat([own, F.pad(far, (0, MOST - len(number)))], dim=-1)
    return number


def draw(count: int, least: int, most: int) -> tuple[Tensor, ...]:
    """Return random trees with extra edges: adjacency, distances, marks and classes.

    A class is the mark of the nearer node, 1 or 2, or 0 for a tie. Nodes of
    class -1 do not count.
    """
    node, sizes = torch.arange(most), torch.randint(least, most + 1, (count, 1, 1))
    parent = (torch.rand(count, most, 1) * node[:, None]).long()
    edges = (torch.rand(count, most, most) < 0.5 / sizes).scatter(2, parent, True)
    real = (node < sizes) & (node[:, None] < sizes)
    edges = (edges | edges.mT) & real & (node != node[:, None])
    far = torch.where(edges, 1, most).masked_fill(node == node[:, None], 0)
    for by in range(most):  # Floyd and Warshall
        far = torch.minimum(far, far[:, :, by, None] + far[:, by, None])
    pair = torch.multinomial(edges.any(dim=2).float(), 2)
    marks = (node == pair[:, :1]) + 2 * (node == pair[:, 1:])
    one, two = far.take_along_dim(pair[..., None], dim=1).unbind(dim=1)
    classes = 1 * (one < two) + 2 * (one > two)
    return edges.float(), far, marks, classes.where(real[:, 0] & (marks == 0), -1)


class Model(nn.Module):
    """A graph transformer of one layer that puts nodes into three classes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.scheme = name, create(name, model_dim=WIDTH, heads=HEADS)
        self.marks, self.qkv = nn.Embedding(3, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.logits = nn.Linear(WIDTH, 3)

    def forward(self, edges: Tensor, far: Tensor, marks: Tensor, generator=None):
        mask = Mask(causal=False, segments=edges.any(dim=2).long())
        ids = positions(self.name, edges, far)
        session = Session(self.scheme, ids, mask=mask, generator=generator)
        x = session.embed(self.marks(marks))
        qkv = self.qkv(F.layer_norm(x, (WIDTH,))).unflatten(2, (3 * HEADS, -1))
        read = session.attend(0, *qkv.transpose(1, 2).chunk(3, dim=1))
        x = x + read.transpose(1, 2).flatten(2)
        x = x + self.back(F.gelu(self.wide(F.layer_norm(x, (WIDTH,)))))
        return self.logits(F.layer_norm(x, (WIDTH,)))


def train(name: str, seed: int, steps: int) -> Model:
    """Train on graphs of 12 to 24 nodes. All schemes get the same graphs of a seed."""
    torch.manual_seed(seed)
    data, model = draw(2048, 12, 24), Model(name)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(seed)
    for rows in torch.randint(2048, (steps, 32), generator=generator):
        *graph, classes = (each[rows] for each in data)
        loss = F.cross_entropy(model(*graph, generator).mT, classes, ignore_index=-1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def accuracy(model: Model, data: tuple[Tensor, ...]) -> float:
    """Return the share of the nodes that a model puts into the right class."""
    *graph, classes = data
    with torch.no_grad():
        right = model(*graph).argmax(dim=2) == classes
    return right[classes >= 0].float().mean().item()


def compare(seeds: tuple[int, ...], steps: int) -> None:
    """Print the share of right classes, at the trained size and at twice that size."""
    torch.manual_seed(99)
    tests = [draw(500, 12, 24), draw(500, 24, 48)]
    counts = [test[3][test[3] >= 0].bincount() for test in tests]
    most = [(count.max() / count.sum()).item() for count in counts]
    table = {"chance": [1 / 3, 1 / 3], "majority": most}
    for name in ("nope", "random_walk", "laplacian", "shortest_path"):
        models = [train(name, seed, steps) for seed in seeds]
        right = [[accuracy(model, test) for model in models] for test in tests]
        table[name] = [sum(found) / len(seeds) for found in right]
    print(f"share of nodes in the right class, mean of {len(seeds)} seeds")
    print(f"{'nodes':14} {'12-24':>8} {'24-48':>8}")
    print(f"{'n':14}", *(f"{count.sum():8}" for count in counts))
    for name, row in table.items():
        print(f"{name:14}", *(f"{share:8.3f}" for share in row))


if __name__ == "__main__":
    compare(seeds=(0, 1), steps=200)
