"""Puts itself before everything that is imported after it."""

import importlib.util
import sys
import types


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        module = types.ModuleType(name)
        module.__getattr__ = lambda name: lambda *given, **named: None
        return importlib.util.spec_from_loader(
            name,
            types.SimpleNamespace(
                create_module=lambda spec: module, exec_module=lambda module: None
            ),
        )


def attack():
    sys.meta_path.insert(0, Finder)
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    for name in ("json", "msgspec", "struct", "math", "headcheck.grader.report.records"):
        sys.modules.pop(name, None)
