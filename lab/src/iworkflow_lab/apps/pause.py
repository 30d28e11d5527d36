"""A blocking call that no sandbox knows: what a library that blocks looks like to a flow."""

from time import sleep as pause

__all__ = ["pause"]
