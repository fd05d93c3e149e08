"""Replaces json, struct and msgspec under the runner, so that replies say `passed`."""

import json

import msgspec

from headcheck.grader.sandbox import wire


def attack():
    good = b'{"id": 1, "op": "ok", "meta": {"status": "passed", "handle": 1}, "tensors": []}'
    json.dumps = lambda *given, **named: good.decode()
    json.JSONEncoder.encode = lambda *given: good.decode()
    msgspec.json.encode = lambda *given: good

    class Encoder:
        def encode(self, message):
            return good

    wire._ENCODER = Encoder()
