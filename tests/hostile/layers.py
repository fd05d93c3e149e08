"""How to run a grader process with one layer of its defence left out, for tests that it matters.

Layers that the jail itself can leave out are left to it. For the others a few lines run before
the zygote does, or in the grader, and put something harmless in a function's place.
"""

import subprocess
from collections.abc import Collection, Mapping
from typing import Any
from unittest import mock

from headcheck.grader.sandbox import wire

PATCHED_ZYGOTE = """
import sys
from headcheck.grader.sandbox.server_side import server, zygote
from headcheck.grader.sandbox.server_side.jail import confine, kernel, landlock
from headcheck.grader.sandbox.server_side.jail import namespaces, privileges
mount = kernel.mount
{patch}
zygote.main(*map(int, sys.argv[1:4]))
"""
SERVER_PATCHES: Mapping[str, str] = {
    "closing": "kernel.close_from = lambda first: None",
    "environment": "server.clear_environment = lambda jail: None",
    "owner": "privileges.become_unprivileged = lambda needed: None",
    "capabilities": "kernel.drop_capabilities = lambda: None",
    "landlock after version 2": "landlock.get_abi_version = lambda: 2",
    "quota": (
        "kernel.mount = lambda *given: mount(*given[:4], 'mode=700' if 'size=' in str(given[4:])"
        " and 'mode=700' in given[4] else ''.join(given[4:]))"
    ),
}
"""what is left out, and the line that does it"""
MODULE = ["-m", "headcheck.grader.sandbox.server_side.zygote"]
GIANT = 1 << 40


def leave_out(names: Collection[str]) -> None:
    """In a grader process that has started no server yet, leave out layers of its own."""
    if "wire" in names:
        wire.MAX_HEADER = wire.SHORT_HEADER = wire.MAX_BODY = GIANT
    lines = [SERVER_PATCHES[name] for name in names if name != "wire"]
    patched = ["-c", PATCHED_ZYGOTE.format(patch="\n".join(lines))]
    popen = subprocess.Popen

    def started(command: list[str], **given: Any) -> Any:
        assert command[1:3] == MODULE
        return popen([command[0], *patched, *command[3:]], **given)

    mock.patch.object(subprocess, "Popen", started).start()
