"""List the messages of a compiled catalogue, which `gettext` looks up and does not list.

The format: https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html
"""

import struct


def read_messages(data: bytes) -> dict[str, str]:
    """Return the English texts of a catalogue and their translations.

    The forms of a text with a number are joined by NUL, in both languages.
    """
    count, originals, translations = struct.unpack("<3I", data[8:20])
    pairs = (
        (_read_entry(data, originals, i), _read_entry(data, translations, i)) for i in range(count)
    )
    return {text: translation for text, translation in pairs if text}


def _read_entry(data: bytes, table: int, index: int) -> str:
    length, start = struct.unpack_from("<2I", data, table + 8 * index)
    return data[start : start + length].decode()
