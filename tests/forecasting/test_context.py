"""A forecast after the rows of fit equals one with all of them as a context, for any washout, missing values, known inputs and
feedback; early rows drive the units without filtering, with the same result.
"""

import copy

import numpy as np
import pytest

from pesn import Forecaster, Gaussian, ProbabilisticESN
from pesn.systems import cart_pole
from pesn.systems.chaotic import lorenz


def fitted(y, X=None, *, n=30, lengths=None, target="change", **more):
    esn = ProbabilisticESN(n, **{"washout": "auto", "random_state": 0, "process_noise": 0.0, **more})
    return Forecaster(esn, calibrate=False, target=target).fit(y, X, lengths)


def same(one, other, within=1e-9):
    """Compare two forecasts in units of the largest standard deviation of each column."""
    size = other.std.max(axis=0)
    np.testing.assert_allclose(one.mean / size, other.mean / size, rtol=0, atol=within)
    np.testing.assert_allclose(one.std / size, other.std / size, rtol=0, atol=within)
    np.testing.assert_allclose(one.cov / size[:, None] / size, other.cov / size[:, None] / size, rtol=0, atol=within)


@pytest.fixture(scope="module")
def rows():
    return lorenz(steps=950, rng=0).states


NETWORKS = {
    "washout": {"washout": 100}, "no washout": {"washout": 0}, "process noise": {"process_noise": 1e-4, "washout": 50},
    "feedback": {"feedback_scaling": 0.3, "washout": 40},
    "feedback of levels": {"feedback_scaling": 0.3, "washout": 40, "target": "level"},
    "low-rank": {"covariance": "low-rank", "rank": 12}, "diagonal": {"covariance": "diagonal"},
    "stationary": {"initial_state": "stationary"},
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_forecast_after_fit_equals_forecast_from_context(rows, kind):
    model = fitted(rows[:400], **NETWORKS[kind])
    same(model.forecast(10), model.forecast(10, rows[:400]))


@pytest.mark.parametrize("n", [1, 2, 9, 15, 23, 70])
def test_same_after_a_last_run_of_any_length(rows, n):
    y = np.vstack([rows[:400], rows[600 : 600 + n]])
    model = fitted(y, lengths=[400, n])
    same(model.forecast(5), model.forecast(5, rows[600 : 600 + n]))


GAPS = {
    "recent": [390], "the last row": [399], "long ago": [100, 101], "a stretch": [*range(350, 385)],
    "shorter stretches than are remembered": [*range(0, 400, 60)],
}  # fmt: skip


@pytest.mark.parametrize("feedback", [0.0, 0.3])
@pytest.mark.parametrize("gap", GAPS)
def test_same_after_missing_values(rows, gap, feedback):
    y = rows[:400].copy()
    y[GAPS[gap], 1] = np.nan
    model = fitted(y, washout=30 if gap != "shorter stretches than are remembered" else 50, feedback_scaling=feedback)
    same(model.forecast(5), model.forecast(5, y))


@pytest.mark.parametrize("feedback", [0.0, 0.3])
@pytest.mark.parametrize("gap", [None, 280, 299])
def test_same_after_known_inputs(gap, feedback):
    run = cart_pole.simulate(runs=1, steps=300, rng=0)
    X, ahead = run.inputs.copy(), np.linspace(-1.0, 1.0, 6)[:, None]
    if gap is not None:
        X[gap] = np.nan
    model = fitted(run.states, X, washout=50, feedback_scaling=feedback)
    for known in (ahead, np.vstack([[[np.nan]], ahead[1:]])):
        same(model.forecast(6, X=known), model.forecast(6, (run.states, X[:-1]), known))


@pytest.mark.parametrize("feedback", [0.0, 0.3])
@pytest.mark.parametrize("last", [400, 5])
def test_same_after_an_update_that_keeps_the_readout(rows, feedback, last):
    """Rows with missing values correct the state and leave the readout unchanged."""
    y = np.vstack([rows[:400], rows[500 : 500 + last]])
    model = fitted(y, lengths=[400, last], washout=40, feedback_scaling=feedback)
    new = rows[500 + last : 506 + last].copy()
    new[:, 2] = np.nan
    context = np.vstack([rows[500 : 500 + last], new])
    same(model.update(new).forecast(5), model.forecast(5, context), 1e-6)


@pytest.mark.parametrize("change", [True, False])
def test_early_rows_drive_the_units_like_filtered_rows(rows, change):
    """Also with feedback: if all rows are known, so are the outputs fed back."""
    model = fitted(rows[:400], washout=60, feedback_scaling=0.3, target="change" if change else "level", leak_rate=0.9)
    loop, context, y = model.loop(), model.model_.context_filter(), model.standardize(rows[:300], np.zeros((300, 0)))[0]
    short = context._replace(washout=1000)  # nothing is long enough ago
    one, other = (way.advance(loop, y, np.zeros((300, 0))) for way in (context, short))
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)
    np.testing.assert_allclose(one.variances(), other.variances(), atol=1e-9)


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("context", ["a row", "an uncertain row", "a missing entry", "three rows"])
def test_static_units_are_a_function_of_the_row(form, context, rows):
    """The learned initial state equals the one from zero, since units have no memory."""
    y, X = rows[:400], np.sin(0.1 * np.arange(400.0))[:, None]
    model = fitted(y, X, washout=0, spectral_radius=1e-9, leak_rate=1.0, input_scaling=0.3, covariance=form, rank=20)
    assert model.esn_.reservoir_.is_static
    other = copy.deepcopy(model)
    other.esn_.initial_state = "zero"
    given = {
        "a row": rows[500:501],
        "an uncertain row": Gaussian(rows[500], var=0.01 * y.var(axis=0)),
        "a missing entry": np.where([True, False, True], rows[500:501], np.nan),
        "three rows": (rows[498:501], X[:2]),
    }[context]
    one, plain = (each.forecast(5, given, X[:5]) for each in (model, other))
    if context == "a missing entry":  # which a regression on the others tells, and nothing does else
        assert one.std[0, 1] < 0.8 * plain.std[0, 1]
    else:
        same(one, plain, 1e-4)
    remembering = fitted(y, X, washout=0, spectral_radius=0.2, leak_rate=1.0, covariance=form)
    assert not remembering.esn_.reservoir_.is_static


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_known_rows_then_an_uncertain_state(form):
    """The units that known rows leave, and the last row as uncertain as given: samples of the loop agree."""
    run = cart_pole.simulate(steps=700, rng=0)
    esn = ProbabilisticESN(30, covariance=form, process_noise=0.0, initial_state="zero", random_state=0)
    model = Forecaster(esn, calibrate=False, target="level").fit(run.states[:500], run.inputs[:500])
    y, u = model.standardize(run.states, run.inputs)
    state = model.esn_.predict(np.hstack([y, u])[500:600], return_state=True)[1]
    last = Gaussian(run.states[600], var=np.square(0.05 * run.states.std(axis=0)))
    ahead = model.forecast(1, model.start(last, units=state), run.inputs[600:601], parts=("state",))
    r, W = model.esn_.reservoir_, model.esn_.readout_.weights
    drawn = y[600] + 0.05 * run.states.std(axis=0) / model.scale_.y_std * np.random.default_rng(0).standard_normal((20_000, 4))
    z = np.hstack([drawn, np.broadcast_to(u[600], (20_000, 1))])
    h = 0.5 * state.mean + 0.5 * np.tanh(z @ np.asarray(r.W_in).T + r.W @ state.mean + r.bias)
    samples = model.scale_.undo((W[:, :1] + W[:, 1:6] @ z.T + W[:, 6:] @ h.T).T * model.output_std_)
    np.testing.assert_allclose(ahead.mean[0], samples.mean(axis=0), atol=0.05 * samples.std(axis=0).min())
    if form == "full":
        np.testing.assert_allclose(ahead.std[0], samples.std(axis=0), rtol=0.03)
    with pytest.raises(ValueError, match="context must be one row where units are given, got 2"):
        model.start((run.states[:2], run.inputs[:1]), units=state)
    with pytest.raises(ValueError, match=r"units must have 30 entries, got shape \(2,\)"):
        model.start(last, units=Gaussian([0.0, 0.0], var=1.0))
