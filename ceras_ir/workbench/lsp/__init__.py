"""The language server `ceras-lsp` for IR text."""
