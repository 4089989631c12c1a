"""Components of the ensemble for one series, and their weights."""
