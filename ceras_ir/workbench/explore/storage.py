"""
Store trials in an Optuna storage: SQLite in the folder of the study, or another database.

1. Completed trials are added in a transaction for all that are available, so that a killed process
   leaves complete trials only. The samplers of Optuna also store running trials; the next process
   repeats the trials that a killed process left.
2. The name of the study includes a digest of names, choices and directions, because the
   distributions of Optuna cannot change. `optuna-dashboard` reads the storage.
3. `Batches` passes items to a thread, which processes all available items in a batch. A cost per
   batch, such as a transaction, therefore never delays a single item.
4. `BulkInsert` adds several trials in a single transaction. Optuna uses a transaction and 14
   queries for each trial, 10 ms of processor time. The rows are equal to the rows of Optuna, for
   the single version of the tables that is supported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import isinf
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar
from warnings import catch_warnings, simplefilter

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.extras import install_command
from ceras_ir.support.figure_names import resolved
from ceras_ir.support.files import key_of
from ceras_ir.workbench.explore.study_file import MODEL_AXIS, TARGET_AXIS, Point, Study, StudyAxis
from ceras_ir.workbench.explore.trial import DONE, FAILED, RULED_OUT, Outcome

T = TypeVar("T")


class Batches(Generic[T]):
    """A thread that calls `work` with the items that were added during the last call, in order."""

    def __init__(self, work: Callable[[Sequence[T]], None]):
        self._work = work
        self._queue = SimpleQueue[T | None]()
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def add(self, item: T) -> None:
        """Add an item; raise the error of an earlier batch, after which no batch runs."""
        if self._error is not None:
            self.close()
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(item)

    def close(self) -> None:
        """Wait until all items are processed; raise the error of a batch."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        is_last = False
        while not is_last:
            taken = [self._queue.get()]
            while not self._queue.empty():
                taken.append(self._queue.get())
            batch = [item for item in taken if item is not None]
            is_last = len(batch) < len(taken)
            if batch and self._error is None:
                try:
                    self._work(batch)
                except BaseException as error:
                    # The next call of `add` or `close` raises it.
                    self._error = error


SCHEMA_VERSION = 12
"""The supported version of Optuna's tables, since 3.0; for other versions Optuna adds trials."""

TABLES = ("studies", "trials", "trial_params", "trial_values", "trial_user_attributes")


class BulkInsert:
    """The tables of the study `study_id`."""

    def __init__(self, engine: Any, study_id: int):
        self._sql: Any = import_module("sqlalchemy")
        self._engine, self._study = engine, study_id
        self._to_json: Any = import_module("optuna").distributions.distribution_to_json
        metadata = self._sql.MetaData()
        metadata.reflect(engine, only=(*TABLES, "version_info"))
        self._tables = metadata.tables
        version = self._sql.select(self._tables["version_info"].c.schema_version)
        with engine.connect() as connection:
            self.is_known: bool = connection.execute(version).scalar() == SCHEMA_VERSION

    def add(self, trials: Sequence[Any]) -> None:
        """Add frozen trials in order."""
        table, sql = self._tables["trials"], self._sql
        of_study = table.c.study_id == self._study
        with self._engine.begin() as connection:
            studies = self._tables["studies"]
            mine = sql.select(studies).where(studies.c.study_id == self._study)
            connection.execute(mine.with_for_update())
            rows = [
                {"study_id": self._study, "state": trial.state.name,
                 "datetime_start": trial.datetime_start,
                 "datetime_complete": trial.datetime_complete}
                for trial in trials
            ]  # fmt: skip
            # Numbers are assigned after the rows, which lock the database until the end.
            connection.execute(table.insert(), rows)
            new = sql.select(table.c.trial_id).where(of_study, table.c.number.is_(None))
            ids: list[int] = list(connection.execute(new.order_by(table.c.trial_id)).scalars())
            counting = sql.select(sql.func.count()).where(of_study, table.c.number.is_not(None))
            before: int = connection.execute(counting).scalar()
            numbered = table.update().where(table.c.trial_id == sql.bindparam("id"))
            numbers = [{"id": key, "number": before + i} for i, key in enumerate(ids)]
            connection.execute(numbered, numbers)
            pairs = list(zip(ids, trials, strict=True))
            self._insert(connection, "trial_params", [p for k, t in pairs for p in self._of(k, t)])
            self._insert(
                connection,
                "trial_values",
                [v for key, trial in pairs for v in _values(key, trial.values or [])],
            )
            self._insert(
                connection,
                "trial_user_attributes",
                [
                    {"trial_id": key, "key": name, "value_json": json.dumps(value)}
                    for key, trial in pairs
                    for name, value in trial.user_attrs.items()
                ],
            )

    def _insert(self, connection: Any, table: str, rows: list[dict[str, object]]) -> None:
        if rows:
            connection.execute(self._tables[table].insert(), rows)

    def _of(self, key: int, trial: Any) -> list[dict[str, object]]:
        return [
            {"trial_id": key, "param_name": name,
             "param_value": trial.distributions[name].to_internal_repr(value),
             "distribution_json": self._to_json(trial.distributions[name])}
            for name, value in trial.params.items()
        ]  # fmt: skip


def _values(key: int, values: Sequence[float]) -> list[dict[str, object]]:
    found = list[dict[str, object]]()
    for i, value in enumerate(values):
        kind = "FINITE" if not isinf(value) else "INF_POS" if value > 0 else "INF_NEG"
        stored = None if isinf(value) else value
        found.append({"trial_id": key, "objective": i, "value": stored, "value_type": kind})
    return found


RECORD = "ceras"
"""The user attribute with the entire record of a trial as JSON."""

MAX_RECORD_LENGTH = 60_000
"""Characters of a record; some databases accept no longer text."""


@dataclass
class Record:
    """A completed trial as it is stored."""

    identity: str
    """The digest of all data that the trial depends on."""
    state: str
    point: dict[str, str]
    figures: dict[str, float] = field(default_factory=dict[str, float])
    diagnostic: str = ""
    command: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, identity: str, outcome: Outcome) -> Record:
        diagnostic = outcome.diagnostic[: MAX_RECORD_LENGTH // 4]
        figures, seconds = outcome.figures, outcome.seconds
        point = dict(outcome.point)
        return cls(identity, outcome.state, point, figures, diagnostic, outcome.command, seconds)


class Trials:
    """The trials of a study in a storage."""

    def __init__(self, study: Study, url: str):
        try:
            self._optuna: Any = import_module("optuna")
        except ImportError:
            raise UsageError(f"ceras-explore needs Optuna: {install_command('explore')}") from None
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        self.study = study
        self._distributions = {
            **self._categories(MODEL_AXIS, study.models),
            **self._categories(TARGET_AXIS, study.targets),
        }
        for axis in study.axes:
            self._distributions |= self._categories(axis.name, axis.choices)
        directions = ["maximize" if o.maximize else "minimize" for o in study.objectives]
        goals = [o.figure for o in study.objectives]
        space = json.dumps(
            [{n: d.choices for n, d in self._distributions.items()}, goals, directions]
        )
        try:
            storage = self._storage(url)
            self._optuna_study: Any = self._optuna.create_study(
                storage=storage,
                study_name=f"{study.name}-{key_of(space)[:8]}",
                directions=directions,
                sampler=self._sampler(),
                load_if_exists=True,
            )
            with catch_warnings():
                simplefilter("ignore")  # Names of metrics are experimental in Optuna.
                self._optuna_study.set_metric_names(goals)
            self._bulk = BulkInsert(storage.engine, self._optuna_study._study_id)
        except Exception as error:
            # The error can be of SQLAlchemy, the driver or Optuna; the user needs the storage.
            raise self._unusable(url, error) from None
        self._url = url
        self._batches = Batches[Record](self._add_all)

    def _unusable(self, url: str, error: Exception) -> InputError:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return InputError(f"the storage of the study cannot be used: {reason}", url)

    def _categories(
        self, name: str, choices: Sequence[str] | Mapping[str, object]
    ) -> dict[str, Any]:
        return {name: self._optuna.distributions.CategoricalDistribution(tuple(choices))}

    def _storage(self, url: str) -> Any:
        if not url.startswith("sqlite"):
            return self._optuna.storages.RDBStorage(url)
        storage: Any = self._optuna.storages.RDBStorage(
            url, engine_kwargs={"connect_args": {"timeout": 120}}
        )
        event: Any = import_module("sqlalchemy").event

        def connected(connection: Any, _: object) -> None:
            # A write-ahead log survives the process and is faster.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

        event.listen(storage.engine, "connect", connected)
        return storage

    def _sampler(self) -> Any:
        samplers = self._optuna.samplers
        if self.study.sampler == "nsga2":
            return samplers.NSGAIISampler(seed=self.study.seed)
        if self.study.sampler == "tpe":
            return samplers.TPESampler(seed=self.study.seed)
        return samplers.RandomSampler(seed=self.study.seed)

    def records(self) -> list[Record]:
        """Return the completed trials in the order of their numbers."""
        found = list[Record]()
        for trial in self._optuna_study.get_trials(deepcopy=False):
            text = trial.user_attrs.get(RECORD)
            if isinstance(text, str):
                content: object = json.loads(text)
                assert isa(content, dict[str, Any])
                found.append(Record(**content))
        return found

    def add(self, record: Record) -> None:
        """Store a completed trial of a point that no sampler of Optuna chose."""
        self._batches.add(record)

    def flush(self) -> None:
        """Wait until all added trials are stored."""
        self._batches.close()

    def _add_all(self, records: Sequence[Record]) -> None:
        trials = [
            self._optuna.trial.create_trial(
                state=self._state(record),
                values=self._values(record),
                params=record.point,
                distributions={name: self._distributions[name] for name in record.point},
                user_attrs=self._attributes(record),
            )
            for record in records
        ]
        try:
            if self._bulk.is_known:
                self._bulk.add(trials)
            else:
                self._optuna_study.add_trials(trials)
        except Exception as error:
            raise self._unusable(self._url, error) from None

    def asked(self, finished: int) -> Iterator[tuple[int, Point]]:
        """
        Yield the points that the sampler chooses, with their numbers. Trials that were running when
        the last process ended are first; new trials follow up to the number of the study.
        """
        running = self._optuna.trial.TrialState.RUNNING
        left = self._optuna_study.get_trials(deepcopy=True, states=(running,))
        for frozen in left:
            trial: Any = self._optuna.trial.Trial(self._optuna_study, frozen._trial_id)
            yield frozen.number, self._suggested(trial)
        for _ in range((self.study.trials or 0) - finished - len(left)):
            trial = self._optuna_study.ask()
            yield trial.number, self._suggested(trial)

    def _suggested(self, trial: Any) -> Point:
        def choose(name: str) -> str:
            return trial.suggest_categorical(name, self._distributions[name].choices)

        point = {MODEL_AXIS: choose(MODEL_AXIS), TARGET_AXIS: choose(TARGET_AXIS)}
        axes: list[StudyAxis] = self.study.axes_of(point[TARGET_AXIS])
        return point | {axis.name: choose(axis.name) for axis in axes}

    def tell(self, number: int, record: Record) -> None:
        """Store the result of a trial of `asked`."""
        trials = self._optuna_study.get_trials(deepcopy=False)
        trial: Any = self._optuna.trial.Trial(self._optuna_study, trials[number]._trial_id)
        for name, value in self._attributes(record).items():
            trial.set_user_attr(name, value)
        self._optuna_study.tell(number, self._values(record), state=self._state(record))

    def _state(self, record: Record) -> Any:
        states = self._optuna.trial.TrialState
        kinds = {DONE: states.COMPLETE, RULED_OUT: states.PRUNED, FAILED: states.FAIL}
        return kinds[record.state]

    def _values(self, record: Record) -> list[float] | None:
        if record.state != DONE:
            return None
        goals = self.study.objectives
        return [record.figures[resolved(goal.figure, record.figures)] for goal in goals]

    def _attributes(self, record: Record) -> dict[str, object]:
        shown = {} if not record.diagnostic else {record.state: record.diagnostic[:2000]}
        return {**shown, RECORD: json.dumps(vars(record))}
