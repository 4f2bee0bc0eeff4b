"""Where tasks run: in this process, in local processes, or on Dask; and work larger than memory."""
