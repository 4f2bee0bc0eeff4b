from hypothesis import settings

# Cores are shared: how long one example takes says nothing about the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
