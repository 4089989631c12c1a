"""Designs of a network that a search compares, and what it found: which reservoir, which features, which ridges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pesn.readout.features import Features
from pesn.reservoir.weights import Reservoir, draw, without_units

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["KINDS", "MAPS", "Candidate", "Design", "Kind"]


class Kind(NamedTuple):
    """A kind of reservoir: spectral radius, leak rate, and the scalings of inputs and bias."""

    spectral_radius: float
    leak_rate: float
    input_scaling: float
    bias_scaling: float


KINDS: dict[str, Kind | None] = {
    "none": None,
    "memory": Kind(0.9, 0.5, 0.5, 0.2),
    "biased memory": Kind(0.9, 0.5, 0.3, 1.0),
    "slow": Kind(0.9, 0.2, 0.3, 0.5),
    "fast": Kind(0.3, 1.0, 0.2, 1.0),
    "fast, weak input": Kind(0.3, 1.0, 0.05, 1.0),
}
MAPS = ((0, 0), (0, 1), (1, 2), (4, 0), (9, 0), (9, 1))  # earlier rows and products: (9, 0) without units is ARX(10), (1, 2) NVAR
MANY_ROWS = 20_000  # from which on one more is tried, the widest
_WIDEST, _ROWS_FOR_EACH = (9, 2), 20  # and rows for each product of two rows
FEW_INPUTS, _MOST_FOR_PRODUCTS = 8, 20  # inputs up to which products of two rows are few, and all products not too many


@dataclass(frozen=True)
class Candidate:
    """One design.

    Parameters
    ----------
    kind
        Of reservoir, a key of :data:`KINDS`; "none" has no units.
    lags, products
        The readout's features (:class:`pesn.Features`).
    n_units
        N.
    ridge
        Penalties on the linear features and on the others.
    input_noise
        Standard deviation of the noise on y in the training inputs, in deviations of each column.
    """

    kind: str
    lags: int
    products: int
    n_units: int = 0
    ridge: tuple[float, float] = (1e-6, 1e-6)
    input_noise: float = 0.0

    @property
    def features(self) -> Features:
        """Of the readout."""
        return Features(self.lags, self.products, self.kind != "none")

    def network(self, n_inputs: int) -> dict[str, Any]:
        """The parameters of a :class:`pesn.ProbabilisticESN` of this design."""
        parameters: dict[str, Any] = {"features": self.features, "ridge": self.ridge}
        kind = KINDS[self.kind]
        if kind is not None:
            scaling = kind.input_scaling * math.sqrt(min(max(n_inputs, 1), 3))  # fewer than three inputs enter as they are
            parameters |= {**kind._asdict(), "input_scaling": scaling, "n_units": self.n_units, "density": self.density}
        return parameters

    @property
    def density(self) -> float:
        """Of W: ten weights a unit at least."""
        return float(min(1.0, max(0.1, 10.0 / self.n_units)))

    def reservoir(self, n_inputs: int, n_outputs: int, seed: int) -> Reservoir:
        """The units, as the network draws them: reservoirs of one size differ by their scalings alone, and are drawn once."""
        kind = KINDS[self.kind]
        if kind is None:
            return without_units(n_inputs, n_outputs)
        drawn, scaling = _drawn(self.n_units, n_inputs, n_outputs, self.density, seed), self.network(n_inputs)["input_scaling"]
        return drawn._replace(
            data=kind.spectral_radius * drawn.data,
            W_in=scaling * drawn.W_in,
            bias=kind.bias_scaling * drawn.bias,
            leak_rate=kind.leak_rate,
        )

    def __str__(self) -> str:
        units = "no units" if self.kind == "none" else f"{self.n_units} units, {self.kind}"
        products = ("", ", products", ", products of two rows")[self.products]
        noise = f", input noise {self.input_noise:g}" if self.input_noise else ""
        return f"{units}, {self.lags} lags{products}, ridge {self.ridge[0]:.0e}, {self.ridge[1]:.0e}{noise}"


@lru_cache(maxsize=3)
def _drawn(n_units: int, n_inputs: int, n_outputs: int, density: float, seed: int) -> Reservoir:
    return draw(
        n_units, n_inputs, n_outputs, spectral_radius=1.0, input_scaling=1.0, bias_scaling=1.0, density=density, rng=seed
    )  # fmt: skip


def maps_for(n_inputs: int, n_rows: int) -> list[tuple[int, int]]:
    """The features that so many inputs and rows allow."""
    enough = n_rows >= max(_ROWS_FOR_EACH * Features(1, 2).n_products(n_inputs), MANY_ROWS)
    most = 0 if n_inputs > _MOST_FOR_PRODUCTS else 2 if n_inputs <= FEW_INPUTS or enough else 1
    maps = (*MAPS, _WIDEST) if enough else MAPS
    return list(dict.fromkeys((lags, min(products, most)) for lags, products in maps))


@dataclass(frozen=True)
class Design:
    """What a search has chosen, and how the others did: ``pesn.Forecaster(design=…)`` fits it again without a search.

    Parameters
    ----------
    candidate
        The design chosen.
    seed
        Of its reservoir and noise.
    tried
        (rung, candidate, score) of all: the mean over steps ahead of the logarithm of the error, in deviations of the columns.
        Scores of one rung can be compared, on later rungs with more units and more forecasts; in the last one, what ARX(10)
        does better at any of 1, 5, 20 and 50 steps ahead has been added.
    """

    candidate: Candidate
    seed: int = 0
    tried: tuple[tuple[int, Candidate, float], ...] = ()

    @property
    def scores(self) -> pd.DataFrame:
        """A row for each design that was tried, the best of the last rung first; the lower the score the better."""
        import pandas as pd

        rows = [{"rung": rung, "score": score, **_flat(candidate)} for rung, candidate, score in self.tried]
        columns = ["rung", "score", *_flat(self.candidate)]
        return pd.DataFrame(rows, columns=columns).sort_values(["rung", "score"], ascending=[False, True], ignore_index=True)

    def check(self, name: str) -> None:
        """A ValueError where it is not a design: asked of what came from a file."""
        tried = [one for _, one, _ in self.tried]
        if any(not isinstance(one, Candidate) or one.kind not in KINDS for one in (self.candidate, *tried)):
            raise ValueError(f"{name} holds a candidate that is none")

    def plot(self, ax: Axes | None = None) -> Axes:
        """The scores of all designs, one row a kind of reservoir and features; the one chosen is marked."""
        from pesn.plotting import plot_design

        return plot_design(self, ax)

    def __str__(self) -> str:
        return str(self.candidate)


def _flat(candidate: Candidate) -> dict[str, Any]:
    values = asdict(candidate)
    linear, others = values.pop("ridge")
    return {**values, "linear_ridge": linear, "ridge": others}


def is_arx(candidate: Candidate) -> bool:
    """Whether it is a linear autoregression of ten rows, which no design may be much worse than."""
    return (candidate.kind, candidate.lags, candidate.products) == ("none", 9, 0)


def shortlist(scored: Sequence[tuple[float, Candidate]], n_units: int) -> list[Candidate]:
    """What goes on from the first rung, with ``n_units``: the best two, the best of other kinds up to five, and ARX(10)."""
    ranked = _near_the_best(scored, 3.0)
    chosen = ranked[:2]
    for candidate in ranked:
        if len(chosen) < 5 and candidate.kind not in {one.kind for one in chosen}:
            chosen.append(candidate)
    chosen += [one for _, one in scored if is_arx(one) and one not in chosen]
    return [replace(one, n_units=0 if one.kind == "none" else n_units) for one in chosen]


def finalists(scored: Sequence[tuple[float, Candidate]], count: int, many: bool) -> list[Candidate]:
    """What goes on from the second rung: the best ``count``, as many kinds at their best, and the best ARX(10).

    With ``many`` more rows to come, the best with each of the products as well: wide features are better for them.
    """
    ranked = _near_the_best(scored, 1.0)
    of_kinds = list({one.kind: one for one in reversed(ranked)}.values())[::-1][:count]
    of_products = list({one.products: one for one in reversed(ranked)}.values()) if many else []
    _, arx = min((one for one in scored if is_arx(one[1])), key=lambda one: one[0])
    return list(dict.fromkeys([*ranked[:count], *of_kinds, *of_products, arx]))


def _near_the_best(scored: Sequence[tuple[float, Candidate]], far: float) -> list[Candidate]:
    """The best first, without those whose score is worse than theirs by more than ``far``: more rows would not make it up."""
    ranked = sorted(scored, key=lambda one: one[0])
    return [candidate for value, candidate in ranked if value <= ranked[0][0] + far]
