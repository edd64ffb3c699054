"""Tensor operations that bypass the routing of wrapped parameters."""

import torch

# Inside `with Unrouted():` a wrapped parameter is the plain host tensor that it is made of. This package's own code
# runs inside it: otherwise reading a parameter's host bytes would load that parameter to the device. The setting
# belongs to a thread, so each thread that touches parameters must enter it for itself.
Unrouted = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001  torch documents it by this name
