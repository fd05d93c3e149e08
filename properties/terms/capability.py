"""Features of contracts that properties may require."""

from enum import Enum, auto


class Capability(Enum):
    """A feature that a contract has or lacks; a property applies to contracts with all it needs."""

    MODULE = auto()  # there is an object with state
    STATELESS = auto()  # it is a function of tensors
    ATTENTION = auto()  # softmax is involved (a linear layer has none)
    TOKENS = auto()  # takes the tokens x themselves
    CAUSAL = auto()  # later tokens are hidden
    FULL = auto()  # every token sees every other
    MASK = auto()  # takes a mask of queries and keys
    BIAS_MASK = auto()  # ... whose numbers, whatever they are, are added to the scores
    ANY_MASK = auto()  # ... of any type, and of any shape that broadcasts
    PADDING = auto()  # takes a mask of keys only
    TAKES_MASK = auto()  # takes a mask of either kind
    EMPTY_ROWS = auto()  # promises something to a query that may attend to nothing
    ANY_KEYS = auto()  # ... if it takes one, that may hide any keys
    LENGTHS = auto()  # ... that shows so many of the first keys
    DOCUMENTS = auto()  # ... that hides the tokens of other documents
    SEALED = auto()  # not even NaN or infinity counts in what the mask hides
    CONTEXT = auto()  # has a longest length
    BATCH = auto()  # has a batch axis
    HEADS = auto()  # several heads are possible
    WIDTHS = auto()  # the sizes are free
    PROJECTED = auto()  # queries, keys, values have weights
    INITIALISED = auto()  # the module makes its own parameters
    UNIFORM = auto()  # ... by torch.rand
    TRANSFER = auto()  # its weights come from another module
    BIAS = auto()  # queries, keys and values may have a bias
    BIAS_OPTION = auto()  # ... which is an option, off by default
    OUTPUT_PROJECTION = auto()
    OUTPUT_BIAS = auto()
    DROPOUT = auto()
    OUTPUT_DROPOUT = auto()  # dropout acts on the numbers of the output, too
    WEIGHTS = auto()  # returns the attention weights
    WEIGHTS_OPTION = auto()  # ... or does not, as the call says
    DIVISIBLE = auto()  # refuses heads that do not divide the width
    CONFIG = auto()  # takes its sizes from a config object
    FUSED = auto()  # must go through torch's fused attention
    STABLE = auto()  # must survive large scores
    STRIDED = auto()  # tokens may lie in memory in any way
    STEADY = auto()  # without dropout, training computes what evaluation does
    GROUPED = auto()  # heads may share keys and values
    WINDOW = auto()  # tokens see so many tokens, and none before
    SOFTCAP = auto()  # scores are limited
    POSITIONS = auto()  # where tokens stand counts, besides who is seen
    RELATIVE = auto()  # ... by a learned number for each distance, which is added to scores
    SINKS = auto()  # every head has a sink, which takes a share of the weights
    SOFTMAX = auto()  # scores become weights by a softmax
    FEATURES = auto()  # weights are products of features, over their sum
    DIFFERENTIAL = auto()  # weights are a softmax minus a share of another
    ONE_MAP = auto()  # weights are one softmax, or a share of one
    CONSTANT_SUM = auto()  # what a query's weights sum to does not depend on tokens
    NORMALISED = auto()  # the weights of a query sum to one
    LATENT = auto()  # keys and values are made of latents
    BESIDE = auto()  # ... and numbers that rotate stand beside each head's own
    UNCOMPRESSED = auto()  # keys and values are made of the tokens themselves
    GATED = auto()  # what heads give is multiplied by a gate
    UNGATED = auto()  # what heads give is used as it is
    NORMED_HEADS = auto()  # what heads give goes through a norm
    PROPORTIONAL = auto()  # what heads give counts in proportion to its size
    BLOCK = auto()  # attention is a part of it, with norms, residuals and a feed-forward
    CENTRED_NORMS = auto()  # its norms subtract the mean of a token first
    BARE = auto()  # what attention gives is the output
    OWN_KEYS = auto()  # every head has keys and values of its own
    ANY_DISTANCE = auto()  # no token is too far back to be seen
    PLACELESS = auto()  # where tokens stand counts for nothing but who is seen
    UNBIASED = auto()  # nothing is added to the scores
    UNNORMED = auto()  # queries and keys keep their sizes, and go through no norm
    DOT_PRODUCT = auto()  # queries and keys count by their products, whatever their size
    CACHE = auto()  # a sequence may come in several calls
    HANDED_CACHE = auto()  # ... each of which is handed what an earlier one gave
    FORGETFUL = auto()  # ... and hold no more than a window needs
    LINEAR_MEMORY = auto()  # with features, no call holds a matrix of tokens
    CROSS = auto()  # keys and values may come from other tokens than queries
    WIDE_CONTEXT = auto()  # ... which have a width of their own
    ALIGNED = auto()  # ... which are the last of those tokens, and see none that is later
    BLOCKED = auto()  # keys are computed in blocks
    LOGSUMEXP = auto()  # returns the log-sum-exp of the scores
    RECOMPUTED = auto()  # its backward computes the weights once more, block by block
    CAUSAL_OPTION = auto()  # whether later tokens are hidden is said in each call
    ROLES = auto()  # it is a function that takes queries, keys and values apart
    HALF = auto()  # works in 16 bits, as exactly as plain torch
    STATED = auto()  # a statement says what it takes, has and refuses, and nothing else counts
