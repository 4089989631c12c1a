"""Every public function refuses complex numbers by the name of the argument, and networks refuse dates: as floats they would lose
their imaginary parts, or their units."""

import inspect

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn import metrics

ANGLES = np.exp(1j * np.arange(60.0))
REAL = ANGLES.real.copy()
ROWS = np.column_stack([REAL, ANGLES.imag])
COMPLEX = ROWS + 0.5j
DAYS = pd.date_range("2024-01-01", periods=60)

FORMS = {
    "array": lambda values: values, "objects": lambda values: values.astype(object), "list": lambda values: values.tolist(),
    "pandas": lambda values: pd.DataFrame(values) if values.ndim == 2 else pd.Series(values),
    "imaginary parts of 0": lambda values: values.real + 0j,
}  # fmt: skip


def network():
    return pesn.Forecaster(pesn.ProbabilisticESN(10, washout=5, random_state=0, process_noise=1e-5), calibrate=False)


@pytest.fixture(scope="module")
def models():
    return {
        "esn": pesn.EchoStateNetwork(10).fit(ROWS, ROWS),
        "pesn": pesn.ProbabilisticESN(10).fit(ROWS, ROWS),
        "classifier": pesn.ReservoirClassifier(10).fit([ROWS[:30], ROWS[30:]], [0, 1]),
        "network": network().fit(ROWS, ROWS[:, :1]),
        "series": pesn.SeriesForecaster(horizon=3, season=None).fit(REAL, ROWS[:, :1]),
    }


# what is called, by the argument that is complex: of models m and complex c (60,), C (60, 2)
CALLS = {
    "mean of moments": lambda m, f: pesn.moments("tanh", f(ANGLES), 1.0),
    "var of moments": lambda m, f: pesn.moments("tanh", 0.0, f(ANGLES)),
    "mean of Gaussian": lambda m, f: pesn.Gaussian(f(ANGLES)),
    "var of Gaussian": lambda m, f: pesn.Gaussian(REAL, var=f(ANGLES)),
    "cov of Gaussian": lambda m, f: pesn.Gaussian(np.zeros(2), cov=f(np.eye(2) + 0j)),
    "value of condition": lambda m, f: pesn.Gaussian(ROWS[0], cov=np.eye(2)).condition([0], f(ANGLES[:1])),
    "W of Dense": lambda m, f: pesn.Dense(f(COMPLEX[:2]), np.zeros(2)),
    "b of Dense": lambda m, f: pesn.Dense(np.eye(2), f(ANGLES[:2])),
    "X of EchoStateNetwork.fit": lambda m, f: pesn.EchoStateNetwork(10).fit(f(COMPLEX), ROWS),
    "y of EchoStateNetwork.fit": lambda m, f: pesn.EchoStateNetwork(10).fit(ROWS, f(COMPLEX)),
    "X of EchoStateNetwork.partial_fit": lambda m, f: m["esn"].partial_fit(f(COMPLEX), ROWS),
    "X of EchoStateNetwork.predict": lambda m, f: m["esn"].predict(f(COMPLEX)),
    "y of EchoStateNetwork.score": lambda m, f: m["esn"].score(ROWS, f(COMPLEX)),
    "X of ProbabilisticESN.predict": lambda m, f: m["pesn"].predict(f(COMPLEX)),
    "X of ReservoirClassifier.fit": lambda m, f: pesn.ReservoirClassifier(10).fit(f(COMPLEX), [0, 1], lengths=[30, 30]),
    "X of ReservoirClassifier.predict": lambda m, f: m["classifier"].predict(f(COMPLEX)),
    "y of Forecaster.fit": lambda m, f: network().fit(f(COMPLEX)),
    "X of Forecaster.fit": lambda m, f: network().fit(ROWS, f(COMPLEX)),
    "run 0: y of Forecaster.fit of runs": lambda m, f: network().fit([np.asarray(f(COMPLEX))]),
    "kinematics of Forecaster": lambda m, f: pesn.Forecaster(
        pesn.ProbabilisticESN(10), learn=[0], kinematics=(f(COMPLEX[:1]), [[0.0]], [0.0])
    ).fit(ROWS),
    "measurement_noise of Forecaster": lambda m, f: pesn.Forecaster(
        pesn.ProbabilisticESN(10), measurement_noise=np.asarray(f(ANGLES[:2]))
    ).fit(ROWS),
    "context of Forecaster.forecast": lambda m, f: m["network"].forecast(3, (f(COMPLEX), ROWS[:-1, :1]), ROWS[:3, :1]),
    "X of context of Forecaster.forecast": lambda m, f: m["network"].forecast(3, (ROWS, f(COMPLEX[:-1, :1])), ROWS[:3, :1]),
    "X of Forecaster.forecast": lambda m, f: m["network"].forecast(3, X=f(COMPLEX[:3, :1])),
    "y of Forecaster.update": lambda m, f: m["network"].update(f(COMPLEX), ROWS[:, :1]),
    "y of Forecaster.score": lambda m, f: m["network"].score(f(COMPLEX), ROWS[:, :1]),
    "y of Forecaster.backtest": lambda m, f: m["network"].backtest(f(COMPLEX), ROWS[:, :1], 3, 2),
    "truth of Forecast.plot": lambda m, f: m["network"].forecast(3, X=ROWS[:3, :1]).plot(truth=f(COMPLEX[:3])),
    "y of SeriesForecaster.fit": lambda m, f: pesn.SeriesForecaster(season=None).fit(f(COMPLEX)),
    "X of SeriesForecaster.fit": lambda m, f: pesn.SeriesForecaster(season=None).fit(REAL, f(COMPLEX)),
    "X of SeriesForecaster.forecast": lambda m, f: m["series"].forecast(3, X=np.asarray(f(COMPLEX[:3, :1]))),
    "y of SeriesForecaster.score": lambda m, f: m["series"].score(f(ANGLES[:5]), ROWS[:5, :1]),
}
METRICS = [
    (name, argument.name)
    for name in metrics.__all__
    for argument in inspect.signature(getattr(metrics, name)).parameters.values()
    if argument.name in ("y", "mean", "std", "cov", "samples", "a", "b", "predicted", "y_true", "y_pred")
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", CALLS)
def test_complex_numbers_raise_an_error_that_names_the_argument(call, form, models):
    with pytest.raises((TypeError, ValueError)) as caught:
        CALLS[call](models, FORMS[form])
    message = str(caught.value)
    assert message.startswith(call.split(" of ")[0] if call != "X of context of Forecaster.forecast" else "X of context"), message
    assert "real number" in message
    assert "\n" not in message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "argument"), METRICS)
def test_complex_numbers_in_metrics_raise(name, argument):
    function = getattr(metrics, name)
    parameters = inspect.signature(function).parameters
    names = {one.name for one in parameters.values() if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
    names = names - {"std"} if argument == "cov" else names | ({"std"} if "cov" in parameters else set())
    given = dict.fromkeys(names, 0.5 + np.square(REAL))
    for make in FORMS.values():
        with pytest.raises((TypeError, ValueError), match=rf"^{argument} must be real numbers, got .*(complex|object)"):
            function(**{**given, argument: make(ANGLES)})


def test_complex_column_of_a_long_frame_raises():
    for name in ("y", "price"):
        frame = pd.DataFrame({"unique_id": "a", "ds": DAYS, "y": REAL, "price": REAL})
        frame[name] = ANGLES
        with pytest.raises((TypeError, ValueError), match=name):
            pesn.SeriesForecaster(season=None).fit(frame).forecast(2)


@pytest.mark.parametrize("network", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
@pytest.mark.parametrize(
    "times",
    [DAYS.to_numpy()[:, None], (DAYS - DAYS[0]).to_numpy()[:, None], pd.DataFrame({"a": DAYS - DAYS[0]}), DAYS.to_frame()],
    ids=["dates", "durations", "frame of durations", "frame of dates"],
)
def test_dates_as_numbers_raise(network, times):
    with pytest.raises(TypeError, match=r"^X must be real numbers, got dates or times among them"):
        network(10).fit(times, REAL)
    with pytest.raises(TypeError, match=r"^y must be real numbers, got dates or times among them"):
        network(10).fit(REAL[:, None], times)


def test_booleans_are_converted_to_1_and_0():
    flags = REAL > 0.0
    for given in (flags, pd.Series(flags), pd.Series(flags, dtype="boolean"), pd.Series(flags, dtype=object)):
        found = network().fit(ROWS, given).forecast(2, X=given[:2])
        np.testing.assert_array_equal(found.mean, network().fit(ROWS, flags.astype(float)).forecast(2, X=flags[:2]).mean)
