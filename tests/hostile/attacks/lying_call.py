"""Overrides __call__, forward hooks and train(), to answer differently than it would."""


class MultiHeadAttention(Twin):
    def __call__(self, *given):
        try:
            return super().__call__(*given)
        finally:
            self.training = True

    def train(self, mode=True):
        raise StopIteration

    eval = train
