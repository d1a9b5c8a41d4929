"""How long one user waits: questions asked one at a time, for lake table `single_latencies`."""
