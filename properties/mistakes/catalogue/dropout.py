"""Mistakes in dropout, recognised by which weights are dropped rather than by a pipeline.

Dropout is random, so no answer can be computed in advance.
`properties.mistakes.recognisers.dropout` examines every recovered weight and names the mistake that
the weights show.
"""

from headcheck.properties.mistakes.catalogue.mistake import Mistake, define_mistake
from headcheck.properties.mistakes.steps import dropout
from headcheck.properties.mistakes.steps.dropout import change_result, in_training

CALLED = "projection:[dD]rop | dropout:^F | dropout:^(?!.*nn.Dropout)"
"""patterns for the line that applies dropout, rather than the line that makes the layer"""
OTHER = "dropout:^(?!.*(nn.Dropout|softmax|weights|attn|probs))"
"""patterns for a line that applies dropout to something whose name does not suggest weights"""

IN_EVALUATION = define_mistake(
    "dropout_in_evaluation",
    "Dropout acts in evaluation, too: it has to follow self.training, or to be a layer that eval() "
    "reaches.",
    "kernel:dropout_p=(?!.*training) | dropout:^(?!.*(training|nn.Dropout)) | "
    "dropout:^(?!.*nn.Dropout) | kernel",
).dropping_by(change_result("use", dropout.drop))
SCALED_IN_EVALUATION = define_mistake(
    "dropout_scaled_in_evaluation",
    "Weights are scaled down in evaluation; PyTorch's dropout scales them up in training instead.",
    "dropout | times",
).dropping_by(
    in_training(
        change_result("use", dropout.drop_unscaled),
        change_result("use", lambda weights, rate: weights * (1 - rate)),
    )
)
NEVER = define_mistake(
    "dropout_never", "Dropout never acts: in training no weight is dropped."
).dropping_by(dropout.never)
NOT_ASKED_FOR = define_mistake(
    "dropout_not_asked_for",
    "Dropout acts, which nobody asked for.",
    "dropout | kernel",
).dropping_by(
    in_training(change_result("use", lambda weights, _: dropout.drop(weights, 0.5))),
    in_training(change_result("use", lambda weights, _: dropout.drop(weights, 0.1))),
    change_result("use", lambda weights, _: dropout.drop(weights, 0.5)),
    change_result("use", lambda weights, _: dropout.drop(weights, 0.1)),
)
NOT_RESCALED = define_mistake(
    "dropout_not_rescaled",
    "The weights that dropout keeps are not scaled up by 1/(1 − p).",
    "dropout | times",
).dropping_by(in_training(change_result("use", dropout.drop_unscaled)))
KEEPS_P = define_mistake(
    "dropout_keeps_p",
    "The rate of dropout is taken for the probability of staying.",
    "dropout | times",
).dropping_by(in_training(change_result("use", lambda w, rate: dropout.drop(w, 1 - rate))))
SCALED_BY_P = define_mistake(
    "dropout_scaled_by_p",
    "The weights that dropout keeps are divided by p instead of 1 − p.",
    "dropout | divide",
).dropping_by(in_training(change_result("use", lambda w, p: dropout.drop_unscaled(w, p) / p)))
TWICE = define_mistake(
    "dropout_twice", "Dropout is applied twice to the weights.", "last dropout"
).dropping_by(
    in_training(change_result("use", lambda w, rate: dropout.drop(dropout.drop(w, rate), rate)))
)
OTHER_RATE = define_mistake(
    "dropout_of_another_rate",
    "Dropout has a fixed rate of its own, whatever the argument says.",
    "dropout:\\d | dropout",
).dropping_by(
    in_training(change_result("use", dropout.at_rate(0.5, instead=0.1))),
    in_training(change_result("use", dropout.at_rate(0.2, instead=0.5))),
)
RENORMALISED = define_mistake(
    "dropout_renormalised",
    "After dropping, each row is made to sum to one again instead of being scaled by 1/(1 − p).",
    "last sum | projection:[dD]rop | dropout:^F | dropout",
).dropping_by(in_training(change_result("use", dropout.drop_renormalised)))
BEFORE_SOFTMAX = define_mistake(
    "dropout_before_softmax",
    "Dropout acts on the scores, before the softmax: a score that is set to 0 still gets weight.",
    CALLED,
).dropping_by(dropout.on_scores, dropout.on_masked_scores)
NOT_ON_WEIGHTS = define_mistake(
    "dropout_not_on_weights",
    "Dropout acts on something other than the attention weights, such as values or output: "
    "single coordinates vanish.",
    f"{OTHER} | {CALLED}",
).dropping_by(dropout.on_values, dropout.on_context, dropout.on_output, dropout.on_input)
WHOLE_ROWS = define_mistake(
    "dropout_of_whole_rows",
    "Dropout takes all weights of a query, or of a whole head, away at once; it is to draw for "
    "each weight.",
).dropping_by(
    in_training(change_result("use", dropout.drop_together(3))),
    in_training(change_result("use", dropout.drop_together(2, 3))),
)
WHOLE_KEYS = define_mistake(
    "dropout_of_whole_keys",
    "Dropout takes a key away from all queries at once; it is to draw for each weight.",
    CALLED,
).dropping_by(in_training(change_result("use", dropout.drop_together(2))))
SHARED_BY_BATCH = define_mistake(
    "dropout_shared_by_batch", "All sequences of a batch drop the same weights.", CALLED
).dropping_by(in_training(change_result("use", dropout.drop_together(0))))
SHARED_BY_HEADS = define_mistake(
    "dropout_shared_by_heads", "All heads drop the same weights.", CALLED
).dropping_by(in_training(change_result("use", dropout.drop_together(1))))

DROPOUT: tuple[Mistake, ...] = (
    IN_EVALUATION,
    SCALED_IN_EVALUATION,
    NEVER,
    NOT_ASKED_FOR,
    NOT_RESCALED,
    KEEPS_P,
    SCALED_BY_P,
    TWICE,
    OTHER_RATE,
    RENORMALISED,
    BEFORE_SOFTMAX,
    NOT_ON_WEIGHTS,
    WHOLE_ROWS,
    WHOLE_KEYS,
    SHARED_BY_BATCH,
    SHARED_BY_HEADS,
)
