"""Remarks on resources of any kind, and details of them."""
