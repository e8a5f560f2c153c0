"""What a forecaster may use on one question, and the limits it runs under."""
