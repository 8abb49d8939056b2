"""A language server for IR text: `ceras-lsp` speaks the protocol of editors."""
