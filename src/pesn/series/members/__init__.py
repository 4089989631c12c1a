"""What a forecast of a series is stacked of, and how members are weighed."""
