"""Other libraries: networks of PyTorch and scikit-learn, and the two robots in MuJoCo."""
