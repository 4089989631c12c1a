"""Make the surfaces that pesn ships: python scripts/build_surfaces.py (under a minute)."""

from pathlib import Path

import numpy as np

from pesn import activations
from pesn.moments import surface as surfaces

if __name__ == "__main__":
    folder = Path(surfaces.__file__).parent / "tables"
    for name, (n_t, n_q) in surfaces.SHIPPED.items():
        path = folder / f"{name}.npz"
        surface = surfaces.build(activations.get(name), n_t, n_q)
        # on disk mean and variance are separate; the rest of the record follows from the activation
        apart = np.moveaxis(surface.moments.reshape(-1, surfaces.ROWS, surfaces.COLUMNS, 2), -1, 1).reshape(-1)
        np.savez(path, moments=apart, gains=surface.gains, cells=np.array([n_t, n_q]))
        print(f"{path.name}: {n_t} x {n_q} cells, {path.stat().st_size / 1e6:.2f} MB")
