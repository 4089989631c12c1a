"""Claim: Kuramoto and Sivashinsky's equation is solved as another solver solves it, on any circle, and keeps what it must."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from pesn.systems.chaotic import kuramoto_sivashinsky


def derivatives(n, length):
    """Of trigonometric polynomials on n points, as matrices: first and second."""
    k = 2 * np.pi / length * np.fft.fftfreq(n, 1 / n)
    first = np.where(np.arange(n) == n / 2, 0.0, k)
    modes = np.fft.fft(np.eye(n), axis=0)
    return (np.fft.ifft((1j * power)[:, None] ** m * modes, axis=0).real for power, m in ((first, 1), (k, 2)))


@pytest.mark.parametrize(("n", "length"), [(32, 22.0), (33, 22.0), (24, 12.0)])
def test_against_an_implicit_solver_in_space(n, length):
    """Radau's method on the values at the points, with matrices for derivatives: no Fourier modes, no exponentials."""
    D, D2 = derivatives(n, length)
    linear = -D2 - D2 @ D2
    start = kuramoto_sivashinsky(steps=1, n=n, length=length, rng=3).states[0] + 0.3
    rate, options = lambda t, u: linear @ u - 0.5 * D @ (u * u), {"jac": lambda t, u: linear - D * u, "rtol": 1e-9, "atol": 1e-11}
    reference = solve_ivp(rate, (0, 5), start, "Radau", np.arange(6.0), **options).y.T
    run = kuramoto_sivashinsky(steps=6, dt=1.0, n=n, length=length, initial_state=start, substeps=64)
    np.testing.assert_allclose(run.states, reference, rtol=0, atol=1e-6)
    assert run.names[-1] == f"u{n - 1}"


def test_finer_points_are_the_same_field():
    coarse = kuramoto_sivashinsky(steps=1, n=48, rng=0).states[0]
    modes = np.fft.rfft(coarse)
    modes[-1] = 0.0  # of which 96 points would make two
    coarse, fine = np.fft.irfft(modes), 2.0 * np.fft.irfft(modes, 96)
    runs = [kuramoto_sivashinsky(steps=21, n=len(u), initial_state=u).states for u in (coarse, fine)]
    np.testing.assert_allclose(runs[1][:, ::2], runs[0], atol=1e-6)


def test_mean_and_symmetries_are_conserved():
    """The mean stays; a field that is moved along the circle, or by a mean c along with the frame, stays the same field."""
    start = kuramoto_sivashinsky(steps=1, rng=1).states[0]
    run = kuramoto_sivashinsky(steps=41, initial_state=start).states
    np.testing.assert_allclose(run.mean(axis=1), 0.0, atol=1e-13)
    moved = kuramoto_sivashinsky(steps=41, initial_state=np.roll(start, 5)).states
    np.testing.assert_allclose(moved, np.roll(run, 5, axis=1), atol=1e-9)
    speed = 22.0 / 64 / 0.25  # a point a row
    carried = kuramoto_sivashinsky(steps=41, initial_state=start + speed, substeps=32).states - speed
    still = kuramoto_sivashinsky(steps=41, initial_state=start, substeps=32).states
    np.testing.assert_allclose(carried, [np.roll(row, k) for k, row in enumerate(still)], atol=1e-6)


def test_the_fastest_mode_dies():
    """−1, 1, −1 … of an even number of points: k² − k⁴ is −6,900 there, and nothing feeds it."""
    saw = 0.1 * (-1.0) ** np.arange(64)
    assert np.abs(kuramoto_sivashinsky(steps=2, initial_state=saw).states[1]).max() < 1e-12
