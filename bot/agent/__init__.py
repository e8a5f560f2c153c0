"""What forecasters that ask models share: how answers are read, predictions stated, beliefs kept, and moves made."""
