"""What must hold of every correct attention, and how it is checked.

Read in this order:

    contract, case, subject    what is asked of a submission, on what, and who answers
    oracle, tolerance          the exact answer in float64, and how far from it rounding may lead
    harness/                   a submission made ready to be checked against a contract
    property, check            one property, and its verdict on a set of cases
    families/                  the properties themselves, one file a family
    cases/                     the case set that everybody gets, and the search for smaller ones
    mistakes/                  the mistake that explains a submission's answers, by name
"""
