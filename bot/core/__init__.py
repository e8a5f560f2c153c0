"""The values of the domain and what every room needs: questions, forecasts, orders, errors, clock, ids."""
