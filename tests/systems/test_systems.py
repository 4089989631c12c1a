"""Claim: every system is found by its name, takes the same arguments, and refuses bad ones by theirs."""

from functools import partial
from inspect import signature

import numpy as np
import pytest

from pesn import systems
from pesn.systems import ardrone, cart_pole, chaotic


def short(name):
    """Return a system with a short transient, if it has one."""
    simulate = systems.get(name)
    return partial(simulate, transient=1) if "transient" in signature(simulate).parameters else simulate


EVERY = pytest.mark.parametrize("simulate", [short(name) for name in systems.SYSTEMS], ids=list(systems.SYSTEMS))


def test_systems_by_name():
    assert systems.get("cart-pole") is cart_pole.simulate
    assert {"cart-pole", "ardrone", "lorenz", "lorenz-96", "henon", "kuramoto-sivashinsky", "narma-10"} <= set(systems.SYSTEMS)
    assert systems.get("kuramoto-sivashinsky") is chaotic.kuramoto_sivashinsky
    for name, meant in (("Cart_Pole", "cart-pole"), ("rossler", "roessler"), ("Double Scroll", "double-scroll")):
        with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
            systems.get(name)
    with pytest.raises(TypeError, match="system must be a name, got 3"):
        systems.get(3)


@EVERY
@pytest.mark.parametrize("rng", [-1, 1.5, "seed", [0.5], {}, np.array(2)])
def test_seeds_are_refused_by_name(simulate, rng):
    with pytest.raises((TypeError, ValueError), match="rng must be None, a seed \\(0 or more\\) or a NumPy generator, got"):
        simulate(steps=3, rng=rng)


@EVERY
def test_every_numpy_seed_type_is_accepted(simulate):
    expected = simulate(runs=2, steps=5, rng=7).states
    for rng in (np.int8(7), np.random.SeedSequence(7), np.random.default_rng(7), np.random.PCG64(7)):
        np.testing.assert_array_equal(simulate(runs=2, steps=5, rng=rng).states, expected)


@EVERY
def test_a_run_depends_on_the_seed_and_its_number_only(simulate):
    tolerance = 1e-12 if simulate is ardrone.simulate else 0.0  # its quaternions round differently in a batch
    three, four = (simulate(runs=runs, steps=20, rng=5) for runs in (3, 4))
    np.testing.assert_allclose(three.states, four[:3].states, rtol=0, atol=tolerance)
    np.testing.assert_allclose(three.inputs, four[:3].inputs, rtol=0, atol=tolerance)
    assert not np.isclose(four[0].states[-1], four[1].states[-1], rtol=0, atol=1e-4).all()
    generator = np.random.default_rng(5)
    np.testing.assert_array_equal(simulate(runs=3, steps=20, rng=generator).states, three.states)
    for rng in (generator, 6, None):  # the next draw of a generator is another one
        assert not np.array_equal(simulate(runs=3, steps=20, rng=rng).states, three.states)


@EVERY
def test_whole_numbers_of_any_type(simulate):
    expected = simulate(runs=2, steps=100, rng=0)
    given = simulate(runs=np.int8(2), steps=np.int8(100), rng=0)
    np.testing.assert_array_equal(given.states, expected.states)
    assert (given.lengths, type(given.dt)) == ((100, 100), float)


@EVERY
@pytest.mark.parametrize("progress", [0, "bar", []])
def test_progress_must_be_called(simulate, progress):
    with pytest.raises(TypeError, match="progress must be a function of two whole numbers or None, got"):
        simulate(steps=3, rng=0, progress=progress)


@EVERY
@pytest.mark.parametrize(
    "size", [{"runs": 10**30}, {"steps": 10**30}, {"runs": 2**62}, {"steps": 2**62}, {"runs": 10**13, "steps": 1}]
)
def test_more_than_there_is_room_for(simulate, size):
    with pytest.raises(MemoryError, match=r"runs = \d+ of steps = \d+ rows need .* GB of memory"):
        simulate(rng=0, **size)


@pytest.mark.parametrize("flow", [getattr(chaotic, name) for name in sorted({*chaotic.LYAPUNOV_TIME, "narma10"})])
def test_too_long_transients_are_rejected(flow):
    with pytest.raises(ValueError, match=r"transient must be 1e\+09 rows or fewer, got 1000000000000000000"):
        flow(steps=3, rng=0, transient=10**18)


@pytest.mark.parametrize("times", [{"tau": 1e30}, {"tau": 1e-30}, {"tau": 5e-324}, {"dt": 1e30}, {"substeps": 10**400}])
def test_unsuitable_delays_are_rejected(times):
    with pytest.raises(ValueError, match=r"tau must be .*, got"):
        chaotic.mackey_glass(steps=3, rng=0, transient=0.0, **times)


def test_other_functions_that_take_seeds_and_numbers():
    with pytest.raises(ValueError, match=r"rng must be .*, got -1"):
        ardrone.message_noise(1, 3, rng=-1)
    np.testing.assert_array_equal(cart_pole.wandering_force(3, 5e-324, time_constant=1e300, rng=0), np.zeros(3))
    for name in ("height", "yaw"):
        for value, error in (("2", TypeError), (np.nan, ValueError), ([1.0], TypeError)):
            with pytest.raises(error, match=f"{name} must"):
                ardrone.hovering(**{name: value})


def test_beyond_the_largest_float_without_a_warning():
    state = [0.0, 1.0, 1e308, 1e308]
    with np.errstate(all="warn"):
        assert not np.isfinite(cart_pole.energy(state))
        assert not np.isfinite(cart_pole.accelerations(state, 0.0)).all()
