"""Pages of HTML that commands write: one file each, nothing to load, one style for all."""
