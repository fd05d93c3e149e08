"""The sentences that explain crashes, by name.

Students read these sentences at every feedback level from `message` on, so they contain nothing
from a submission or a case. The details of a crash are added to a sentence and shown from level
`case` on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Piece = str | tuple[int, ...]
"""a piece of the details that are added to a sentence: text or a shape"""

SENTENCES: Mapping[str, str] = {
    # Names.
    "not_imported": "The code uses a module without importing it",
    "self_forgotten": "An attribute is used without `self.` before it",
    "constructor_argument": "A method uses an argument of `__init__` that it does not have",
    "undefined_name": "The code uses a name that is not defined",
    "unset_variable": "A variable is read before it has a value",
    "unknown_attribute": "The code uses an attribute that does not exist",
    "argument_not_kept": (
        "An argument of `__init__` is read from `self`, but was never stored there"
    ),
    "no_super_init": "`super().__init__()` was not called first",
    "config_lacks": "The code reads a field that the config does not have",
    # Things that are used as something else.
    "none_used": "Something is None where a value is needed",
    "sequence_not_tensor": "Several tensors in a tuple or a list are used like one tensor",
    "pair_not_tensor": "A pair of values and indices is used like one tensor",
    "number_not_tensor": "A number is used like a tensor",
    "layer_not_called": "A layer is used in place of its result, since it is not called",
    "not_called": "A function is used in place of its result, since it is not called",
    "tensor_called": "A tensor is called like a function",
    "list_called": "A list of layers is called like one layer",
    "not_callable": "The code calls something that is neither a function nor a layer",
    "number_iterated": "A number is looped over or unpacked",
    "tensor_as_condition": "A whole tensor is used as one condition",
    "tensor_as_number": "A whole tensor is used as one number",
    "not_a_number": "Something is used as a number, but is not one",
    # Calls.
    "missing_argument": "An argument is missing from a call",
    "no_dim": "The call does not say along which axis to compute",
    "too_many_arguments": "A call has more arguments than the function takes",
    "unknown_keyword": "A call names an argument that the function does not take",
    "tensors_not_listed": "Tensors to be joined are not given as one list",
    "float_size": "A size is a float, not an integer",
    "mask_and_causal": "A mask and `is_causal=True` are given together",
    "endless_recursion": "A function calls itself without end",
    "division_by_zero": "Something is divided by zero",
    # Modules.
    "parameter_replaced": "Something else is assigned in place of a parameter or a layer",
    "name_taken": "The module registers a name that it already has",
    "list_of_no_layers": "A list of layers gets something that is not a layer",
    "dropout_rate": "A dropout rate is not between 0 and 1",
    # Masks, dtypes, gradients.
    "mask_not_cut": "The mask is not of this call's length: not cut, or kept from before",
    "mask_index": "A mask in brackets does not have the shape of the first axes",
    "mask_not_boolean": "A mask must be boolean here, but is not",
    "floats_inverted": "`~` is applied to floats, and inverts only booleans and integers",
    "booleans_subtracted": "`-` is applied to booleans",
    "dtypes_differ": "Tensors of different dtypes meet",
    "gradient_to_numpy": "A tensor that requires a gradient is given to NumPy",
    "parameter_in_place": "A tensor that should get a gradient is changed in place",
    "shared_in_place": "The code changes a tensor in place whose elements share memory",
    "in_place_before_backward": "The code changes a tensor in place that the backward needs",
    # Shapes.
    "all_axes_turned": "`.T` reverses all axes, including the batch",
    "other_axes_transposed": "A transpose exchanges other axes than the last two",
    "not_transposed": "A matrix product lacks a transpose",
    "product_widths": "The shapes do not fit a matrix product",
    "product_batches": "The leading axes of two factors of a matrix product differ",
    "matrices_only": "A function gets tensors with more or fewer axes than it takes",
    "linear_width": "A linear layer gets vectors of another width than it was made for",
    "not_broadcast": "The shapes of two tensors do not match",
    "result_too_large": "A result is written into a tensor that is too small for it",
    "number_of_elements": "A new shape holds another number of elements",
    "not_contiguous": "`view` is called on a tensor whose memory is in another order",
    "shape_unpacked": "There are more or fewer names on the left than the shape has axes",
    "tensor_unpacked": "A tensor is unpacked into more or fewer names than its first axis is long",
    "unpacked": "There are more or fewer names on the left than parts on the right",
    "no_such_axis": "The code asks for an axis that the tensor does not have",
    "too_many_indices": "A tensor is indexed along more axes than it has",
    "index_too_large": "An index is beyond the end of an axis",
    "no_such_part": "The code asks for a part beyond the end",
    "unlike_joined": "The code joins tensors whose shapes do not match",
    "subscript_count": "An equation of `einsum` has more or fewer letters than a tensor has axes",
    "subscript_sizes": "One letter of an equation of `einsum` stands for two different lengths",
    "permuted_count": "`permute` gets another number of axes than the tensor has",
    # Surroundings.
    "nobody_answers": "The code waits for input, but nobody can type anything during a check",
    "no_such_device": (
        "The code asks for a device that does not exist here; stay on the input's, `x.device`"
    ),
    "no_such_file": "The code opens a file that does not exist",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The sentence that is true of a crash, and the crash's details."""

    name: str
    details: tuple[Piece, ...] = ()


def conclude(name: str, *details: Piece) -> Finding:
    """Return a finding, leaving out empty pieces of text."""
    return Finding(name, tuple(piece for piece in details if piece != ""))


def count(number: int, what: str) -> str:
    """Return `1 axis` or `3 axes`, given the plural."""
    singular = {"axes": "axis", "indices": "index"}.get(what, what.removesuffix("s"))
    return f"{number} {singular if number == 1 else what}"
