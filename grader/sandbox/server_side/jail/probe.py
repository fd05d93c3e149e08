"""Find the layers that work on this machine, by trying each in a throwaway process."""

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from headcheck.grader.sandbox.isolation import Layer
from headcheck.grader.sandbox.server_side.jail import kernel, landlock, namespaces, seccomp

_REASONS = {
    errno.ENOSYS: "this kernel does not have it, or a container disables it",
    errno.EOPNOTSUPP: "switched off when the kernel was started",
}


def find_missing_layers(left_out: Collection[Layer], needed: Sequence[Path]) -> dict[Layer, str]:
    """Return the layers that are missing or left out on purpose, with the reasons."""
    missing: dict[Layer, str] = dict.fromkeys(left_out, "left out on purpose")
    tries: dict[Layer, Callable[[], object]] = {
        Layer.NAMESPACES: lambda: _try_namespaces(needed),
        Layer.LANDLOCK: _try_landlock,
        Layer.SCOPES: lambda: _require_landlock(landlock.SCOPE_ABI),
        Layer.SECCOMP: _try_seccomp,
    }
    for layer, action in tries.items():
        why = None if layer in missing else attempt(action)
        if why is not None:
            missing[layer] = why
    if Layer.LANDLOCK in missing:
        missing.setdefault(Layer.SCOPES, "part of Landlock")
    return {layer: missing[layer] for layer in Layer if layer in missing}


def attempt(action: Callable[[], object]) -> str | None:
    """Try an action in a separate process; return why it failed, or None if it succeeded."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            with contextlib.suppress(BrokenPipeError):  # the reader was killed
                os.write(writing, _explain(error).encode()[:4096])
            os._exit(1)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading, "rb") as pipe:
        reason = pipe.read().decode("utf-8", "replace")
    return None if status == 0 else reason or f"the attempt ended with status {status}"


def _explain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in _REASONS:
        return _REASONS[error.errno]
    return str(error) or type(error).__name__


def _try_namespaces(needed: Sequence[Path]) -> None:
    stage = namespaces.set_up_stage(needed)
    kernel.drop_capabilities()
    ids = os.geteuid(), os.getegid()
    pid = kernel.fork_into(namespaces.CHILD_NAMESPACES)
    if pid == 0:
        code = 0
        try:
            namespaces.set_up_namespaces(stage, ids, 1 << 12, 4)
        except OSError as error:
            code = error.errno or errno.EPERM
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, f"within them: {os.strerror(abs(code))}")


def _require_landlock(needed: int) -> int:
    version = landlock.get_abi_version()
    if version < needed:
        raise OSError(f"this kernel has version {version} of Landlock, it takes {needed}")
    return version


def _try_landlock() -> None:
    version = _require_landlock(landlock.TRUNCATE_ABI)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict(landlock.create_ruleset({}, version))


def _try_seccomp() -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp.build_program(os.getpid()))
    os.getpid()
