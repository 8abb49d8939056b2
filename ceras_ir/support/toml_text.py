"""TOML that a user wrote: descriptions of boards and machines."""

from ceras_ir.support.diagnostics import InputError


def parse_toml(text: str, file: str):  # As untyped as TOML is.
    """The tables in `text`; `file` is named where it is not TOML."""
    # Commands that read no description do without the parser.
    import tomllib

    try:
        return tomllib.loads(text)
    # An integer of thousands of digits is a plain ValueError.
    except ValueError as error:
        raise InputError(f"not TOML: {error}", file) from None
    except RecursionError:
        raise InputError("not TOML that is taken: nested too deeply", file) from None
