"""How sharp forecasts are, and how honest, with nothing tuned: chaotic systems and robots, with rivals in the same run.

    python benchmarks/sharp.py [SET …] --data FOLDER --rivals --jobs 2 --keep FILE [--write]

A set is a system or a robot of sharp_sets.py, a system of dysts (``pip install dysts``), or "dysts-first" or "dysts-second", ten
of those. Without any: all of pesn's own systems, dysts-first where dysts is installed, the cart pole, and the measured robots
where ``--data`` says where they are. ``--keep`` holds every result as a line of JSON: a run that was interrupted goes on where it
stopped, and the table is made of what is there. Begin another file after a change of the code.

- 3,000 rows of a chaotic system to learn from, 20 forecasts into the 12,000 after them, each from 200 rows. Noise, in units of
  each column's deviation, is on all rows: on those that are learnt from, on contexts, and on those that forecasts are compared
  with. So 1 % leaves no CRPS below 0.0056; valid times, which end at 0.4, hardly feel it.
- valid: steps until the root mean square over columns of error ÷ deviation exceeds 0.4, in Lyapunov times, of 18 of them or 1,000
  steps at most; where none is known, the share of 300 steps that is valid, for robots of 50.
- CRPS ÷ deviation, and the share inside 95 % intervals, 1, 5, 20 and 50 steps ahead; "best constant ÷ own": the CRPS of the same
  means with that deviation for each step ahead which suits the errors best, once they are known, ÷ that with the model's own.
- widest: the largest deviation at any step; CPU seconds of the fit, and of one forecast of 50 steps (the best of three).
- "±" is the standard deviation over seeds, each of which draws other data. Sets that rules of the library were chosen on stand
  apart from those it was only tried on.
"""

from __future__ import annotations

import timing  # isort: skip  (before NumPy: one thread)

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from pages import table, write_block
from pesn.metrics import crps_gaussian
from sharp_rivals import AHEAD, MODELS, NEEDS, Model, best_spread, observed, origins_of
from sharp_sets import CHOSEN_ON, DYSTS, ROBOTS, SYSTEMS, Set, chaotic_set, robot_set

Array = np.ndarray[Any, np.dtype[np.float64]]
LEADS = (1, 5, 20, 50)
GROUPS = {"dysts-first": DYSTS[:10], "dysts-second": DYSTS[10:]}
PAGE = Path(__file__).parents[1] / "docs" / "design.md"
README = Path(__file__).parents[1] / "README.md"
HEAD = ["set", "model", "valid", "CRPS at 1 5 20 50", "best constant ÷ own", "inside 95 % at 1 5 20 50", "widest", "fit (s)",
        "forecast (ms)", "design, seed 0"]  # fmt: skip


class Job(NamedTuple):
    """One model on one draw of one set."""

    name: str
    noise: float
    seed: int
    model: str
    origins: int

    @property
    def words(self) -> str:
        """The set."""
        return self.name + (f", {self.noise:.0%} noise" if self.noise else "")


class Judged(NamedTuple):
    """Valid time; CRPS, its ratio with the best constant spread, and coverage by lead; widest deviation; CPU seconds."""

    valid: float
    crps: list[float]
    constant: list[float]
    inside: list[float]
    widest: float
    fit_seconds: float
    forecast_seconds: float
    what: str


def judged(model: Model, one: Set, count: int) -> Judged:
    """``count`` forecasts of 50 steps, and as far as Lyapunov times go."""
    std = np.vstack([y for y, _ in one.train]).std(axis=0)
    steps = AHEAD if one.robot else min(int(18.0 / one.lyapunov), 1000) if one.lyapunov else 300
    origins = origins_of(one.test, count, steps + 1)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        model.forecast(origins[:1], AHEAD)
        seconds.append(time.process_time() - start)
    mean, dev = model.forecast(origins, steps)
    error = (observed(origins, steps) - mean) / std
    wrong = np.sqrt(np.mean(np.square(error), axis=2)) > 0.4
    valid = np.where(wrong.any(axis=1), wrong.argmax(axis=1), steps).mean()
    at = np.array(LEADS) - 1
    error, own = error[:, at], np.maximum(dev[:, at] / std, 1e-300)
    crps = crps_gaussian(error, np.zeros_like(error), own).mean(axis=(0, 2))
    constant = best_spread(error.swapaxes(1, 2).reshape(-1, len(at)))[:, None] * np.ones_like(error)
    best = crps_gaussian(error, np.zeros_like(error), constant).mean(axis=(0, 2))
    inside = (np.abs(error) <= 1.96 * own).mean(axis=(0, 2))
    length = valid * one.lyapunov if one.lyapunov else valid / steps
    widest = float((dev / std).max())
    return Judged(
        float(length), crps.tolist(), (best / crps).tolist(), inside.tolist(), widest, model.seconds, min(seconds), model.what
    )


def _set(name: str, noise: float, seed: int, data: Path | None) -> Set:
    if name in ROBOTS:
        if data is None and name != "cart-pole":
            raise SystemExit(f"{name} is measured: --data must name the folder with it")
        return robot_set(name, seed, data or Path())
    return chaotic_set(name, seed, noise)


def one_run(job: Job, data: Path | None) -> Judged:
    """Fit and judge, with nothing said."""
    logging.getLogger("pesn").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # of other libraries
    one = _set(job.name, job.noise, job.seed, data)
    return judged(MODELS[job.model](one), one, job.origins)


# ---------------------------------------------------------------- all of them


def kept(path: Path | None) -> dict[Job, Judged]:
    """What a file holds; a last line that was cut short is left out."""
    found = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Job(*one["job"])] = Judged(**one["judged"])
    return found


def run_all(jobs: Sequence[Job], data: Path | None, n_jobs: int, path: Path | None) -> dict[Job, Judged]:
    """The results of all jobs: those that the file has, and the others, which are added to it one by one."""
    found = kept(path)
    todo = [job for job in jobs if job not in found]
    print(f"{len(jobs) - len(todo)} of {len(jobs)} results are there", file=sys.stderr, flush=True)
    results: Iterable[tuple[Job, Judged]] = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(
        delayed(_with_job)(job, data) for job in todo
    )
    for i, (job, result) in enumerate(results):
        found[job] = result
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps({"job": job, "judged": result._asdict()}) + "\n")
        said = f"valid {result.valid:.3g}, CRPS at 20 {result.crps[2]:.2g}, fit {result.fit_seconds:.1f} s"
        print(f"{i + 1} of {len(todo)}: {job.words}, {job.model}, seed {job.seed}: {said}", file=sys.stderr, flush=True)
    return {job: found[job] for job in jobs}


def _with_job(job: Job, data: Path | None) -> tuple[Job, Judged]:
    return job, one_run(job, data)


# ---------------------------------------------------------------- the page


def _spread(values: Sequence[float], digits: str) -> str:
    mean = format(np.mean(values), digits)
    return mean if len(values) < 2 else f"{mean} ± {format(np.std(values), digits)}"


def _row(words: str, model: str, results: Sequence[Judged]) -> list[str]:
    def by_lead(values: Sequence[list[float]], digits: str) -> str:
        return " ".join(format(v, digits) for v in np.mean(values, axis=0))

    return [
        words, model, _spread([j.valid for j in results], ".2f"), by_lead([j.crps for j in results], ".1e"),
        by_lead([j.constant for j in results], ".2f"), by_lead([j.inside for j in results], ".2f"),
        f"{max(j.widest for j in results):.2g}", _spread([j.fit_seconds for j in results], ".1f"),
        f"{1e3 * np.mean([j.forecast_seconds for j in results]):.0f}", results[0].what,
    ]  # fmt: skip


def page(found: dict[Job, Judged]) -> str:
    """Two tables, of sets chosen on and of those only tried; where others are better; where intervals are wrong."""
    tables: dict[bool, list[list[str]]] = {True: [], False: []}
    group_of = {name: group for group, names in GROUPS.items() for name in names}
    grouped: dict[tuple[str, float, str], dict[int, list[float]]] = {}
    sets = _by_set(found)
    for job, result in found.items():
        if job.name in group_of:
            grouped.setdefault((group_of[job.name], job.noise, job.model), {}).setdefault(job.seed, []).append(result.valid)
    for (name, noise), models in sets.items():
        words = Job(name, noise, 0, "", 0).words
        tables[name in CHOSEN_ON] += [_row(words, model, list(results.values())) for model, results in models.items()]
    for (group, noise, model), by_seed in grouped.items():
        words = f"{group}, mean of {len(next(iter(by_seed.values())))}" + (f", {noise:.0%} noise" if noise else "")
        mean = _spread([float(np.mean(values)) for values in by_seed.values()], ".2f")
        tables[group == "dysts-first"].append([words, model, mean, *[""] * (len(HEAD) - 3)])
    parts = []
    for chosen, title in ((True, "Sets that rules were chosen on:"), (False, "Sets it was only tried on:")):
        if tables[chosen]:
            parts.append(f"{title}\n\n{table(HEAD, tables[chosen])}")
    return "\n\n".join([*parts, *_shortfalls(sets)])


def short(found: dict[Job, Judged]) -> str:
    """For the README: valid times and CRPS at 20 steps beside the strongest rival that was run, and coverage."""
    rows = []
    for (name, noise), seeds in _by_set(found).items():
        if "pesn" not in seeds or name in DYSTS:
            continue
        models = {model: list(results.values()) for model, results in seeds.items()}
        ours, rivals = models.pop("pesn"), models
        cells = [Job(name, noise, 0, "", 0).words]
        for digits, better, values in (
            (".1f", max, {m: _mean(r, "valid") for m, r in {"pesn": ours, **rivals}.items()}),
            (".2g", min, {m: _mean(r, "crps")[2] for m, r in {"pesn": ours, **rivals}.items()}),
        ):
            own = values.pop("pesn")
            best = better(values, key=lambda m: values[m]) if values else None
            said = f"{own:{digits}}"
            if best is not None:
                bold = "**" if better(values[best], own) != own else ""
                said += f" ({bold}{values[best]:{digits}}{bold}, {best})"
            cells.append("" if digits == ".1f" and name in ROBOTS else said)
        rows.append([*cells, " ".join(f"{v:.2f}" for v in _mean(ours, "inside"))])
    head = ["", "Lyapunov times followed (best rival)", "CRPS ÷ deviation at 20 steps", "inside 95 % at 1 5 20 50 steps"]
    return table(head, rows)


def _by_set(found: dict[Job, Judged]) -> dict[tuple[str, float], dict[str, dict[int, Judged]]]:
    """Set and noise → model → seed → result."""
    sets: dict[tuple[str, float], dict[str, dict[int, Judged]]] = {}
    for job, result in found.items():
        sets.setdefault((job.name, job.noise), {}).setdefault(job.model, {})[job.seed] = result
    return sets


def _shortfalls(sets: dict[tuple[str, float], dict[str, dict[int, Judged]]]) -> list[str]:
    """Where a rival is better than pesn on the same draws, and where coverage or width is not what is promised."""
    worse, late, wide = [], [], []
    for (name, noise), models in sets.items():
        own = models.get("pesn", {})
        if not own:
            continue
        words, ours = Job(name, noise, 0, "", 0).words, list(own.values())
        for model in ("GP, 500 rows", "NVAR", "ReservoirPy", "ARX10"):
            shared = [seed for seed in models.get(model, {}) if seed in own]
            mine, theirs = ([results[seed] for seed in shared] for results in (own, models.get(model, {})))
            if not shared:
                continue
            if name not in ROBOTS and _mean(theirs, "valid") > _mean(mine, "valid"):
                worse.append(f"{words}: {model} {_mean(theirs, 'valid'):.2f}, pesn {_mean(mine, 'valid'):.2f}")
            if name in ROBOTS and model == "ARX10":
                ratio = _mean(mine, "crps") / _mean(theirs, "crps")
                late += [f"{words} at {lead}: {r:.2f}" for lead, r in zip(LEADS, ratio, strict=True) if r > 1.03]
        inside = zip(LEADS, _mean(ours, "inside"), strict=True)
        wide += [f"{words} at {lead}: {value:.2f}" for lead, value in inside if not 0.9 <= value <= 0.98]
        widest = max(j.widest for j in ours)
        wide += [f"{words}: widest {widest:.3g}"] if widest > 3.001 else []
    said: list[tuple[str, list[str]]] = [
        ("A rival has the longer valid time", worse),
        ("CRPS more than 3 % above ARX10's, as a ratio", late),
        ("Coverage outside 0.90 to 0.98, or a deviation above 3", wide),
    ]
    return [f"{what}: {'; '.join(cases) or 'nowhere'}." for what, cases in said]


def _mean(results: Sequence[Judged], name: str) -> Any:
    return np.mean([getattr(one, name) for one in results], axis=0)


def wanted(sets: Sequence[str], data: Path | None, say: Callable[[str], None]) -> list[str]:
    """The names of all sets; without any, what can be had here."""
    chosen = list(sets)
    if not chosen:
        chosen = [*SYSTEMS, "cart-pole"]
        for group, there, missing in (
            (["dysts-first"], timing.installed("dysts"), "dysts is not installed: its systems are left out"),
            ([name for name in ROBOTS if name != "cart-pole"], data, "without --data the measured robots are left out"),
        ):
            chosen += group if there else []
            if not there:
                say(missing)
    names = [name for one in chosen for name in GROUPS.get(one, [one])]
    unknown = [name for name in names if name not in {*SYSTEMS, *ROBOTS, *DYSTS}]
    if unknown:
        raise SystemExit(f"SET must be of {', '.join([*SYSTEMS, *ROBOTS, *GROUPS, *DYSTS])}, got {unknown[0]}")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--origins", type=int, default=20)
    parser.add_argument("--data", type=Path, help="the folder with the measured sets")
    parser.add_argument("--rivals", action="store_true", help=f"beside pesn: {', '.join(list(MODELS)[1:])}")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), metavar="MODEL", help="these of them alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="a file of JSON lines that results are kept in")
    parser.add_argument("--kept", action="store_true", help="the tables of what that file holds; nothing is run")
    parser.add_argument("--write", action="store_true", help="fill the marked blocks of docs/design.md and README.md")
    given = parser.parse_args(arguments)

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if given.kept:
        if given.keep is None or not given.keep.exists():
            parser.error("--kept needs the file that --keep names")
        _say(kept(given.keep), given.write)
        return
    models = given.models or (list(MODELS) if given.rivals else ["pesn"])
    for model in [model for model in models if model in NEEDS and timing.installed(NEEDS[model]) is None]:
        models.remove(model)
        say(f"{model} is not installed: left out")
    cases = [
        (name, noise, seed)
        for name in wanted(given.sets, given.data, say)
        for seed in range(given.seeds)
        for noise in ([0.0] if name in ROBOTS else given.noise)
    ]
    jobs = [Job(*case, model, given.origins) for case in cases for model in models]
    _say(run_all(jobs, given.data, given.jobs, given.keep), given.write)


def _say(found: dict[Job, Judged], write: bool) -> None:
    text = page(found)
    print(text)
    if write:
        write_block(PAGE, "sharp", text)
        write_block(README, "sharp", short(found))


if __name__ == "__main__":
    main()
