"""Public names, signatures and the command line are those of the contract."""

import inspect
import subprocess
import sys

import pytest

import pesn


def test_all_is_what_is_there():
    for name in pesn.__all__:
        getattr(pesn, name)  # some are imported when they are asked for
    here = {name for name, value in vars(pesn).items() if not name.startswith("_") and not inspect.ismodule(value)}
    own = {"import_module", "ModuleType", "TYPE_CHECKING", "Any"}
    assert here - own | {"activations", "datasets", "diagnostics", "moments"} == set(pesn.__all__)
    assert [name for name in dir(pesn) if not name.startswith("_")] == sorted(pesn.__all__)
    assert "__version__" in dir(pesn)
    with pytest.raises(AttributeError, match="module 'pesn' has no attribute 'EchoStateNetwrok'"):
        pesn.EchoStateNetwrok  # noqa: B018
    for name in pesn.__all__:
        assert inspect.getdoc(getattr(pesn, name)), name


def test_subpackages_are_attributes_and_moments_is_the_function(run_python):
    modules = ("activations", "datasets", "diagnostics", "metrics", "networks", "planning", "plotting", "systems")
    code = f"import pesn, pesn.moments.bounds\nfor name in {(*modules, 'moments')}: print(getattr(pesn, name).__name__)"
    assert run_python(code).stdout.split() == [*(f"pesn.{name}" for name in modules), "moments"]


def test_help_imports_no_numerical_library(run_python):
    code = "import sys, pesn, pesn.cli; print(sorted({'numpy', 'scipy', 'numba', 'pandas', 'matplotlib'} & set(sys.modules)))"
    assert run_python(code).stdout == "[]\n"


RESERVOIR = (
    "n_units=100, *, spectral_radius=0.9, leak_rate=0.5, density=0.1, input_scaling=0.5, bias_scaling=0.2, random_state=None, "
    "activation='tanh', topology='random', features=Features(lags=0, products=0, states=True), layers=1, memory='leaky'"
)
NETWORK = (
    f"{RESERVOIR}, feedback_scaling=0.0, noise=0.0, ridge=1e-06, forgetting=0.999, rls_delta=None, rls_prior=True, "
    "washout=0, feedback='teacher', local=None"
)


SIGNATURES = {
    "moments": "activation, mean, var, *, order=2, method='surface', mesh=None, n_components=8, n_samples=10000, rng=None",
    "gain": "activation, mean, var",
    "error_bound": "activation, mean, var, mesh, *, constant='sharp'",
    "choose_mesh": "activation, tolerance, mean_range, var_range", "Mesh": "a, b, n_points",
    "Gaussian": "mean, var=None, cov=None, factor=None, *, std=None",
    "Dense": "W, b=None, activation='identity', *, W_var=None, b_var=None",
    "propagate": "network, x, *, tol=0.01, shape=None, closure='auto', covariance='full', n_samples=None, rng=0",
    "EchoStateNetwork": f"{NETWORK}, verbose=False",
    "ProbabilisticESN": f"{NETWORK}, covariance='auto', rank=40, n_members=256, moments='surface', initial_state='learned', "
    "process_noise='auto', verbose=False",
    "ReservoirClassifier": f"{RESERVOIR}, states='both', scale=True, ridge='auto', washout=0, covariance='auto', rank=40, "
    "moments='surface'",
    "Forecaster": "esn='auto', *, target='change', learn=None, kinematics=None, scale=True, calibrate=True, design=None, "
    "angles=(), ignorable=(), measurement_noise=None, verbose=False",
    "Layer": "n_units=None, *, spectral_radius=None, leak_rate=None, density=None, input_scaling=None, bias_scaling=None, "
    "topology=None",
    "Features": "lags=0, products=0, states=True", "Patches": "size, overlap, periodic=True, shared=True", "load": "path",
}  # fmt: skip


@pytest.mark.parametrize("function", SIGNATURES)
def test_signatures_are_the_contract(function):
    parameters = inspect.signature(getattr(pesn, function)).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    assert str(inspect.Signature(plain)) == f"({SIGNATURES[function]})"


def run(*args, cwd=None):
    return subprocess.run([sys.executable, "-m", "pesn", *args], capture_output=True, text=True, cwd=cwd, check=False)


def test_version_and_unknown_command():
    assert run("--version").stdout.strip() == pesn.__version__
    wrong = run("dmeo")
    assert wrong.returncode == 2
    assert "dmeo" in wrong.stderr
    assert not wrong.stdout


def test_an_item_of_the_paper_from_the_shell(tmp_path):
    done = run("reproduce", "error-bound", "--quick", "--jobs", "1", "--out", "made", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 item, claims: 1 holds, 1 holds in part, 1 misprint" in done.stdout
    assert "Traceback" not in done.stderr
    assert "8.512" in (tmp_path / "made" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "made" / "error-bound" / "bound.png").read_bytes().startswith(b"\x89PNG")
