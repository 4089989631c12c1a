"""A forecaster keeps labels and column names of pandas objects; fitted attributes do not change with parameters; updates and
long contexts are fast without other results.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pesn import EchoStateNetwork, Forecaster, Gaussian, ProbabilisticESN
from pesn.forecasting.context import ContextFilter
from pesn.statespace.model import rollout

T = np.arange(400.0)
ROWS = np.column_stack([np.sin(0.2 * T), np.cos(0.31 * T)]) + 0.02 * np.random.default_rng(0).normal(size=(400, 2))
KNOWN = np.column_stack([np.sin(0.11 * T), np.cos(0.17 * T)])
DAYS = pd.date_range("2023-01-02", periods=500, freq="B", name="day")
FRAME = pd.DataFrame(ROWS, index=DAYS[:400], columns=["a", "b"])
INPUTS = pd.DataFrame(KNOWN, index=DAYS[:400], columns=["u", "v"])


def quick(n=15, **more):
    options = {"covariance": more.pop("covariance", "auto"), "forgetting": more.pop("forgetting", 0.999), "rank": 6}
    return Forecaster(ProbabilisticESN(n, washout=30, random_state=0, process_noise=1e-5, **options), calibrate=False, **more)


@pytest.fixture(scope="module")
def dated():
    return quick().fit(FRAME.iloc[:300])


@pytest.fixture(scope="module")
def driven():
    return quick().fit(FRAME, INPUTS)


def same(one, other):
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.joint, other.joint)


# ---------------------------------------------------------------- when


def test_forecasts_continue_the_dates_of_fit_or_of_the_context(dated):
    f = dated.forecast(7)
    pd.testing.assert_index_equal(f.index, DAYS[300:307])
    assert repr(f).startswith("Forecast of 7 steps, 2024-02-26 … 2024-03-05, 2 columns (a, b), parts state, noise, weights")
    assert f.plot()[0].lines[-1].get_xdata()[-1] == (DAYS[306] - pd.Timestamp("1970-01-01")).days
    for length in (1, 2, 40):
        pd.testing.assert_index_equal(dated.forecast(3, FRAME.iloc[350 - length : 350]).index, DAYS[350:353])
    numbered = pd.DataFrame(ROWS, columns=["a", "b"])
    for undated in (ROWS[:5], numbered[:5], numbered[30:35]):
        assert list(dated.forecast(3, undated).index) == [1, 2, 3]


def test_context_may_have_dates_if_fit_had_none():
    forecaster = quick().fit(ROWS)
    assert list(forecaster.forecast(2).index) == [1, 2]
    pd.testing.assert_index_equal(forecaster.forecast(2, FRAME.iloc[:9]).index, DAYS[9:11])
    forecaster.update(FRAME.iloc[:3])
    pd.testing.assert_index_equal(forecaster.forecast(2).index, DAYS[3:5])


def test_update_advances_the_dates(save_and_load):
    forecaster = quick().fit(FRAME.iloc[:300])
    forecaster.update(FRAME.iloc[300:310])
    pd.testing.assert_index_equal(forecaster.forecast(2).index, DAYS[310:312])
    forecaster.update(ROWS[310:315])
    pd.testing.assert_index_equal(forecaster.forecast(2).index, DAYS[315:317])
    again = save_and_load(forecaster)
    pd.testing.assert_index_equal(again.forecast(2).index, DAYS[315:317])
    pd.testing.assert_index_equal(again.forecast(2, FRAME.iloc[:1]).index, DAYS[1:3])
    before = again.model_.time
    with pytest.raises(ValueError, match="y must have the columns"):
        again.update(FRAME[["b", "a"]])
    assert again.model_.time == before


@pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])
def test_networks_refuse_rows_in_another_order(network):
    esn = network(10, random_state=0)
    ahead = esn.fit(FRAME.iloc[:-1], FRAME.iloc[1:]).predict(FRAME)  # the next row: as many rows apart throughout
    np.testing.assert_array_equal(ahead, network(10, random_state=0).fit(ROWS[:-1], ROWS[1:]).predict(ROWS))
    for call in (esn.fit, esn.partial_fit):
        with pytest.raises(ValueError, match="X and y must have their rows in the same order, got 2023-01-02 in row 0 of X"):
            call(FRAME, FRAME[::-1])


# ---------------------------------------------------------------- which


def test_inputs_of_other_names_are_refused(driven):
    shuffled, other = INPUTS[["v", "u"]], INPUTS.rename(columns={"v": "w"})
    ahead = INPUTS.iloc[8:11]
    context = FRAME.iloc[:9], INPUTS.iloc[:8]
    expected = driven.forecast(3, (ROWS[:9], KNOWN[:8]), KNOWN[8:11])
    same(driven.forecast(3, context, ahead), expected)
    for wrong in (shuffled, other):
        found = rf"must have the columns \['u', 'v'\], as X had in fit, got \['{wrong.columns[0]}', '{wrong.columns[1]}'\]"
        with pytest.raises(ValueError, match=f"^X {found}"):
            driven.forecast(3, context, wrong.iloc[:3])
        with pytest.raises(ValueError, match=f"^X of context {found}"):
            driven.forecast(3, (FRAME.iloc[:9], wrong.iloc[:8]), ahead)
        with pytest.raises(ValueError, match=f"^X {found}"):
            driven.update(FRAME.iloc[:3], wrong.iloc[:3])
    same(driven.forecast(3, context, ahead), expected)


def test_columns_to_learn_by_name():
    position = np.cumsum(0.1 * ROWS[:, :1], axis=0)
    frame = pd.DataFrame(np.hstack([position, ROWS]), columns=["x", "v", "w"])
    kinematics = np.array([[1.0, 0.0, 0.0]]), np.array([[0.1, 0.0]]), np.zeros(1)
    by_number = quick(learn=[1, 2], kinematics=kinematics).fit(frame)
    for names in (["v", "w"], np.array(["v", "w"]), pd.Index(["v", "w"]), ("v", 2)):
        by_name = quick(learn=names, kinematics=kinematics)
        same(clone(by_name).fit(frame).forecast(5), by_number.forecast(5))
    lone = (np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), np.array([[0.1], [0.0]]), np.zeros(2))
    same(quick(learn="v", kinematics=lone).fit(frame).forecast(2), quick(learn=[1], kinematics=lone).fit(frame).forecast(2))
    with pytest.raises(ValueError, match="learn must name columns of y, which are x, v, w, got 'y', 'z'"):
        quick(learn=["v", "y", "z"], kinematics=kinematics).fit(frame)
    with pytest.raises(ValueError, match="by number, as y has no names, got 'v'"):
        quick(learn="v", kinematics=kinematics).fit(frame.to_numpy())
    with pytest.raises(ValueError, match="different columns of y, by number or name, got \\['v', 1\\]"):
        quick(learn=["v", 1], kinematics=kinematics).fit(frame)


# ---------------------------------------------------------------- what was fitted


def test_parameters_set_after_fit_have_no_effect(save_and_load):
    forecaster = quick().fit(ROWS[:300])
    expected = forecaster.forecast(5), forecaster.forecast(5, ROWS[300:320])
    others = {"target": "level", "scale": False, "learn": [0], "kinematics": 3, "calibrate": True, "verbose": True}
    forecaster.set_params(**others, esn__leak_rate=0.1, esn__covariance="diagonal", esn__process_noise=0.3)
    assert forecaster.target_ == "change"
    same(forecaster.forecast(5), expected[0])
    same(forecaster.forecast(5, ROWS[300:320]), expected[1])
    twin = quick().fit(ROWS[:300]).update(ROWS[300:310])
    same(forecaster.update(ROWS[300:310]).forecast(5), twin.forecast(5))
    same(save_and_load(forecaster).forecast(5), twin.forecast(5))


# ---------------------------------------------------------------- as fast as it can


@pytest.fixture
def filtered(monkeypatch):
    """Record the number of rows of each filtered context."""
    rows = []

    def counted(*arguments, observations, **more):
        rows.append(len(observations))
        return rollout(*arguments, observations=observations, **more)

    monkeypatch.setattr("pesn.forecasting.context.rollout", counted)
    return rows


@pytest.mark.parametrize("gap", [[40], [0], [100, 140], [395], [330, 385], [369, 370]], ids=str)
def test_early_missing_values_cost_nothing(dated, gap, filtered, monkeypatch):
    """Compared with filtering all rows."""
    context = ROWS.copy()
    context[gap, -1] = np.nan
    fast = dated.forecast(5, context)
    assert max(filtered) <= 400 - min([379, *(k for k in gap if 330 <= k <= 379)]) + 1
    monkeypatch.setattr(ContextFilter, "_find_settled_rows", lambda self, complete: (0, 0))
    slow = dated.forecast(5, context)
    assert max(filtered) == 399
    np.testing.assert_allclose(fast.mean, slow.mean, rtol=0, atol=0.05 * slow.std.min())
    np.testing.assert_allclose(fast.std, slow.std, rtol=0.02)


# ---------------------------------------------------------------- in a notebook


def test_gaussian_has_html():
    table = Gaussian([0.0, 1.5], var=[1.0, 4.0])._repr_html_()
    assert all(f"<td>{text}</td>" in table for text in ("1.5", "2", "-2.42", "5.42"))
    assert Gaussian(np.zeros(50), var=1.0)._repr_html_().count("<tr") == 22
    assert Gaussian(np.zeros((3, 2)))._repr_html_() is None
    assert Gaussian(0.0)._repr_html_() is None
