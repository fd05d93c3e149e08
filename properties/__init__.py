"""The properties of every correct attention, and how they are checked.

Read in this order:

    contract, case, subject    the requirements, the inputs, and the code that is checked
    oracle, tolerance          the exact answer in float64, and the error that rounding may cause
    harness/                   a submission made ready to be checked against a contract
    property, check            a property, and the verdict on it for a set of cases
    families/                  the properties themselves, one file for each family
    cases/                     the cases that everybody gets, and the search for smaller ones
    mistakes/                  the names of mistakes that explain a submission's answers
"""
