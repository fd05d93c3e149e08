"""Mistakes in linear attention: wrong features, wrong divisors, or a softmax."""

import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import features
from headcheck.properties.mistakes.steps.features import as_they_are, divided_by, mapped_by

SMALL = (1e-3, 1e-5, 1e-6, 1e-8, 1e-9)
"""the small numbers that people add to a divisor that may be 0"""

ODD_ONE = "only relu | only exp | only sigmoid | only gelu"
"""patterns for a feature function that occurs only once, and so is applied only to queries or only
to keys
"""

FEATURES = require(
    Capability.FEATURES,
    define_mistake(
        "softmax_of_scores",
        "The code computes ordinary attention, with a softmax; the features' products should be "
        "divided "
        "by their sum.",
        "softmax",
    ).simulated_by(features.softmax_of_scores(0.5), features.softmax_of_scores(0.0)),
    define_mistake(
        "softmax_of_products",
        "The products of features go through a softmax; they should be divided by their sum.",
        "softmax",
    ).simulated_by(features.softmax_of_products(0.0), features.softmax_of_products(0.5)),
    define_mistake(
        "shares_not_divided",
        "The weighted sum of the values is never divided: the divisor is missing.",
    ).simulated_by(normalise=features.undivided),
    define_mistake(
        "divided_by_the_count",
        "The divisor is the number of tokens, not the sum of the products of features.",
    ).simulated_by(normalise=divided_by(features.count_keys)),
    define_mistake(
        "divided_by_the_keys_alone",
        "The divisor is a sum of keys; it should be multiplied with the query.",
        "last sum",
    ).simulated_by(normalise=divided_by(features.sum_keys)),
    define_mistake(
        "divisor_sees_the_future",
        "The divisor is a sum over all tokens, including later ones.",
        "last sum",
    ).simulated_by(normalise=divided_by(features.sum_all)),
    define_mistake(
        "divisor_of_the_own_token",
        "The divisor is only the product with the token's own key, not the sum over all visible "
        "keys.",
        "last sum",
    ).simulated_by(normalise=divided_by(features.take_own)),
    define_mistake(
        "keys_without_features",
        "The keys are used directly; they have to become features, too.",
        "elu",
    ).simulated_by(map=mapped_by(key=as_they_are)),
    define_mistake(
        "queries_without_features",
        "The queries are used directly; they have to become features, too.",
        "elu",
    ).simulated_by(map=mapped_by(query=as_they_are)),
    define_mistake(
        "no_features",
        "Queries and keys are used directly; they have to become features.",
        "scores",
    ).simulated_by(map=mapped_by(as_they_are, as_they_are)),
    define_mistake(
        "one_not_added",
        "The features are elu(x), without the 1: some are negative, and sums may be zero.",
        "elu",
    ).simulated_by(
        {"map": mapped_by(F.elu, F.elu)},
        {"map": mapped_by(key=F.elu)},
        {"map": mapped_by(query=F.elu)},
    ),
    define_mistake(
        "one_added_before_elu",
        "The 1 is added to x before the elu: that is elu(x + 1), and features are elu(x) + 1.",
        "elu:\\b1\\b | only elu",
    ).simulated_by(
        {"map": mapped_by(features.elu_of_sum, features.elu_of_sum)},
        {"map": mapped_by(key=features.elu_of_sum)},
        {"map": mapped_by(query=features.elu_of_sum)},
    ),
    define_mistake(
        "other_features",
        "The features use another function than elu(x) + 1.",
        "relu | exp | elu",
    ).simulated_by(
        *({"map": mapped_by(other, other)} for other in features.OTHERS),
        *(
            {"map": mapped_by(F.relu, F.relu), "normalise": divided_by(features.plus(number))}
            for number in SMALL
        ),
    ),
    define_rare_mistake(
        "other_features_of_queries",
        "The features of the queries use another function than elu(x) + 1; those of the "
        "keys are right.",
        ODD_ONE,
    ).simulated_by(*({"map": mapped_by(query=other)} for other in features.OTHERS)),
    define_rare_mistake(
        "other_features_of_keys",
        "The features of the keys use another function than elu(x) + 1; those of the "
        "queries are right.",
        ODD_ONE,
    ).simulated_by(*({"map": mapped_by(key=other)} for other in features.OTHERS)),
    define_rare_mistake(
        "divisor_without_features",
        "In the divisor queries or keys are used as they are; it is a sum of products of features, "
        "too.",
    ).simulated_by(
        {"normalise": divided_by(features.sum_raw(query=False))},
        {"normalise": divided_by(features.sum_raw(key=False))},
        {"normalise": divided_by(features.sum_raw())},
    ),
    define_mistake(
        "softmax_over_features",
        "Queries and keys go through a softmax of their own; features are elu(x) + 1.",
        "softmax",
    ).simulated_by(
        {"map": mapped_by(features.softmax_over_width, features.softmax_over_width)},
    ),
    define_mistake(
        "values_as_features",
        "The values become features as well; they should stay unchanged.",
        "last elu",
    ).simulated_by(map=features.values_too),
    define_mistake(
        "scaled_before_features",
        "Queries or keys are divided by the root of {width} before they become features.",
        "scale | elu",
    ).simulated_by(
        {"map": mapped_by(query=features.scaled_before(0.5))},
        {"map": mapped_by(key=features.scaled_before(0.5))},
        {"map": mapped_by(features.scaled_before(0.5), features.scaled_before(0.5))},
        {"map": mapped_by(features.scaled_before(0.25), features.scaled_before(0.25))},
    ),
    define_mistake(
        "sums_transposed",
        "The matrix of sums is multiplied from the wrong side: the queries meet the values' axis.",
        "scores",
    ).simulated_by(mix=features.sums_transposed),
    define_rare_mistake(
        "number_in_divisor",
        "A number is added to the divisor: the weights sum to less than one.",
        "only divide | last sum",
    ).simulated_by(*({"normalise": divided_by(features.plus(number))} for number in (1.0, *SMALL))),
)
