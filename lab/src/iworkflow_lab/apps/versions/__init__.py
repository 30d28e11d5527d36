"""One app in several versions: code that changed while its runs were on their way."""
