"""What is not judged is told, with the reason, and harms nothing that is judged."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from tests.grader.grading.open_classes import OTHERWISE, STRANGE, UNKNOWN, Grade, broken, told

MULTI_HEAD = BY_SLUG["multi_head_attention"]


# --------------------------------------------------------------------- what goes wrong


def test_a_class_that_needs_a_missing_module_is_told_so(grade: Grade) -> None:
    [record] = grade(f"import no_such_module\n{STRANGE}    helper = no_such_module\n").values()
    assert record.score == 0
    assert record.error is not None
    assert record.error.kind == "import"
    assert "no_such_module" in record.error.message


@pytest.mark.confined
def test_a_process_that_dies_while_a_class_is_recognised_harms_no_other(grade: Grade) -> None:
    ends = STRANGE.replace("b, t, w =", "__import__('os')._exit(1)\n        b, t, w =")
    records = grade(ends.replace("Blender", "Quits") + STRANGE)
    assert {name: record.status for name, record in records.items()} == {"Blender": "passed"}


def test_a_call_that_never_returns_while_it_is_recognised_is_told(grade: Grade) -> None:
    hangs = STRANGE.replace("b, t, w =", "while True:\n            pass\n        b, t, w =")
    [record] = grade(hangs, call_s=0.5).values()
    assert (record.score, record.properties) == (0, ())
    assert record.error is not None
    assert record.error.kind == "timed_out"


@pytest.mark.whole
def test_a_search_does_without_what_a_claim_of_its_own_denied(grade: Grade) -> None:
    answer = find_answer(MULTI_HEAD, "qkv_bias_never")
    record = grade(answer.source, settings=Settings(MULTI_HEAD, search=SearchLimit(cases=6)))
    assert broken(record["MultiHeadAttention"]) == ["the_biases_follow_the_option"]


def test_a_call_that_is_known_to_be_too_much_breaks_no_other_claim(grade: Grade) -> None:
    returned = "return output"
    assert MULTI_HEAD.solution.count(returned) == 1
    squeezed = MULTI_HEAD.solution.replace(returned, f"{returned}[0] if batch == 1 else output")
    record = grade(squeezed, slug="multi_head_attention")["MultiHeadAttention"]
    assert broken(record)[0] == "a_batch_of_one_stays_a_batch"
    by_name = {each.name: each for each in record.properties}
    assert by_name["each_sequence_is_attended_alone"].status == "not_tried"
    assert by_name["each_sequence_is_attended_alone"].points > 0
    assert by_name["dropout_acts_on_the_attention_weights"].status == "passed"
    assert record.score > 0.9 * record.max_score


# ------------------------------------------------------------------ what is not judged, and why


def test_a_class_that_raises_is_mentioned_beside_those_that_are_judged(grade: Grade) -> None:
    """Once a report on the right class alone said nothing of it."""
    wrong = STRANGE.replace("Blender", "Breaker").replace("b, t, w = ", "b, w, _ = ")
    records = grade(f"{STRANGE}\n{wrong}")
    assert [record.status for record in records.values()] == ["passed"]
    [said] = [n.message for n in records["Blender"].notes if n.kind == "unjudged"]
    assert said.startswith("`Breaker` is not judged: it raises NameError: name 't' is not defined")


def test_an_option_that_keeps_its_default_is_told_of(grade: Grade) -> None:
    record = grade(STRANGE.replace("forward(self, tokens)", "forward(self, tokens, fast=False)"))
    assert "`fast` of its calls keeps its default, and is not judged" in told(record["Blender"])


@pytest.mark.whole
def test_a_class_that_calls_itself_attention_is_mentioned_if_it_is_not_recognised(
    grade: Grade,
) -> None:
    records = grade(STRANGE + UNKNOWN.replace("class Linear(", "class PooledAttention("))
    said = [n.message for n in records["Blender"].notes if n.kind == "unjudged"]
    assert len(said) == 1 and said[0].startswith("`PooledAttention` is not judged")


@pytest.mark.whole
def test_of_helpers_the_class_that_uses_them_is_mentioned(grade: Grade) -> None:
    source = """
    def pool(q, k, v):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    class Mixed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.all = nn.Linear(width, 3 * width)

        def forward(self, x):
            q, k, v = self.all(x).sin().chunk(3, -1)
            return pool(q, k, v).cos()
    """
    record = grade(source)["pool"]
    said = [n.message for n in record.notes if n.kind == "unjudged"]
    assert len(said) == 1 and said[0].startswith("`Mixed` is not judged: it is not recognised")


def test_a_module_that_is_absent_is_named_before_anything_that_follows_from_it(
    grade: Grade,
) -> None:
    source = OTHERWISE.replace("class SelfAttention", "class MultiHeadAttention").replace(
        "query, key, value, mask=None", "x"
    )
    body = source.index("        def split(x)")
    source = (
        f"from elsewhere import attend\n{source[:body]}        return self.out_proj(attend(x))\n"
    )
    [record] = grade(source).values()
    assert record.error is not None and record.status == "not_tried"
    assert "`MultiHeadAttention` (it imports `elsewhere`, which is not installed" in (
        record.error.message
    )


def test_a_name_that_an_absent_star_import_would_bring_is_no_mistake(grade: Grade) -> None:
    other = STRANGE.replace("Blender", "Other").replace(
        "b, t, w =", "turned = turn(tokens)\n        b, t, w ="
    )
    records = grade(f"from elsewhere import *\n{STRANGE}{other}")
    assert {name: record.status for name, record in records.items()} == {"Blender": "passed"}
    said = [n.message for n in records["Blender"].notes if n.kind == "unjudged"]
    assert said and said[0].startswith("`Other` is not judged: it imports `elsewhere`")


def test_what_was_tried_is_told_with_what_the_user_can_do(grade: Grade) -> None:
    source = STRANGE.replace("b, t, w =", "assert len(tokens) == 12345\n        b, t, w =")
    [record] = grade(source).values()
    assert record.error is not None and "12345" not in record.error.message
    assert "it is not known what is meant by `pieces`; to say what an" in record.error.message


def test_an_error_about_a_value_that_headcheck_chose_is_not_quoted(grade: Grade) -> None:
    source = """
    class Unusual(nn.Module):
        def __init__(self, a, b, c):
            super().__init__()
            self.q, self.drop = nn.Linear(a, b), nn.Dropout(c + 2)

        def forward(self, x):
            return self.q(x)
    """
    [record] = grade(source).values()
    assert record.error is not None
    assert "(no way to build and call it gave an output" in record.error.message
    assert "probability" not in record.error.message


def test_what_returns_its_input_and_has_no_weights_is_no_attention(grade: Grade) -> None:
    same = "class Nothing(nn.Module):\n    def forward(self, x):\n        return x\n"
    assert [*grade(f"{same}\n{STRANGE}")] == ["Blender"]
