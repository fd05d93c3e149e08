"""Makes a new tensor for every look at its weights, so that what is written there is lost."""

import copy


class MultiHeadAttention(Twin):
    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return copy.deepcopy(found) if name == "W_key" else found
