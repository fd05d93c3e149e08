"""The cases that properties are checked on: chosen by design, reseeded, transformed, shrunk."""
