"""Run the properties of a contract as single tests of trusted code in this process.

A variant is one property on one device in one dtype. It is tried on the case set, the bank, and on
cases that Hypothesis searches (`search.py`). The results on the bank alone decide which variants
are tried, so variants can run in any order and in separate processes with the same outcome.

A case on which the plain call already raises an exception is called refused. The other cases are
still tried, and the refused ones are reported once, by `no_case_is_refused`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headcheck.grader import fault
from headcheck.grader.grading import devices
from headcheck.grader.report.feedback import FULL_FEEDBACK, WITHHELD_REASON, Feedback, FeedbackLevel
from headcheck.grader.report.render.diagnosis_view import DiagnosisView, view_diagnosis
from headcheck.grader.sandbox.grader_side.subject import (
    ChannelSubject,
    InProcessChannel,
    make_subject,
)
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.grader.ui.pytest_plugin.messages import (
    ReplayCommand,
    add_row,
    describe_failure,
    describe_refusals,
    name_contract,
)
from headcheck.properties import families
from headcheck.properties.cases.case_set import DEFAULT_COUNT, generate_case_set
from headcheck.properties.check import Searched, find_first_failure, shrink_failure
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.families import far_positions, library_use
from headcheck.properties.families.contract import FORM
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, PropertyFamily, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import SizeRules
from headcheck.properties.violations import support
from headcheck.properties.violations.violation import Note, Status, SubmissionFailed, Violation

LIBRARY = (library_use, far_positions)
"""families of properties that no exercise includes"""


@PropertyFamily(PropertyGroup.CONTRACT, FORM)(
    hint="if such sizes are not meant to be supported, say which are: --headcheck-sizes"
)
def no_case_is_refused(context: CaseContext) -> None:
    """No case that the contract allows is refused."""
    context.run()


@dataclass(frozen=True)
class PropertyVariant:
    """One property on one device in one dtype."""

    prop: Property
    device: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.prop.name}[{self.device}-{self.dtype}]"


@dataclass(frozen=True)
class VariantOutcome:
    """The outcome of a variant: passed, unless there is a `failure` or it was `skipped`."""

    failure: str = ""
    skipped: str = ""
    blocks: bool = False
    """whether properties that depend on this one are skipped"""


class PropertySuite:
    """An implementation and the variants that it can be checked on.

    Raises BadSizes if the implementation has none of the sizes that the contract allows.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        contract: Contract,
        cases: int = DEFAULT_COUNT,
        *,
        sizes: SizeRules | None = None,
        title: str = "",
        replay: ReplayCommand | None = None,
        assumptions: Sequence[str] = (),
        feedback: Feedback = FULL_FEEDBACK,
        has_statement: bool = True,
    ) -> None:
        self.contract = contract if sizes is None else contract.with_sizes(sizes)
        self.title = title or contract.name
        self.replay = replay
        self.assumptions = assumptions
        self.feedback = feedback
        self._word: Callable[[str], str] = str if has_statement else name_contract
        self.case_set = generate_case_set(self.contract, cases)
        self.harness = Harness(make_subject(namespace), self.contract)
        self._runtime = WorkerRuntime(dict(namespace))
        searched = ChannelSubject(InProcessChannel(self._runtime))
        self.search_harness = Harness(searched, self.contract)
        """holds the contexts of single cases, which `forget_searched` drops with their modules"""
        self._shrunk = Searched()
        self._outcomes: dict[PropertyVariant, VariantOutcome] = {}
        self._searched: dict[PropertyVariant, VariantOutcome] = {}
        self._refusals: dict[Case, SubmissionFailed | None] = {}

    def list_variants(self, devices: Sequence[str]) -> list[PropertyVariant]:
        """Return all variants on these devices, always in the same order."""
        return [
            PropertyVariant(prop, device, dtype)
            for device in devices
            for prop in list_properties(self.contract)
            if prop.name not in self.feedback.hidden
            for dtype in prop.dtypes
        ]

    @property
    def hidden(self) -> int:
        """The number of properties that a course file hides; they have no tests."""
        names = (prop.name for prop in list_properties(self.contract))
        return sum(name in self.feedback.hidden for name in names)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Observations so far that are worth reporting but not failures, if they may be shown."""
        if self.hidden or not self.feedback.level.includes(FeedbackLevel.MESSAGE):
            return ()
        return tuple({**self.search_harness.notes, **self.harness.notes}.values())

    def get_outcome(self, variant: PropertyVariant) -> VariantOutcome:
        """Check a variant on the bank, once. Raises only for internal errors."""
        if variant not in self._outcomes:
            skipped = self.explain_skipping(variant)
            self._outcomes[variant] = skipped or self._check_on_bank(variant)
        return self._outcomes[variant]

    def search(
        self, variant: PropertyVariant, made: Callable[[], None] | None = None
    ) -> VariantOutcome:
        """Check a variant on cases that Hypothesis draws, under the profile that is loaded.

        `made` is the search, if it was made before.
        """
        from headcheck.grader.ui.pytest_plugin.search import finish_search, make_search

        skipped = self.explain_skipping(variant) or self.explain_unsupported(variant)
        return skipped or finish_search(self, made or make_search(self, variant))

    def explain_skipping(self, variant: PropertyVariant) -> VariantOutcome | None:
        """Return why a variant is not tried on any case, if that is known beforehand."""
        if variant.prop.name in self.contract.waived:
            return VariantOutcome(skipped="not asked for: the contract waives it")
        missing = devices.explain_unavailable(variant.device) or devices.explain_missing_dtype(
            variant.device, variant.dtype
        )
        if missing:
            return VariantOutcome(skipped=missing)
        for earlier in list_prerequisites(variant, self.contract):
            if self.get_outcome(earlier).blocks:
                shown = earlier.prop.name not in self.feedback.hidden
                why = f"because of {earlier.name}" if shown else WITHHELD_REASON
                return VariantOutcome(skipped=f"not tried, {why}", blocks=True)
        devices.make_deterministic(variant.device)
        return None

    def explain_unsupported(self, variant: PropertyVariant) -> VariantOutcome | None:
        """Return why a search would be pointless, if no case of the bank is supported."""
        refusals = [self.find_refusal(case) for case in self._list_bank(variant)]
        unsupported = [each for each in refusals if each and each.status is Status.NOT_TRIED]
        if len(unsupported) < len(refusals):
            return None
        return self.skip_unsupported(variant.prop, unsupported[0])

    def skip_unsupported(
        self, prop: Property, why: SubmissionFailed | None, how_often: str = ""
    ) -> VariantOutcome:
        """Return the outcome for an unsupported feature, with the reason if it may be shown."""
        counted = f"not supported{how_often}"
        told = self.feedback.get_level(prop.name).includes(FeedbackLevel.CASE)
        return VariantOutcome(skipped=f"{counted}: {why}" if told else counted)

    def find_refusal(self, case: Case) -> SubmissionFailed | None:
        """Return the exception of the plain call on a case, if it raises."""
        if case not in self._refusals:
            known = self.harness.has_answered(case)
            self._refusals[case] = None if known else _call_once(self.search_harness, case)
            self.forget_searched()
        return self._refusals[case]

    def forget_searched(self) -> None:
        """Drop all objects made for single cases, because there may be thousands of them."""
        self.search_harness.forget()
        self._runtime.drop({"handles": list(self._runtime.objects)}, {})

    def is_left_out(self, case: Case) -> bool:
        """Whether a case is refused, and its refusal should not be reported again by each property.

        A case that is refused only in its own dtype is reported, unless the dtype is not supported.
        """
        refusal = self.find_refusal(case)
        if refusal is None or refusal.status is Status.NOT_TRIED:
            return refusal is not None
        if case.dtype in no_case_is_refused.dtypes:
            return True
        return self.find_refusal(replace(case, dtype="float32")) is not None

    def reports_refusals(self, device: str, dtype: str) -> bool:
        """Whether `no_case_is_refused` fails, on the bank or in its search."""
        if dtype not in no_case_is_refused.dtypes:
            return False
        variant = PropertyVariant(no_case_is_refused, device, dtype)
        if self.get_outcome(variant).failure:
            return True
        if variant not in self._searched:
            self._searched[variant] = self.search(variant)
        return bool(self._searched[variant].failure)

    def describe_verdict(self, verdict: Verdict) -> str:
        """Return the message of a failing property, and the command that replays the failure."""
        told = self._word(describe_failure(verdict, self.feedback))
        level = self.feedback.get_level(verdict.property.name)
        if verdict.case is None or self.replay is None or level is not FeedbackLevel.FULL:
            return told
        return add_row(told, "replay", self.replay.render(verdict.property, verdict.case))

    def diagnose(self, device: str) -> DiagnosisView | None:
        """Return the known mistakes that explain the results, if they may be shown."""
        told = self.feedback.level is FeedbackLevel.FULL and not self.hidden
        if not told or self.contract.entry is Entry.BUILDER:
            return None  # what it builds a given class with is wrong, and not what that computes
        # Imported here, because it takes as long as fifty properties, and only failures need it.
        from headcheck.grader.grading.diagnosis import record_diagnosis

        # The tests have ended: a fault of ours must not end the run.
        nothing: tuple[DiagnosedMistake, ...] = ()
        found = fault.contain(lambda: diagnose(self.harness, device), nothing)
        view = view_diagnosis([record_diagnosis(each, (), self.contract) for each in found])
        return view and replace(view, sentences=tuple(map(self._word, view.sentences)))

    # ---------------------------------------------------------------------------- the bank

    def _check_on_bank(self, variant: PropertyVariant) -> VariantOutcome:
        if variant.prop is no_case_is_refused:
            return self._report_refusals(variant)
        bank = self._list_bank(variant)
        taken = [case for case in bank if not self.is_left_out(case)]
        chosen = variant.prop.select_cases(self.contract, taken or bank)
        # If the implementation refuses every case, none is left out: each property reports it.
        return self._check_each(variant, chosen, leaves_out=bool(taken))

    def _list_bank(self, variant: PropertyVariant) -> list[Case]:
        return [replace(c, dtype=variant.dtype, device=variant.device) for c in self.case_set]

    def _check_each(
        self, variant: PropertyVariant, cases: Sequence[Case], *, leaves_out: bool
    ) -> VariantOutcome:
        """Check a property on cases; if one case cannot be checked, the others still count.

        Whether a case is left out is asked only if the property fails on it: the plain call that
        answers this costs as much as most checks.
        """
        rest, passed = cases, 0
        stopped, left_out = list[Verdict](), list[SubmissionFailed]()
        while True:
            verdict = find_first_failure(variant.prop, self.harness, rest)
            if verdict.status is Status.PASSED:
                passed += verdict.cases_tried
                break
            failing, rest = rest[verdict.cases_tried - 1], rest[verdict.cases_tried :]
            passed += verdict.cases_tried - 1
            refusal = self.find_refusal(failing) if leaves_out else None
            if refusal is not None and self.is_left_out(failing):
                left_out.append(refusal)
                continue
            verdict, self._shrunk = shrink_failure(verdict, self.harness, self._shrunk)
            if verdict.failure is None:
                return self.make_outcome(verdict)
            stopped.append(verdict)
        crashed = [each for each in stopped if not each.unsupported]
        if crashed or (stopped and not passed):
            return self.make_outcome((crashed or stopped)[0])
        if left_out and not passed:
            return self._skip_refused(left_out, variant)
        return self.make_outcome(replace(verdict, cases_tried=passed))

    def make_outcome(self, verdict: Verdict) -> VariantOutcome:
        """Return a verdict as the outcome of a test."""
        if verdict.status is Status.PASSED:
            if verdict.cases_tried == 0:
                return VariantOutcome(skipped="the contract allows no case of the kind it needs")
            return VariantOutcome()
        if verdict.unsupported:
            return self.skip_unsupported(verdict.property, verdict.failure)
        return VariantOutcome(failure=self.describe_verdict(verdict), blocks=True)

    def _report_refusals(self, variant: PropertyVariant) -> VariantOutcome:
        """Try the plain call on every case of the bank of any property."""
        cases = self._list_all_cases(variant)
        refused = {case: found for case in cases if (found := self.find_refusal(case)) is not None}
        crashes = {c: f for c, f in refused.items() if f.status is not Status.NOT_TRIED}
        if not refused:
            return VariantOutcome()
        if not crashes:
            first = next(iter(refused.values()))
            count = f" on {len(refused)} of {len(cases)} cases"
            return self.skip_unsupported(no_case_is_refused, first, count)
        smallest = min(crashes, key=lambda case: (case.size, str(case)))
        failure, on = crashes[smallest], describe_case(self.contract, smallest)
        verdict = Verdict(
            no_case_is_refused,
            failure.status,
            case=smallest,
            failure=failure,
            case_description=on,
            hint=no_case_is_refused.hint,  # it is about what was raised, unlike other hints
        )
        message = self.describe_verdict(verdict)
        if self.feedback.get_level(no_case_is_refused.name).includes(FeedbackLevel.CASE):
            counted = describe_refusals(list(crashes.values()), len(cases))
            message = add_row(message, "refused", counted)
        return VariantOutcome(failure=message)

    def _skip_refused(
        self, refusals: Sequence[SubmissionFailed], variant: PropertyVariant
    ) -> VariantOutcome:
        """Return the outcome of a variant all of whose cases are refused, while others are not."""
        unsupported = [refusal for refusal in refusals if refusal.status is Status.NOT_TRIED]
        if unsupported:
            return self.skip_unsupported(variant.prop, unsupported[0])
        reported = PropertyVariant(no_case_is_refused, variant.device, variant.dtype)
        return VariantOutcome(skipped=f"every case that this needs is refused: see {reported.name}")

    def _list_all_cases(self, variant: PropertyVariant) -> list[Case]:
        bank = self._list_bank(variant)
        applying = families.select_for_contract(self.contract)
        chosen = (
            p.select_cases(self.contract, bank) for p in applying if variant.dtype in p.dtypes
        )
        own = (case for cases in chosen for case in cases if case.dtype == variant.dtype)
        return list(dict.fromkeys([*bank, *own]))


def _call_once(harness: Harness, case: Case) -> SubmissionFailed | None:
    """Return the exception that a fresh module raises on a case, without its traceback."""
    # With a context of its own: properties of unused modules come later.
    context = harness.create_context(harness.contract.fit(case))
    try:
        context.run()
    except SubmissionFailed as error:
        error.__context__ = error.__cause__ = None
        return support.classify_failure(error.with_traceback(None), case)
    except Violation:
        return None
    return None


def list_properties(contract: Contract) -> tuple[Property, ...]:
    """Return the properties to try on a target with this contract, always in the same order."""
    used = (each for family in LIBRARY for each in families.list_properties(family))
    library = (prop for prop in used if prop.applies_to(contract))
    return (*families.select_for_contract(contract), *library, no_case_is_refused)


def list_prerequisites(variant: PropertyVariant, contract: Contract) -> list[PropertyVariant]:
    """Return the variants that this one depends on, in its own dtype where possible."""
    return [
        PropertyVariant(required, variant.device, dtype)
        for required in variant.prop.requires
        if required.applies_to(contract)
        for dtype in ((variant.dtype,) if variant.dtype in required.dtypes else required.dtypes)
    ]
