"""One warm zygote for all the tests of a process; fork servers are forked from it as ever.

To get warm takes a zygote two seconds of processor time, a fork server after that some hundredths.
A test of what a zygote of one's own does is marked `own_zygote`.
"""

from collections.abc import Callable, Iterator

import pytest

from headcheck.grader.sandbox.grader_side import launch
from headcheck.grader.sandbox.grader_side.launch import Zygote
from headcheck.grader.sandbox.grader_side.servers import ServerHandle

ConnectZygote = Callable[[], Zygote]


@pytest.fixture(scope="session")
def connect_zygote() -> Iterator[ConnectZygote]:
    """Give a line to the zygote, which the first call starts."""
    start, started = launch.start_zygote, list[Zygote]()

    def connect() -> Zygote:
        if not started:
            started.append(start())
        return Zygote(started[0].connect(), warm=True)

    yield connect
    for zygote in started:
        zygote.close()


@pytest.fixture(autouse=True)
def shared_zygote(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    connect_zygote: ConnectZygote,
) -> None:
    """Let every fork server that a test starts in this process come from the warm zygote."""
    if request.node.get_closest_marker("own_zygote") is None:
        monkeypatch.setattr(launch, "start_zygote", connect_zygote)


@pytest.fixture(scope="session")
def server(connect_zygote: ConnectZygote) -> Iterator[ServerHandle]:
    """A fork server for submissions that harm nobody."""
    with ServerHandle(trusted=True, ahead=connect_zygote()) as handle:
        yield handle
