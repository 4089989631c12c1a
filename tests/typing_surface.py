"""Calls as users write them, with the types that a strict checker must see; it is read by mypy, not run.

What comes from a library without types (frames) is Any. What is given as an array may be a tensor where tensors went in.
"""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import pesn
from pesn.metrics import coverage, crps_gaussian
from pesn.moments.bounds import ErrorBound
from pesn.networks.propagate import Propagated, propagate_gaussian
from pesn.readout.ridge import Readout
from pesn.reservoir.drive import State

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating[Any]]


def networks(rows: Doubles) -> None:
    """Fit, predict, go on."""
    esn = pesn.EchoStateNetwork(200, spectral_radius=0.9, washout="auto", random_state=0, verbose=True).fit(rows, rows)
    assert_type(esn, pesn.EchoStateNetwork)
    assert_type(esn.predict(rows), Floats)
    assert_type(esn.predict(rows, return_state=True), tuple[Floats, State | list[State]])
    assert_type(esn.predict(rows, state=esn.state_), Floats)
    assert_type(esn.transform(rows), Floats)
    assert_type(esn.predict(rows, lengths=[50, 50]), Floats)
    assert_type(esn.partial_fit(rows, rows), pesn.EchoStateNetwork)
    assert_type(esn.score(rows, rows), float)
    assert_type(esn.readout_, Readout)
    assert_type(esn.readout_.weights, Floats)
    assert_type(esn.online_predictions_, Floats)
    network = pesn.ProbabilisticESN(200, covariance="low-rank", initial_state=pesn.Gaussian(np.zeros(200))).fit(rows, rows)
    assert_type(network, pesn.ProbabilisticESN)
    assert_type(network.predict(rows), Floats)
    assert_type(network.predict(rows, return_std=True), tuple[Floats, Floats])
    assert_type(network.predict(rows, True), tuple[Floats, Floats])
    assert_type(network.predict(rows, return_cov=True), tuple[Floats, Floats])
    network.save("network.pesn")


def classifiers(rows: Doubles, uncertain: pesn.Gaussian, labels: npt.NDArray[np.int64]) -> None:
    """Fit, predict, save."""
    classifier = pesn.ReservoirClassifier(200, states="mean", random_state=0).fit(rows, labels, lengths=[50, 50])
    assert_type(classifier, pesn.ReservoirClassifier)
    assert_type(classifier.predict(rows), npt.NDArray[Any])
    assert_type(classifier.predict_proba(uncertain, [50, 50]), Floats)
    assert_type(classifier.decision_function(rows), Floats)
    assert_type(classifier.transform([rows, rows]), Floats)
    assert_type(classifier.score(rows, labels), float)
    classifier.save("classifier.pesn")


def forecasts(rows: Doubles, known: Doubles, wanted: bool) -> None:
    """Fit, forecast, update, save, load."""
    forecaster = pesn.Forecaster(pesn.ProbabilisticESN(100), learn=["v"], verbose=wanted).fit(rows, known, lengths=[100, 200])
    assert_type(forecaster, pesn.Forecaster)
    assert_type(forecaster.esn_, pesn.ProbabilisticESN)
    assert_type(forecaster.names_, list[str] | None)
    assert_type(forecaster.target_, str)
    assert_type(forecaster.update(rows, known), pesn.Forecaster)
    forecast = forecaster.forecast(20, (rows, known[:-1]), known[:20], parts=("state", "noise"))
    assert_type(forecast, pesn.Forecast)
    assert_type(forecast.mean, Doubles)
    assert_type(forecast.std, Doubles)
    assert_type(forecast.joint, Doubles)
    assert_type(forecast.interval(0.9), tuple[Doubles, Doubles])
    assert_type(forecast.sample(10, rng=0), Doubles)
    assert_type(forecast.variance_parts, dict[str, Doubles])
    assert_type(forecast.names, tuple[str, ...])
    assert_type(forecast[0], pesn.Gaussian)
    forecast.to_frame(level=0.8).to_csv("forecast.csv")
    forecast.plot(columns="v", level=(0.5, 0.9), truth=rows[:20])[0].set_title("v")
    assert_type(forecast._repr_html_(), str)
    assert_type(forecaster.step(rows, known), Doubles)
    assert_type(forecaster.linearize(rows[0], known[0]), tuple[Doubles, Doubles])
    forecaster.save("forecaster.pesn")
    again = pesn.load("forecaster.pesn")
    assert_type(
        again, pesn.EchoStateNetwork | pesn.ProbabilisticESN | pesn.ReservoirClassifier | pesn.Forecaster | pesn.SeriesForecaster
    )
    assert isinstance(again, pesn.Forecaster)
    assert_type(again.forecast(5), pesn.Forecast)


def series(rows: Doubles) -> None:
    """The automatic forecaster of series."""
    forecaster = pesn.SeriesForecaster(horizon=12, season=(7, 365), level=(0.5, 0.9)).fit(rows, rows)
    assert_type(forecaster, pesn.SeriesForecaster)
    assert_type(forecaster.quantile([0.1, 0.9]), Doubles)
    back = forecaster.backtest(origins=5)
    assert_type(back.crps(), Doubles)
    assert_type(back.coverage(0.9), float)
    assert_type(forecaster.score(rows), float)
    assert_type(forecaster.summary(), str)


def uncertainty(weights: Doubles) -> None:
    """Moments, Gaussians, networks of layers."""
    x = pesn.Gaussian([0.0, 1.0], cov=[[1.0, 0.2], [0.2, 1.0]])
    assert_type(x.affine(weights, [0.0, 0.0]), pesn.Gaussian)
    assert_type(x.condition([0], [1.0]), pesn.Gaussian)
    assert_type(x.dim, int)
    assert_type(x.mean, Floats)
    assert_type(x.interval(0.9), tuple[Floats, Floats])
    assert_type(x.sample(10, rng=0), Floats)
    network = [pesn.Dense(weights, activation="tanh"), pesn.Dense(weights)]
    mesh = pesn.choose_mesh("tanh", 1e-3, (-1.0, 1.0), (0.1, 1.0))
    assert_type(pesn.propagate(network, x, tol=0.003, covariance="diagonal"), Propagated)
    assert_type(propagate_gaussian(network, x, method="exact"), list[pesn.Gaussian])
    assert_type(propagate_gaussian(network, x, method=("spline", mesh), covariance="low-rank"), list[pesn.Gaussian])
    assert_type(pesn.propagate("model.onnx", x), Propagated)
    assert_type(pesn.propagate(lambda rows: rows, x), Propagated)
    assert_type(pesn.moments("tanh", mean=0.3, var=0.5), pesn.Moments)
    assert_type(pesn.moments("tanh", 0.3, 0.5, order=4, method="spline", mesh=mesh).kurtosis, Floats)
    mean, var, *_ = pesn.moments("tanh", [0.0, 3.0], 0.2)
    assert_type(var, Floats)
    print(mean + var)
    assert_type(pesn.gain("tanh", 0.3, 0.5), Floats)
    assert_type(mesh, pesn.Mesh)
    assert_type(pesn.error_bound("tanh", 0.0, 1.0, mesh), ErrorBound)
    assert_type(crps_gaussian(weights, weights, weights), Floats)
    assert_type(coverage(weights, weights, weights), float)


def mistakes(forecaster: pesn.Forecaster, forecast: pesn.Forecast) -> None:
    """What a checker must refuse: each of these lines would be told of, were it not for the comment."""
    pesn.EchoStateNetwork(spectral_radios=0.9)  # type: ignore[call-arg]
    pesn.EchoStateNetwork("many")  # type: ignore[arg-type]
    pesn.Forecaster("network")  # type: ignore[arg-type]
    forecaster.forecast("20")  # type: ignore[arg-type]
    forecast.means  # type: ignore[attr-defined]  # noqa: B018
    forecast.mean = np.zeros((1, 1))  # type: ignore[misc]
    pesn.Forcaster()  # type: ignore[attr-defined]
    pesn.ProbabilisticESN(covariance="ful")  # type: ignore[arg-type]
    pesn.ReservoirClassifier(states="first")  # type: ignore[arg-type]
    pesn.ProbabilisticESN(initial_state="learnt")  # type: ignore[arg-type]
    pesn.ProbabilisticESN(process_noise="none")  # type: ignore[arg-type]
    pesn.Forecaster(target="changes")  # type: ignore[arg-type]
    pesn.moments("tanh", 0.3, 0.5, method="splin")  # type: ignore[arg-type]
    pesn.propagate([], pesn.Gaussian(0.0), covariance="ful")  # type: ignore[arg-type]
