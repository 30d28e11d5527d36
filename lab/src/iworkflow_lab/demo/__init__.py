"""The demo: one process over twenty organisations, in memory and on DBOS, a worker killed."""
