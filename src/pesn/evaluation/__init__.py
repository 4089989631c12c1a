"""What a fit learns beside the readout: how wide a forecast should be, by what its like has missed."""
