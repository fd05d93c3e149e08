"""Check trusted code with pytest: the plugin, its tests, and the lookup of code by name."""
