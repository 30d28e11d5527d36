"""Apps that the scenarios run; worker processes import them by name."""
