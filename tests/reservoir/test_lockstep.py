"""Tests of sequences that run in lockstep:

1. ``predict`` and ``transform`` with many ``lengths`` equal the results of single sequences for both networks, all layers,
   rotations and leak rates, with standard deviations, uncertain inputs, process noise, feedback, and learned, given and continued
   initial states. Without feedback and rotations the states are equal bit by bit.
2. Few sequences, or sequences of very unequal lengths, do not run in lockstep.
"""

import numpy as np
import pytest

import pesn
from pesn.reservoir.drive import in_lockstep
from pesn.reservoir.weights import draw

LENGTHS = [7, 1, 12, 5, 9, 9, 3, 12, 11, 2, 8, 6, 10, 4, 12, 7, 9, 1, 12, 10]
N, D, M = 22, 2, 2


def cut(lengths):
    ends = np.cumsum(lengths).tolist()
    return [slice(end - size, end) for size, end in zip(lengths, ends, strict=True)]


SEQUENCES = cut(LENGTHS)
RNG = np.random.default_rng(0)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------- 1. networks


SERIES = np.sin(0.3 * np.arange(400.0))[:, None] + 0.1 * RNG.normal(size=(400, 1))
X, Y = SERIES[:-1], SERIES[1:]
TAKEN = slice(0, sum(LENGTHS))


LEAKS = {"leak_rate": np.linspace(0.1, 1.0, 30)}
KINDS = [LEAKS, {"layers": 2, **LEAKS}, {"memory": "orthogonal"}, {"layers": 2, "memory": "orthogonal", **LEAKS}]
FEEDBACK = {"feedback_scaling": 0.3}


@pytest.mark.parametrize(
    "options", [{}, FEEDBACK, {"features": pesn.Features(products=1)}, {"activation": "relu"}, *KINDS, {**KINDS[-1], **FEEDBACK}]
)
def test_predict_with_lengths_equals_single_sequences(options):
    esn = pesn.EchoStateNetwork(30, random_state=0, **options).fit(X, Y)
    same = close if "memory" in options or "feedback_scaling" in options else np.testing.assert_array_equal
    outputs, ends = esn.predict(X[TAKEN], lengths=LENGTHS, return_state=True)
    states = esn.transform(X[TAKEN], lengths=LENGTHS)
    single = esn.transform(X[TAKEN].astype(np.float32), lengths=LENGTHS)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, states, rtol=0, atol=1e-6)
    more, _ = esn.predict(X[TAKEN], lengths=LENGTHS, state=ends, return_state=True)
    for rows, end in zip(SEQUENCES, ends, strict=True):
        alone, last = esn.predict(X[rows], return_state=True)
        close(outputs[rows], alone)
        same(end.mean, last.mean)
        close(more[rows], esn.predict(X[rows], state=last))
        same(states[rows], esn.transform(X[rows]))


@pytest.mark.parametrize("options", [
    {}, {"initial_state": "zero"}, {"initial_state": "stationary"}, {"noise": 0.02, "feedback_scaling": 0.3},
    {"process_noise": 0.01}, {"features": pesn.Features(products=1)}, {"features": pesn.Features(lags=2)}, KINDS[1],
    *({"initial_state": "zero", **kind} for kind in KINDS),
], ids=str)  # fmt: skip
def test_probabilistic_predict_with_lengths_equals_single_sequences(options):
    esn = pesn.ProbabilisticESN(30, covariance="diagonal", random_state=0, **options).fit(X, Y)
    for alone in (lambda rows: X[rows], lambda rows: pesn.Gaussian(X[rows], var=0.01 + 0.0 * X[rows])):
        given = alone(TAKEN)
        mean, std, ends = esn.predict(given, lengths=LENGTHS, return_std=True, return_state=True)
        states = esn.transform(given, lengths=LENGTHS)
        going_on = esn.predict(given, lengths=LENGTHS, return_std=True, state=ends)
        for i, rows in enumerate(SEQUENCES):
            own_mean, own_std, last = esn.predict(alone(rows), return_std=True, return_state=True)
            near(mean[rows], own_mean)
            near(std[rows], own_std)
            near(states[rows], esn.transform(alone(rows)))
            assert (ends[i].rows is None, ends[i].var is None) == (last.rows is None, last.var is None)
            near(ends[i].mean, last.mean)
            if last.var is not None:
                near(ends[i].var, last.var)
            again = esn.predict(alone(rows), return_std=True, state=last)
            for both in range(2):
                near(going_on[both][rows], again[both])


def test_probabilistic_predict_with_lengths_runs_in_lockstep(monkeypatch):
    esn = pesn.ProbabilisticESN(30, covariance="diagonal", random_state=0).fit(X, Y)

    def alone(*given):
        raise AssertionError("a sequence was predicted alone")

    monkeypatch.setattr("pesn.esn.probabilistic.predict_rows", alone)
    esn.predict(X[TAKEN], lengths=LENGTHS, return_std=True)
    with pytest.raises(AssertionError, match="alone"):
        esn.predict(X[TAKEN], return_std=True)


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- 2. selection


def test_few_sequences_or_unequal_lengths_do_not_run_in_lockstep():
    r = draw(22, 2, 2, rng=3)
    assert in_lockstep(r, cut([50] * 20))
    assert in_lockstep(r, cut([20, 10] * 40))
    assert not in_lockstep(r, cut([50] * 3))
    assert not in_lockstep(r, cut([5000] + [5] * 20))
    assert not in_lockstep(r._replace(activation="relu"), cut([50] * 20))
