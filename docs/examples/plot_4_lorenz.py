"""
A chaotic system, with bands
============================

A :class:`pesn.Forecaster` learns the Lorenz system and forecasts it from thirty rows that it has not seen. The band is narrow
as long as the forecast can be trusted and opens where chaos takes over.
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn
from pesn.systems import chaotic

series = chaotic.lorenz(runs=1, steps=4000, rng=0).states
network = pesn.ProbabilisticESN(80, ridge=1e-8, washout="auto", random_state=0)
forecaster = pesn.Forecaster(network).fit(series[:2000])

# %%
# One Gaussian over all steps and columns: means, standard deviations, covariances between steps.

horizon = 120
context, truth = series[3000:3030], series[3030 : 3030 + horizon]
forecast = forecaster.forecast(horizon, context)
print(forecast)

# %%
# How often the truth lies inside the 95 % interval, over eight starts:

inside = []
for last in range(3000, 3800, 100):
    lower, upper = forecaster.forecast(horizon, series[last - 30 : last]).interval(0.95)
    inside.append(np.mean((lower <= series[last : last + horizon]) & (series[last : last + horizon] <= upper)))
print(f"{np.mean(inside):.3f} on average, {min(inside):.3f} at worst")

# %%
# The picture is of a start that goes well; the worst of the eight covers less, as printed above. One Lyapunov time is about 55
# steps here.

figure, axes = plt.subplots(3, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
forecast.plot(ax=list(axes), truth=truth)
handles, labels = axes[0].get_legend_handles_labels()
axes[0].get_legend().remove()
figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
for ax in axes:
    ax.label_outer()
plt.show()
