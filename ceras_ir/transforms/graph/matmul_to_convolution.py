"""Matrix products of pixels, as convolutions of one pixel."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.transforms.pattern_pass import PatternPass


class MatmulToConvolution(RewritePattern):
    """
    `reshape(matmul(reshape(x), w))` becomes `conv2d(x, w)` of 1x1, where x and the result are
    feature maps of the same pixels, more than one of them, in float. Functions in front of the last
    reshape stay behind the convolution.

    Exact: each sum has the same terms in the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /):
        value, functions = op.input, list[graph.UnaryOp]()
        while isinstance(function := value.owner, graph.UnaryOp) and value.has_one_use():
            if function.channel_exponents is not None:
                return
            functions.append(function)
            value = function.input
        product = value.owner
        if not isinstance(product, graph.MatmulOp) or not value.has_one_use():
            return
        before, shape = product.input.owner, graph.shape_of(op.result)
        if not isinstance(before, graph.ReshapeOp) or not _is_plain(product):
            return
        source, weights = graph.shape_of(before.input), product.weights.owner
        if len(shape) != 4 or len(source) != 4 or source[:3] != shape[:3]:
            return
        if shape[1] * shape[2] == 1 or not isinstance(weights, graph.ConstantOp):
            return
        outputs, inputs = graph.shape_of(product.weights)
        if (inputs, outputs) != (source[3], shape[3]):
            return
        array = weights.array().reshape(outputs, 1, 1, inputs)
        constant = graph.ConstantOp.from_array(array, location=weights.location)
        new = graph.Conv2dOp(
            before.input,
            constant.result,
            product.bias,
            result_element=graph.element_of(op.result),
            activation=product.activation,
        )
        new.location = product.location
        copy_statistics(product, new)
        made: list[graph.GraphOperation] = [constant, new]
        for function in reversed(functions):
            made.append(function.rebuilt([made[-1].output], shape=shape))
        rewriter.replace(op, made)
        for gone in (*functions, product):
            rewriter.erase(gone)


def _is_plain(product: graph.MatmulOp) -> bool:
    """Whether a product is of floats, in any order, and adds nothing but a bias."""
    is_float = not product.is_quantized and product.residual is None
    return is_float and product.ordered is None and MASK not in product.attributes


class MatmulToConvolutionPass(PatternPass):
    """
    Make a matrix product that all pixels of a feature map go through a convolution of 1x1.

    ConvNeXt and networks in NHWC have `MatMul` on feature maps. As a convolution it takes in
    residuals, which a reshape would keep apart, and an accelerator sees one layout.
    """

    name = "matmul-to-convolution"
    pattern = MatmulToConvolution()
