"""May this forecast leave? One choke point, decided by code that no forecaster can reach."""
