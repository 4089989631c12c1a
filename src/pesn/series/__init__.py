"""From a file with a table to a forecast: reading, choosing a model, judging it, writing what came out."""
