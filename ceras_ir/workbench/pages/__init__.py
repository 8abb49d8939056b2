"""HTML pages of commands: single files with a common style, without external resources."""
