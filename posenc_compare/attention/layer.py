"""One layer of a pass: what attends to what, on which path, and with what logits."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.attention.backends import BACKENDS, ORDER, Path, choose, plain
from posenc_compare.attention.parts import check_parts
from posenc_compare.attention.plan import Plan, check_not_meta
from posenc_compare.attention.request import Join, Request
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Call, Scheme

Choice = Path | Literal["auto"]


@dataclass(frozen=True)
class Explanation:
    """Which path a call takes, and why it takes none of the others.

    Attributes:
        path: that is taken.
        others: why not, in a sentence, for each other path; the fastest path first.
        faster: those of the others that are faster on the device.
    """

    path: Path
    others: dict[Path, str]
    faster: tuple[Path, ...] = ()


@dataclass
class Step:
    """What one layer of a pass computes.

    `state` is the token state of all keys, and `join` is as in `Request.of`.
    """

    plan: Plan
    scheme: Scheme
    layer: int
    q: Tensor
    k: Tensor
    v: Tensor
    state: Tensor | None = None
    join: Join | None = None

    def attend(self, path: Choice) -> Tensor:
        """Return the output, `(batch, heads, query, value_dim)`."""
        return self.attended(path)[1]

    def attend_with_lse(self, path: Choice) -> tuple[Tensor, Tensor]:
        """Return the output, and the log-sum-exp of the logits."""
        check_parts(self.scheme)
        request, out = self.attended(path)
        with _as_given(self.q):
            lse = request.by_rows(plain.log_sum_exp)
        return out, _where_seen(lse, request.call, -torch.inf)[..., 0]

    def explain(self) -> Explanation:
        """Return which path is taken, and why no other."""
        with _as_given(self.q):
            request = self._request()
        why: dict[Path, str] = {n: BACKENDS[n].serves(request) for n in ORDER}
        taken: Path = next(name for name in why if not why[name])
        faster = tuple(why)[: list(why).index(taken)]
        del why[taken]
        first = f"{taken} comes first"
        others: dict[Path, str] = {name: why[name] or first for name in why}
        return Explanation(taken, others, faster)

    def attended(self, path: Choice) -> tuple[Request, Tensor]:
        """Return what the path was asked for, and the output."""
        with _as_given(self.q):
            try:
                request = self._request()
                out = choose(request, path).run(request)
            except RuntimeError as error:
                if torch.compiler.is_exporting():
                    _check_exported(self.scheme, error)
                raise
            return request, _where_seen(out, request.call, 0.0)

    def _request(self) -> Request:
        call = self.plan.call(self.scheme, self.layer, self.q, self.k, self.state)
        if self.v.shape[:3] != self.k.shape[:3]:
            raise ShapeError(
                f"attention: v must have the batch, heads and keys of k, "
                f"{tuple(self.k.shape[:3])}, got {tuple(self.v.shape[:3])}"
            )
        return Request.of(self.scheme, self.plan, call, self.v, self.join)


def logits(plan: Plan, call: Call, scheme: Scheme) -> Tensor:
    """Return the logits of one layer."""
    with _as_given(call.q):
        found = plain.logits(Request.of(scheme, plan, call, call.k))
    return _where_seen(found, call, -torch.inf)


def weights(plan: Plan, call: Call, scheme: Scheme) -> Tensor:
    """Return the weights of one layer."""
    with _as_given(call.q):
        found = plain.weights(Request.of(scheme, plan, call, call.k))
    return _where_seen(found, call, 0.0)


def _as_given(q: Tensor) -> torch.autocast:
    """Return a context that leaves dtypes as they are."""
    check_not_meta("q", q)
    return torch.autocast(q.device.type, enabled=False)


def _check_exported(scheme: Scheme, error: RuntimeError) -> None:
    """Refuse what torch.export cannot record, since it has no numbers to look at."""
    if "data-dependent" in str(error):
        raise ConfigError(
            f"{scheme.name}: must read the values of position ids, got the symbols of "
            f"torch.export; torch.compile would work"
        ) from error


def _where_seen(rows: Tensor, call: Call, otherwise: float) -> Tensor:
    """Return the rows of the queries that see a key, and a number for the others."""
    if call.blind is None:
        return rows
    return rows.masked_fill(call.blind[:, None, :, None], otherwise)
