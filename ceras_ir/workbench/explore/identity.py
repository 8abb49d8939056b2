"""Identify points by the digest of all data that their figures depend on."""

from shlex import join

from ceras_ir.pipeline.stage_cache import compiler_digest, spelled
from ceras_ir.support.files import key_of
from ceras_ir.workbench.explore.expressions import Expression
from ceras_ir.workbench.explore.study_file import MODEL_AXIS, Point, Study, arguments_of


def command_of(study: Study, point: Point) -> str:
    """Return the `ceras-compile` command that compiles `point`, a configuration of the study."""
    return join(["ceras-compile", *arguments_of(study, point), "-o", "DIR"])


class Identities:
    """
    The identities of the points of a study: digests of all data on which their figures depend, so
    that equal points are computed once. Each argument is converted a single time, because this
    searches for files, and points share arguments.
    """

    def __init__(self, study: Study):
        self._study = study
        self._arguments: dict[str, tuple[str, ...]] = {}
        self._data = {
            name: tuple(spelled(v) for v in (m.inputs, m.labels, m.metric, m.samples))
            for name, m in study.models.items()
        }
        judged = [o.figure for o in study.objectives], [c.text for c in study.constraints]
        own = {k: v.text if isinstance(v, Expression) else v for k, v in study.figures.items()}
        self._judged = repr(judged), repr(own)
        self._depends_on_labels = bool(own or study.constraints)

    def of(self, point: Point) -> str:
        arguments = [s for a in arguments_of(self._study, point) for s in self._spelled(a)]
        chosen = sorted(point.items()) if self._depends_on_labels else []
        data = self._data[point[MODEL_AXIS]]
        return key_of(compiler_digest(), *arguments, "data", *data, *self._judged, repr(chosen))

    def _spelled(self, argument: str) -> tuple[str, ...]:
        if argument not in self._arguments:
            self._arguments[argument] = tuple(map(spelled, argument.split("=", 1)))
        return self._arguments[argument]
