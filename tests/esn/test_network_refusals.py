"""Bad input to both networks.

Claims: what is wrong is said by name, row and column; parameters out of range are named with their range; a call that fails,
at whatever moment, leaves the estimator exactly as it was.
"""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.gaussian import Gaussian

BOTH = pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])


def series(n=300, d=2, m=1, seed=0):
    """Smooth inputs, and targets that need memory."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.05, 0.4, d)) + 0.1 * rng.standard_normal((n, d))
    y = np.stack([np.roll(X[:, 0], 1 + j) * X[:, -1] for j in range(m)], axis=1)
    return X, y


def gap(array, row, value, column=None):
    array = array.copy()
    array[row if column is None else (row, column)] = value
    return array


BAD = {
    "NaN in X": (lambda X, y: (gap(X, 7, np.nan, 1), y), "Input X contains NaN at row 7, column 1"),
    "infinity in X": (lambda X, y: (gap(X, 5, -np.inf, 0), y), "Input X contains infinity at row 5, column 0"),
    "NaN in y": (lambda X, y: (X, gap(y, 9, np.nan, 0)), "Input y contains NaN at row 9, column 0"),
    "NaN in flat y": (lambda X, y: (X, gap(y[:, 0], 9, np.nan)), "Input y contains NaN at row 9"),
    "infinity in y": (lambda X, y: (X, gap(y, 2, np.inf, 0)), "Input y contains infinity at row 2, column 0"),
    "beyond squares": (
        lambda X, y: (gap(X, 3, 1e200, 1), y),
        r"Input X contains 1e\+200 at row 3, column 1, beyond 1e\+100; scale",
    ),
    "empty": (lambda X, y: (X[:0], y[:0]), "0 sample"),
    "lengths differ": (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    "no y": (lambda X, y: (X, None), "requires y to be passed"),
    "words": (lambda X, y: ([*X.astype(str).tolist()[:-1], ["a", "b"]], y), "could not convert"),
    "one dimension": (lambda X, y: (X[:, 0], y), "Expected 2D array"),
    "three dimensions in y": (lambda X, y: (X, y[:, :, None]), r"y must be rows one after the other, got .* \(50, 1, 1\)"),
    "a list of arrays": (
        lambda X, y: ([X[:20], X[20:]], [y[:20], y[20:]]),
        r"X must be rows .* got a list of 2 arrays; np.concatenate\(X\) stacks them, and lengths=\[20, 30\] says where each ends",
    ),
    "a list of arrays of one length": (lambda X, y: ([X[:25], X[25:]], y), r"a list of 2 arrays; .* lengths=\[25, 25\]"),
    "a list of columns": (lambda X, y: ([X[:20, 0], X[20:, 0]], y), r"a list of 2 arrays; .* lengths=\[20, 30\]"),
    "lists in y alone": (lambda X, y: (X, [y[:20], y[20:]]), r"y must be rows .* np.concatenate\(y\).* lengths=\[20, 30\]"),
    "three dimensions": (
        lambda X, y: (X.reshape(10, 5, 2), y),
        r"an array of shape \(10, 5, 2\); .* lengths=\[5, 5, 5, 5, 5, …\]",
    ),
}


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_the_estimator_unfitted(network, method, case):
    change, message = BAD[case]
    esn = network(10, random_state=0)
    before = dict(vars(esn))
    with pytest.raises(ValueError, match=message):
        getattr(esn, method)(*change(*series(50)))
    assert vars(esn) == before
    with pytest.raises(NotFittedError):
        esn.predict(series(50)[0])


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_a_fitted_estimator_as_it_was(network, method, case):
    change, message = BAD[case]
    X, y = series(50)
    esn = network(10, random_state=0).fit(X, y)
    before = dict(vars(esn))
    with pytest.raises(ValueError, match=message):
        getattr(esn, method)(*change(X, y))
    assert vars(esn).keys() == before.keys()
    assert all(vars(esn)[name] is before[name] for name in before)


def test_an_interrupt_in_the_middle_changes_nothing(monkeypatch):
    X, y = series(100)
    esn = EchoStateNetwork(10, random_state=0).fit(X, y)
    before = dict(vars(esn))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pesn.esn.online.Learner.follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        esn.partial_fit(X, y)
    assert all(vars(esn)[name] is before[name] for name in before)


@BOTH
def test_too_short(network):
    X, y = series(50)
    with pytest.raises(ValueError, match=r"1 sample.* minimum of 2 is required"):
        network(10).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="got washout=50 and 50 rows in X; lower washout or give more rows"):
        network(10, washout=50).fit(X, y)
    with pytest.raises(ValueError, match="got washout=20 and 15 rows in sequence 1"):
        network(10, washout=20).fit(X, y, lengths=[35, 15])
    with pytest.raises(ValueError, match="0 sample"):
        network(10).fit(X, y).predict(X[:0])
    assert network(10).fit(X, y).predict(X[:1]).shape == (1, 1)


@BOTH
@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([20, 20], ValueError, r"lengths must add up to the 50 rows of X, got \[20, 20\], which add up to 40"),
        ([60, -10], ValueError, "lengths must be 1 or more each, got -10 for sequence 1"),
        ([0, 50], ValueError, "lengths must be 1 or more each, got 0"),
        ([], ValueError, "add up to 0"),
        ([25.0, 25.0], TypeError, "lengths must be a list of whole numbers"),
        (50, TypeError, "lengths must be a list of whole numbers"),
        ([True, 49], TypeError, "lengths must be a list of whole numbers"),
    ],
)
def test_lengths_that_do_not_add_up(network, lengths, error, message):
    X, y = series(50)
    esn = network(10, random_state=0)
    with pytest.raises(error, match=message):
        esn.fit(X, y, lengths=lengths)
    assert not hasattr(esn, "n_features_in_")
    with pytest.raises(error, match=message):
        esn.fit(X, y).predict(X, lengths=lengths)


@BOTH
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("leak_rate", 1.5, r"leak_rate must lie in \(0, 1\], got 1.5"),
        ("leak_rate", 0, r"leak_rate must lie in \(0, 1\], got 0"),
        ("spectral_radius", 0.0, r"spectral_radius must lie in \(0, ∞\), got 0.0"),
        ("spectral_radius", np.nan, r"spectral_radius must lie in \(0, ∞\), got nan"),
        ("density", 0.0, r"density must lie in \(0, 1\], got 0.0"),
        ("density", 1.1, r"density must lie in \(0, 1\], got 1.1"),
        ("input_scaling", -1.0, r"input_scaling must lie in \[0, ∞\), got -1.0"),
        ("input_scaling", [1.0, -2.0], r"input_scaling must lie in \[0, ∞\), got -2.0 at index 1"),
        (
            "input_scaling",
            [1.0, 2.0, 3.0],
            r"input_scaling must be a number, one for each of the 2 inputs, or the weights .*, 2\), got shape \(3,\)",
        ),
        ("input_scaling", np.ones((2, 10)), r"input_scaling must be .* got shape \(2, 10\)"),
        ("input_scaling", [1.0, np.nan], "input_scaling must be finite, got nan at index 1"),
        ("feedback_scaling", [1.0, 1.0], r"feedback_scaling must be .* each of the 1 outputs, or .* got shape \(2,\)"),
        ("bias_scaling", [1.0, 1.0], r"bias_scaling must be a number, or the weights themselves \(.*,\), got shape \(2,\)"),
        ("feedback_scaling", np.inf, r"feedback_scaling must lie in \[0, ∞\), got inf"),
        ("bias_scaling", "large", r"bias_scaling must be a number in \[0, ∞\), got 'large'"),
        ("noise", -0.1, r"noise must lie in \[0, 1e\+100\], got -0.1"),
        ("ridge", -1e-6, r"ridge must lie in \[0, 1e\+100\], got -1e-06"),
        ("forgetting", 1.01, r"forgetting must lie in \(0, 1\], got 1.01"),
        ("rls_delta", 0.0, r"rls_delta must lie in \[1e-100, 1e\+100\], got 0.0"),
        ("n_units", 0, "n_units must be 1 or more, got 0"),
        ("n_units", 10.0, "n_units must be a whole number, 1 or more, got 10.0"),
        ("washout", -1, "washout must be 0 or more, got -1"),
        ("random_state", -1, "random_state must be None, a whole number, 0 or more"),
        ("noise", 1e200, "noise must lie in"),
        ("ridge", 1e307, "ridge must lie in"),
        ("ridge", 5e-324, "ridge must be 0 or lie in"),
        ("density", 1e-320, "nilpotent or disconnected: .* it has 0; raise density to 0.01$"),
        ("random_state", "seed", "random_state must be None, a whole number, 0 or more, or a RandomState"),
    ],
)
def test_parameters_out_of_range(network, name, value, message):
    for method in ("fit", "partial_fit"):
        esn = network(random_state=0).set_params(**{name: value})
        with pytest.raises((ValueError, TypeError), match=message):
            getattr(esn, method)(*series(50))
        assert not esn.__sklearn_is_fitted__()


@BOTH
def test_a_misspelt_parameter(network):
    with pytest.raises(TypeError, match="spectral_radios"):
        network(spectral_radios=0.9)
    with pytest.raises(ValueError, match="Invalid parameter 'leakrate'"):
        network().set_params(leakrate=0.3)


@BOTH
def test_a_reservoir_without_a_cycle(network):
    with pytest.raises(
        ValueError, match=r"density 0.01 leaves W nilpotent or disconnected: a cycle .* raise density to 0.1 or n_units to 100"
    ):
        network(10, density=0.01, random_state=0).fit(*series(50))


@BOTH
def test_predict_before_fit_and_with_other_columns(network):
    X, y = series(50)
    for method in ("predict", "transform"):
        with pytest.raises(NotFittedError, match=f"This {network.__name__} instance is not fitted yet"):
            getattr(network(), method)(X)
        with pytest.raises(ValueError, match=f"X has 1 features, but {network.__name__} is expecting 2 features"):
            getattr(network(10).fit(X, y), method)(X[:, :1])
    with pytest.raises(ValueError, match="NaN at row 4, column 0"):
        network(10).fit(X, y).predict(gap(X, 4, np.nan, 0))
    with pytest.raises(ValueError, match="y must have 1 columns, as at the first fit, got 2"):
        network(10).fit(X, y).partial_fit(X, np.hstack([y, y]))


@BOTH
def test_a_state_of_another_network(network):
    X, y = series(50)
    esn, other = (network(n, random_state=0).fit(X, y) for n in (10, 20))
    with pytest.raises(ValueError, match="state must be of this network"):
        esn.predict(X, state=other.state_)
    with pytest.raises(TypeError, match="state must be what return_state=True gave, got ndarray"):
        esn.predict(X, state=np.zeros(10))
    for state in (5, esn.state_, [5, 5], "ab"):
        with pytest.raises(TypeError, match="state must be a list of what return_state=True gave, got"):
            esn.predict(X, lengths=[25, 25], state=state)
    with pytest.raises(ValueError, match="one state for each of the 2 sequences, got 1"):
        esn.predict(X, lengths=[25, 25], state=[esn.state_])


@BOTH
def test_masks_and_gaussians_are_not_dropped_in_silence(network):
    X, y = series(50)
    esn = network(10, random_state=0)
    for inputs, targets, message in (
        (np.ma.masked_array(X, X > 0.5), y, "X must be a plain array, got a masked one"),
        (X, np.ma.masked_array(y, y > 0.5), "y must be a plain array, got a masked one"),
        (X, Gaussian(y, var=0.1), r"y must be an array of certain numbers, got a pesn\.Gaussian; give its mean"),
    ):
        for learn in (esn.fit, esn.partial_fit):
            with pytest.raises(TypeError, match=message):
                learn(inputs, targets)
    with pytest.raises(TypeError, match="X must be a plain array"):
        esn.fit(X, y).predict(np.ma.masked_array(X, X > 0.5))


@BOTH
def test_flags_are_true_or_false(network):
    X, y = series(50)
    esn = network(10, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="return_state must be True or False, got 'yes'"):
        esn.predict(X, return_state="yes")
    if network is ProbabilisticESN:
        with pytest.raises(TypeError, match=r"return_std must be True or False, got \[25, 25\]"):
            esn.predict(X, [25, 25])
        with pytest.raises(TypeError, match="return_cov must be True or False, got 1"):
            esn.predict(X, return_cov=1)


@BOTH
@pytest.mark.parametrize(("name", "value"), [("noise", 1e100), ("ridge", 1e100), ("ridge", 1e-100), ("rls_delta", 1e-100)])
def test_the_ends_of_the_ranges_work_or_say_why(network, name, value):
    X, y = series(50)
    esn = network(10, random_state=0, **{name: value})
    assert np.isfinite(esn.fit(X, y).partial_fit(X, y).predict(X)).all()
    assert np.isfinite(network(10, random_state=0, **{name: value}).partial_fit(X, y).predict(X)).all()
