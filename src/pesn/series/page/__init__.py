"""The pages that `pesn forecast` writes."""
