"""The recipes of `engines/build`, one module for each language."""
