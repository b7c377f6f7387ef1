"""From a case to tensors: operand values, pages, poison, requests."""
