"""Recognisers: each names the mistakes that explain one kind of evidence."""
