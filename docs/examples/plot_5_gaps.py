"""
Forecasting with gaps
=====================

NaN in what was observed means that nothing was measured there. The forecaster conditions on what *was*: here first everything,
then every third row, then one column of three.
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn
from pesn.systems import chaotic

series = chaotic.lorenz(runs=1, steps=3000, rng=2).states
network = pesn.ProbabilisticESN(60, washout="auto", random_state=0)
forecaster = pesn.Forecaster(network).fit(series[:2000])

whole, truth = series[2500:2530], series[2530:2560]
every_third, one_column = whole.copy(), whole.copy()
every_third[np.arange(30) % 3 != 2] = np.nan
one_column[:, 1:] = np.nan  # only x is measured

# %%
# The less is known, the wider the band: most of all in the columns that were never seen.

names = ["all rows", "every third row", "x alone"]
figure, axes = plt.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey="row", layout="constrained")
for column, (name, context) in enumerate(zip(names, [whole, every_third, one_column], strict=True)):
    forecast = forecaster.forecast(30, context)
    forecast.plot(ax=list(axes[:, column]), columns=[0, 2], level=0.95, truth=truth)
    axes[0, column].set_title(name)
    print(f"{name:16} deviations after 1 step {forecast.std[0].round(3)}, after 20 {forecast.std[19].round(3)}")
for ax in axes.flat:
    ax.label_outer()
    if ax is not axes[0, 0] and ax.get_legend():
        ax.get_legend().remove()
plt.show()
