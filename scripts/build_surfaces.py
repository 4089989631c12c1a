"""Make the surfaces that pesn ships: python scripts/build_surfaces.py (under a minute)."""

from pathlib import Path

from pesn import activations
from pesn.moments import tables

if __name__ == "__main__":
    folder = Path(tables.__file__).parent
    for name, (n_t, n_q) in tables.SHIPPED.items():
        path = folder / f"{name}.npz"
        tables.save(tables.build(activations.get(name), n_t, n_q), path)
        print(f"{path.name}: {n_t} x {n_q} cells, {path.stat().st_size / 1e6:.2f} MB")
