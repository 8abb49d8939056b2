"""Tools around the compiler: they import the core, which does not import them."""
