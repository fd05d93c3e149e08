"""The worker runtime: the submission's side of the boundary.

It holds the submission's namespace and the objects made from it, and carries out the operations of
`grader/sandbox/operations.py`. It decides no verdicts. In a sandbox it is reached over a socket.
For trusted code, it may run in the grader process (`grader.sandbox.grader_side.subject`). It
imports none of the packages with answers.
"""

import contextlib
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import msgspec
from torch import Tensor

from headcheck.grader.reading.cells import SubmissionSource, read_source
from headcheck.grader.reading.code_patterns import CodePattern, find_code_patterns
from headcheck.grader.reading.companions import list_maker_names
from headcheck.grader.reading.edits import Edit, apply_edit
from headcheck.grader.reading.excerpts import SourceLines, extract_excerpts
from headcheck.grader.reading.fingerprints import digest_code, fingerprint_definitions
from headcheck.grader.reading.layer_code import list_layer_code
from headcheck.grader.reading.outline import find_warnings, list_definitions
from headcheck.grader.reading.slicing import (
    Position,
    compute_union_slice,
    get_filename,
    locate_error,
    parse_position,
    register_source,
)
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.grader.reading.unread_code import find_unread_code
from headcheck.grader.reading.variables import list_variables
from headcheck.grader.sandbox.operations import (
    MESSAGE_LIMIT,
    OPERATIONS,
    Answer,
    BatchReply,
    HandleReply,
    LoadReply,
    NoReply,
    PrintsReply,
    TraceReply,
    TranscriptEntry,
    TranscriptReply,
    ValueReply,
)
from headcheck.grader.sandbox.wire import Message, label_by_position
from headcheck.grader.sandbox.worker.batch import Meta, Reply, Tensors, resolve_handles, run_batch
from headcheck.grader.sandbox.worker.call_environment import (
    INITIAL_SEED,
    PrintLog,
    forbid_builtin_attention,
    seed,
    suppress_output,
)
from headcheck.grader.sandbox.worker.calling import Refused
from headcheck.grader.sandbox.worker.configs import Config, make_full_config
from headcheck.grader.sandbox.worker.crashes import explain_crash
from headcheck.grader.sandbox.worker.errors import describe_error, explain_error
from headcheck.grader.sandbox.worker.importing import TOP, SiblingFinder
from headcheck.grader.sandbox.worker.loading import STAR, Loading, Number, make_module
from headcheck.grader.sandbox.worker.object_calls import ObjectCaller
from headcheck.grader.sandbox.worker.slips import list_slips
from headcheck.grader.sandbox.worker.tracing import make_reply, trace

NAMES = frozenset(each.name for each in OPERATIONS)
MAX_VARIANTS = 16
"""how many variants of a submission, with different values of its variables, stay loaded"""


class WorkerRuntime(ObjectCaller):
    """Answers requests about one submission."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        super().__init__(namespace)
        self.source = SubmissionSource(())
        self.edit: Edit | None = None
        """the edit with which the source is run"""
        self.by_hand = False
        """whether torch's built-in attention is forbidden"""
        self.failed_names: dict[str | None, BaseException] = {}
        """names that loading failed to bind, with the errors"""
        self.finder = SiblingFinder()
        self.names: tuple[str, ...] = ()
        """the names that were loaded"""
        self.initial_namespace = dict(self.namespace)
        self.loading = Loading(make_module(self.namespace, TOP), [])
        self.module: types.ModuleType | None = None
        """the module in which names are looked up, if a submission's source was run"""
        self.variants: dict[tuple[tuple[str, Number], ...], Loading] = {}
        """the loaded variants, by the values that replace those of variables"""
        self.homes: dict[int, types.ModuleType] = {}
        """the modules in which objects were made, by their handles"""
        self.numbered: dict[int, int] = {}
        """handles of objects that transcripts made, by their numbers there"""
        self.prints = PrintLog()

    def answer(self, request: Message) -> Message:
        """Answer one request; an exception of the submission becomes a reply that describes it.

        Every request gets the same random numbers as the first one.
        """
        return self._answer(request, self._describe_error)

    def _answer(
        self, request: Message, describe: Callable[[BaseException], dict[str, Any]]
    ) -> Message:
        seed(INITIAL_SEED)
        try:
            with self.discard_output(), forbid_builtin_attention(self.by_hand):
                meta, tensors = self._dispatch(request.op, request.meta, dict(request.tensors))
            return Message(request.id, "ok", meta, tensors)
        except (Exception, SystemExit, GeneratorExit) as error:
            return Message(request.id, "raised", self._describe_or_name(error, describe))

    def _describe_or_name(
        self, error: BaseException, describe: Callable[[BaseException], dict[str, Any]]
    ) -> dict[str, Any]:
        """Describe an error; if describing it fails, only what it adds to the error is lost."""
        try:
            return describe(self._find_cause(error))
        except Exception:
            return {**describe_error(error), "crash": None}

    def discard_output(self) -> contextlib.AbstractContextManager[None]:
        """Log what is printed while a request is answered, in this thread and all others."""
        return suppress_output(self.prints)

    def _dispatch(self, op: str, meta: Meta, tensors: Tensors) -> Reply:
        if op not in NAMES:
            raise Refused(f"there is no operation {op}")
        self._activate_home(meta)
        with self.settings_watch:
            reply, outputs = getattr(self, op)(meta, tensors)
            return msgspec.to_builtins(reply), outputs

    def _activate_home(self, meta: Meta) -> None:
        """From now on, look up names in the module in which the request's object was made."""
        handles = [meta["handle"]] if "handle" in meta else meta.get("handles", ())
        for handle in handles[:1]:
            if (home := self.homes.get(handle)) is not None:
                self._activate(home)

    def _find_cause(self, error: BaseException) -> BaseException:
        """Return the earlier error that left a name unbound, if it led to this NameError."""
        if type(error) is not NameError:
            return error
        known: tuple[str | None, ...] = (error.name, STAR)
        every = self.failed_names.get, self.finder.absent.get
        return next((found for name in known for get in every if (found := get(name or ""))), error)

    def _describe_error(self, error: BaseException) -> dict[str, Any]:
        """Describe an error, and explain the crash if it is one."""
        description = self._name_error(error)
        if "crash" in description:
            crash = explain_crash(error, self.locate_line)
            description["crash"] = crash and asdict(crash)
        return description

    def _name_error(self, error: BaseException) -> dict[str, Any]:
        """Describe an error; if a definition cannot be called this way, in its author's terms."""
        description = describe_error(error, locate_error(error, self.locate_line))
        problem = explain_error(error, self.source, self.finder)
        message = description["message"] if problem is None else problem.message[:MESSAGE_LIMIT]
        own = {get_filename(cell.number) for cell in self.source.cells}
        if place := self.finder.locate(error.__traceback__, own):
            message = f"{message} ({place})"
        if problem is None:
            return {**description, "message": message, "crash": None}
        if problem.position is None:
            return {**description, "message": message}
        cell, line = problem.position
        return {**description, "message": message, "cell": cell, "line": line}

    def locate_line(self, filename: str | None, line: int | None) -> Position | None:
        """Return a line's position in the submission, if the file belongs to the submission."""
        return parse_position(filename, line)

    def read(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[dict[str, Any]]]:
        """Read the source without running any of it, and describe its definitions.

        The request also holds the files beside it, as paths and bytes, which are not parsed yet.
        """
        data, is_notebook = tensors["source"].numpy().tobytes(), meta["kind"] == "ipynb"
        self.source = read_source(data, meta["kind"])
        if beside := meta.get("siblings"):
            paths = {tuple(path.split("/")): path for path in beside["files"]}
            files = {place: tensors[path].numpy().tobytes() for place, path in paths.items()}
            problems, searched = dict(beside["problems"]), beside["searched"]
            self.finder = SiblingFinder(beside["main"], files, problems, searched=searched)
        broken = [
            {"cell": cell.number, "line": cell.error.line, "message": cell.error.message}
            for cell in self.source.cells
            if cell.error is not None
        ]
        symbols = build_symbol_table(self.source)
        outline = {
            "classes": [asdict(each) for each in list_layer_code(symbols)],
            "definitions": [asdict(each) for each in list_definitions(self.source)],
            "broken": broken,
            "variables": [asdict(each) for each in list_variables(symbols)],
            "code": digest_code(self.source),
            "unread": [asdict(each) for each in (find_unread_code(data) if is_notebook else ())],
        }
        return ValueReply(outline), ()

    def load(self, meta: Meta, tensors: Tensors) -> Answer[LoadReply]:
        """Run the statements in the slices of these names, one by one, in source order.

        If a statement imports a module that is not loaded yet, the reply contains the module's
        name. The next request imports it, and then `resume` continues loading.
        """
        self.names = tuple(meta["names"])
        self.by_hand = bool(meta.get("by_hand"))
        self.silenced = tuple(meta.get("silenced", ()))
        self.edit = msgspec.convert(meta.get("edit"), Edit | None)
        for cell in self.edited.cells:
            register_source(cell)
        self.loading = self._start_loading({})
        self.finder.install(self.loading.module)
        self.variants = {(): self.loading}
        return self.resume({}, {})

    @property
    def edited(self) -> SubmissionSource:
        """What is run: the source, or the source with one edit."""
        return self.source if self.edit is None else apply_edit(self.source, self.edit)

    @property
    def needed(self) -> list[str]:
        """The names that were loaded, and those of what makes the objects that they are given."""
        return [*self.names, *list_maker_names(build_symbol_table(self.source), self.names)]

    def import_next(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Run the import statement before which loading has stopped."""
        self.loading.run_next()
        return NoReply(), ()

    def resume(self, meta: Meta, tensors: Tensors) -> Answer[LoadReply]:
        """Continue loading after an import."""
        if (importing := self.loading.run_to_import()) is not None:
            return LoadReply(importing=importing), ()
        self._finish_loading(self.loading)
        warnings = map(asdict, find_warnings(self.source, self.names[0]))
        return LoadReply([*self._describe_missing_modules(), *warnings]), ()

    def _describe_missing_modules(self) -> list[dict[str, Any]]:
        """Describe the imports that failed although the requested names are bound."""
        failed = dict.fromkeys(self.loading.failed.values())
        described = [self._describe_error(e) for e in failed if isinstance(e, ImportError)]
        return [
            {**d, "kind": "import", "message": f"it {d['message'].partition(': ')[2]}"}
            for d in described
        ]

    def construct(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Construct an instance, with other values of the submission's variables if given."""
        self._set_variables(meta.get("variables") or {})
        return super().construct(meta, tensors)

    def _make_config(self, values: dict[str, Any], given: str) -> Config:
        """Make a config, with what the submission's own config has in all other fields."""
        symbols = build_symbol_table(self.source)
        return make_full_config(values, given, symbols, self.loading.module)

    def get_function(self, meta: Meta, tensors: Tensors) -> Answer[HandleReply]:
        """Return a handle of a function, with other values of variables if given."""
        self._set_variables(meta.get("variables") or {})
        return super().get_function(meta, tensors)

    def _set_variables(self, values: Mapping[str, Number]) -> None:
        """Run the slices again with these values of variables, and look up names there."""
        if not values and () not in self.variants:
            return  # nothing was loaded: the objects are those of this process
        loading = self.variants.get(tuple(sorted(values.items())))
        if loading is not None:
            self._activate(loading.module)
            return
        steps = compute_union_slice(self.edited, self.needed)
        bound = {name for step in steps for name in step.effects.binds}
        if unknown := [name for name in values if name not in bound]:
            raise Refused(f"there is no variable `{unknown[0]}` to be set that is needed")
        loading = self._start_loading(values)
        while loading.steps:
            loading.run_next()
        self._finish_loading(loading)
        self.variants[tuple(sorted(values.items()))] = loading
        if len(self.variants) > MAX_VARIANTS:
            del self.variants[next(key for key in self.variants if key)]

    def _keep(self, target: Any, make: Callable[..., Any]) -> int:
        handle = super()._keep(target, make)
        if self.module is not None:
            self.homes[handle] = self.module
        return handle

    def drop(self, meta: Meta, tensors: Tensors) -> Answer[NoReply]:
        """Forget objects, and the variants of the submission in which they were made."""
        for handle in meta["handles"]:
            self.homes.pop(handle, None)
        return super().drop(meta, tensors)

    def _start_loading(self, values: Mapping[str, Number]) -> Loading:
        """Return the statements to run in a new module, with these values of variables."""
        module = make_module(self.initial_namespace, self.finder.package)
        self._activate(module)
        return Loading(module, compute_union_slice(self.edited, self.needed), values)

    def _activate(self, module: types.ModuleType) -> None:
        """From now on, look up names in this module."""
        self.module, self.namespace = module, module.__dict__
        sys.modules[TOP] = module

    def _finish_loading(self, loading: Loading) -> None:
        """Record the names that could not be bound. Raises the error of a requested one."""
        self.failed_names.update(loading.failed)
        for name in self.names:
            if name not in self.namespace:
                raise loading.first_error or Refused(f"`{name}` is not defined")

    def trace(self, meta: Meta, tensors: Tensors) -> Answer[TraceReply]:
        """Call an object once in evaluation mode, and record what it computes.

        The first tensors may be chunks of a sequence that came before.
        """
        made, count = self.objects[meta["handle"]], meta["before"]
        given = [tensor.to(meta["device"]) for tensor in tensors.values()]
        before, inputs = given[:count], given[count:]
        recorder, results = trace(made, inputs, meta["apart"], self.locate_line, before)
        return make_reply(recorder, results, self.source)

    def find_code_patterns(
        self, meta: Meta, tensors: Tensors
    ) -> Answer[ValueReply[tuple[CodePattern, ...]]]:
        """Find the steps of attention in the code of a definition."""
        return ValueReply(find_code_patterns(self.source, meta["name"])), ()

    def list_slips(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[tuple[Edit, ...]]]:
        """List the edits that may undo a slip in a definition that stopped at a position."""
        stopped = (meta["cell"], meta["line"]) if meta.get("line") else None
        return ValueReply(list_slips(self.source, meta["name"], stopped)), ()

    def extract_excerpts(
        self, meta: Meta, tensors: Tensors
    ) -> Answer[ValueReply[list[SourceLines]]]:
        """Extract the lines around positions in the source."""
        places = [(cell, line) for cell, line in meta["places"]]
        return ValueReply(extract_excerpts(self.source, places)), ()

    def take_prints(self, meta: Meta, tensors: Tensors) -> Answer[PrintsReply]:
        """Return what was printed since the last such request."""
        return self.prints.take(), ()

    def fingerprint(self, meta: Meta, tensors: Tensors) -> Answer[ValueReply[list[str]]]:
        """Make the fingerprints of definitions, which are compared with those of a starter file."""
        return ValueReply(fingerprint_definitions(self.source, meta["names"])), ()

    def run_batch(self, meta: Meta, tensors: Tensors) -> Answer[BatchReply]:
        """Carry out several requests about each of several objects, and join the replies."""
        inputs = list(tensors.values())
        metas, outputs = run_batch(self._dispatch, meta["constructions"], inputs)
        return BatchReply(metas), label_by_position(outputs)

    def run_transcript(self, meta: Meta, tensors: Tensors) -> Answer[TranscriptReply]:
        """Answer several requests, one after the other, as if each had been sent separately."""
        remaining = iter(tensors.values())
        replies: list[TranscriptEntry] = []
        outputs: list[Tensor] = []
        for request in meta["requests"]:
            inputs = tuple((name, next(remaining)) for name in request["tensors"])
            reply = self._answer_numbered(request, inputs)
            names = [name for name, _ in reply.tensors]
            replies.append(TranscriptEntry(reply.op, dict(reply.meta), names))
            # A later request may write to them.
            outputs.extend(tensor.clone() for _, tensor in reply.tensors)
        return TranscriptReply(replies), label_by_position(outputs)

    def _answer_numbered(self, request: Meta, inputs: tuple[tuple[str, Tensor], ...]) -> Message:
        """Answer a request that refers to objects by their numbers in transcripts."""
        meta = resolve_handles(request["meta"], self.numbered.get)
        # What fails is asked again in a message of its own, where the crash is explained.
        reply = self._answer(Message(0, request["op"], meta, inputs), self._name_error)
        if "handle" not in reply.meta:
            return reply
        self.numbered[request["makes"]] = reply.meta["handle"]
        return replace(reply, meta={**reply.meta, "handle": request["makes"]})
