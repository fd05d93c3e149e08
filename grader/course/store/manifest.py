"""What a run was: everything that decides its verdicts, written down so that it can be repeated."""

import hashlib
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch

import exercises
import grader
import properties
import reference
from exercises import ALL, BY_SLUG, Exercise
from grader.course import CourseError
from grader.grading.grade import Settings
from grader.report import points
from grader.report.feedback import FULL_FEEDBACK, Feedback
from grader.report.records import SandboxRecord, get_version
from grader.seed import Seed, SeedKind, make_seed


class ManifestError(CourseError):
    """A run that this version cannot repeat; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The settings and versions of a run."""

    headcheck: str
    torch: str
    judge: str
    """digest of the source of what judges: the claims, the exercises, the grader and its sandbox"""
    plan: str
    """digest of the public cases of every claim, and of what it is worth"""
    exercise: str | None
    """null where names and signatures told"""
    seed: int
    """what the cases are drawn from; regrading and replaying use it again"""
    device: str
    limits: dict[str, float]
    """those that were named on the command line"""
    points: dict[str, dict[str, float]] | None
    seed_kind: SeedKind | None = None
    """who knows the seed; null in runs of versions that drew no secret ones"""
    by_hand: bool = False
    """whether torch's own attention was out of reach"""
    python: str = ""
    platform: str = ""
    attempts: str = "latest"
    feedback: Feedback = FULL_FEEDBACK
    """what students are told of the verdicts; the store holds all of them"""
    sandbox: SandboxRecord | None = None
    """how well submissions were confined; null while nothing had to be judged"""

    @property
    def key(self) -> str:
        """A digest of all that a verdict depends on: with the same key and bytes it is the same."""
        decides = replace(
            self,
            python="",
            platform="",
            attempts="",
            feedback=FULL_FEEDBACK,
            sandbox=None,
            seed_kind=None,
        )
        return _digest(msgspec.json.encode(decides, order="deterministic"))

    @property
    def case_seed(self) -> Seed:
        """The seed, and who knows it."""
        return make_seed(self.seed) if self.seed_kind is None else Seed(self.seed, self.seed_kind)

    def continue_from(self, earlier: "Manifest") -> "Manifest":
        """The same with the seed of an earlier run, so that everybody gets the same cases.

        Not with that of a run which could draw no secret one.
        """
        if earlier.seed_kind is None:
            return self
        return replace(self, seed=earlier.seed, seed_kind=earlier.seed_kind)

    @property
    def settings(self) -> Settings:
        """The settings to repeat it with. Raises BadManifest for an exercise that is no more."""
        if self.exercise is not None and self.exercise not in BY_SLUG:
            raise ManifestError(
                f"the run judged {self.exercise!r}: this version has no such exercise"
            )
        return Settings(
            exercise=None if self.exercise is None else BY_SLUG[self.exercise],
            limit_overrides=self.limits,
            points=self.points,
            seed=self.case_seed,
            device=self.device,
            by_hand=self.by_hand,
        )


def build_manifest(
    settings: Settings, attempts: str = "latest", feedback: Feedback = FULL_FEEDBACK
) -> Manifest:
    """The manifest of a run with these settings, by this version on this machine."""
    given = settings.points
    return Manifest(
        headcheck=get_version(),
        torch=str(torch.__version__),
        judge=digest_source(),
        plan=digest_cases(settings),
        exercise=None if settings.exercise is None else settings.exercise.slug,
        seed=settings.seed.value,
        seed_kind=settings.seed.kind,
        device=settings.device,
        limits={name: float(value) for name, value in settings.limit_overrides.items()},
        points=None if given is None else {slug: dict(groups) for slug, groups in given.items()},
        by_hand=settings.by_hand,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        attempts=attempts,
        feedback=feedback,
    )


def digest_cases(settings: Settings) -> str:
    """A digest of the cases that each claim is tried on and of what it is worth.

    Of the public ones: the seed, which changes their numbers, is written down beside it.
    """
    chosen = ALL if settings.exercise is None else (settings.exercise,)
    return _digest(
        "\n".join(line for each in chosen for line in _describe_exercise(each, settings)).encode()
    )


def _describe_exercise(exercise: Exercise, settings: Settings) -> Iterator[str]:
    worth = points.distribute_points(exercise, settings.points)
    limits: Mapping[str, Any] = dict(exercise.limits)
    yield f"{exercise.slug} {exercise.contract.name} {sorted(limits.items())}"
    for property_, cases in exercise.plan_cases(device=settings.device).items():
        yield f"{property_.name} {property_.group.value} {worth[property_]!r}"
        yield from map(repr, cases)


@cache
def digest_source() -> str:
    """A digest of the code that judges, as it is installed or checked out.

    A version number does not change while somebody works on an exercise.
    """
    patterns = {
        reference: ("**/*.py",),
        properties: ("**/*.py",),
        exercises: ("*.py", "*/__init__.py"),
        # Not what shows verdicts, or keeps them.
        grader: (
            "*.py",
            *(f"{room}/**/*.py" for room in ("batch", "grading", "reading", "sandbox")),
        ),
    }
    digest = hashlib.sha256()
    for room, wanted in patterns.items():
        folder = Path(room.__path__[0])
        for path in sorted({path for pattern in wanted for path in folder.glob(pattern)}):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(manifest: Manifest) -> str:
    """As it is stored."""
    return msgspec.json.encode(manifest).decode()


def decode(text: str) -> Manifest:
    """As it was. Raises BadManifest."""
    try:
        return msgspec.json.decode(text, type=Manifest, strict=False)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"the run's manifest cannot be read: {error}") from None
