"""Diagnostics have their theoretical values for linear units, known maps and states of known rank."""

import numpy as np
import pytest

import pesn
from pesn import EchoStateNetwork, Features, Forecaster, Patches, ReservoirClassifier
from pesn.diagnostics import (
    echo_state_index,
    effective_rank,
    information_processing_capacity,
    lyapunov_exponents,
    memory_capacity,
)
from pesn.reservoir.weights import draw

ESN = EchoStateNetwork(20)


def linear(n, topology, **options):
    options = {"leak_rate": 1.0, "bias_scaling": 0.0, **options}
    return EchoStateNetwork(n, topology=topology, activation="identity", random_state=0, **options)


def delay_line(n):
    return np.diag(np.ones(n - 1), -1)


def into_the_first(n):
    """Return a delay line whose units are the last n inputs."""
    reservoir = draw(n, 1, 1, topology=delay_line(n), activation="identity", leak_rate=1.0, bias_scaling=0.0, rng=0)
    return reservoir._replace(W_in=np.eye(n, 1))


# ---------------------------------------------------------------- memory


def test_a_delay_line_remembers_as_many_inputs_as_it_has_units():
    found = memory_capacity(into_the_first(15), n_delays=30, rng=0)
    np.testing.assert_allclose(found.by_delay, np.arange(31) < 15, atol=1e-9)
    assert (found.rank, round(found.total, 6)) == (15, 15.0)


@pytest.mark.parametrize("topology", ["ring", "random"])
def test_memory_of_linear_units_equals_their_number(topology):
    found = memory_capacity(linear(12, topology, density=0.5), n_delays=200, n_steps=30_000, rng=1)
    assert found.rank == 12
    assert found.total == pytest.approx(12.0, abs=0.15)


def test_memory_of_tanh_units_is_below_their_number_and_fades():
    found = memory_capacity(EchoStateNetwork(40, leak_rate=1.0, input_scaling=1.0, random_state=0), rng=0)
    assert 3.0 < found.total < 30.0
    assert found.by_delay[0] > 0.99
    assert found.by_delay[-1] == 0.0


def test_memory_is_that_of_a_regression_on_the_states():
    """Compared with the out-of-sample R² of scikit-learn."""
    from sklearn.linear_model import LinearRegression

    esn = EchoStateNetwork(20, leak_rate=1.0, random_state=0)
    u = np.random.default_rng(5).uniform(-1.0, 1.0, (40_000, 1))
    states = esn.fit(u, np.zeros(len(u))).transform(u)
    found = memory_capacity(esn, n_delays=8, rng=0)
    for k in (1, 3, 5):
        target = u[100 - k : len(u) - k, 0]
        fitted = LinearRegression().fit(states[100:20_000], target[:19_900])
        assert found.by_delay[k] == pytest.approx(fitted.score(states[20_000:], target[19_900:]), abs=0.03)


# ---------------------------------------------------------------- processing


def test_linear_units_have_all_their_capacity_in_degree_one():
    found = information_processing_capacity(linear(10, "ring"), degree=3, rng=0)
    np.testing.assert_allclose(found.by_degree, [10.0, 0.0, 0.0], atol=0.1)
    assert found.rank == 10


def test_degree_one_is_the_memory_capacity():
    esn = EchoStateNetwork(20, random_state=0)
    memory = memory_capacity(esn, n_delays=30, n_steps=5000, rng=0)
    found = information_processing_capacity(esn, degree=1, n_delays=[30], n_steps=5000, rng=0)
    assert found.total == pytest.approx(memory.total, abs=1e-9)
    np.testing.assert_allclose(found.by_delay[0], memory.by_delay, atol=1e-9)


def test_capacity_of_computed_products_is_one():
    """Legendre's P₂(u_t) and u_t u_{t−1} are linear functions of these states."""
    from pesn.diagnostics.driven import Projection

    u = np.random.default_rng(0).uniform(-1.0, 1.0, 5001)
    states = np.column_stack([u[1:] ** 2, u[1:] * u[:-1], u[1:]])
    signals = np.column_stack([1.5 * u[1:] ** 2 - 0.5, u[1:] * u[:-1], u[:-1], 1.5 * u[:-1] ** 2 - 0.5])
    np.testing.assert_allclose(Projection.from_states(states).capacities(signals), [1.0, 1.0, 0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_capacities_of_tanh_units_add_up_to_at_most_their_number(seed):
    esn = EchoStateNetwork(15, leak_rate=1.0, input_scaling=1.5, spectral_radius=0.5, random_state=seed)
    found = information_processing_capacity(esn, degree=4, rng=0)
    assert 0.8 * found.rank < found.total < found.rank + 0.3  # and nearly as much: degree 4 holds most of it
    assert found.by_degree[1:].sum() > 1.0
    assert found.capacities.sum() == pytest.approx(found.total)
    assert found.terms[0] == ((0, 0, 1),)


# ---------------------------------------------------------------- echo states


@pytest.mark.parametrize("leak", [1.0, 0.3])
def test_small_spectral_radius_has_one_response(leak):
    esn = EchoStateNetwork(40, spectral_radius=0.5, leak_rate=leak, random_state=0)
    found = echo_state_index(esn, n_steps=400, rng=0)
    assert (found.index, found.counts) == (1, (20,))
    assert found.distances[-1] < 1e-10 < found.distances[0]


def test_bistable_unit_has_two_responses():
    unit = draw(1, 1, 1, topology=np.array([[2.0]]), leak_rate=1.0, bias_scaling=0.0, rng=0)
    found = echo_state_index(unit, np.zeros(200), rng=0)
    assert found.index == 2
    assert sum(found.counts) == 20
    solution = 0.957504024079
    np.testing.assert_allclose(np.sort(found.responses.ravel()), [-solution, solution], atol=1e-9)
    driven = unit._replace(W_in=np.array([[1.0]]))  # an input that is strong enough leaves one
    assert echo_state_index(driven, np.full(200, 2.0), rng=0).index == 1


def test_the_index_agrees_with_the_sign_of_the_largest_conditional_exponent():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (600, 1))
    for radius, one in ((0.8, True), (4.0, False)):
        esn = EchoStateNetwork(40, spectral_radius=radius, leak_rate=1.0, input_scaling=0.1, random_state=0)
        assert (echo_state_index(esn, X, n_starts=5, rng=0).index == 1) is one
        assert (lyapunov_exponents(esn, X, n_exponents=1, rng=0).largest < 0.0) is one


# ---------------------------------------------------------------- rank


def test_effective_rank_of_orthonormal_and_of_equal_states():
    states = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 12)))[0]
    found = effective_rank(states)
    assert (found.rank, found.effective_rank) == (12, pytest.approx(12.0))
    one = effective_rank(np.outer(np.arange(1.0, 9.0), np.ones(5)))
    assert (one.rank, one.effective_rank) == (1, pytest.approx(1.0))
    two = effective_rank(np.diag([3.0, 1.0]))  # exp of the entropy of (3/4, 1/4)
    assert two.effective_rank == pytest.approx(0.75**-0.75 * 0.25**-0.25)
    for size in (1e308, 1e-300):
        assert effective_rank(size * np.eye(3)).effective_rank == pytest.approx(3.0)


def test_effective_rank_of_a_network_is_that_of_its_states():
    X = np.sin(0.3 * np.arange(300.0))[:, None]
    esn = EchoStateNetwork(30, random_state=0).fit(X[:-1], X[1:])
    states = esn.transform(X)
    for center in (False, True):
        found = effective_rank(esn, X, center=center)
        assert found.effective_rank == pytest.approx(effective_rank(states, center=center).effective_rank)
    assert effective_rank(states + 5.0, center=True).effective_rank == pytest.approx(found.effective_rank)


# ---------------------------------------------------------------- what they take, and what they refuse


@pytest.mark.parametrize(
    ("scalings", "outputs"),  # scalings by column say how many inputs and outputs there are
    [({}, [0]), ({"input_scaling": [0.5, 0.1], "feedback_scaling": [0.1, 0.2, 0.3]}, [0, 1, 0])],
)
def test_a_network_before_fit_is_the_reservoir_that_fit_draws(scalings, outputs):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, len(set(outputs))))
    esn = EchoStateNetwork(20, random_state=3, **scalings)
    before = memory_capacity(esn, n_delays=5, n_steps=500, rng=0)
    for fitted in (esn.fit(X, X[:, outputs]), esn.reservoir_):
        np.testing.assert_array_equal(memory_capacity(fitted, n_delays=5, n_steps=500, rng=0).by_delay, before.by_delay)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: memory_capacity("ring"), "network must be a pesn network, a fitted .*, got str"),
        (lambda: memory_capacity(Forecaster()), "network must be fitted where it is a Forecaster"),
        (lambda: memory_capacity(EchoStateNetwork(features=Features(states=False))), "network must have units"),
        (lambda: memory_capacity(ReservoirClassifier(20)), "network must be fitted where it is a ReservoirClassifier"),
        (lambda: memory_capacity(EchoStateNetwork(20, local=Patches(1, 1))), "network must be fitted where it is local"),
        (lambda: memory_capacity(ESN, rng=-1), "rng must be .*, got -1"),
        (lambda: information_processing_capacity(ESN, rng="a"), "rng must be .*, got 'a'"),
        (lambda: echo_state_index(ESN, rng=0.5), "rng must be .*, got 0.5"),
        (lambda: lyapunov_exponents(ESN, np.zeros(200), rng=-1), "rng must be .*, got -1"),
        (lambda: memory_capacity(ESN, -1), "n_delays must be 0 or more, got -1"),
        (lambda: memory_capacity(ESN, n_steps=30), "n_steps must be above twice the 20 units, got 30"),
        (lambda: memory_capacity(EchoStateNetwork(20, leak_rate=2.0)), "leak_rate"),
        (lambda: information_processing_capacity(ESN, 0), "degree must be 1 or more, got 0"),
        (lambda: information_processing_capacity(ESN, 2, n_delays=[3]), "n_delays must hold .* for each of the 2 degrees"),
        (lambda: echo_state_index(ESN, n_starts=1), "n_starts must be 2 or more, got 1"),
        (lambda: echo_state_index(ESN, tolerance=0.0), "tolerance must lie in"),
        (lambda: echo_state_index(ESN, [np.nan]), "X must be finite, got nan"),
        (lambda: effective_rank(ESN), "X must hold the inputs .* got None"),
        (lambda: effective_rank(np.zeros((5, 2))), "states must not all be 0"),
        (lambda: effective_rank(np.zeros(5)), r"states must have shape \(rows, units\), got \(5,\)"),
        (lambda: effective_rank(draw(20, 2, 1, rng=0), np.zeros((9, 3))), r"X must have shape \(rows, 2\), got \(9, 3\)"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_every_result_can_be_plotted():
    from matplotlib.figure import Figure

    esn, X = EchoStateNetwork(15, random_state=0), np.random.default_rng(0).uniform(-1.0, 1.0, (300, 1))
    results = [
        memory_capacity(esn, n_steps=500, rng=0),
        information_processing_capacity(esn, n_delays=[10, 4, 2], n_steps=500, rng=0),
        echo_state_index(esn, n_steps=100, rng=0),
        lyapunov_exponents(esn, X, rng=0),
        effective_rank(esn, X),
    ]
    for result in results:
        ax = result.plot()
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        mine = Figure().subplots()
        assert result.plot(mine) is mine
        ax.figure.canvas.draw()
        assert len(repr(result)) < 400


@pytest.mark.parametrize(
    "options", [{"layers": 2}, {"memory": "orthogonal", "leak_rate": 0.1}, {"leak_rate": np.linspace(0.3, 1, 20)}]
)
def test_every_kind_of_network_is_accepted(options):
    esn, X = EchoStateNetwork(20, random_state=0, **options), np.random.default_rng(0).uniform(-1.0, 1.0, (400, 1))
    memory = memory_capacity(esn, n_steps=2000, rng=0)
    assert 1.0 < memory.total < memory.rank + 0.5
    assert echo_state_index(esn, X, n_starts=4, rng=0).index == 1
    assert lyapunov_exponents(esn, X, n_exponents=2, rng=0).largest < 0.0
    assert 1.0 < effective_rank(esn, X).effective_rank < memory.rank


def test_classifier_and_local_network_use_the_fitted_reservoir():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (400, 4))
    local = EchoStateNetwork(20, local=Patches(2, 1), random_state=0).fit(X[:-1], X[1:])
    classifier = ReservoirClassifier(20, random_state=0).fit(X, X[:, 0] > 0.0)
    for network, n_units in ((local, 40), (classifier, 20)):
        assert effective_rank(network, X).rank == n_units
        assert echo_state_index(network, X, n_starts=3, rng=0).index == 1
        assert lyapunov_exponents(network, X, n_exponents=2, rng=0).largest < 0.0


def test_rows_of_a_forecaster_are_refused():
    y = 50.0 + 20.0 * np.sin(0.3 * np.arange(200.0))[:, None]
    forecaster = Forecaster(pesn.ProbabilisticESN(20, washout=10, random_state=0), calibrate=False).fit(y)
    assert echo_state_index(forecaster, n_starts=3, rng=0).index == 1
    for function in (effective_rank, echo_state_index):
        with pytest.raises(ValueError, match=r"X must be rows as a network sees them.*give forecaster\.esn_"):
            function(forecaster, y)
