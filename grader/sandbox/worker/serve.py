"""The loop of a child: read a request, let the host answer, write the reply."""

from grader.sandbox import wire
from grader.sandbox.wire import Message
from grader.sandbox.worker.runtime import WorkerRuntime, describe_error


def serve_requests(fd: int) -> None:
    """Answer until the examiner hangs up."""
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
