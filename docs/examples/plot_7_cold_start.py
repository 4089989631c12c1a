"""
A cold start against a washout
==============================

An echo state network forgets where it started only after a washout: before, its forecasts are wrong. A
:class:`pesn.Forecaster` infers the state from the rows that there are. Errors of ten-step forecasts, by rows observed:
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn
from pesn.systems import chaotic

series = chaotic.lorenz(runs=1, steps=3000, rng=0).states
series = (series - series[:2000].mean(axis=0)) / series[:2000].std(axis=0)
train, origins = series[:2000], np.linspace(2200, 2980, 10).astype(int)

# %%
# The plain network predicts the next row; free-running, each prediction is its next input.

plain = pesn.EchoStateNetwork(60, washout=100, random_state=0).fit(train[:-1], train[1:])


def free_run(rows, steps):
    """What comes after ``rows``, from the zero state."""
    outputs, state = plain.predict(rows, return_state=True)
    path = [outputs[-1:]]
    for _ in range(steps - 1):
        last, state = plain.predict(path[-1], state=state, return_state=True)
        path.append(last)
    return np.vstack(path)


forecaster = pesn.Forecaster(pesn.ProbabilisticESN(60, washout=100, random_state=0), calibrate=False).fit(train)

# %%
# Both see the same rows, and nothing before them.

observed = np.array([1, 2, 3, 5, 10, 20, 30, 50])
errors = np.zeros((2, len(observed)))
for i, k in enumerate(observed):
    for last in origins:
        rows, truth = series[last - k + 1 : last + 1], series[last + 1 : last + 11]
        errors[:, i] += [
            np.abs(free_run(rows, 10) - truth).mean() / len(origins),
            np.abs(forecaster.forecast(10, rows).mean - truth).mean() / len(origins),
        ]

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.loglog(observed, errors[0], "o-", color="0.5", label="plain network, from zero")
ax.loglog(observed, errors[1], "o-", color="tab:blue", label="pesn.Forecaster")
ax.set(xlabel="rows observed", ylabel="mean error over ten steps, in deviations", xticks=[1, 2, 5, 10, 20, 50])
ax.xaxis.set_major_formatter("{x:.0f}")
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()
