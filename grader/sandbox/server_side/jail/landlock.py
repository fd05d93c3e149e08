"""Landlock: restrict the files, signals and sockets that a process and its threads may use.

A ruleset is created once and then restricts any number of processes. Everything is denied unless a
rule grants it. Landlock cannot exclude a folder from a granted tree. A tree that contains hidden
folders is therefore granted piece by piece.

Source: Linux, Documentation/userspace-api/landlock.rst.
"""

import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from headcheck.grader.sandbox.server_side.jail import kernel

TRUNCATE_ABI = 3
"""the first version that keeps a process without write access to a file from truncating it"""
SCOPE_ABI = 6
"""the first version that also confines signals and abstract unix sockets"""
_NETWORK_ABI = 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1

WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE = 1 << 13, 1 << 14
READ = READ_FILE | READ_DIR
SCRATCH = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
_FILE_RIGHTS = WRITE_FILE | READ_FILE | TRUNCATE
_RIGHT_COUNTS = {3: 15, 4: 15}
"""how many rights on files each version knows; versions from 5 on know 16"""


def get_abi_version() -> int:
    """Return the version of Landlock that this kernel offers. Raises OSError if it offers none."""
    return kernel.syscall("Landlock", _CREATE_RULESET, None, 0, _VERSION)


def create_ruleset(grants: Mapping[Path, int], version: int) -> int:
    """Create a ruleset that grants these rights below these paths, and no network; return its fd.

    Paths that do not exist or cannot be reached are left out. Raises OSError.
    """
    known = (1 << _RIGHT_COUNTS.get(version, 16)) - 1
    # struct landlock_ruleset_attr grew with the versions: files, network, then scopes.
    size = 24 if version >= SCOPE_ABI else 16 if version >= _NETWORK_ABI else 8
    attributes = struct.pack("QQQ", known, 3, 3)[:size]
    ruleset_fd = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    for path, rights in grants.items():
        _add_rule(ruleset_fd, path, rights & known)
    return ruleset_fd


def _add_rule(ruleset_fd: int, path: Path, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        fitting = rights if path.is_dir() else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", fitting, fd)
        if fitting:
            kernel.syscall("landlock_add_rule", _ADD_RULE, ruleset_fd, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)


def restrict(ruleset_fd: int) -> None:
    """Restrict this process for good; it must already have no_new_privs. Raises OSError."""
    kernel.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset_fd, 0)


def compute_read_grants(trees: Iterable[Path], hidden: Collection[Path]) -> dict[Path, int]:
    """Return the rights needed to read these trees, except for the hidden paths in them.

    A folder that contains a hidden path can be listed, and the list includes the names of hidden
    entries.
    """
    resolved = {path.resolve() for path in hidden}
    grants: dict[Path, int] = {}
    for tree in trees:
        for path, rights in _iter_pieces(tree, resolved, set()):
            grants[path] = grants.get(path, 0) | rights
    return grants


def _iter_pieces(tree: Path, hidden: set[Path], seen: set[Path]) -> Iterator[tuple[Path, int]]:
    path = tree.resolve()
    if path in seen or path in hidden or not hidden.isdisjoint(path.parents):
        return
    seen.add(path)
    if not any(path in each.parents for each in hidden):
        yield path, READ
        return
    yield path, READ_DIR
    for child in sorted(path.iterdir()):
        yield from _iter_pieces(child, hidden, seen)
