"""States, cells and naive reference implementations for the tests of all state forms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from pesn.activations import get
from pesn.linalg import orthonormal
from pesn.moments import gain, moments
from pesn.moments.covariance import covariance
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments, Cell, Compression
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.low_rank import FirstOrder, LowRank
from pesn.statespace.model import init
from pesn.statespace.state import Dense, Diagonal


def world(
    n=8, p=2, *, leak=0.6, seed=0, outputs=2, scale=0.8, bias=0.3, rank=20, products=4, activation="tanh", method="surface",
    rotation=None,
):  # fmt: skip
    """Return a reservoir of n units driven by p carried entries, with its readout and compression."""
    rng = np.random.default_rng(seed)
    reservoir = draw(n, p, outputs, density=min(1.0, 4.0 / n), leak_rate=np.max(leak), bias_scaling=bias, rng=seed)
    A = sparse.hstack([scale * sparse.csr_array(reservoir.W_in), reservoir.W], format="csr")
    units = ActivationMoments(get(activation), method)
    readout = rng.normal(size=(outputs, n)) / np.sqrt(n)
    compression = Compression(rank, orthonormal(readout.T), products)
    return SimpleNamespace(
        n=n, p=p, carry=slice(0, p), units=slice(p, p + n), readout=readout, reservoir=reservoir,
        cell=Cell(slice(p, p + n), A, reservoir.bias, leak, units, compression, rotation=rotation), compression=compression,
    )  # fmt: skip


def some(world, form="full", spread=0.3, seed=1):
    """Return a state in which all entries, c and h, are correlated."""
    n, p = world.n, world.p
    rng = np.random.default_rng(seed)
    state = init(form, p, 0.5 * rng.normal(size=n), spread * rng.normal(size=(n + 2, n)) / np.sqrt(n), world.compression)
    K = np.hstack([np.zeros((p, p)), rng.normal(size=(p, len(world.readout))) @ world.readout])
    return state.affine(world.carry, K, 0.3 * rng.normal(size=p), spread * rng.normal(size=(p, p)))


def cov_of(state):
    if isinstance(state, Dense):
        return state.cov
    n = state.mean.shape[-1]
    if isinstance(state, Diagonal):
        return state.var[..., None] * np.eye(n)
    if isinstance(state, Ensemble | FirstOrder):
        return state.cross_covariance(slice(0, n))
    own = np.concatenate([np.zeros((*state.own.shape[:-1], state.carried)), state.own], axis=-1)
    return state.factor @ np.swapaxes(state.factor, -1, -2) + own[..., None] * np.eye(n)


def samples_of(state, count, seed=7):
    values, vectors = np.linalg.eigh(cov_of(state))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return state.mean + np.random.default_rng(seed).standard_normal((count, len(values))) @ root.T


def ensemble_of(state, count=20_000, seed=3, sobol=True):
    """Return an ensemble whose sample mean and covariance equal those of a state up to rounding."""
    z, draws = Draws(seed, sobol).normal((), count, state.mean.shape[-1])
    z = z - z.mean(axis=0)
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / (count - 1))).T
    values, vectors = np.linalg.eigh(cov_of(state))
    return Ensemble(state.mean + z @ (vectors * np.sqrt(np.maximum(values, 0.0))).T, state.carried, draws)


def twin(mean, cov, cell, rest="all"):
    """Move by the plain formulas: the joint covariance of x and f(a), then one linear map."""
    A, L, n, f = cell.matrix.toarray(), np.broadcast_to(cell.leak, len(cell.bias)), len(mean), cell.units.record
    O = np.eye(len(L)) if cell.rotation is None else cell.rotation  # noqa: E741
    a, S = A @ mean + cell.bias, A @ cov @ A.T
    S = 0.5 * (S + S.T)
    v = np.diag(S)
    g, unit = gain(f, a, v), moments(f, a, v)
    out = covariance(f, a, S)
    if rest != "all":
        own, linear = np.diag(unit.var - g * g * v), g[:, None] * S * g
        out = linear + own
        if rest == "second":
            k = (gain(f, a + 1e-5, v) - gain(f, a - 1e-5, v)) / 2e-5
            second = 0.5 * k[:, None] * S**2 * k
            out = linear + second + own - np.diag(np.diag(second))
    cross = cov @ A.T * g
    joint = np.block([[cov, cross], [cross.T, out]])
    M = np.hstack([np.eye(n), np.zeros((n, len(a)))])
    M[cell.rows, cell.rows] = np.diag(1.0 - L) @ O
    M[cell.rows, n:] = np.diag(L)
    return M @ np.concatenate([mean, unit.mean]), M @ joint @ M.T


def close(a, b, tolerance):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(initial=0.0))


def is_covariance(cov):
    assert np.isfinite(cov).all()
    np.testing.assert_array_equal(cov, cov.T)
    values = np.linalg.eigvalsh(cov)
    assert values[0] >= -1e-12 * values[-1]


def agrees_with_samples(mean, cov, x, deviations=5.0):
    """Assert that mean (n,) and covariance (n, n) agree with samples x (count, n) within ``deviations`` standard errors."""
    assert np.all(np.abs(x.mean(axis=0) - mean) <= deviations * x.std(axis=0) / np.sqrt(len(x)) + 1e-14)
    away = x - x.mean(axis=0)
    for i in range(x.shape[1]):
        product = away[:, i : i + 1] * away
        assert np.all(np.abs(product.mean(axis=0) - cov[i]) <= deviations * product.std(axis=0) / np.sqrt(len(x)) + 1e-14)


class LinearUnits:
    """Linear units, f(a) = a, which make the model a linear state-space model."""

    exact = smooth = True

    def activation(self, x):
        return x

    def moments(self, mean, var):
        return mean, var

    def gain(self, mean, var):
        return np.ones_like(mean)

    def slopes(self, mean, var):
        return np.ones_like(mean), np.zeros_like(mean)

    def linearize(self, mean, cov):
        return mean, np.ones_like(mean), np.zeros_like(cov)


def batch_of(states, shape):
    """Stack states of one form into a batch."""

    def stack(name):
        parts = np.stack([getattr(state, name) for state in states])
        return parts.reshape(*shape, *parts.shape[1:])

    first = states[0]
    if isinstance(first, Ensemble):
        return Ensemble(stack("members"), first.carried, first.draws, stack("past"))
    own = {Dense: ("cov",), Diagonal: ("var",), LowRank: ("factor", "own"), FirstOrder: ("factor",)}[type(first)]
    return replace(first, **{name: stack(name) for name in ("mean", "cross", *own)})


@pytest.fixture(scope="session")
def kit():
    """Return the functions of this file."""
    return SimpleNamespace(
        world=world, some=some, cov_of=cov_of, samples_of=samples_of, ensemble_of=ensemble_of, twin=twin, close=close,
        is_covariance=is_covariance, agrees_with_samples=agrees_with_samples, LinearUnits=LinearUnits, batch_of=batch_of,
    )  # fmt: skip
