"""Make an exercise of a solution: bind it by its behaviour, write its folder, and certify it.

Theory of operation
    `recognising` finds out what the class computes, and the instructor says what cannot be found
    out (`decisions`). The class is then judged as its own exercise: a wrong one is refused. What it
    needs is cut out of its file (`extraction`), and statement and hints are drafted (`drafts`).

    The answers are made from the solution alone. Small changes of it (`exercises.mutants`) are
    wrong answers, if they change what it computes; rewrites that keep it (`rewrites`) are right
    ones. Whether they do is decided by their outputs on the cases of the exercise
    (`behaviour`), and not by the properties, which are what is being certified.
"""
