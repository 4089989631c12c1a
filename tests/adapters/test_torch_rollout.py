"""Tests of rollouts of tensors: they agree with rollouts of arrays for every start and network; gradients are right, also
where bounds are active and columns compressed; single precision and batches work; invalid arguments are errors that name them."""

import numpy as np
import pytest

import pesn
from pesn import activations
from pesn.statespace.cell import ActivationMoments, SineMoments, SquareMoments
from pesn.systems import cart_pole

pytest.importorskip("torch", reason="torch is an extra")

import torch

from pesn.adapters.torch import rollout
from pesn.adapters.torch.loop import make_expectations

F64 = torch.float64
RUNS = cart_pole.simulate(runs=3, steps=200, rng=0)
CONTROLS = np.random.default_rng(1).normal(size=(3, 12, 1))

pytestmark = pytest.mark.usefixtures("one_torch_thread")
STATIC = {"spectral_radius": 1e-9, "leak_rate": 1.0, "features": pesn.Features(lags=1, products=1)}
NETWORKS = {
    "plain": {},
    "no memory": STATIC,
    "lags and products": {"features": pesn.Features(lags=1, products=1)},
    "feedback": {"feedback_scaling": 0.3},
    "noise of the units": {"process_noise": 1e-3, "noise": 1e-3},
    "units that start at 0": {"initial_state": "zero"},
    "sigmoid": {"activation": "sigmoid"},
    "layers and noise": {"layers": [pesn.Layer(12), pesn.Layer(10)], "process_noise": 1e-3, "noise": 1e-3},
    "leaks by unit": {"leak_rate": np.linspace(0.1, 1.0, 12)},
    "orthogonal memory": {"layers": [pesn.Layer(12), pesn.Layer(10)], "memory": "orthogonal", "leak_rate": 0.3},
    "no units": {"features": pesn.Features(lags=1, products=1, states=False)},
}
OPTIONS = {"angles": {"angles": [1], "ignorable": [0]}, "noise on y": {"measurement_noise": 0.02}, "level": {"target": "level"}}


def fitted(n_units=12, network=None, **options):
    esn = pesn.ProbabilisticESN(n_units, random_state=0, **(network or {}))
    return pesn.Forecaster(esn, calibrate=False, **options).fit(RUNS.states, RUNS.inputs, lengths=RUNS.lengths)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def kinematic():
    """Positions follow from velocities, and deviations are calibrated."""
    dt = RUNS.dt
    kinematics = np.array([[1, 0, dt / 2, 0], [0, 1, 0, dt / 2]]), dt / 2 * np.eye(2), np.zeros(2)
    esn = pesn.ProbabilisticESN(12, random_state=0)
    return pesn.Forecaster(esn, learn=[2, 3], kinematics=kinematics).fit(RUNS.states, RUNS.inputs, lengths=RUNS.lengths)


def agree(model, controls, start=None, given=None, within=1e-8, **options):
    """Tensors and arrays, mean and covariance, from ``start`` on arrays and ``given`` on tensors, where this is another."""
    ours = rollout(model, torch.tensor(controls), start if given is None else given, **options)
    theirs = model.rollout(controls, start, **options)
    for one, other in zip(ours, (theirs.mean, theirs.cov), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=within, atol=within * np.abs(other).max())
    mean, nothing = rollout(model, torch.tensor(controls), start if given is None else given, "none")
    np.testing.assert_allclose(mean, model.rollout(controls, start, "none").mean, rtol=1e-8, atol=1e-8)
    assert nothing is None


# ---------------------------------------------------------------- values


KINDS = {name: {"network": network} for name, network in NETWORKS.items()} | OPTIONS


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_tensors_agree_with_arrays_for_all_networks_and_forecasters(options):
    model = fitted(**options)
    agree(model, CONTROLS)
    agree(model, CONTROLS, model.start(RUNS.states[:1]), torch.tensor(RUNS.states[0]))


def test_tensors_agree_with_arrays_from_any_start(kinematic):
    for rows in (1, 4, 40):
        agree(kinematic, CONTROLS, kinematic.start((RUNS.states[:rows], RUNS.inputs[: rows - 1])))
    three = RUNS.states[[[5], [60], [150]]]
    agree(kinematic, CONTROLS, kinematic.start(three))
    agree(kinematic, CONTROLS[:1], kinematic.start(three), torch.tensor(three[:, 0]))
    uncertain = pesn.Gaussian(RUNS.states[:30], var=np.full((30, 4), 1e-4))
    agree(kinematic, CONTROLS, kinematic.start((uncertain, RUNS.inputs[:29])))


def test_tensors_agree_with_arrays_under_compression_and_bounds(kinematic, model):
    long = np.random.default_rng(2).normal(size=(2, 40, 1))
    agree(kinematic, long, rank=3)
    agree(kinematic, 60.0 * long)
    agree(model, 60.0 * long)
    assert not np.allclose(model.rollout(60.0 * long).mean, model.rollout(6.0 * long).mean)


def test_batch_equals_single_sequences(model):
    mean, cov = rollout(model, torch.tensor(CONTROLS))
    for i in range(3):
        one = rollout(model, torch.tensor(CONTROLS[i]))
        assert one[0].shape == (12, 4)
        assert one[1].shape == (12, 4, 4)
        torch.testing.assert_close(one, (mean[i], cov[i]))
    state = torch.tensor(RUNS.states[0])
    many = rollout(model, torch.tensor(CONTROLS[0]), state.expand(2, 4))
    torch.testing.assert_close(many[0][1], rollout(model, torch.tensor(CONTROLS[0]), state)[0])


def test_single_precision_agrees_with_double_precision(model):
    double = rollout(model, torch.tensor(CONTROLS), torch.tensor(RUNS.states[0]))
    single = rollout(model, torch.tensor(CONTROLS, dtype=torch.float32), torch.tensor(RUNS.states[0]))
    for one, other in zip(single, double, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


def test_tensors_agree_with_arrays_after_an_update():
    model = fitted()
    agree(model, CONTROLS)
    model.update(RUNS.states[100:110], RUNS.inputs[100:110])
    agree(model, CONTROLS, within=1e-6)  # what ten rows leave open, a difference, holds half as many digits
    model.fit(RUNS.states[:150], RUNS.inputs[:150])
    agree(model, CONTROLS)


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"angles": [1]},
        {"network": {"features": pesn.Features(lags=1, products=2)}},
        {"network": {"layers": 2, "leak_rate": np.linspace(0.2, 1.0, 10)}},
        {"network": {"layers": 2, "memory": "orthogonal", "leak_rate": 0.3}},
    ],
    ids=str,
)
def test_gradients_are_right_in_controls_and_start(options):
    model = fitted(10, **options)
    controls = torch.tensor(CONTROLS[:2, :4], requires_grad=True)
    state = torch.tensor(RUNS.states[[3, 50]], requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, y: rollout(model, u, y), (controls, state), fast_mode=True)
    start = model.start((RUNS.states[:30], RUNS.inputs[:29]))
    assert torch.autograd.gradcheck(lambda u: rollout(model, u, start), (controls,), fast_mode=True)
    assert torch.autograd.gradcheck(lambda u: rollout(model, u, start, "none")[0], (controls,), fast_mode=True)


def test_gradients_are_right_within_bounds_and_where_columns_are_compressed(kinematic):
    pushed = torch.tensor(60.0 * CONTROLS[:1, :6], requires_grad=True)
    assert torch.autograd.gradcheck(lambda u: rollout(kinematic, u), (pushed,), fast_mode=True)
    long = torch.tensor(np.full((14, 1), 0.5), requires_grad=True)
    noisy = fitted(10, {"process_noise": 1e-2})
    start = noisy.start((RUNS.states[:30], RUNS.inputs[:29]))
    assert torch.autograd.gradcheck(lambda u: rollout(noisy, u, start, rank=2), (long,), fast_mode=True)


def test_second_derivative_raises(model):
    controls = torch.tensor(CONTROLS[0], requires_grad=True)
    (gradient,) = torch.autograd.grad(rollout(model, controls)[0].sum(), controls, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize(
    "network", [{}, STATIC, {"initial_state": "zero"}, {"features": pesn.Features(lags=1, products=2)}], ids=str
)
def test_linearize_is_the_derivative_of_step_and_agrees_with_autograd(network):
    model = fitted(10, network, angles=[1])
    states, controls = RUNS.states[20:80:20], RUNS.inputs[20:80:20]
    A, B = model.linearize(states, controls)
    h = 1e-5
    slow = [(model.step(states + h * e, controls) - model.step(states - h * e, controls)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(A, np.stack(slow, axis=-1), atol=1e-7)
    slow = (model.step(states, controls + h) - model.step(states, controls - h)) / (2 * h)
    np.testing.assert_allclose(B[..., 0], slow, atol=1e-7)
    one = model.linearize(states[1], controls[1])
    np.testing.assert_allclose(one[0], A[1])
    if not network:  # without products the mean of a row does not depend on any variance
        by = torch.autograd.functional.jacobian(
            lambda y, u: rollout(model, u[None], y)[0][0], (torch.tensor(states[1]), torch.tensor(controls[1]))
        )
        np.testing.assert_allclose(by[0], A[1], atol=1e-9)
        np.testing.assert_allclose(by[1], B[1], atol=1e-9)


# ---------------------------------------------------------------- expectations


@pytest.mark.parametrize(
    "moments",
    [*(ActivationMoments(activations.get(f)) for f in ("tanh", "sigmoid", "gelu", "erf")), SineMoments(), SquareMoments()],
    ids=["tanh", "sigmoid", "gelu", "erf", "sine", "square"],
)
def test_expectations_equal_moments_and_their_derivatives(moments):
    mean = np.repeat(np.linspace(-3.0, 3.0, 13), 6)
    var = np.tile([0.0, 1e-6, 0.003, 0.03, 0.4, 4.0], 13)
    expectations, h = make_expectations(moments), 1e-4

    here, above, below = (expectations(m, var) for m in (mean, mean + h, mean - h))
    np.testing.assert_allclose(here[0], moments.moments(mean, var)[0], atol=1e-9)
    np.testing.assert_allclose(here[1], moments.gain(mean, var), atol=1e-9)
    for k in (1, 2, 3):
        np.testing.assert_allclose(here[k], (above[k - 1] - below[k - 1]) / (2 * h), atol=1e-6)


# ---------------------------------------------------------------- invalid input


U = torch.zeros(5, 1, dtype=F64)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: model.linearize(np.zeros(3), np.zeros(1)), ValueError, "state must have shape"),
        (lambda model: model.linearize(np.zeros(4), np.zeros(2)), ValueError, "control must have shape"),
        (lambda model: model.linearize(np.full(4, np.nan), np.zeros(1)), ValueError, "state must be finite"),
        (lambda _: rollout(object(), U), TypeError, r"forecaster must be a pesn\.Forecaster"),
        (lambda model: rollout(model, U, fitted(10).start()), ValueError, "since its last fit or update"),
        (lambda model: rollout(model, U, model.start([[0.0, np.nan, 0.0, 0.0]])), ValueError, "without gaps"),
        (lambda model: rollout(model, U, rank=0), ValueError, "rank"),
        (lambda _: rollout(fitted(network={"moments": "mixture"}), U), ValueError, "moments='surface' or 'exact'"),
    ],
)
def test_invalid_calls_raise(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([np.zeros((5, 1))], TypeError, "controls must be a tensor, got ndarray"),
        *(([torch.zeros(*shape)], ValueError, "controls must have shape") for shape in ((5, 2), (0, 1), (5,), (1, 1, 5, 1))),
        ([U * torch.nan], ValueError, "controls must be finite, got nan"),
        ([U.long()], TypeError, r"controls must be of dtype float32 or float64, got torch\.int64"),
        ([U.to_sparse()], TypeError, r"controls must be a dense tensor, got layout torch\.sparse_coo"),
        ([U, torch.zeros(3)], ValueError, r"start must have shape \(4,\)"),
        ([U, np.zeros(4)], TypeError, r"start must be a tensor, what start\(context\) gave, or None, got ndarray"),
        ([U.expand(2, 5, 1), torch.tensor(RUNS.states[:3])], ValueError, "controls must be as many as start has states, 3"),
    ],
)
def test_invalid_arguments_raise(model, arguments, error, message):
    with pytest.raises(error, match=message):
        rollout(model, *arguments)
