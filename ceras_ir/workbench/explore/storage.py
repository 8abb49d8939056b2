"""
Store trials in an Optuna storage: SQLite in the folder of the study, or another database.

1. Completed trials are added in a transaction for all that are available, so that a killed process
   leaves complete trials only. Running trials are not stored: samplers keep them in memory.
2. The name of the study includes a digest of names, choices and directions, because the
   distributions of Optuna cannot change. `optuna-dashboard` reads the storage.
3. `Batches` passes items to a thread, which processes all available items in a batch, at most twice
   a second: a transaction costs as much as ten trials. A process that is killed therefore loses the
   trials of the last half second.
4. `BulkInsert` adds several trials in a single transaction. Optuna uses a transaction and 14
   queries for each trial, 10 ms of processor time. The rows are equal to the rows of Optuna, for
   the single version of the tables that is supported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from math import isinf
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Generic, NamedTuple, TypeVar
from warnings import catch_warnings, simplefilter

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.extras import install_command
from ceras_ir.support.figure_names import resolved
from ceras_ir.support.files import key_of
from ceras_ir.workbench.explore.samplers import Proposal, Sampler, directions
from ceras_ir.workbench.explore.study_file import MODEL_AXIS, TARGET_AXIS, Study
from ceras_ir.workbench.explore.trial import DONE, FAILED, RULED_OUT, Outcome

T = TypeVar("T")


BATCH_INTERVAL_S = 0.5
"""The time from the end of a batch to the next batch, unless no further items follow."""


class Batches(Generic[T]):
    """
    A thread that processes items in batches: each call of `work` gets all items that were added
    since the last call. It is used for database transactions.
    """

    def __init__(self, work: Callable[[Sequence[T]], None]):
        self._work = work
        self._closing = Event()
        self._queue = SimpleQueue[T | None]()
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def add(self, item: T) -> None:
        """
        Add an item to process. Raise the error of an earlier batch, after which no batch runs.
        """
        if self._error is not None:
            self.close()
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(item)

    def close(self) -> None:
        """Wait until all items are processed. Raise the error of a batch, if there was one."""
        if self._thread is not None:
            self._queue.put(None)
            self._closing.set()
            self._thread.join()
            self._thread = None
            self._closing.clear()
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
            self._closing.wait(BATCH_INTERVAL_S)


SCHEMA_VERSION = 12
"""The supported version of Optuna's tables, since 3.0; for other versions Optuna adds trials."""

TABLES = ("studies", "trials", "trial_params", "trial_values", "trial_user_attributes",
          "trial_system_attributes")  # fmt: skip


class Ended(NamedTuple):
    """
    A completed trial (a computed point) in the form in which Optuna stores it. Workers make this
    conversion, to save time in the main process.
    """

    state: str
    """The name of the state in Optuna, such as `COMPLETE`."""
    seconds: float
    values: Sequence[float] | None
    params: Mapping[str, str]
    user_attrs: Mapping[str, str]


Told = tuple[Ended, Mapping[str, object]]
"""A completed trial, and the attributes of the sampler."""


class BulkInsert:
    """Inserts several trials at once into the database tables of the study `study_id`."""

    def __init__(self, engine: Any, study_id: int, distributions: Mapping[str, Any]):
        self._sql: Any = import_module("sqlalchemy")
        self._engine, self._study = engine, study_id
        to_json: Any = import_module("optuna").distributions.distribution_to_json
        self._choices = {
            name: ({label: number for number, label in enumerate(d.choices)}, to_json(d))
            for name, d in distributions.items()
        }
        metadata = self._sql.MetaData()
        metadata.reflect(engine, only=(*TABLES, "version_info"))
        self._tables = metadata.tables
        version = self._sql.select(self._tables["version_info"].c.schema_version)
        with engine.connect() as connection:
            self.is_known: bool = connection.execute(version).scalar() == SCHEMA_VERSION

    def add(self, trials: Sequence[Told]) -> None:
        """Add completed trials to the database in a single transaction, in their order."""
        table, sql = self._tables["trials"], self._sql
        of_study = table.c.study_id == self._study
        now = datetime.now()
        with self._engine.begin() as connection:
            studies = self._tables["studies"]
            mine = sql.select(studies).where(studies.c.study_id == self._study)
            connection.execute(mine.with_for_update())
            rows = [
                {"study_id": self._study, "state": trial.state,
                 "datetime_start": now, "datetime_complete": now}
                for trial, _ in trials
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
            self._insert(
                connection, "trial_params", [p for k, (t, _) in pairs for p in self._of(k, t)]
            )
            self._insert(
                connection,
                "trial_values",
                [v for key, (trial, _) in pairs for v in _values(key, trial.values or [])],
            )
            users = [(key, trial.user_attrs) for key, (trial, _) in pairs]
            systems = [(key, attributes) for key, (_, attributes) in pairs]
            self._insert(connection, "trial_user_attributes", _attributes(users))
            self._insert(connection, "trial_system_attributes", _attributes(systems))

    def _insert(self, connection: Any, table: str, rows: list[dict[str, object]]) -> None:
        if not rows:
            return
        insert = self._tables[table].insert()
        if self._engine.dialect.name != "sqlite":
            connection.execute(insert, rows)
            return
        # SQLAlchemy converts each value, which takes longer than SQLite.
        compiled = insert.compile(dialect=self._engine.dialect, column_keys=list(rows[0]))
        values = [tuple(row[name] for name in compiled.positiontup) for row in rows]
        connection.exec_driver_sql(str(compiled), values)

    def _of(self, key: int, trial: Ended) -> list[dict[str, object]]:
        found = list[dict[str, object]]()
        for name, label in trial.params.items():
            numbers, spelled = self._choices[name]
            found.append(
                {"trial_id": key, "param_name": name, "param_value": numbers[label],
                 "distribution_json": spelled}
            )  # fmt: skip
        return found


def _values(key: int, values: Sequence[float]) -> list[dict[str, object]]:
    found = list[dict[str, object]]()
    for i, value in enumerate(values):
        kind = "FINITE" if not isinf(value) else "INF_POS" if value > 0 else "INF_NEG"
        stored = None if isinf(value) else value
        found.append({"trial_id": key, "objective": i, "value": stored, "value_type": kind})
    return found


def _attributes(items: Sequence[tuple[int, Mapping[str, object]]]) -> list[dict[str, object]]:
    return [
        {"trial_id": key, "key": name, "value_json": json.dumps(value)}
        for key, attributes in items
        for name, value in attributes.items()
    ]


RECORD = "ceras"
"""The user attribute with the entire record of a trial as JSON."""

MAX_RECORD_LENGTH = 60_000
"""Characters of a record; some databases accept no longer text."""


@dataclass
class Record:
    """
    The stored result of a completed point (configuration): the choices, and figures or a
    diagnostic.
    """

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


STATES = {DONE: "COMPLETE", RULED_OUT: "PRUNED", FAILED: "FAIL"}
"""The states of Optuna."""


def ended(study: Study, record: Record) -> Ended:
    """Convert the result of a point to the form in which Optuna stores it."""
    values = None
    if record.state == DONE:
        figures = record.figures
        values = [figures[resolved(goal.figure, figures)] for goal in study.objectives]
    shown = {record.state: record.diagnostic[:2000]} if record.diagnostic else {}
    attributes = {**shown, RECORD: json.dumps(vars(record))}
    return Ended(STATES[record.state], record.seconds, values, record.point, attributes)


class Trials:
    """
    The completed trials of a study in a database, and the sampler that proposes further points.
    """

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
        goals = [o.figure for o in study.objectives]
        space = json.dumps(
            [{n: d.choices for n, d in self._distributions.items()}, goals, directions(study)]
        )
        try:
            storage = self._storage(url)
            self._optuna_study: Any = self._optuna.create_study(
                storage=storage,
                study_name=f"{study.name}-{key_of(space)[:8]}",
                directions=directions(study),
                load_if_exists=True,
            )
            with catch_warnings():
                simplefilter("ignore")  # Names of metrics are experimental in Optuna.
                self._optuna_study.set_metric_names(goals)
            self._bulk = BulkInsert(
                storage.engine, self._optuna_study._study_id, self._distributions
            )
        except Exception as error:
            # The error can be of SQLAlchemy, the driver or Optuna; the user needs the storage.
            raise self._unusable(url, error) from None
        self._url = url
        self._batches = Batches[Told](self._add_all)
        self._sampler: Sampler | None = None

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

    def _finished(self) -> list[Any]:
        # A process of an earlier version left trials without a record.
        trials = self._optuna_study.get_trials(deepcopy=False)
        return [trial for trial in trials if RECORD in trial.user_attrs]

    def records(self) -> list[Record]:
        """Return the results of all completed trials, in the order of their numbers."""
        found = list[Record]()
        for trial in self._finished():
            content: object = json.loads(trial.user_attrs[RECORD])
            assert isa(content, dict[str, Any])
            found.append(Record(**content))
        return found

    def add(self, trial: Ended, proposal: Proposal | None = None) -> None:
        """
        Store a completed trial, in another thread. `proposal` is given if a sampler chose the
        point.
        """
        attributes: Mapping[str, object] = {}
        if proposal is not None and self._sampler is not None:
            attributes = self._sampler.tell(proposal, trial.values, self._state(trial))
        self._batches.add((trial, attributes))

    def flush(self) -> None:
        """Wait until all added trials are stored."""
        self._batches.close()

    def _add_all(self, trials: Sequence[Told]) -> None:
        try:
            if self._bulk.is_known:
                self._bulk.add(trials)
            else:
                self._optuna_study.add_trials([self._frozen(*trial) for trial in trials])
        except Exception as error:
            raise self._unusable(self._url, error) from None

    def _frozen(self, trial: Ended, attributes: Mapping[str, object]) -> Any:
        return self._optuna.trial.create_trial(
            state=self._state(trial),
            values=trial.values,
            params=trial.params,
            distributions={name: self._distributions[name] for name in trial.params},
            user_attrs=trial.user_attrs,
            system_attrs=attributes,
        )

    def unproposed(self) -> int:
        """Return the number of points that the sampler still has to propose in this study."""
        return max((self.study.trials or 0) - len(self._finished()), 0)

    def proposals(self) -> Iterator[Proposal]:
        """
        Yield points that the sampler proposes, without end. Each proposal depends on all results
        that were added before.
        """
        self._sampler = Sampler(self.study, self._distributions, self._finished())
        while True:
            yield self._sampler.ask()

    def _state(self, trial: Ended) -> Any:
        return self._optuna.trial.TrialState[trial.state]
