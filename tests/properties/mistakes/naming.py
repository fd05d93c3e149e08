"""What a diagnosis names of an attention that is right but for some steps."""

from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.faulty_attention import Computation, make_namespace, restate
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides


def make_harness(overrides: StepOverrides, contract: Contract) -> Harness:
    """Return the harness of an attention in which these steps replace the right ones."""
    restated = restate(contract)
    namespace = make_namespace(restated, Computation((CORRECT.override(overrides),)))
    return Harness(make_subject(namespace), restated)


def find_names(overrides: StepOverrides, contract: Contract) -> list[str]:
    """Return the names of the mistakes that are found where these steps replace the right ones."""
    return [found.mistake.name for found in diagnose(make_harness(overrides, contract))]
