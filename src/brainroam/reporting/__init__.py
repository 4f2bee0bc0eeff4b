"""The report of a study as one self-contained page; the public verb is `brainroam.report`, in `build`."""
