"""A digest of the code of a submission, with the places of its tokens."""

import hashlib
import io
import tokenize

from headcheck.grader.reading.cells import SubmissionSource

MAX_CHARACTERS = 1 << 20
"""longer code gets no digest, because computing it would take longer than it saves"""


def digest_code(source: SubmissionSource) -> str:
    """Return a digest of all tokens and places; "" if a cell is not Python or the code is too long.

    Comments at the beginning of a line do not count, where names and dates stand. Others may say
    what arguments mean.
    """
    if sum(len(cell.text) for cell in source.cells) > MAX_CHARACTERS:
        return ""
    digest = hashlib.sha256()
    for cell in source.cells:
        if cell.error is not None:
            return ""
        digest.update(repr(cell.number).encode())
        try:
            _add_tokens(digest, cell.text)
        except (tokenize.TokenError, SyntaxError):
            return ""
    return digest.hexdigest()


def _add_tokens(digest: "hashlib._Hash", text: str) -> None:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_title = token.type == tokenize.COMMENT and not token.start[1]
        if token.type != tokenize.NL and not is_title:
            # The end of a line stands behind a comment.
            place = None if token.type == tokenize.NEWLINE else token.start
            digest.update(repr((token.type, token.string, place)).encode())
