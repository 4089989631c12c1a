"""
A Gaussian through tanh
=======================

What goes in is a Gaussian. What comes out of tanh is none, but it has a mean and a variance, and these can be had without
sampling: :func:`pesn.moments` gives them to eleven digits for the price of a few evaluations of tanh.
"""

import matplotlib.pyplot as plt
import numpy as np

import pesn

# %%
# Three Gaussians: nearly a point, wide, and far out where tanh is flat.

cases = [(0.5, 0.05), (0.5, 1.0), (2.0, 1.0)]  # mean and variance
rng = np.random.default_rng(0)

# %%
# The histogram is of 100,000 samples; the line and the band are mean and standard deviation in closed form.

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for ax, (m, v) in zip(axes, cases, strict=True):
    mean, var, *_ = pesn.moments("tanh", m, v)
    samples = np.tanh(rng.normal(m, np.sqrt(v), 100_000))
    ax.hist(samples, np.linspace(-1, 1, 81), density=True, color="0.8")
    ax.axvspan(mean - np.sqrt(var), mean + np.sqrt(var), color="tab:blue", alpha=0.2, lw=0)
    ax.axvline(mean, color="tab:blue")
    ax.set(title=f"z ~ N({m}, {v})", xlabel="tanh(z)", xlim=(-1, 1), yticks=[])
    print(f"N({m}, {v}): {mean:.5f} ± {np.sqrt(var):.5f}, samples: {samples.mean():.5f} ± {samples.std():.5f}")

# %%
# The last one leans on its bound: two moments do not say that. Skewness and kurtosis come with ``order=4``.

_, _, skewness, kurtosis = pesn.moments("tanh", 2.0, 1.0, order=4)
print(f"skewness {skewness:.3f}, kurtosis {kurtosis:.2f}")
plt.show()
