"""Say which of the optional passes of `quantize` run."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.rewrites.recipes import RECIPES, set_recipe


@dataclass(frozen=True)
class SetRecipePass(ModulePass):
    """
    Write `graph.recipe` on a float network: the optional passes that `recipe` stands for, which
    are plain, bias, channels, channels-bias, rounding, channels-rounding and
    channels-rounding-bias, and with rows- before those but the first and the third. Changes no
    value.
    """

    name = "set-recipe"

    recipe: str

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise UsageError(
                f"option 'recipe' of pass '{self.name}' must be one of {', '.join(RECIPES)}, "
                f"got {self.recipe}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if not is_quantized(main):
            set_recipe(main, self.recipe)
