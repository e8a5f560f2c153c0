"""The ledger on disk: one SQLite file, one writing thread, a few reading ones.

The engine knows nothing of tables: ``database`` opens connections, ``writer`` and ``readers`` run closures on them,
``migrations`` bring a file up to date, ``backup``, ``checks``, ``export``, ``ballast`` and ``lock`` keep it safe. The
tables live in ``schema`` and one module for each family of them, composed in ``ledger``.
"""
