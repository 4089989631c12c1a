"""States without units and products: the same numbers as dense states with them, and as samples."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pesn import Forecaster, Gaussian, load, moments
from pesn.activations import get
from pesn.forecasting.context import Uncertainty
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.predict import predict_path
from pesn.statespace.cell import ActivationMoments, Terms
from pesn.statespace.state import Dense
from pesn.systems import cart_pole
from pesn.systems.chaotic import lorenz

DT = 0.02
DESIGNS = {
    "products": Candidate("static 0.5", 0, 1, 50, (1e-8, 1e-7)),
    "lags": Candidate("static 1", 9, 0, 40, (1e-7, 1e-6)),
    "products of two rows": Candidate("static 0.2", 1, 2, 40, (1e-8, 1e-6)),
    "no units": Candidate("none", 1, 2, 0, (1e-9, 1e-8)),
}


@cache
def fitted(design, noise=0.0):
    y = lorenz(steps=1060, rng=0).states
    y = y + noise * y.std(axis=0) * np.random.default_rng(1).standard_normal(y.shape)
    return Forecaster(design=Design(DESIGNS[design]), measurement_noise=noise * y.std(axis=0)).fit(y[:1000]), y[1000:]


@cache
def driven():
    """The cart pole: controls, kinematics, an angle that the network sees by its sine and cosine, and ignorable positions."""
    runs = cart_pole.simulate(runs=3, steps=300, rng=0)
    kinematics = np.array([[1, 0, DT / 2, 0], [0, 1, 0, DT / 2]]), DT / 2 * np.eye(2), np.zeros(2)
    model = Forecaster(design=Design(DESIGNS["products"]), learn=[2, 3], kinematics=kinematics, angles=[1], ignorable=[0])
    return model.fit(runs.states, runs.inputs, lengths=runs.lengths), runs


def assert_equal_paths(model, y, u, ahead, uncertainty=None):
    """Compare paths of the reduced and of the dense state from rows, scaled; both without an ensemble."""
    given, paths = model.model_.context_filter(), []
    own = replace(model.loop(), switches_to_ensemble=False)
    assert own.reduced
    for loop in (own, replace(own, reduced=False)):
        begun = given.begin(loop, y, u[: len(y) - 1], uncertainty or Uncertainty.none(y, np.zeros((len(y), u.shape[1]))))
        paths.append(predict_path(loop, given.with_input(loop, begun, ahead[0]), ahead))
    small, dense = paths
    assert small.state.mean.shape[-1] < dense.state.mean.shape[-1] - 20
    # where an ensemble does not replace them: beyond half the width of the attractor no closed form is accurate
    wide = np.sqrt(np.einsum("kii->ki", dense.cov)).max(axis=1) > 0.5
    at = [k - 1 for k in (1, 5, 20, 50) if k <= len(ahead) and not wide[:k].any()]
    assert len(at) >= min(2, len(ahead))
    std, other = (np.sqrt(np.einsum("kii->ki", path.cov))[at] for path in paths)
    assert np.abs(std / other - 1.0).max() < 0.01
    assert (np.abs(small.mean[at] - dense.mean[at]) / other).max() < 0.01
    for part in ("state", "noise", "weights"):
        assert (np.abs(small.parts[part][at] - dense.parts[part][at]) / np.square(other)).max() < 0.02


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("design", DESIGNS)
def test_reduced_states_have_the_moments_of_dense_ones(design, noise):
    model, later = fitted(design, noise)
    y = model.standardize(later[:30], np.zeros((30, 0)))[0]
    if noise:
        y[-3:, 1] = np.nan
    assert_equal_paths(model, y, np.zeros((30, 0)), np.zeros((50, 0)))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_same_with_controls_kinematics_and_angles(rows):
    model, runs = driven()
    y, u = model.standardize(runs.states[100:150], runs.inputs[100:150])
    assert_equal_paths(model, y[:rows], u, u[rows - 1 : rows + 19] if rows < 30 else u[rows - 1 :])
    uncertainty = Uncertainty(np.broadcast_to(0.01 * np.eye(4), (rows, 4, 4)), np.zeros((rows, 1)))
    assert_equal_paths(model, y[:rows], u, u[rows - 1 : rows + 9], uncertainty)


def terms(weights, products=0.0, curved=True):
    rng = np.random.default_rng(0)
    A, b, Q = rng.uniform(-1.0, 1.0, (30, 3)), rng.uniform(-1.0, 1.0, 30), rng.normal(size=(2, 3, 3))
    units, V = ActivationMoments(get("tanh")), weights * rng.normal(size=(2, 30))
    return Terms(np.array([1, 2, 4]), A, b, units, V, products * (Q + Q.mT), curved)


@pytest.mark.parametrize(("std", "within"), [(1e-3, 2e-3), (0.1, 3e-3), (0.3, 0.02)])
def test_terms_have_the_moments_of_samples(std, within, monkeypatch):
    """Products alone have them exactly, units up to terms of third order in the covariance."""
    rng = np.random.default_rng(1)
    mean, root = rng.normal(size=5), std * rng.normal(size=(5, 5)) / np.sqrt(5.0)
    state = Dense(mean, 5, np.zeros((5, 0)), root @ root.T)
    draws = rng.standard_normal((200_000, 5))
    x = mean + np.concatenate([draws, -draws]) @ root.T
    K, k = rng.normal(size=(5, 5)), rng.normal(size=5)
    for these in (terms(0.3, 0.2), terms(0.0, 0.5), terms(1.0)):
        moved = state.affine_with_terms(K, k, these)
        after = x @ K.T + k
        after[:, :2] += these(x[:, these.places])
        size = np.sqrt(moved.variances())
        assert (np.abs(moved.mean - after.mean(axis=0)) < within * size).all()
        assert (np.abs(moved.cov - np.cov(after.T)) < 3.0 * within * size[:, None] * size).all()
        first = state.affine_with_terms(K, k, replace(these, curved=False))
        np.testing.assert_array_equal(first.mean, moved.mean)
        assert (first.variances() <= moved.variances()).all()
        monkeypatch.setattr("pesn.statespace.cell._MOST_CURVES", 0)  # units are of first order, products still exact
        without = state.affine_with_terms(K, k, replace(these))
        assert (first.variances() <= without.variances()).all()
        if not these.weights.any():
            np.testing.assert_array_equal(without.cov, moved.cov)
        monkeypatch.undo()


def test_a_batch_agrees_with_single_states_and_zero_and_huge_variances_are_finite():
    rng = np.random.default_rng(2)
    K, k, these = np.eye(5), np.zeros(5), terms(1.0, 1.0)
    roots = np.array([0.0, 1e-150, 0.1, 10.0, 1e100])[:, None, None] * rng.normal(size=(5, 5, 5))
    batch = Dense(rng.normal(size=(5, 5)), 5, rng.normal(size=(5, 5, 2)), roots @ roots.mT)
    many = batch.affine_with_terms(K, k, these)
    assert np.isfinite(many.mean).all()
    assert np.isfinite(many.cov).all()
    assert not many.cov[0].any()
    np.testing.assert_allclose(many.mean[0, :2], batch.mean[0, :2] + these(batch.mean[0, these.places]), rtol=1e-12)
    for i in range(3):
        one = batch.part(i).affine_with_terms(K, k, these)
        for name in ("mean", "cov", "cross"):
            np.testing.assert_allclose(getattr(one, name), getattr(many, name)[i], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("std", [0.0, 1e-300, 1e-3, 0.019, 0.09, 0.24, 0.3, 2.0, 1e10, 1e150])
def test_expectations_agree_with_quadrature(std):
    mean, units = np.concatenate([np.linspace(-3.0, 3.0, 7), [-50.0, 1e300]]), ActivationMoments(get("tanh"))
    var = np.full(mean.shape, std**2)
    first, second, third = units.expectations(mean, var)
    np.testing.assert_allclose(first, moments("tanh", mean, var, method="exact").mean, atol=1e-8)
    np.testing.assert_allclose(second, units.gain(mean, var), atol=1e-7)
    np.testing.assert_allclose(third, units.slopes(mean, var)[1], atol=1e-3)


def test_saved_models_and_changed_settings_keep_the_forecast(tmp_path):
    model, later = fitted("products of two rows", 0.01)
    ahead = model.forecast(10)
    model.save(tmp_path / "model.pesn")
    again = load(tmp_path / "model.pesn")
    np.testing.assert_array_equal(again.forecast(10).joint, ahead.joint)
    again.esn_.covariance = "low-rank"  # with units: the stored state gets their entries
    np.testing.assert_allclose(again.forecast(10).std, ahead.std, rtol=0.02)
    updated, other = model.model_.update(later[:5]), again.model_.update(later[:5])
    np.testing.assert_allclose(other.forecast(10).std, updated.forecast(10).std, rtol=0.02)


def test_uncertain_rows_widen_a_forecast():
    model, later = fitted("products")
    plain = model.forecast(5, later[:1])
    wide = model.forecast(5, Gaussian(later[:1], var=1e-4 * later[:1] ** 2))
    assert (wide.std[0] > 3.0 * plain.std[0]).all()


def test_rollouts_on_tensors_agree_with_those_on_arrays():
    torch = pytest.importorskip("torch")
    from pesn.adapters.torch import rollout

    model, runs = driven()
    for rows in (1, 20):
        start = model.start((runs.states[:rows], runs.inputs[: rows - 1]))
        controls = runs.inputs[rows : rows + 10]
        mean, cov = rollout(model, torch.tensor(controls), start)
        arrays = model.rollout(controls, start)
        assert (np.abs(mean.numpy() - arrays.mean[0]) < 0.01 * arrays.std[0]).all()
        np.testing.assert_allclose(np.sqrt(np.diagonal(cov.numpy(), axis1=-2, axis2=-1)), arrays.std[0], rtol=0.01)
