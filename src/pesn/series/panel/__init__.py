"""Long frames of many series: checked, shared among processes or a cluster, streamed, gone on with after a stop."""
