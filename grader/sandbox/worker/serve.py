"""The request loop of a confined child: read a request, answer it, write the reply."""

from headcheck.grader.sandbox import wire
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.errors import describe_error
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime


def serve_requests(fd: int) -> None:
    """Answer requests until the grader process closes the connection."""
    runtime = WorkerRuntime()
    while True:
        try:
            request = wire.read(fd)
        except EOFError:
            return
        reply = runtime.answer(request)
        try:
            wire.write(fd, reply)
        except wire.BadFrame as error:
            wire.write(fd, Message(request.id, "raised", describe_error(error)))
