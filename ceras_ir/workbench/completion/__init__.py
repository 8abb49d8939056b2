"""Completion of command lines in shells: `ceras-completion` prints the script."""
