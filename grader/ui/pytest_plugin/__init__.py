"""Trusted code judged by pytest: the plugin, the tests that it makes, and how it finds code."""
