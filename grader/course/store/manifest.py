"""Describe a run so that it can be repeated: the settings and versions behind its results."""

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from headcheck import exercises, grader, properties
from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.contract_file import CONTRACT_FILE, omit_points, read_exercise
from headcheck.exercises.exercise import BadContract
from headcheck.grader.course import CourseError
from headcheck.grader.course.policy import NO_POLICY, Policy
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report import points
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback
from headcheck.grader.report.points import SLIP
from headcheck.grader.report.records import SandboxRecord, get_version
from headcheck.grader.report.rounding import HUNDREDTH
from headcheck.grader.seed import Seed, SeedKind, make_seed
from headcheck.properties.terms.depth import Depth

POINT_RULES = ("points.py", "rounding.py")
"""the modules that turn verdicts into points"""
SETTINGS = "rounding", "slip", "device", "by_hand", "search", "depth", "thorough", "all_examples"
"""the fields that a manifest has in common with `Settings`"""


class ManifestError(CourseError):
    """A run that this version cannot repeat; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The settings and versions of a run."""

    headcheck: str
    torch: str
    judge: str
    """digest of the grading source: properties, exercises, grader and sandbox"""
    plan: str
    """digest of the public cases of every property"""
    exercise: str | None
    """null if inferred from names and signatures"""
    seed: int
    """the case seed; regrade and replay use it again"""
    device: str
    limits: dict[str, float]
    """the limits set on the command line"""
    points: dict[str, dict[str, float]] | None
    worth: str = ""
    """digest of the points of every property, and of the rules by which they are awarded"""
    rounding: float = HUNDREDTH
    """the step that scores are rounded to"""
    slip: float = SLIP
    """what the change that undoes a slip costs, in percent of the points"""
    seed_kind: SeedKind | None = None
    """who knows the seed; null for a run by a version that had no secret seeds"""
    by_hand: bool = False
    """whether torch's own attention was disabled"""
    search: SearchLimit | None = None
    """how long every submission was tried on generated cases; null if it was not"""
    depth: Depth = Depth.THOROUGH
    """how much was asked; everything before there was a choice"""
    thorough: frozenset[str] = frozenset()
    """the exercises in which everything was asked, whatever `depth` says"""
    all_examples: bool = False
    """whether examples were also shrunk for failures that follow from a known mistake"""
    python: str = ""
    platform: str = ""
    attempts: str = "latest"
    feedback: Feedback = FULL_FEEDBACK
    """how much of the verdicts students may see; the store holds all of them"""
    sandbox: SandboxRecord | None = None
    """how well submissions were confined; null until the first submission is graded"""
    policy: Policy = NO_POLICY
    """deadline, groups and rubrics, on which no verdict and no points of a verdict depend"""
    contract: str = ""
    """the contract file of an exercise that does not come with headcheck; else empty"""
    folder: str = ""
    """where that exercise is, with its statement and its solution; no verdict depends on it"""

    @property
    def key(self) -> str:
        """The digest of all that results depend on: equal keys and bytes give equal results."""
        nowhere = replace(self, python="", platform="", sandbox=None, seed_kind=None, folder="")
        relevant = replace(nowhere, attempts="", feedback=FULL_FEEDBACK)
        entries = msgspec.to_builtins(relevant, order="deterministic")
        del entries["policy"]  # so that runs from before there was any keep their keys
        return _digest(msgspec.json.encode(entries))

    @property
    def verdict_key(self) -> str:
        """The digest of everything on which verdicts depend, which does not include points."""
        asked = omit_points(self.contract)
        scored = replace(self, points=None, worth="", rounding=HUNDREDTH, slip=SLIP)
        return replace(scored, contract=asked).key

    @property
    def case_seed(self) -> Seed:
        """The seed and who knows it."""
        return make_seed(self.seed) if self.seed_kind is None else Seed(self.seed, self.seed_kind)

    def continue_from(self, earlier: "Manifest") -> "Manifest":
        """Return this manifest with the seed of an earlier run: all students get the same cases.

        The manifest is returned unchanged if the earlier run's version had no secret seeds.
        """
        if earlier.seed_kind is None:
            return self
        return replace(self, seed=earlier.seed, seed_kind=earlier.seed_kind)

    @property
    def settings(self) -> Settings:
        """The settings to repeat the run. Raises ManifestError if its exercise no longer exists."""
        return Settings(
            exercise=self._find_exercise(),
            limit_overrides=self.limits,
            points=self.points,
            seed=self.case_seed,
            **{name: getattr(self, name) for name in SETTINGS},
        )

    def _find_exercise(self) -> Exercise | None:
        """Return the exercise as it was; for one of ours, as it is now. Raises ManifestError."""
        if self.contract:
            try:
                return read_exercise(Path(self.folder), self.contract)
            except BadContract as problem:
                raise ManifestError(f"the run judged {self.exercise!r}: {problem}") from None
        if self.exercise is not None and self.exercise not in BY_SLUG:
            text = f"the run judged {self.exercise!r}: this version has no such exercise"
            raise ManifestError(text)
        return None if self.exercise is None else BY_SLUG[self.exercise]


def build_manifest(
    settings: Settings,
    attempts: str = "latest",
    feedback: Feedback = FULL_FEEDBACK,
    policy: Policy = NO_POLICY,
) -> Manifest:
    """Return the manifest of a run with these settings, by this version on this machine.

    It is the manifest that a store gives back: in a course file 20 may stand for 20.0, and keys of
    the two would differ.
    """
    import torch  # here, so that reading a store does not import it

    own_points = settings.points
    outside = settings.exercise if settings.exercise and not settings.exercise.is_ours else None
    planned = Manifest(
        headcheck=get_version(),
        torch=str(torch.__version__),
        judge=digest_source(),
        plan=digest_cases(settings),
        exercise=None if settings.exercise is None else settings.exercise.slug,
        seed=settings.seed.value,
        seed_kind=settings.seed.kind,
        limits={name: float(value) for name, value in settings.limit_overrides.items()},
        points=None if own_points is None else {k: dict(v) for k, v in own_points.items()},
        worth=digest_points(settings),
        **{name: getattr(settings, name) for name in SETTINGS},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        attempts=attempts,
        feedback=feedback,
        policy=policy,
        contract="" if outside is None else outside.source,
        folder="" if outside is None else str(outside.folder),
    )
    return decode(encode(planned))


def digest_cases(settings: Settings) -> str:
    """Return a digest of the cases on which each property is tried.

    Only the public cases count: the seed, which changes their numbers, is a separate field.
    """
    lines = (line for each in _list_exercises(settings) for line in _list_cases(each, settings))
    return _digest("\n".join(lines).encode())


def _list_exercises(settings: Settings) -> Sequence[Exercise]:
    """Return the exercises of a run, each at its depth."""
    asked = ALL if settings.exercise is None else (settings.exercise,)
    return [each.at(settings.get_depth(each)) for each in asked]


def _list_cases(exercise: Exercise, settings: Settings) -> Iterator[str]:
    limits: Mapping[str, Any] = dict(exercise.limits)
    yield f"{exercise.slug} {exercise.contract.name} {sorted(limits.items())}"
    for property_, cases in exercise.plan_cases(device=settings.device).items():
        yield f"{property_.name} {property_.group.value}"
        yield from map(repr, cases)


def digest_points(settings: Settings) -> str:
    """Return a digest of the points of each property, and of the rules by which they are awarded.

    Verdicts depend neither on the points nor on the rules: see `Manifest.verdict_key`.
    """
    lines = [
        files("headcheck.grader.report").joinpath(name).read_text("utf-8") for name in POINT_RULES
    ]
    for exercise in _list_exercises(settings):
        worth = points.distribute_points(exercise, settings.points)
        lines += [f"{exercise.slug} {prop.name} {each!r}" for prop, each in worth.items()]
    return _digest("\n".join(lines).encode())


@cache
def digest_source() -> str:
    """Return a digest of the grading code, as installed or checked out.

    The version number would not be enough: it stays the same while a developer works on an
    exercise.
    """
    from headcheck import reference  # here, so that reading a store does not import torch

    patterns = {
        reference: ("**/*.py",),
        properties: ("**/*.py",),
        exercises: ("*.py", "*/contract.toml"),
        # Without the packages that display or store verdicts.
        grader: ("*.py", *(f"{p}/**/*.py" for p in ("batch", "grading", "reading", "sandbox"))),
    }
    digest = hashlib.sha256()
    for package, globs in patterns.items():
        folder = Path(package.__path__[0])
        for path in sorted({path for pattern in globs for path in folder.glob(pattern)}):
            digest.update(f"{path.relative_to(folder)}\n".encode() + _read_source(path))
    return digest.hexdigest()


def _read_source(path: Path) -> bytes:
    data = path.read_bytes()
    return omit_points(data.decode()).encode() if path.name == CONTRACT_FILE else data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(manifest: Manifest) -> str:
    """Return a manifest as it is stored."""
    return msgspec.json.encode(manifest).decode()


def decode(text: str) -> Manifest:
    """Read a stored manifest. Raises ManifestError."""
    try:
        return msgspec.json.decode(text, type=Manifest, strict=False)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"the run's manifest cannot be read: {error}") from None
