"""``generate`` matches ``predict`` on the last output, row by row: for every readout, with feedback and known inputs."""

import numpy as np
import pandas as pd
import pytest

import pesn

KINDS = [pesn.EchoStateNetwork, pesn.ProbabilisticESN]
RESERVOIRS = [{"layers": 3}, {"memory": "orthogonal"}, {"leak_rate": np.linspace(0.2, 1.0, 30)}, {"activation": "gelu"}]
FEATURES = [pesn.Features(*each) for each in ((), (2,), (1, 2), (1, 1, False))]  # lags, products, states


def waves(n: int) -> np.ndarray:
    t = np.arange(float(n))
    return np.column_stack([np.sin(0.2 * t), np.cos(0.31 * t)])


def by_hand(esn, n, state, known=None):
    """Run the plain loop: the last output is the next row."""
    last, outputs = np.atleast_2d(state.output), []
    for k in range(n):
        row = last if known is None else np.hstack([last, known[k : k + 1]])
        last, state = esn.predict(row, state=state, return_state=True)
        last = np.reshape(last, (1, -1))
        outputs.append(last[0])
    return np.array(outputs), state


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    ("kind", "options"), [*((kind, {}) for kind in KINDS), *((pesn.EchoStateNetwork, options) for options in RESERVOIRS)]
)
def test_each_output_is_the_next_input(kind, options, features):
    y = waves(401)
    esn = kind(30, features=features, random_state=0, **options).fit(y[:-1], y[1:])
    np.testing.assert_array_equal(esn.state_.output, y[-1])  # the first input: the row after the last that was learned from
    found, end = esn.generate(40, return_state=True)
    expected, stopped = by_hand(esn, 40, esn.state_)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(end.mean, stopped.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(end.output, stopped.output, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("features", [pesn.Features(), pesn.Features(lags=2, products=1)])
def test_split_runs_match_the_whole_run(features):
    y = waves(401)
    esn = pesn.EchoStateNetwork(30, features=features, random_state=0).fit(y[:-1], y[1:])
    whole = esn.generate(50)
    first, state = esn.generate(20, return_state=True)
    np.testing.assert_array_equal(np.vstack([first, esn.generate(30, state)]), whole)


def test_generate_continues_after_partial_fit():
    y = waves(601)
    esn = pesn.EchoStateNetwork(50, random_state=0).partial_fit(y[:500], y[1:501])
    np.testing.assert_array_equal(esn.state_.output, y[500])
    assert np.abs(esn.generate(20) - y[501:521]).max() < 0.05


@pytest.mark.parametrize("features", [pesn.Features(), pesn.Features(lags=1, products=1)])
def test_known_inputs_are_passed_to_generate(features):
    y, u = waves(401), np.random.default_rng(0).normal(size=(450, 1))
    esn = pesn.EchoStateNetwork(30, features=features, random_state=0).fit(np.hstack([y[:-1], u[:400]]), y[1:])
    found = esn.generate(50, X=u[400:])
    np.testing.assert_allclose(found, by_hand(esn, 50, esn.state_, u[400:])[0], rtol=1e-9, atol=1e-9)
    assert not np.allclose(found, esn.generate(50, X=0.0 * u[400:]))


@pytest.mark.parametrize("kind", KINDS)
def test_feedback_works_with_known_inputs(kind):
    wave, ones = waves(701)[:, 0], np.ones((700, 1))
    certain = {"process_noise": 0.0} if kind is pesn.ProbabilisticESN else {}  # what is uncertain moves means too
    esn = kind(60, feedback_scaling=0.8, ridge=1e-6, washout=20, random_state=0, **certain).fit(ones, wave[:700])
    expected = esn.predict(ones[:50], state=esn.state_)
    np.testing.assert_allclose(esn.generate(50, X=ones[:50]), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(esn.generate(50), esn.predict(np.zeros((50, 1)), state=esn.state_), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "features", [pesn.Features(), pesn.Features(states=False), pesn.Features(lags=1, products=2, states=False)]
)
def test_diverging_loop_stays_finite(features):
    y = 1.5 ** np.arange(20.0)[:, None]
    esn = pesn.EchoStateNetwork(3, density=1.0, features=features, ridge=0.0, random_state=0).fit(y[:-1], y[1:])
    outputs, state = esn.generate(5000, return_state=True)
    assert 1e20 < np.abs(outputs[-1]) <= np.abs(outputs).max() <= 1e100
    assert np.isfinite(outputs).all()
    assert np.isfinite(esn.generate(10, state)).all()


def test_long_runs_go_block_by_block():
    y = waves(401)
    esn = pesn.EchoStateNetwork(30, random_state=0).fit(y[:-1], y[1:])
    outputs = esn.generate(5000)  # longer than one block of rows
    np.testing.assert_allclose(outputs[:30], by_hand(esn, 30, esn.state_)[0], rtol=1e-9, atol=1e-9)
    _, state = esn.generate(4090, return_state=True)
    np.testing.assert_allclose(esn.generate(20, state), outputs[4090:4110], rtol=1e-9, atol=1e-9)


def fit_waves(targets=slice(None), inputs=slice(None), **options):
    y = waves(201)
    return pesn.EchoStateNetwork(20, random_state=0, **options).fit(y[:-1, inputs], y[1:, targets])


@pytest.mark.parametrize(("call", "message"), [
    (lambda: pesn.EchoStateNetwork(20).generate(5), "not fitted"),
    (lambda: fit_waves().generate(0), "n must be 1 or more, got 0"),
    (lambda: fit_waves().generate(2.5), "n must be a whole number"),
    (lambda: fit_waves().generate(5, "now"), "state must be what return_state=True gave, got str"),
    (lambda: fit_waves().generate(5, pesn.EchoStateNetwork(10).fit(waves(9), waves(9)).state_), "state must be of this"),
    (lambda: fit_waves().generate(5, X=waves(5)), r"X must have shape \(5, 0\), the inputs that are no outputs, got"),
    (lambda: fit_waves().generate(5, return_state=1), "return_state"),
    (lambda: fit_waves(inputs=slice(1)).generate(5), "to run on its own, got 2 outputs and 1 inputs"),
    (lambda: fit_waves(0).generate(5), r"X must hold the 1 inputs that are no outputs, of shape \(5, 1\), got None"),
    (lambda: fit_waves(0).generate(5, X=np.full((5, 1), np.nan)), "X must be finite, got nan"),
    (lambda: fit_waves(feedback_scaling=0.5).generate(5, X=waves(4)), "a row for each of the n = 5 outputs, got 4"),
])  # fmt: skip
def test_wrong_calls_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_names_of_known_inputs_match_the_fit():
    frame = pd.DataFrame(waves(201), columns=["level", "valve"])
    named = pesn.EchoStateNetwork(20, random_state=0).fit(frame[:-1], frame["level"].to_numpy()[1:])
    with pytest.raises(ValueError, match=r"X must have the columns \['valve'\], which are no outputs, .*, got \['level'\]"):
        named.generate(5, X=frame[["level"]][:5])
    np.testing.assert_array_equal(named.generate(5, X=frame[["valve"]][:5]), fit_waves(0).generate(5, X=waves(5)[:, 1:]))
