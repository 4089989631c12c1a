"""
A robot rolled out
==================

A model of the cart pole, learnt from four runs of random pushing, predicts what a sequence of forces will do. Positions follow
from velocities and need not be learnt: that is told as kinematics.
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn
from pesn.systems import cart_pole

runs = cart_pole.simulate(runs=4, steps=800, rng=0)  # states x, theta, v, omega; the force u
dt = runs.dt
A = np.array([[1, 0, dt / 2, 0], [0, 1, 0, dt / 2]])  # positions move by the mean of two velocities
B = dt / 2 * np.eye(2)
network = pesn.ProbabilisticESN(60, washout="auto", random_state=0)
model = pesn.Forecaster(network, learn=[2, 3], kinematics=(A, B, [0, 0]))
model = model.fit(runs.states, runs.inputs, lengths=runs.lengths)

# %%
# A run that it has not seen: ten rows to start from, then a second and a half with the forces alone.

test = cart_pole.simulate(runs=1, steps=90, rng=1)
known, horizon = 10, 75
plan = test.inputs[known - 1 : known - 1 + horizon]  # the first force acts on the last row that is known
rollout = model.forecast(horizon, (test.states[:known], test.inputs[: known - 1]), plan)
truth = test.states[known : known + horizon]
lower, upper = rollout.interval(0.95)
print("inside the 95 % interval:", np.mean((lower <= truth) & (truth <= upper)).round(3))

figure, axes = plt.subplots(2, 2, figsize=(9, 4.5), sharex=True, layout="constrained")
rollout.plot(ax=list(axes.ravel()), truth=truth)
handles, labels = axes[0, 0].get_legend_handles_labels()
axes[0, 0].get_legend().remove()
figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
for ax in axes[0]:
    ax.set_xlabel("")
for ax, name in zip(axes.ravel(), ["x (m)", "theta (rad)", "v (m/s)", "omega (rad/s)"], strict=True):
    ax.set_ylabel(name)
plt.show()

# %%
# The rollout is one Gaussian over all steps: whole futures can be drawn from it, for costs that are not squares.

futures = rollout.sample(1000, rng=0)  # (1000, horizon, 4)
swing = np.abs(futures[:, :, 1] - np.pi).max(axis=1)
print(f"the pole's largest swing: {swing.mean():.3f} ± {swing.std():.3f} rad, in truth {np.abs(truth[:, 1] - np.pi).max():.3f}")
