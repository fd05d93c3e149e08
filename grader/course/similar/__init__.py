"""Find similar submissions of different students, with the passages that they share.

`documents` has confined children turn files into tokens, `winnowing` turns tokens into
fingerprints, `pairs` compares them, `rendering` writes the result. Similarity is no proof: people
who learn from the same page write alike.
"""
