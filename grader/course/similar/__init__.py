"""Submissions of different students that are alike, with the places that show it.

`reading` has confined children turn files into words, `winnowing` turns words into fingerprints,
`pairs` finds who shares them, `show` writes it down. Likeness is no proof: people who learn from
the same page write alike.
"""
