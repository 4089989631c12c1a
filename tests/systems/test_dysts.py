"""Claim: a flow of dysts is simulated as dysts states it, and where dysts is not installed the error says what to do."""

import sys
from types import ModuleType

import numpy as np
import pytest

from pesn.systems.chaotic import from_dysts, lorenz


@pytest.fixture
def flows(monkeypatch):
    """What dysts offers of a flow: a class with a start, a period and a right-hand side."""

    class DynSys:
        pass

    class Lorenz(DynSys):
        ic, period = np.array([1.0, 2.0, 20.0]), 1.5

        def rhs(self, x, t):
            return 10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]

    class Forced(DynSys):
        ic, period = np.array([0.0]), 1.0

        def rhs(self, x, t):
            return (np.cos(t),)

    class Explosion(DynSys):
        ic, period = np.array([1.0]), 1.0

        def rhs(self, x, t):
            return (x[0] ** 2,)

    class Delayed:
        pass

    modules = {"dysts": {}, "dysts.base": {"DynSys": DynSys}}
    modules["dysts.flows"] = {cls.__name__: cls for cls in (DynSys, Lorenz, Forced, Explosion, Delayed)}
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("flows")
def test_the_same_as_our_own():
    start = [1.0, 2.0, 20.0]
    run = from_dysts("Lorenz", steps=101, dt=0.02, initial_state=start)
    np.testing.assert_allclose(run.states, lorenz(steps=101, dt=0.02, initial_state=start, substeps=50).states, atol=1e-7)
    assert (run.names, run.dt, run.lengths) == (("x", "y", "z"), 0.02, (101,))
    again = from_dysts("Lorenz", steps=51, dt=0.02, initial_state=start, transient=1.0)
    np.testing.assert_allclose(again.states, run.states[50:], atol=1e-6)


@pytest.mark.usefixtures("flows")
def test_time_and_drawn_starts():
    run = from_dysts("Forced", steps=11, dt=0.5, initial_state=[0.0])
    np.testing.assert_allclose(run.states[:, 0], np.sin(0.5 * np.arange(11)), atol=1e-9)
    calls = []
    three, two = (
        from_dysts("Lorenz", runs=runs, steps=4, transient=0.1, rng=0, progress=lambda *a: calls.append(a)) for runs in (3, 2)
    )
    np.testing.assert_array_equal(three[:2].states, two.states)
    assert not np.array_equal(two[0].states, two[1].states)
    assert (two.dt, calls[:3]) == (0.03, [(1, 3), (2, 3), (3, 3)])
    near = from_dysts("Lorenz", runs=50, steps=1, transient=0.0, rng=0).states
    np.testing.assert_allclose(near, [[1.0, 2.0, 20.0]] * 50, rtol=5e-3)
    assert near.std(axis=0) == pytest.approx([0.001, 0.002, 0.02], rel=0.4)


@pytest.mark.usefixtures("flows")
def test_bad_input_is_named():
    for name in ("Lorentz", "Delayed", "DynSys"):
        with pytest.raises(ValueError, match=f"name must be that of a flow of dysts without a delay, got '{name}'"):
            from_dysts(name)
    with pytest.raises(ValueError, match="did you mean 'Lorenz'"):
        from_dysts("lorenz")
    with pytest.raises(TypeError, match="name must be that of a flow of dysts, got 3"):
        from_dysts(3)
    for argument, bad in (("dt", 0.0), ("steps", 0), ("runs", 1.5), ("initial_state", [1.0]), ("transient", -1.0), ("rng", -1)):
        with pytest.raises((TypeError, ValueError), match=f"{argument} must"):
            from_dysts("Lorenz", **{argument: bad})
    with pytest.raises(FloatingPointError, match="Explosion, run 0: could not go on after t = 1"):
        from_dysts("Explosion", steps=200, initial_state=[1.0])


def test_without_dysts(monkeypatch):
    monkeypatch.setitem(sys.modules, "dysts", None)
    monkeypatch.setitem(sys.modules, "dysts.flows", None)
    with pytest.raises(ImportError, match="from_dysts needs the package dysts: pip install dysts"):
        from_dysts("Lorenz")


def test_dysts_itself():
    pytest.importorskip("dysts")
    start = [1.0, 2.0, 20.0]
    run = from_dysts("Lorenz", steps=20, dt=0.02, initial_state=start)
    np.testing.assert_allclose(run.states, lorenz(steps=20, initial_state=start, beta=2.667, substeps=50).states, atol=1e-3)
    assert from_dysts("Thomas", steps=5, rng=0, transient=0.0).states.shape == (5, 3)
