"""
Covariances through a network
=============================

An uncertain input through two layers of tanh: :func:`pesn.propagate` gives the Gaussian of the outputs. Units that see the same
input are correlated, and to drop that, as ``covariance="diagonal"`` does, tells a wrong story.
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn

rng = np.random.default_rng(1)
network = [
    pesn.Dense(rng.normal(size=(40, 2)), rng.normal(size=40), "tanh"),
    pesn.Dense(rng.normal(size=(40, 40)) / 6, np.zeros(40), "tanh"),
    pesn.Dense(rng.normal(size=(2, 40)) / 6, np.zeros(2)),
]
x = pesn.Gaussian(mean=[0.5, -1.0], cov=[[0.05, 0.03], [0.03, 0.08]])

full = pesn.propagate(network, x)
diagonal = pesn.networks.propagate_gaussian(network, x, covariance="diagonal")[-1]

# %%
# The truth, from samples:

samples = x.sample(20_000, rng=0)
for layer in network:
    samples = layer.activation.value(samples @ layer.W.T + layer.b)


def show(name, mean, std, correlation):
    """A line of the table."""
    print(f"{name:10} mean {mean.round(3)}, deviation {std.round(3)}, correlation {correlation:.3f}")


show("samples", samples.mean(axis=0), samples.std(axis=0), np.corrcoef(samples.T)[0, 1])
show("full", full.mean, full.std, full.cov[0, 1] / full.std.prod())
show("diagonal", diagonal.mean, diagonal.std, 0.0)


# %%
# Ellipses hold 95 % of a Gaussian.


def ellipse(y):
    """Points around the Gaussian y."""
    angle = np.linspace(0, 2 * np.pi, 200)
    values, vectors = np.linalg.eigh(y.cov)
    return y.mean[:, None] + vectors @ (np.sqrt(5.991 * values)[:, None] * [np.cos(angle), np.sin(angle)])


figure, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
ax.plot(*samples[:3000].T, ".", color="0.75", ms=2, label="samples")
ax.plot(*ellipse(diagonal), color="tab:orange", label="diagonal")
ax.plot(*ellipse(full), color="tab:blue", label="full covariance")
ax.set(xlabel="first output", ylabel="second output", title="95 % of the outputs")
ax.legend(frameon=False)
plt.show()
