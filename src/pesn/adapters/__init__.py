"""Networks of other libraries: PyTorch and scikit-learn."""
