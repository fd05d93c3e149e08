"""Make an exercise from a solution: bind it by its behaviour, write its folder, certify it.

Theory of operation
    `recognising` finds out what the class computes, and the instructor says what cannot be found
    out (`decisions`). The class is then judged as its own exercise: a wrong one is refused. What it
    needs is cut out of its file (`extraction`), and statement and hints are drafted (`drafts`).

    The answers come from the solution alone. Small changes of it (`exercises.mutants`) are wrong
    answers, if they change the results; rewrites that keep the results (`rewrites`) are right
    answers. Their outputs on the cases of the exercise decide which they are (`behaviour`). The
    properties do not decide it, because they are being certified.
"""
