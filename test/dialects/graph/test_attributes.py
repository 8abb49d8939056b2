"""Check that attributes with an enum have equal accessors."""

from ceras_ir.dialects import graph


def test_the_enum_of_a_function():
    function = graph.FunctionAttr(graph.Function.CLIP, (0.0, 6.0))
    assert function.data in {graph.Function.CLIP}
    assert function.core.data is graph.Function.CLIP
    # An attribute without parameters never equals a member of the enum.
    assert not hasattr(function, "function") and not hasattr(function, "kind")
