"""Make the surfaces that pesn ships: python scripts/build_surfaces.py (under a minute)."""

from pathlib import Path

from pesn import activations
from pesn.moments import surface as surfaces

if __name__ == "__main__":
    folder = Path(surfaces.__file__).parent / "tables"
    for name, (n_t, n_q) in surfaces.SHIPPED.items():
        path = folder / f"{name}.npz"
        surfaces.save(surfaces.build(activations.get(name), n_t, n_q), path)
        print(f"{path.name}: {n_t} x {n_q} cells, {path.stat().st_size / 1e6:.2f} MB")
