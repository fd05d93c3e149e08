"""The cases on which properties are checked: how they are chosen, reseeded and changed."""
