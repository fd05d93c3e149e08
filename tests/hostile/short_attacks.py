"""Attacks of one expression each."""

from collections.abc import Mapping

RETURNED: Mapping[str, tuple[str, str]] = {
    "returns_nothing": ("Returns None.", "None"),
    "returns_true": ("Returns True, the answer to `is it right?`.", "True"),
    "returns_a_number": ("Returns a number.", "1.0"),
    "returns_a_string": ("Returns a string.", '"passed"'),
    "returns_a_list": ("Returns a list of lists.", "x.tolist()"),
    "returns_a_dictionary": ("Returns a dictionary.", '{"output": x}'),
    "returns_a_generator": ("Returns a generator that never ends.", "iter(int, 1)"),
    "returns_a_million_tensors": ("Returns a million tensors.", "(x.detach(),) * 1_000_000"),
    "returns_its_input": (
        "Returns the very tensor that it was given, to be compared with itself.",
        "x",
    ),
    "returns_an_empty_tensor": (
        "Returns a tensor without numbers, all of which are right.",
        "x[:0]",
    ),
    "returns_thirty_dimensions": (
        "Returns a tensor of thirty dimensions.",
        "x.reshape(x.shape + (1,) * 27)",
    ),
    "returns_complex_numbers": (
        "Returns complex numbers with the answer as their real part.",
        "out.to(torch.complex128)",
    ),
    "returns_a_rare_dtype": (
        "Returns a dtype of 8 bits that hardly anything supports.",
        "out.to(torch.float8_e5m2)",
    ),
    "returns_a_meta_tensor": (
        "Returns a tensor of the right shape that has no numbers.",
        'out.to("meta")',
    ),
    "returns_a_nested_tensor": (
        "Returns a nested tensor, which has no shape.",
        "torch.nested.nested_tensor([part for part in out])",
    ),
    "returns_a_quantised_tensor": (
        "Returns a quantised tensor.",
        "torch.quantize_per_tensor(out.float(), 0.1, 0, torch.quint8)",
    ),
    "returns_a_sparse_tensor": (
        "Returns a sparse tensor of a gigantic shape with one number in it.",
        "torch.sparse_coo_tensor([[0], [0], [0]], [1.0], (1 << 20, 1 << 20, 1 << 20))",
    ),
    "returns_a_gigantic_tensor": ("Returns 64 GiB.", "torch.empty(1 << 34)"),
    "returns_an_expanded_tensor": (
        "Returns a tensor of 2 ** 42 numbers that takes four bytes.",
        "torch.zeros(1).expand(1 << 42)",
    ),
    "nan_everywhere": (
        "Returns NaN, which is not unequal to anything in a careless comparison.",
        'out * float("nan")',
    ),
    "infinite_everywhere": (
        "Returns infinities, within any tolerance relative to themselves.",
        'torch.full_like(out, float("inf"))',
    ),
}
"""what an attack does, and the expression that it returns in place of its answer"""
SENT: Mapping[str, tuple[str, str]] = {
    "frame_of_noise": ("Sends bytes that are no frame.", 'b"\\xff" * 4096'),
    "frame_of_no_json": ("Sends a header that is no JSON.", 'frame(b"{nope")'),
    "frame_of_a_giant_header": (
        "Announces a header of 4 GiB.",
        'struct.pack("<IQ", 0xFFFFFFFF, 0)',
    ),
    "frame_of_an_endless_body": (
        "Announces a body beyond every limit.",
        'struct.pack("<IQ", 2, 1 << 63) + b"{}"',
    ),
    "frame_of_another_number": (
        "Answers a question that was not asked.",
        'frame(b\'{"id": 99, "op": "ok", "meta": {"handle": 1}}\')',
    ),
    "frame_with_a_rest": (
        "Sends bytes that belong to no tensor.",
        'frame(b\'{"id": 6, "op": "ok", "tensors": []}\', bytes(8))',
    ),
    "frame_beyond_its_body": (
        "Describes a tensor that reaches beyond the body, into the grader's memory.",
        'frame(b\'{"id": 6, "op": "ok", "tensors": [["0", "float64", [4096]]]}\', bytes(8))',
    ),
    "frame_of_a_negative_shape": (
        "Describes a tensor of shape (-1, -8).",
        'frame(b\'{"id": 6, "op": "ok", "tensors": [["0", "uint8", [-1, -8]]]}\', bytes(8))',
    ),
    "frame_of_an_overflowing_shape": (
        "Describes a tensor whose size overflows 64 bits to 8 bytes.",
        'frame(b\'{"id": 6, "op": "ok", "tensors": [["0", "float64", [4294967296, '
        "4294967296, 4294967297]]]}', bytes(8))",
    ),
    "frame_of_an_unknown_dtype": (
        "Describes a tensor of dtype object.",
        'frame(b\'{"id": 6, "op": "ok", "tensors": [["0", "object", [1]]]}\', bytes(8))',
    ),
}
"""what an attack does, and what it writes to every socket"""
