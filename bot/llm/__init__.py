"""The gateway to language models: calls, budgets, costs and retries; every answer is recorded before it is used."""
