"""How near the AR.Drone flies to one recorded in Gazebo, and how fast the two robots are simulated.

python benchmarks/systems.py [--recording PATH [PATH …]]
--recording: .npz with X (n, 12) and U_applied (n, 4) at 100 Hz, from the start of the flight on; several are one after the other
"""

import timing  # noqa: F401  # isort: skip  (before NumPy: one thread)

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np

from pesn.systems import ardrone, cart_pole
from pesn.systems.trajectories import Trajectories

ROUNDS = 3
GROUPS = {
    "position (m)": slice(0, 3),
    "velocity (m/s)": slice(3, 6),
    "angles (rad)": slice(6, 9),
    "rates (rad/s)": slice(9, 12),
}
RACES: dict[str, Callable[[], Trajectories]] = {
    "cart pole, 40 runs × 2,500": lambda: cart_pole.simulate(runs=40, steps=2500, rng=0),
    "cart pole, 1 run × 100,000": lambda: cart_pole.simulate(runs=1, steps=100_000, rng=0),
    "AR.Drone, gazebo, 80 runs × 1,000": lambda: ardrone.simulate(runs=80, steps=1000, rng=0),
    "AR.Drone, gazebo, 1 run × 80,000": lambda: ardrone.simulate(runs=1, steps=80_000, rng=0),
    "AR.Drone, rotors, 80 runs × 1,000": lambda: ardrone.simulate(runs=80, steps=1000, mode="rotors", rng=0),
    "AR.Drone, rotors, 1 run × 80,000": lambda: ardrone.simulate(runs=1, steps=80_000, mode="rotors", rng=0),
}


def replay(paths: list[str]) -> None:
    recorded, applied = [], []
    for path in paths:
        with np.load(path) as file:
            recorded.append(np.asarray(file["X"], np.float64))
            applied.append(np.asarray(file["U_applied"], np.float64))
    states, commands = np.concatenate(recorded), np.concatenate(applied)
    flown = ardrone.simulate(commands, initial_state=states[0], command_noise=False).states
    off, rows = np.abs(flown - states), 0
    print("Largest deviation from the recording, so far into the flight:\n")
    print("| rows | " + " | ".join(GROUPS) + " |")
    print("|---|" + "---|" * len(GROUPS))
    for part in recorded:
        rows += len(part)
        print(f"| {rows:,} | " + " | ".join(f"{off[:rows, columns].max():.1e}" for columns in GROUPS.values()) + " |")
    print()


def race() -> None:
    print("| system | samples | first call (s) | best of the rest (s) |")
    print("|---|---|---|---|")
    for name, simulate in RACES.items():
        seconds = []
        for _ in range(1 + ROUNDS):
            start = time.perf_counter()
            samples = len(simulate().states)
            seconds.append(time.perf_counter() - start)
        print(f"| {name} | {samples:,} | {seconds[0]:.2f} | {min(seconds[1:]):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", nargs="+", metavar="PATH")
    recording = parser.parse_args().recording
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}\n")
    if recording:
        replay(recording)
    race()


if __name__ == "__main__":
    main()
