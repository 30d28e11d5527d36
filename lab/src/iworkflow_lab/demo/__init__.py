"""The demo: one process over twenty organisations, in memory, on DBOS and on Temporal; kills."""
