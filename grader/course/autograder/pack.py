"""Build the archive that an instructor uploads to Gradescope, and the wheel of headcheck in it.

The wheel is built from a checkout, or repacked from an installation. Source of the format:
https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.parser import BytesParser
from importlib import resources
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from headcheck.exercises import Exercise
from headcheck.exercises.contract_file import CONTRACT_FILE, TEXT_FILES
from headcheck.grader.course import CourseError
from headcheck.grader.course.autograder import EXERCISES, PLAN_FILE, AutograderPlan, encode_plan
from headcheck.grader.location import HEADCHECK

SETUP, RUN = "setup.sh", "run_autograder"
SPARE_S = 30
"""seconds reserved for Gradescope's own work before and after"""
LEFT_OUT = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""the files that an installer adds to the files of a wheel"""
STUDENT = re.compile(r"extra == ['\"]student['\"]")
"""the additional packages that submissions need"""


class WheelError(CourseError):
    """No wheel could be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel: its file name and its bytes."""

    name: str
    data: bytes

    @property
    def requirements(self) -> Iterator[str]:
        """The names of the packages that grading needs, magics included. Raises WheelError."""
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                at = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
                metadata = BytesParser().parsebytes(archive.read(at))
        except (zipfile.BadZipFile, StopIteration):
            raise WheelError(f"{self.name}: is not a wheel") from None
        yield from _parse_names(metadata.get_all("Requires-Dist", []))


def build_archive(plan: AutograderPlan, wheel: Wheel, minutes: int) -> bytes:
    """Return a zip archive, reproducible for the same versions and settings. Raises WheelError.

    `minutes` is Gradescope's limit for one submission; grading ends earlier.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    constraints = "".join(f"{line}\n" for line in pin_versions(wheel.requirements))
    return zip_files(
        {
            SETUP: _read_script(SETUP).replace("@PYTHON@", python).encode(),
            RUN: _read_script(RUN).replace("@SECONDS@", str(minutes * 60 - SPARE_S)).encode(),
            # Where the exercise was here is nobody's business there.
            PLAN_FILE: encode_plan(replace(plan, manifest=replace(plan.manifest, folder=""))),
            "constraints.txt": constraints.encode(),
            wheel.name: wheel.data,
            **_read_exercise(plan.manifest.settings.exercise),
        },
        programs=frozenset((SETUP, RUN)),
    )


def _read_exercise(exercise: Exercise | None) -> dict[str, bytes]:
    """Return the files of an exercise that headcheck's wheel lacks, without its answers."""
    if exercise is None or exercise.is_ours:
        return {}
    folder = f"{EXERCISES}/{exercise.slug}"
    paths = [exercise.folder / name for name in (*TEXT_FILES, "solution.py")]
    packed = {f"{folder}/{path.name}": path.read_bytes() for path in paths if path.is_file()}
    return {f"{folder}/{CONTRACT_FILE}": exercise.source.encode(), **packed}


def _read_script(name: str) -> str:
    folder = resources.files("headcheck.grader").joinpath("course", "autograder")
    return folder.joinpath(name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------ the wheel


def read_wheel(path: Path) -> Wheel:
    """Read an existing wheel of headcheck. Raises WheelError."""
    if not re.fullmatch(r"headcheck-[^-]+-.*\.whl", path.name):
        raise WheelError(f"{path}: is not a wheel of headcheck; make one with `python -m build`")
    return Wheel(path.name, path.read_bytes())


def build_own_wheel() -> Wheel:
    """Make a wheel of the running version. Raises WheelError."""
    root = HEADCHECK.parent
    if (root / "pyproject.toml").is_file():
        return _build_from_checkout(root)
    try:
        return repack_wheel(distribution("headcheck"))
    except PackageNotFoundError:
        text = "headcheck is not installed here; give a wheel with --wheel"
        raise WheelError(f"{root}: {text}") from None


def _build_from_checkout(root: Path) -> Wheel:
    """Build from a checkout with pip and the project's build backend."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--wheel-dir", folder, str(root)], capture_output=True, text=True
        )
        made = list(Path(folder).glob("*.whl"))
        if done.returncode or len(made) != 1:
            last = (done.stderr.strip().splitlines() or ["no wheel came out"])[-1]
            text = (
                f"pip wheel {root} failed: {last}. Make a wheel elsewhere, and give it with "
                "--wheel."
            )
            raise WheelError(text)
        return read_wheel(made[0])


def repack_wheel(installed: Distribution) -> Wheel:
    """Make a wheel of the files in an installation's record."""
    files: dict[str, bytes] = {}
    folder = ""
    for path in installed.files or ():
        if path.parent.name.endswith(".dist-info"):
            folder = path.parent.name
        outside = ".." in path.parts  # scripts, which the installer generates
        if not outside and path.suffix != ".pyc" and path.name not in LEFT_OUT:
            files[str(path)] = path.read_binary()
    tags = re.findall(r"^Tag: (\S+)", installed.read_text("WHEEL") or "", re.M)
    if not (files and tags):
        text = "the record of its installation is missing; install it again"
        raise WheelError(f"{installed.name}: {text}")
    name = f"{folder.removesuffix('.dist-info')}-{tags[0]}.whl"
    record = f"{folder}/RECORD"
    return Wheel(name, zip_files({**files, record: _make_record(files, record)}))


def _make_record(files: Mapping[str, bytes], record: str) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(data)))
    writer.writerow((record, "", ""))
    return buffer.getvalue().encode()


def zip_files(files: Mapping[str, bytes], programs: frozenset[str] = frozenset()) -> bytes:
    """Return a zip archive, with equal bytes for equal files; programs in it are executable."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name)  # its default date, 1980, keeps the bytes reproducible
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(member, data)
    return buffer.getvalue()


def pin_versions(names: Iterator[str]) -> list[str]:
    """Return the installed versions of these packages and of all their requirements.

    A local version such as torch's `+cpu` is dropped: the package index decides the build.
    """
    found: dict[str, str] = {}
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform, or another Python
        if name not in found:
            found[name] = f"{name}=={installed.version.partition('+')[0]}"
            todo += _parse_names(installed.requires or ())
    return [found[name] for name in sorted(found)]


def _parse_names(requirements: list[str] | tuple[()]) -> list[str]:
    wanted = (text for text in requirements if STUDENT.search(text) or "extra ==" not in text)
    return [found[0] for text in wanted if (found := re.match(r"[\w.-]+", text))]
