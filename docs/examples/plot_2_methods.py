"""
The methods compared
====================

Seven methods answer the same call of :func:`pesn.moments`. Here are five of them, with their errors against ``"exact"`` along
the mean of the input.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import pesn

m = np.linspace(-5, 5, 401)
v = 0.2
exact = pesn.moments("tanh", m, v, method="exact")

# %%
# The paper's two are ``"analytic"``, one line without a parameter, and ``"spline"``, a cubic spline on a mesh. ``"mixture"``
# takes the logistic distribution as eight Gaussians. ``"surface"``, the default, interpolates the answer itself.

methods = ["monte-carlo", "analytic", "spline", "mixture", "surface"]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for method in methods:
    options = {"rng": 0} if method == "monte-carlo" else {}
    pesn.moments("tanh", m, v, method=method, **options)  # what is compiled is compiled before time is taken
    start = time.perf_counter()
    found = pesn.moments("tanh", m, v, method=method, **options)
    microseconds = 1e6 * (time.perf_counter() - start) / len(m)
    for ax, got, right in zip(axes, found[:2], exact[:2], strict=True):
        ax.semilogy(m, np.abs(got - right) + 1e-17, label=method, lw=1.2)
    print(f"{method:12} {microseconds:9.3f} µs a value")
axes[0].set(title="error of the mean", xlabel="mean of the input, variance 0.2", ylim=(1e-17, 1))
axes[1].set(title="error of the variance", xlabel="mean of the input, variance 0.2")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
plt.show()

# %%
# The spline has a bound of its error, and from a tolerance the mesh that it needs:

mesh = pesn.choose_mesh("tanh", 1e-6, mean_range=(-5, 5), var_range=(0, 4))
print(mesh, pesn.error_bound("tanh", 3.0, v, mesh))
