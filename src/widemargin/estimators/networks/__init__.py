"""Networks in PyTorch trained to a goal; `widemargin.torch` is the door."""
