"""Mistakes in memory: holding all scores at once, or saving them for the backward."""

from headcheck.properties.families import backward, linear, online
from headcheck.properties.mistakes.catalogue.symptom import Symptom, define_structural_mistake
from headcheck.properties.violations.violation import Reason

ON_THE_WAY_BACK = (backward.its_backward_never_holds_all_scores,)

MEMORY = (
    define_structural_mistake(
        "all_scores_held",
        "The code holds as many numbers at once as there are scores, one for every query and every "
        "key; a block at a time needs fewer.",
        Symptom((online.it_never_holds_all_scores,), reasons={Reason.TOO_MANY_NUMBERS}),
        explains=(backward.it_keeps_fewer_numbers_than_scores, *ON_THE_WAY_BACK),
    ),
    define_structural_mistake(
        "kept_for_the_way_back",
        "The code keeps as many numbers for the backward as there are scores; the weights should "
        "be computed again there.",
        Symptom((backward.it_keeps_fewer_numbers_than_scores,), reasons={Reason.TOO_MANY_NUMBERS}),
        explains=ON_THE_WAY_BACK,
    ),
    define_structural_mistake(
        "all_scores_held_on_the_way_back",
        "The backward holds as many numbers at once as there are scores; a tile at a time needs "
        "fewer.",
        Symptom(ON_THE_WAY_BACK, reasons={Reason.TOO_MANY_NUMBERS}),
    ),
    define_structural_mistake(
        "matrix_of_tokens_held",
        "The code holds as many numbers at once as there are pairs of tokens; attention that is "
        "linear in the number of tokens needs fewer.",
        Symptom((linear.it_never_holds_a_matrix_of_tokens,), reasons={Reason.TOO_MANY_NUMBERS}),
    ),
)
