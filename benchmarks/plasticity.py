"""Does intrinsic plasticity pay? NARMA-10 and recall by reservoirs as drawn, tuned here, and tuned by ReservoirPy's IPReservoir.

python benchmarks/plasticity.py [--seeds 10]

100 units that do not leak, the same drawn weights on all sides, inputs standardised and scaled too little, well and too much.
Units are tuned on the 2,000 rows that the readout learns from, to a Gaussian of mean 0: rate 1e-3, ten passes, here at a falling
rate, there at one rate. Tuned weights go into ``EchoStateNetwork`` as matrices, so that all are read out by the same ridge
regression, its penalty by cross-validation. NRMSE on 1,000 rows after; recall: of the input 8 rows ago; times faster: the tuning.

A second table moves recurrent weights by the rules of synaptic plasticity, rate 1e-3, one pass, beside ReservoirPy's
LocalPlasticityReservoir as it is, whose fit (0.4.2) leaves the state at zero: Hebb's rules then change nothing.
"""

from timing import installed, machine, seconds  # isort: skip  (before NumPy: one thread)

import argparse
from importlib import import_module
from typing import Any

import numpy as np

import pesn
from pages import table
from pesn.metrics import nrmse
from pesn.reservoir import Plasticity, Reservoir, SynapticPlasticity, draw
from pesn.reservoir.plasticity import adapt
from pesn.reservoir.sequences import Rows
from pesn.reservoir.synaptic_plasticity import adapt_weights
from topologies import TEST, TRAIN, UNITS, series

SCALINGS, DEVIATIONS = (0.02, 0.3, 5.0), (0.1, 0.3)
RATE, EPOCHS = 1e-3, 10
RULES = {
    **{rule: SynapticPlasticity(rule) for rule in ("hebbian", "anti-hebbian", "oja", "anti-oja", "bcm")},
    "hebbian, normalize": SynapticPlasticity("hebbian", normalize=True),
}


def by_peer(drawn: Reservoir, z: np.ndarray, std: float) -> tuple[Reservoir, float]:
    """The reservoir that ReservoirPy tunes from the same weights, and how long it takes."""
    node = import_module("reservoirpy.nodes").IPReservoir(
        UNITS, lr=1.0, mu=0.0, sigma=std, learning_rate=RATE, epochs=EPOCHS,
        W=drawn.W.toarray(), Win=drawn.W_in.copy(), bias=drawn.bias.copy(),
    )  # fmt: skip
    took = seconds(lambda: node.fit(z))
    gains, shifts = np.ravel(node.a), np.ravel(node.b)
    each = np.repeat(gains, np.diff(drawn.indptr.astype(int)))
    bias = gains * drawn.bias + shifts
    return drawn._replace(data=each * drawn.data, W_in=gains[:, None] * drawn.W_in, bias=bias), took


def here(drawn: Reservoir, z: np.ndarray, std: float) -> tuple[Reservoir, float]:
    """The same here."""
    found: list[Reservoir] = []
    plasticity, rows = Plasticity(std=std, rate=RATE, epochs=EPOCHS), np.zeros((len(z), 1))
    took = seconds(lambda: found.append(adapt(drawn, plasticity, Rows(z), rows, [slice(0, len(z))])))
    return found[0], took


def error(reservoir: Reservoir, X: np.ndarray, y: np.ndarray) -> float:
    """NRMSE of a readout of these weights on rows after those it learnt from; NaN where units are not finite."""
    return readout_error(reservoir.W.toarray(), reservoir, X, y)


def readout_error(W: np.ndarray, reservoir: Reservoir, X: np.ndarray, y: np.ndarray) -> float:
    """The same with another W."""
    W_in, bias = reservoir.W_in, reservoir.bias
    if not (np.isfinite(W).all() and np.isfinite(bias).all()):
        return float("nan")
    esn = pesn.EchoStateNetwork(
        UNITS, leak_rate=1.0, topology=W, input_scaling=W_in, bias_scaling=bias, ridge="auto", washout=50, random_state=0
    ).fit(X[:TRAIN], y[:TRAIN])
    return float(np.mean(nrmse(y[TRAIN:], esn.predict(X[TRAIN:], state=esn.state_))))


def measured(seed: int, scaling: float, std: float) -> dict[str, float]:
    """Errors of each side on both tasks, and the ratio of times."""
    u, narma = series(seed)
    X = (u - u[:TRAIN].mean()) / u[:TRAIN].std()
    recall = np.roll(X, 8, axis=0)
    drawn = draw(UNITS, 1, 1, input_scaling=scaling, leak_rate=1.0, rng=seed)
    ours, took = here(drawn, X[:TRAIN], std)
    theirs, peer_took = by_peer(drawn, X[:TRAIN], std)
    found = {"time": peer_took / took}
    for side, reservoir in (("drawn", drawn), ("pesn", ours), ("ReservoirPy", theirs)):
        found |= {f"{side}, NARMA-10": error(reservoir, X, narma), f"{side}, recall": error(reservoir, X, recall)}
    return found


def moved(seed: int, scaling: float, plasticity: SynapticPlasticity) -> dict[str, float]:
    """Errors with recurrent weights that a rule has moved, here and there, the spectral radius here, and the ratio of times."""
    u, narma = series(seed)
    X = (u - u[:TRAIN].mean()) / u[:TRAIN].std()
    recall = np.roll(X, 8, axis=0)
    drawn = draw(UNITS, 1, 1, input_scaling=scaling, leak_rate=1.0, rng=seed)
    found: list[Reservoir] = []
    rows = Rows(X[:TRAIN]), np.zeros((TRAIN, 1)), [slice(0, TRAIN)]
    took = seconds(lambda: found.append(adapt_weights(drawn, plasticity, *rows)))
    node = import_module("reservoirpy.nodes").LocalPlasticityReservoir(
        UNITS, lr=1.0, local_rule=plasticity.rule, eta=plasticity.rate, synapse_normalization=plasticity.normalize,
        W=drawn.W.toarray(), Win=drawn.W_in.copy(), bias=drawn.bias.copy(),
    )  # fmt: skip
    peer_took = seconds(lambda: node.fit(X[:TRAIN]))
    W = found[0].W.toarray()
    errors = {"time": peer_took / took, "radius": float(np.abs(np.linalg.eigvals(W)).max())}
    for side, weights in (("drawn", drawn.W.toarray()), ("pesn", W), ("ReservoirPy", node.W)):
        for task, y in (("NARMA-10", narma), ("recall", recall)):
            errors[f"{side}, {task}"] = readout_error(weights, drawn, X, y)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print(
        f"{machine()}, reservoirpy {installed('reservoirpy')}",
        f"{TRAIN} + {TEST} rows, {seeds} seeds, mean ± deviation over them",
        sep="\n\n",
        end="\n\n",
    )
    here(draw(UNITS, 1, 1, rng=0), series(0)[0][:50], 0.2)  # compiled before it is timed
    sides = [f"{side}, {task}" for task in ("NARMA-10", "recall") for side in ("drawn", "pesn", "ReservoirPy")]
    head = [f"{side}, {task}" for task in ("NARMA-10", "recall") for side in ("as drawn", "tuned here", "ReservoirPy")]

    def row(every: list[Any], names: list[str]) -> list[str]:
        values = [np.array([found[name] for found in every]) for name in names]
        cells = [f"{value.mean():.3f} ± {value.std():.3f}" for value in values]
        return [*cells, f"{np.median([found['time'] for found in every]):.0f}"]

    rows = []
    for scaling in SCALINGS:
        for std in DEVIATIONS:
            every = [measured(seed, scaling, std) for seed in range(seeds)]
            rows.append([f"{scaling:g}", f"{std:g}", *row(every, sides)])
    print(table(["input_scaling", "std", *head, "times faster"], rows), end="\n\n")
    rows = []
    for scaling in SCALINGS:
        for name, plasticity in RULES.items():
            every = [moved(seed, scaling, plasticity) for seed in range(seeds)]
            rows.append([f"{scaling:g}", name, *row(every, ["radius", *sides])])
    print(table(["input_scaling", "rule", "spectral radius", *head, "times faster"], rows))


if __name__ == "__main__":
    main()
