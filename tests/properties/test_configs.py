"""What configs hold besides sizes is judged under names of a course's own, too."""

from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import CONSTANT, Argument
from headcheck.properties.families.values import evaluation_ignores_a_rate_in_the_config
from headcheck.properties.harness.harness import Harness
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status
from tests.submissions import execute

EXERCISE = BY_SLUG["causal_self_attention"]
OWN = {"n_embd": ("dims", "d_out"), "n_head": ("pieces", "heads")}
RATE = Argument("attn_pdrop", CONSTANT, default=0.0)
DROPPED = "torch.softmax(scores, dim=-1)", "torch.dropout(scores.softmax(-1), self.rate, {when})"
KEPT = """self.rate = getattr(config, 'attn_pdrop', 0.0)
        self.n_embd = """


def fails(when: str, *more: Argument) -> bool:
    """Whether the claim fails of an answer that drops weights in some mode."""
    fields = (Argument("longest", "context_length"), *(Argument(*own) for own in OWN.values()))
    solution = (EXERCISE.folder / "solution.py").read_text(encoding="utf-8")
    source = solution.replace("config.block_size", "config.longest")
    for name, (own, _) in OWN.items():
        source = source.replace(f"config.{name}", f"config.{own}")
    rate = "self.rate = getattr(config, 'attn_pdrop', 0.0)\n        "
    source = source.replace("self.n_embd = ", f"{rate}self.n_embd = ").replace(
        DROPPED[0], DROPPED[1].format(when=when)
    )
    argument = Argument("config", "config", fields=(*fields, *more))
    contract = replace(EXERCISE.contract, arguments=(argument,))
    subject = make_subject({contract.name: execute(source)[contract.name]})
    claim = evaluation_ignores_a_rate_in_the_config
    case = contract.fit(Case(tokens=3, heads=2, head_dim=2))
    verdict = find_first_failure(claim, Harness(subject, contract), [case])
    assert verdict.status in (Status.PASSED, Status.FAILED)
    return verdict.status is Status.FAILED


def test_a_config_without_a_rate_is_asked_for_none() -> None:
    assert not fails("self.training")


@pytest.mark.parametrize(("when", "wrong"), [("self.training", False), ("True", True)])
def test_a_rate_in_a_config_is_ignored_in_evaluation(when: str, wrong: bool) -> None:
    assert fails(when, RATE) is wrong
