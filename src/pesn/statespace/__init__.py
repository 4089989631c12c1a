"""State-space models over joint Gaussians: a state in four forms, the moves that change it, one model, one loop over time.

x = [c, h] is one Gaussian: c what is *carried* by affine maps (inputs, outputs fed back, the states of a closed loop), h what
cells move. Four moves make every recursion:

- ``move``: h ← (1 − L) h + L f(A x + b). Means and variances pass f by :func:`pesn.moments`. With g = E[f′], Stein's identity
  makes Cov(f(a), x) = g Cov(a, x) exact, so that x moves by the linear map T: h ← (1 − L) h + L g A x, and what is left,
  Cov f(a) − g Cov(a) g, is uncorrelated with all the rest;
- ``affine``: x[rows] ← K x + k + noise, exact; ``assign``: x[rows] ← values;
- ``condition``: some entries of x are observed, with or without noise.
"""
