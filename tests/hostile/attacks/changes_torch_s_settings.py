"""Changes torch's defaults under the runner: dtype, gradients, seeds, threads."""

import torch


def attack():
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    torch.autograd.set_detect_anomaly(True)
    torch.manual_seed = torch.random.manual_seed = lambda seed: None
    torch.set_rng_state = lambda state: None
    torch.set_printoptions(precision=0)
