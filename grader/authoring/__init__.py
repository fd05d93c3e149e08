"""Make an exercise from a solution: find out what it computes, write the folder, certify it.

Theory of operation
    `recognising` finds out what the class computes, and the instructor decides what cannot be found
    out (`decisions`). The class is then judged as an answer to its own exercise, and a wrong class
    is refused. The class and the code that it needs are cut out of its file (`extraction`), and a
    statement and hints are drafted (`drafts`).

    All answers are made from the solution. Small changes of it (`grader.audit.mutants`) are wrong
    answers, if they change the results; rewrites that keep the results (`rewrites`) are right
    answers. Whether an answer is right or wrong is decided by its outputs on the cases of the
    exercise (`judging`). The properties do not decide this, because they are what is being
    certified.
"""
