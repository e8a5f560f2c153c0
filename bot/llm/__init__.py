"""The gateway to language models: what is asked, whether it may be, what it cost; every answer is on record first."""
