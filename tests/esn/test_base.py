"""Claim: the two networks share parameters and the way they learn; neither is a kind of the other."""

import numpy as np
import pytest

from pesn import EchoStateNetwork, Features, ProbabilisticESN
from pesn.esn.base import ReservoirEstimator

BOTH = pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])


@BOTH
def test_neither_network_is_a_kind_of_the_other(network):
    assert network.__bases__ == (ReservoirEstimator,)


def test_on_certain_rows_the_two_are_one_network():
    X = np.sin(0.3 * np.arange(200.0))[:, None]
    options = {"feedback_scaling": 0.1, "washout": 10, "random_state": 0}
    one = EchoStateNetwork(20, **options).fit(X[:-1], X[1:])
    other = ProbabilisticESN(20, initial_state="zero", process_noise=0.0, **options).fit(X[:-1], X[1:])
    for network in (one, other):
        network.partial_fit(X[:50], X[1:51])
    np.testing.assert_allclose(other.predict(X), one.predict(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other.transform(X), one.transform(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other.online_predictions_, one.online_predictions_, rtol=1e-9, atol=1e-9)


@BOTH
def test_parameters_that_are_set_after_fit_wait_for_the_next_one(network):
    X = np.sin(0.3 * np.arange(200.0))[:, None]
    esn = network(20, washout=10, random_state=0).fit(X[:-1], X[1:])
    before = esn.predict(X)
    np.testing.assert_array_equal(esn.set_params(activation="relu", n_units=7, topology="ring").predict(X), before)
    esn.set_params(features=Features(lags=2))  # what is read out of rows is no longer what was learnt
    for call in (lambda: esn.predict(X), lambda: esn.partial_fit(X[:-1], X[1:])):
        with pytest.raises(
            ValueError, match=r"features must be those of fit, 22 numbers .* got 24 by Features\(lags=2, .*fit again"
        ):
            call()
    assert esn.fit(X[:-1], X[1:]).predict(X).shape == X.shape
