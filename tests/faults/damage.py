"""Finished files that were damaged: cut short, a bit turned, exchanged with one another."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.bench import JOBS, Bench, copy
from tests.faults.faults import Trial, completed, refusal
from tests.faults.launcher import run


def cut(file: Path, rng: random.Random) -> None:
    """Cut a file short."""
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content))])


def turn_bit(file: Path, rng: random.Random) -> None:
    """Turn one bit."""
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {"cut short": cut, "bit turned": turn_bit}


def runs(bench: Bench, count: int, seed: int) -> Iterator[Trial]:
    """Every kind of file in a folder of runs; the same command again must end in the clean result."""
    rng = random.Random(seed)
    patterns = ("runs/*.json", "plans/*.json", "study.json", "scores.csv", "predictions.csv")
    for i in range(count):
        kind, damage = list(DAMAGES.items())[i % 2]
        place = _done(bench)
        file = rng.choice(sorted((place / "RUNS").glob(patterns[i % len(patterns)])))
        damage(file, rng)
        yield Trial(
            f"run file {kind}", "loso", file.relative_to(place).as_posix(), _completed_again(bench, place, file)
        )
        shutil.rmtree(place)
    for _ in range(max(1, count // 5)):
        place = _done(bench)
        one, other = rng.sample(sorted((place / "RUNS" / "runs").glob("*.json")), 2)
        _exchange(one, other)
        yield Trial(
            "run files exchanged", "loso", f"{one.name}, {other.name}", _completed_again(bench, place, one, other)
        )
        shutil.rmtree(place)


def _done(bench: Bench) -> Path:
    place = bench.place("loso")
    copy(bench.store / "RUNS", place / "RUNS")
    return place


def _completed_again(bench: Bench, place: Path, *damaged: Path) -> list[str]:
    """Reading must not take the damaged file for whole; then the command does what is missing, and nothing else."""
    wrong = []
    if damaged[0].parent.name == "runs":
        code, words = run(("compare", "RUNS"), place)
        wrong = refusal(code, words)
    keep = [file for file in damaged if file.parent.name == "runs"]
    aside = [(file, file.read_bytes()) for file in keep]
    wrong += [w for w in completed(bench, "loso", place) if not any(file.name in w for file, _ in aside)]
    return wrong + [f"{file.name} is still damaged" for file, content in aside if file.read_bytes() == content]


def models(bench: Bench, count: int, seed: int) -> Iterator[Trial]:
    """A damaged model must not predict; fitting again gives the clean one."""
    rng = random.Random(seed)
    for i in range(count + 1):
        place = bench.place("fit again")
        copy(bench.store / "older-model", place / "other")
        file = place / "model" / ("model.json", "model.safetensors")[i % 2]
        if i == count:
            kind = "files exchanged"
            run(JOBS["fit"].arguments, place)
            _exchange(place / "model" / "model.safetensors", place / "other" / "model.safetensors")
        else:
            kind, damage = list(DAMAGES.items())[(i + i // 2) % 2]
            damage(file, rng)
        code, words = run(("predict", "model", "cohort.npz", "--out", "predictions.csv"), place)
        trial = Trial(f"model {kind}", "fit", file.name, refusal(code, words))
        if (place / "predictions.csv").exists():
            trial.wrong.append("it predicted")
        if "is not a model" in (again := run(JOBS["fit"].arguments, place))[1]:
            shutil.rmtree(place / "model")  # nothing of a model is left to recognise: the user has to decide
        elif again[0]:
            trial.wrong.append(f"fitting again fails: {again[1][-200:]}")
        trial.wrong += completed(bench, "fit again", place)
        yield trial
        shutil.rmtree(place)


def stores(bench: Bench, count: int, seed: int) -> Iterator[Trial]:
    """A damaged store must not be read; converting again gives the clean one."""
    rng = random.Random(seed)
    for i in range(count):
        kind, damage = list(DAMAGES.items())[i % 2]
        place = bench.place("convert")
        copy(bench.store / "cohort.zarr", place / "cohort.zarr")
        file = rng.choice(sorted(f for f in (place / "cohort.zarr").rglob("*") if f.is_file()))
        damage(file, rng)
        code, words = run(("scaffold", "cohort.zarr", "--out", "scaffold", "--memory", "1GB"), place)
        trial = Trial(f"store {kind}", "convert", file.relative_to(place).as_posix())
        if code:  # a bit in what Zarr does not use may be read over: then all series were compared and are right
            trial.wrong += refusal(code, words)
        else:
            trial.wrong += bench.differs("scaffold", place)
        shutil.rmtree(place / "cohort.zarr")
        trial.wrong += completed(bench, "convert", place)
        yield trial
        shutil.rmtree(place)


def _exchange(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
