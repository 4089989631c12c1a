"""Other libraries: networks of PyTorch and scikit-learn, the two robots in MuJoCo, a forecaster for sktime."""
