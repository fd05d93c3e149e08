"""Judge definitions that belong to no exercise, or that answer one in terms of their own.

The door is `judge.OpenJudge`: it takes a definition, and gives what became of it. A definition is
recognised by its behaviour (`recognition`), which `headcheck.properties.binding` searches for; it
becomes a target with a contract of its own (`targets`), and is graded as an answer is. What is
attention of no known kind, or a layer around attention, is judged by claims (`layers`).
"""
