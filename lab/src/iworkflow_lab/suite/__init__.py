"""The scenarios as tests, by group; each docstring is a claim."""
