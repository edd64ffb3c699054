"""Where torch calls in: operations on parameters, tensors saved for backward, the model's forward."""
